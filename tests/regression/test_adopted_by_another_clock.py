"""A job that a restore adopted was ended at once by ``max_runtime_s``.

When its executor began was taken as its engine told it, by a clock that was a day behind the
daemon's, whose wall had been stepped while it was down. One ahead had it run for too long.
"""

from __future__ import annotations

import pytest

from tenure.model.effects import CreateContainer
from tenure.model.events import NodeConnected
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.job import JobState
from tenure.model.outcome import Done
from tenure.model.units import US
from tests.regression.acts import wait
from tests.unit.core.bench import IMAGE, SIZE, Bench, node, shown
from tests.unit.core.lifecycle.restores import Records, backup, put_back

DAY_S = 86_400
APART = pytest.mark.parametrize("ahead_s", [-DAY_S, -40, 0, 40, DAY_S])


def created() -> tuple[Bench, CreateContainer]:
    """Return a bench with a job that is about to start."""
    bench = Bench(node("a"))
    bench.now_us += 2 * DAY_S * US
    bench.connect("a")
    bench.submit("j", max_runtime_us=60 * US)
    wait(bench, 45)
    made = bench.open("create")
    bench.end(made, Done("c1"))
    return bench, made


def adopt(bench: Bench, older: Records, copy: ContainerFacts, ahead_s: int) -> None:
    """Put a backup back; the engine shows a copy, and what time it is by its clock."""
    put_back(bench, older)
    clock_us = bench.now_us + US + ahead_s * US
    facts = EngineFacts("id-a", SIZE, images=(IMAGE,), clock_us=clock_us)
    bench.say(NodeConnected(at_us=0, node="a", facts=facts))
    bench.listed("a", copy)
    assert not bench.tables.meta["meta"].is_restoring


def runs_until_60s(bench: Bench, began_us: int) -> None:
    assert bench.tables.executors["j/0"].started_us == began_us
    wait(bench, began_us // US + 55 - bench.now_us // US)
    assert not bench.tables.jobs["j"].is_failing
    wait(bench, 10)
    assert bench.tables.jobs["j"].is_failing


@APART
def test_a_start_that_the_backup_forgot_is_when_it_was(ahead_s: int) -> None:
    bench, made = created()
    older = backup(bench)
    bench.end(bench.open("start"))
    began_us = bench.now_us
    wait(bench, 20)
    copy = shown(made, "c1", "running", started_us=began_us + ahead_s * US)
    adopt(bench, older, copy, ahead_s)
    runs_until_60s(bench, began_us)


@APART
def test_a_start_that_the_backup_knows_stays_though_the_engine_was_stepped(ahead_s: int) -> None:
    bench, made = created()
    bench.end(bench.open("start"))
    began_us = bench.now_us
    older = backup(bench)
    wait(bench, 20)
    adopt(bench, older, shown(made, "c1", "running", started_us=began_us), ahead_s)
    runs_until_60s(bench, began_us)


@pytest.mark.parametrize("ahead_s", [-DAY_S, 100, DAY_S])
def test_one_that_began_before_it_was_placed_or_in_the_future_began_now(ahead_s: int) -> None:
    bench, made = created()
    older = backup(bench)
    copy = shown(made, "c1", "running", started_us=bench.now_us)
    wait(bench, 20)
    adopt(bench, older, copy, ahead_s)
    runs_until_60s(bench, bench.now_us)


@APART
def test_one_that_ended_meanwhile_ran_as_long_as_its_engine_says(ahead_s: int) -> None:
    bench, made = created()
    older = backup(bench)
    bench.end(bench.open("start"))
    began_us = bench.now_us
    wait(bench, 40)
    told_us = began_us + ahead_s * US
    times = {"started_us": told_us, "finished_us": told_us + 20 * US}
    adopt(bench, older, shown(made, "c1", "exited", exit_code=0, **times), ahead_s)
    wait(bench, 5)
    bench.listed("a", shown(made, "c1", "exited", exit_code=0, **times))
    job = bench.tables.jobs["j"]
    assert job.state is JobState.SUCCEEDED
    assert (job.started_us, job.finished_us) == (began_us, began_us + 20 * US)
