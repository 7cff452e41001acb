"""A move began beside a copy of a move that a backup did not know, and that might run unseen.

Seed 97800817 of the fleet, with a restore: L6.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.attempts.tombstones import REMEDY
from tenure.model.facts import LABEL_INCARNATION, ContainerFacts
from tenure.model.outcome import Done, Refused
from tests.regression.acts import wait
from tests.unit.core.bench import node, shown
from tests.unit.core.drains import Drained
from tests.unit.core.lifecycle.test_core_cycle_runs import Cycle


def _torn(facts: ContainerFacts) -> ContainerFacts:
    """The copy of a later turn, whose engine died while it started it."""
    labels = {**facts.labels, LABEL_INCARNATION: "7"}
    return replace(facts, engine_id="old", labels=labels, is_torn=True)


def test_a_plan_is_refused_until_it_is_gone() -> None:
    cycle = Cycle()
    bench, service = cycle.bench, cycle.bench.tables.services[cycle.services[0]]
    made = next(e for e in bench.effects if getattr(e, "name", "") == "one")
    bench.listed("b", _torn(shown(made, "old", "created")))
    bench.end(bench.open("retire"), Refused("start_blocked", "held"))
    assert cycle.codes(cycle.move()) == ["unsure"]
    wait(bench, 90)
    bench.listed("b")
    cycle.claim()
    assert cycle.codes(cycle.move(incarnation=service.incarnation)) == ["accepted"]


def test_a_drain_waits_and_says_what_for() -> None:
    drained = Drained(node("b", "nursery"))
    drained.bench.create("one")
    made = drained.bench.open("create")
    drained.bench.end(made, Done("e1"))
    drained.bench.end(drained.bench.open("start"), Done())
    drained.open_others()
    drained.bench.listed("b", _torn(shown(made, "old", "created")))
    drained.bench.end(drained.bench.open("retire"), Refused("start_blocked", "held"))
    drained.drain()
    (blocker,) = drained.record.blockers
    assert (blocker.code, blocker.is_passing, blocker.remedy) == ("unsure", True, REMEDY)
    assert "an older copy on b that may run" in blocker.reason
    assert drained.moves == []
    drained.bench.listed("b")
    wait(drained.bench, 90)
    assert [move.target for move in drained.moves] == ["b"]
