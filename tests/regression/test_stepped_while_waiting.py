"""Waits that no record knows of ended with a step of the wall clock, as if its time had passed.

A submission that the planner was thinking about was refused, a job was given up for a block that
may be found yet, tasks left a node whose agent was away for a moment, and a slow policy's answer
was not waited for.
"""

from __future__ import annotations

import pytest

from tenure.core.state.params import Params
from tenure.model.effects import Decide, Reply
from tenure.model.events import ClockStepped, Tick
from tenure.model.outcome import Done
from tenure.model.units import US
from tests.regression.acts import wait
from tests.unit.core.asking import asking
from tests.unit.core.bench import Bench, node
from tests.unit.core.jobreaders import losing
from tests.unit.core.lender import lender, lends, stage

DAY_US = 86_400 * US


def step(bench: Bench) -> list[Reply]:
    """Step the wall clock by a day; return what somebody is answered for it."""
    bench.say(ClockStepped(at_us=0, step_us=DAY_US), after_us=0)
    bench.now_us += DAY_US
    found = bench.say(Tick(at_us=0), after_us=0)
    return [effect for effect in found if isinstance(effect, Reply)]


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_submission_that_is_being_planned(*, is_behind: bool) -> None:
    bench = asking()
    bench.submit_batch("b")
    if is_behind:
        bench.submit_batch("behind")
    assert step(bench) == []
    names = ["b"]
    assert len(bench.answer()) == 1
    if is_behind:
        names.append("behind")
        assert len(bench.answer()) == 1
    assert sorted(batch.id for batch in bench.tables.batches.values()) == names


def test_a_planner_that_does_not_answer_is_waited_for_as_long_as_without_a_step() -> None:
    bench = asking()
    bench.submit_batch("b")
    bench.submit_batch("behind")
    begun_us = bench.now_us
    bench.now_us += 10 * US
    assert step(bench) == []
    step(bench)
    told = list[str]()
    while len(told) < 2:
        due_us = bench.state.wakeup_us()
        assert due_us is not None
        found = bench.say(Tick(at_us=0), after_us=max(0, due_us - bench.now_us))
        told += [effect.request for effect in found if isinstance(effect, Reply)]
        assert not told or bench.now_us >= begun_us + 2 * DAY_US + Params().reply_us - US
    assert sorted(told) == ["b", "behind"]
    assert bench.now_us <= begun_us + 2 * DAY_US + Params().reply_us + US


def test_a_block_of_which_no_copy_is_left_yet() -> None:
    made = losing()
    step(made)
    made.wait(40)
    assert not made.job().is_failing
    made.wait(60)
    assert made.job().is_failing or made.job().is_over


def test_an_agent_that_is_away_for_a_moment() -> None:
    bench = lender(lends("n"))
    bench.lend("b", stage())
    bench.end(bench.open_of("create"), Done("e0"))
    bench.guard("n", fault="no answer")
    bench.end(bench.open_of("send"))
    assert bench.task().node == "n"
    step(bench)
    assert bench.task().node == "n"
    assert bench.batch().reclaimed == 0
    bench.say(Tick(at_us=0), after_us=Params().agent_lost_us)
    assert bench.batch().reclaimed == 1


def test_a_slow_policy_that_is_asked() -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    bench.submit("one", policy="milp")
    (asked,) = [effect for effect in bench.effects if isinstance(effect, Decide)]
    step(bench)
    assert bench.tables.jobs["one"].decision == ""
    bench.say(Tick(at_us=0), after_us=round(asked.limit_s * US))
    assert bench.tables.jobs["one"].decision == "exact: milp took too long"


def test_an_exit_that_may_be_its_engines_doing() -> None:
    """It is judged once the engine would have been missed: else it cost the task a retry."""
    bench = lender(lends("n"))
    bench.lend("b", stage())
    bench.exit(0, bench.run(), 137)
    step(bench)
    bench.told()
    assert bench.batch().retried == 0
    wait(bench, 15)
    bench.told()
    assert bench.batch().retried == 1
