"""The order of the queue and its head-of-line rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.core import fleet, routing
from tenure.core.jobs import queue
from tenure.core.state.queue_order import WaitingJobs, queue_key
from tenure.model.job import Job, JobSpec, JobState
from tenure.model.resources import Resources
from tests.unit.core.bench import Bench, node


def job(seq: int, *, priority: int = 0, deadline_us: int | None = None, policy: str = "gio") -> Job:
    spec = JobSpec(
        name=f"j{seq}",
        app="a",
        image="i",
        command=(),
        executors=1,
        request=Resources(1, 1),
        priority=priority,
        deadline_us=deadline_us,
        policy=policy,
    )
    return Job(f"j-{seq}", seq, spec, arrival_us=seq)


def test_queue_order() -> None:
    """Priority first, then deadline, jobs without one last, then arrival."""
    rows = [
        job(5, priority=1),
        job(4, deadline_us=10),
        job(2, deadline_us=20),
        job(3, deadline_us=20),
        job(1),
        job(6),
        job(0, priority=-1, deadline_us=1),
    ]
    assert sorted(reversed(rows), key=queue_key) == rows


def test_policies_in_arrival_order_queue_as_jobs_without_deadline() -> None:
    rows = [
        job(9, deadline_us=30, policy="asq"),
        job(3, deadline_us=40, policy="exact"),
        job(1, deadline_us=20, policy="fifo"),
        job(2),
        job(4, deadline_us=10, policy="fifo_c"),
        job(5, deadline_us=5, policy="fifo_c_free"),
    ]
    assert sorted(reversed(rows), key=queue_key) == rows


def test_newcomers_are_told_in_order_until_they_were_looked_at() -> None:
    line, late, early = WaitingJobs(), job(1, deadline_us=20), job(2, deadline_us=10)
    for one in (late, early):
        line.put(one)
    assert line.newcomers() == [early.id, late.id]
    line.put(replace(early, state=JobState.WAITING))
    assert line.newcomers() == [late.id]
    line.put(replace(late, is_cancelling=True))
    assert line.newcomers() == []
    assert list(line) == [early.id]


@pytest.mark.parametrize("policy", ["ff", "exact", "tenure"])
def test_a_job_that_is_told_to_wait_calls_for_no_other_pass(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, passes, run = Bench(node("a")), list[str](), queue.run

    def counted(ctx: Any) -> None:
        passes.append(policy)
        run(ctx)

    bench.connect("a")
    bench.submit("first", policy=policy, executors=3)
    (_, *others), *later = routing.WHERE_ROOM_CHANGED
    monkeypatch.setattr(fleet, "WHERE_ROOM_CHANGED", ((counted, *others), *later))
    for name in ("second", "third"):
        job = bench.submit(name, policy=policy, executors=3)
        assert bench.tables.jobs[job.id].state is JobState.WAITING
        assert len(passes) == 1
        passes.clear()
