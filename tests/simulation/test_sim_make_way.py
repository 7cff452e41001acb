"""Simulated people make way for every job that waits for room, also one that was running."""

from __future__ import annotations

from tenure.model.job import JobState
from tenure.model.outcome import Done
from tests.fleet.store import SimStore
from tests.fleet.world import waiting_for_room
from tests.regression.acts import fence, wait
from tests.unit.core.bench import SIZE, Bench, node


def test_a_job_that_lost_its_executor_waits_for_room() -> None:
    bench = Bench(node("a"), node("b"))
    bench.connect("a")
    bench.submit("j1", request=SIZE)
    bench.end(bench.open("create"), Done("engine-1"))
    bench.end(bench.open("start"))
    store = SimStore()
    store.records = bench.records
    assert waiting_for_room(store) == []
    fence(bench, "a")  # and the engine of b never answers
    wait(bench, 10)
    assert bench.tables.jobs["j1"].state is JobState.RUNNING
    assert [job.id for job in waiting_for_room(store)] == ["j1"]


def test_a_job_that_is_queued_waits_for_room() -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    bench.submit("j1", request=SIZE)
    bench.submit("j2", request=SIZE)
    store = SimStore()
    store.records = bench.records
    assert "j2" in [job.id for job in waiting_for_room(store)]
