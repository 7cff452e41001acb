"""A wall clock that is stepped fires no time-out, forgets no answer and costs nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.capacity import ledger
from tenure.core.state.params import Params
from tenure.model.events import ClockStepped, NodeLost, PowerNode, Tick
from tenure.model.job import ExecutorState
from tenure.model.ourtime import Anchor
from tenure.model.outcome import Done
from tenure.model.plan import RunState
from tenure.model.units import US
from tests.regression.acts import begin_move, claim_run, run_service, the_move, wait
from tests.unit.core.bench import Bench, node

DAY_S = 86_400
CLOCK = Anchor("boot", 5 * US, 7 * US)
FORWARD = pytest.mark.parametrize("step_s", [3, 3_600, DAY_S])


def step(bench: Bench, seconds: int) -> None:
    """Step the wall clock; the core hears of it before anything else."""
    bench.say(ClockStepped(at_us=0, step_us=seconds * US), after_us=0)
    bench.now_us += seconds * US
    bench.say(Tick(at_us=0), after_us=0)


def power(bench: Bench) -> str:
    return str(bench.tables.nodes["a"].power)


def running(**spec: Any) -> Bench:
    """Return a bench with one job that runs."""
    bench = Bench(node("a"))
    bench.connect("a")
    bench.submit("j", **spec)
    bench.end(bench.open("create"), Done("c1"))
    bench.end(bench.open("start"))
    return bench


@FORWARD
def test_a_job_runs_as_long_as_it_may(step_s: int) -> None:
    bench = running(max_runtime_us=60 * US)
    wait(bench, 30)
    step(bench, step_s)
    wait(bench, 25)
    assert not bench.tables.jobs["j"].is_failing
    wait(bench, 10)
    assert bench.tables.jobs["j"].is_failing


def test_the_run_time_that_is_learned_is_what_it_took() -> None:
    bench = running()
    wait(bench, 30)
    step(bench, DAY_S)
    job, executor = bench.tables.jobs["j"], bench.tables.executors["j/0"]
    assert job.started_us == executor.started_us
    assert bench.now_us - (job.started_us or 0) == 30 * US


@FORWARD
def test_a_boot_has_its_time(step_s: int) -> None:
    bench = Bench(node("a", driver="command"))
    bench.end(bench.open("probe"), Done("off"))
    bench.submit("j")
    bench.end(bench.open("power"), Done("on"))
    wait(bench, 60)
    step(bench, step_s)
    wait(bench, 50)
    assert power(bench) == "booting"
    bench.connect("a")
    assert bench.tables.executors["j/0"].state is ExecutorState.CREATING


def test_a_node_that_was_lost_a_moment_ago_is_not_fenced() -> None:
    bench = Bench(node("a", driver="command"), params=Params(min_on={}, fence_after_us=60 * US))
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("a")
    bench.submit("j")
    bench.say(NodeLost(at_us=0, node="a"))
    step(bench, DAY_S)
    wait(bench, 50)
    assert power(bench) == "on"
    wait(bench, 15)
    assert power(bench) == "stopping"


def test_an_idle_node_stays_on_for_its_grace() -> None:
    bench = Bench(node("a", driver="command"), params=Params(min_on={}, grace_us=60 * US))
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("a")
    step(bench, DAY_S)
    wait(bench, 50)
    bench.listed("a")
    assert power(bench) == "on"
    for _ in range(4):
        wait(bench, 5)
        bench.listed("a")
    assert power(bench) == "stopping"


def test_a_key_is_known_for_a_day_of_its_own() -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    bench.submit("first", key="k", fingerprint="f")
    step(bench, DAY_S)
    assert bench.submit("second", key="k", fingerprint="f").id == "first"
    assert len(bench.tables.jobs) == 1
    bench.now_us += DAY_S * US
    assert bench.submit("third", key="k", fingerprint="f").id == "third"


def test_time_that_is_skipped_costs_nothing() -> None:
    bench = Bench(node("a", driver="command", price_nano_per_h=3600 * 10**9))
    bench.end(bench.open("probe"), Done("off"))
    bench.say(PowerNode(at_us=0, request="on", node="a", to="on"))
    began_us = bench.now_us
    bench.end(bench.open("power"), Done("on"))
    bench.connect("a")
    bench.submit("j")
    wait(bench, 30)
    before = bench.now_us - began_us
    step(bench, DAY_S)
    wait(bench, 20)
    found = bench.read(ledger.report, 0, bench.now_us)
    assert found["on_us"]["a"] == before + 20 * US
    assert found["total"] == found["on_us"]["a"] * 10**3
    assert found["total"] == sum(found["by_job"].values()) + found["idle"]


def test_a_move_has_its_time() -> None:
    bench = Bench(node("a", "nursery"), node("t"))
    bench.connect("a")
    bench.connect("t")
    key, _ = run_service(bench)
    begin_move(bench, key, "a", "t")
    left_us = the_move(bench).expires_us - bench.now_us
    step(bench, DAY_S)
    assert the_move(bench).expires_us - bench.now_us == left_us
    assert not the_move(bench).is_over


def test_a_run_that_was_claimed_has_its_time() -> None:
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    run = claim_run(bench)
    step(bench, DAY_S)
    assert bench.tables.runs[run].state is RunState.CLAIMED


def test_a_step_back_is_told_and_changes_nothing() -> None:
    bench = running()
    before = bench.tables.executors["j/0"]
    bench.say(ClockStepped(at_us=0, step_us=-DAY_S * US))
    assert bench.public[-1].type == "clock.stepped"
    assert bench.public[-1].data == {"by_s": -DAY_S}
    assert bench.tables.executors["j/0"] == before


def test_what_was_stored_behind_a_step_is_loaded() -> None:
    bench = running(max_runtime_us=60 * US)
    step(bench, DAY_S)
    bench.restart()
    wait(bench, 40)
    assert not bench.tables.jobs["j"].is_failing


def begin_again(bench: Bench, seconds: int, *, is_same_boot: bool) -> None:
    """Restart the daemon behind a step of the wall, or on a machine that was started anew."""
    bench.restart(step_us=seconds * US, is_same_boot=is_same_boot, clock=CLOCK)
    bench.now_us += seconds * US
    bench.connect_again("a")


@pytest.mark.parametrize("is_same_boot", [True, False])
def test_a_step_while_no_daemon_ran_ends_no_job(is_same_boot: bool) -> None:
    bench = running(max_runtime_us=60 * US)
    wait(bench, 30)
    begin_again(bench, DAY_S, is_same_boot=is_same_boot)
    told = {event.type: event for event in bench.public}
    step = told["clock.stepped" if is_same_boot else "clock.unsure"]
    assert step.data == {"by_s": DAY_S}
    assert told["daemon.started"].at_us == step.at_us + DAY_S * US
    assert bench.meta.clock == CLOCK
    wait(bench, 25)
    assert not bench.tables.jobs["j"].is_failing
    wait(bench, 10)
    assert bench.tables.jobs["j"].is_failing


@pytest.mark.parametrize("is_same_boot", [True, False])
def test_a_lost_node_is_fenced_no_sooner_for_it(is_same_boot: bool) -> None:
    bench = Bench(node("a", driver="command"), params=Params(min_on={}, fence_after_us=60 * US))
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("a")
    bench.submit("j")
    bench.say(NodeLost(at_us=0, node="a"))
    wait(bench, 20)
    begin_again(bench, DAY_S, is_same_boot=is_same_boot)
    bench.say(NodeLost(at_us=0, node="a"))
    wait(bench, 30)
    assert power(bench) == "on"


@pytest.mark.parametrize("is_same_boot", [True, False])
def test_only_a_step_that_is_known_costs_nothing(is_same_boot: bool) -> None:
    bench = Bench(node("a", driver="command", price_nano_per_h=3600 * 10**9))
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("a")
    bench.submit("j")
    began_us = bench.now_us
    begin_again(bench, DAY_S, is_same_boot=is_same_boot)
    on_us = bench.read(ledger.report, began_us, bench.now_us)["on_us"]["a"]
    assert on_us < 60 * US or not is_same_boot
    assert on_us >= DAY_S * US or is_same_boot


def test_an_anchor_that_changed_alone_is_kept_and_not_told() -> None:
    bench = running()
    before = len(bench.public)
    bench.say(ClockStepped(at_us=0, step_us=0, clock=CLOCK))
    assert bench.meta.clock == CLOCK
    assert len(bench.public) == before
