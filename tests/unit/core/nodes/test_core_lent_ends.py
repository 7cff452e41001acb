"""How the ends of lent tasks are judged: which cost a retry, and what the agent must have said."""

from __future__ import annotations

import pytest

from tenure.core.attempts.tasks import MOST_UNPROVEN
from tenure.core.nodes import harvestable
from tenure.model.events import (
    EffectEnded,
    HarvestReported,
    NodeLost,
    Tick,
)
from tenure.model.harvest import HarvestAction
from tenure.model.outcome import Done, Refused
from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.unit.core.bench import SIZE, shown
from tests.unit.core.lender import S, lender, lends


@pytest.mark.parametrize("code", [137, 143, 3])
def test_an_exit_of_its_own_costs_a_retry(code: int) -> None:
    bench = lender()
    bench.lend("b", retries=0)
    bench.exit(0, bench.run(), code)
    bench.told()
    if code != 3:  # an engine that goes down does so too, and is missed only later
        assert bench.task().state is S.EXITED
        bench.say(Tick(at_us=0), after_us=11 * US)
        bench.told()
    assert bench.batch().is_failing
    assert (bench.batch().retried, bench.batch().reclaimed) == (1, 0)


def test_a_kill_is_told_before_its_exit_is_seen() -> None:
    bench = lender()
    bench.lend("b", retries=0)
    create = bench.run()
    bench.killed(create.node, "e0")
    assert bench.task().state is S.RUNNING
    bench.exit(0, create, 1)  # its shell saw its child die
    assert (bench.batch().reclaimed, bench.batch().retried) == (1, 0)


def test_a_kill_of_something_else_excuses_nothing() -> None:
    bench = lender()
    bench.lend("b", retries=0)
    bench.exit(0, bench.run(), 9)
    bench.told(kills="e77")
    assert bench.batch().is_failing


def test_an_exit_waits_for_an_agent_until_it_is_lost() -> None:
    bench = lender()
    bench.lend("b", retries=0)
    bench.exit(0, bench.run(), 137)
    for _ in range(20):
        bench.told(outcome=Refused("agent_away", "no answer"))
        if bench.task().state is not S.EXITED:
            break
        bench.say(Tick(at_us=0), after_us=5 * US)
    assert (bench.task().attempt, bench.batch().reclaimed) == (2, 1)
    assert "cannot tell by whom" in bench.task().note


def test_a_daemon_that_was_killed_asks_the_journal_again() -> None:
    bench = lender()
    bench.lend("b", retries=0)
    create = bench.run()
    bench.exit(0, create, 137)
    bench.restart()
    bench.connect_again("n")
    bench.connect_again("m")
    bench.listed(create.node, shown(create, "e0", "exited", exit_code=137))
    bench.say(Tick(at_us=0), after_us=5 * US)
    bench.told(kills="e0")
    assert (bench.task().attempt, bench.batch().reclaimed) == (2, 1)


def test_tasks_that_end_with_their_engine_cost_no_retry() -> None:
    bench = lender()
    bench.lend("b", retries=0)
    create = bench.run()
    bench.exit(0, create, 143)
    bench.say(NodeLost(at_us=0, node=create.node))
    bench.told()  # the agent lived on, and did nothing
    bench.connect_again(create.node)
    bench.listed(create.node, shown(create, "e0", "exited", exit_code=143))
    bench.say(Tick(at_us=0), after_us=11 * US)
    bench.told()
    assert (bench.task().attempt, bench.batch().retried) == (2, 0)


def test_a_margin_of_the_agent_that_is_larger_counts() -> None:
    bench = lender(lends("n", harvest=QosParams(cpu_margin=0.5, memory_margin=0.25)))
    spare = bench.read(harvestable.spare_on, bench.tables.nodes["n"])
    assert spare == SIZE - Resources(1000, 256 * MIB)


def test_a_task_that_keeps_ending_so_while_agents_are_silent_costs_retries() -> None:
    bench = lender()
    bench.lend("b", retries=0)
    for attempt in range(1, MOST_UNPROVEN + 2):
        assert bench.task().attempt == attempt
        bench.exit(0, bench.run(), 137)
        for _ in range(20):
            bench.told(outcome=Refused("agent_away", "no answer"))
            if bench.task().state is not S.EXITED:
                break
            bench.say(Tick(at_us=0), after_us=5 * US)
        for tombstone in list(bench.tables.tombstones.values()):
            if tombstone.effect:
                bench.say(EffectEnded(at_us=0, effect=tombstone.effect, outcome=Done()))
        bench.say(Tick(at_us=0), after_us=30 * US)
    assert (bench.batch().reclaimed, bench.batch().retried) == (MOST_UNPROVEN, 1)
    assert "3 times before no agent could tell" in bench.batch().reason


def test_a_journal_with_a_gap_proves_nothing() -> None:
    bench = lender()
    bench.lend("b", retries=0)
    create = bench.run()
    bench.killed(create.node, "e8")
    gap = HarvestAction(90, 1, "kill", "limit", is_done=True, task="e9", resource="memory")
    bench.exit(0, create, 137)
    lost = HarvestReported(at_us=0, node=create.node, actions=(gap,), oldest_seq=90)
    bench.say(lost, after_us=1)
    bench.told()
    assert (bench.task().attempt, bench.batch().reclaimed, bench.batch().retried) == (2, 1, 0)
    assert "cannot tell by whom" in bench.task().note


@pytest.mark.parametrize(
    ("is_certain", "is_oom_killed", "retried"),
    [(1, False, 0), (1, True, 0), (0, False, 0), (0, True, 1)],
)
def test_a_task_that_the_kernel_ended_for_its_node_costs_no_retry(
    is_certain: int, is_oom_killed: bool, retried: int
) -> None:
    """Unless it may have met its own limit, and its engine says that it did."""
    bench = lender()
    bench.lend("b", retries=0)
    create = bench.run()
    action = HarvestAction(
        5, 1, "oom", "short", is_done=True, task="e0", numbers={"is_certain": is_certain}
    )
    bench.exit(0, create, 137, is_oom_killed=is_oom_killed)
    bench.say(HarvestReported(at_us=0, node=create.node, actions=(action,)))
    bench.told()
    assert (bench.batch().retried, bench.batch().reclaimed) == (retried, 1 - retried)
    if not retried:
        assert "its node was short of memory" in bench.task().note
