"""The clock of an engine that is minutes off from the daemon's changed how long work had run.

An end was taken from the engine's clock: behind the daemon's it made runs of no length, which
estimates learned. A start that only a listing told was taken from it as well, where it came after
the executor was placed: a minute too early, and ``max_runtime_s`` ended it a minute too early.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.model.effects import CreateContainer
from tenure.model.events import NodeConnected
from tenure.model.facts import EngineFacts
from tenure.model.job import JobState
from tenure.model.outcome import Done, Unknown
from tenure.model.units import US
from tests.regression.acts import wait
from tests.unit.core.bench import IMAGE, SIZE, Bench, node, shown

APART = pytest.mark.parametrize("ahead_s", [-300, -40, 0, 40, 300])


def placed_on_engine(ahead_s: int, **spec: Any) -> tuple[Bench, CreateContainer]:
    """Return a bench with a job that is created, on an engine whose clock is ahead of ours."""
    bench = Bench(node("a"))
    bench.now_us += 3600 * US
    facts = EngineFacts("id-a", SIZE, images=(IMAGE,))
    clock_us = bench.now_us + US + ahead_s * US
    bench.say(NodeConnected(at_us=0, node="a", facts=replace(facts, clock_us=clock_us)))
    bench.listed("a")
    bench.submit("j", **spec)
    made = bench.open("create")
    bench.end(made, Done("c1"))
    return bench, made


@APART
def test_a_run_is_as_long_as_its_engine_says(ahead_s: int) -> None:
    bench, made = placed_on_engine(ahead_s)
    bench.end(bench.open("start"))
    began_us = bench.now_us
    wait(bench, 60)
    told_us = began_us + ahead_s * US
    times = {"started_us": told_us, "finished_us": told_us + 20 * US}
    bench.listed("a", shown(made, "c1", "exited", exit_code=0, **times))
    job = bench.tables.jobs["j"]
    assert job.state is JobState.SUCCEEDED
    assert (job.started_us, job.finished_us) == (began_us, began_us + 20 * US)


@APART
def test_a_start_that_was_not_told_is_when_it_was(ahead_s: int) -> None:
    bench, made = placed_on_engine(ahead_s, max_runtime_us=60 * US)
    wait(bench, 45)
    began_us = bench.now_us
    bench.end(bench.open("start"), Unknown("cut"))
    wait(bench, 30)
    told_us = began_us + ahead_s * US
    bench.listed("a", shown(made, "c1", "running", started_us=told_us))
    assert bench.tables.executors["j/0"].started_us == began_us
    wait(bench, began_us // US + 55 - bench.now_us // US)
    assert not bench.tables.jobs["j"].is_failing
    wait(bench, 10)
    assert bench.tables.jobs["j"].is_failing
