"""An executor whose start only a listing told was ended at once by ``max_runtime_s``.

Its engine's clock was hours behind the daemon's, as after a step of the daemon's wall clock: by
that clock it had been running since before it was placed. One ahead had it run for hours too long.
"""

from __future__ import annotations

import pytest

from tenure.model.events import NodeConnected, NodeLost
from tenure.model.facts import EngineFacts
from tenure.model.job import JobState
from tenure.model.node import Reach
from tenure.model.outcome import Done, Unknown
from tenure.model.units import US
from tests.regression.acts import wait
from tests.unit.core.bench import IMAGE, SIZE, Bench, node, shown

HOURS_US = 7200 * US


@pytest.mark.parametrize("apart_us", [-HOURS_US, 0, HOURS_US])
def test_it_runs_as_long_as_it_may(apart_us: int) -> None:
    bench = Bench(node("a"))
    bench.now_us += 2 * HOURS_US
    bench.connect("a")
    bench.submit("j", max_runtime_us=60 * US)
    made = bench.open("create")
    bench.end(made, Done("c1"))
    placed_us = bench.now_us
    bench.end(bench.open("start"), Unknown("cut"))
    facts = shown(made, "c1", "running", started_us=bench.now_us + apart_us)
    bench.listed("a", facts)
    assert bench.tables.jobs["j"].state is JobState.RUNNING
    began_us = bench.tables.executors["j/0"].started_us
    assert placed_us - 3 * US <= began_us <= bench.now_us
    wait(bench, 50)
    assert not bench.tables.jobs["j"].is_failing
    wait(bench, 20)
    assert bench.tables.jobs["j"].is_failing


def test_an_end_by_another_clock_teaches_no_run_time_of_hours() -> None:
    bench = Bench(node("a"))
    bench.now_us += 2 * HOURS_US
    bench.connect("a")
    bench.submit("j")
    made = bench.open("create")
    bench.end(made, Done("c1"))
    bench.end(bench.open("start"), Unknown("cut"))
    ago_us = bench.now_us - HOURS_US
    times = {"started_us": ago_us, "finished_us": ago_us + 2 * US}
    bench.listed("a", shown(made, "c1", "exited", exit_code=0, **times))
    job = bench.tables.jobs["j"]
    assert job.state is JobState.SUCCEEDED
    assert 0 <= job.finished_us - job.started_us <= 10 * US


def test_an_engine_that_was_refused_for_long_has_the_clock_that_it_had() -> None:
    """What it said of its clock hours ago was compared with the time at which it was taken."""
    bench = Bench(node("a"), node("b"))

    def greet(name: str) -> None:
        facts = EngineFacts("same", SIZE, images=(IMAGE,), clock_us=bench.now_us + US)
        bench.say(NodeConnected(at_us=0, node=name, facts=facts))

    greet("a")
    bench.listed("a")
    greet("b")
    assert bench.tables.nodes["b"].note.startswith("same engine")
    bench.now_us += HOURS_US
    bench.say(NodeLost(at_us=0, node="a"))
    bench.listed("b")
    assert bench.tables.nodes["b"].reach is Reach.OK
    bench.submit("j")
    made = bench.open("create")
    bench.end(made, Done("c1"))
    bench.end(bench.open("start"), Unknown("cut"))
    began_us = bench.now_us
    wait(bench, 60)
    bench.listed("b", shown(made, "c1", "running", started_us=began_us))
    assert bench.tables.executors["j/0"].started_us == began_us
