"""Tiers of nodes in the core: what goes with a node is given up some at a time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tenure.core.blocks import replicas, tiers
from tenure.core.blocks.block_records import with_replica
from tenure.core.datasets import copies
from tenure.core.fleet import MAX_ROUNDS
from tenure.core.nodes import power
from tenure.core.state.block_index import BlockIndex, Standing
from tenure.model.dataset import Replica, ReplicaState
from tenure.model.events import Tick
from tenure.model.node import Power
from tenure.model.tier import TierKind
from tenure.model.units import US
from tests.unit.core.dispatch.test_core_task_inputs import Library
from tests.unit.core.lender import AGENT
from tests.unit.core.shelf import Shelf, switchable, with_tiers

THREE = ("a", "b", "c")


def test_what_lies_on_a_node_that_is_forgotten_is_given_up_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiers, "MOST_GIVEN_UP", 2)
    shelf = Shelf(*(with_tiers(name) for name in THREE))
    shelf.put("logs", 40, replicas=3)
    shelf.work()
    shelf.configure(with_tiers("a"), with_tiers("b"))
    files = shelf.files("c")
    left = [40]
    while "c" in shelf.tables.nodes:
        before = shelf.now_us
        shelf.say(Tick(at_us=0), after_us=1)
        left.append(sum(len(block.replicas) == 3 for block in shelf.blocks("logs")))
        shelf.work_now()
        assert shelf.now_us < before + 60 * US
        assert len(left) < 100
    steps = [a - b for a, b in pairwise(left)]
    assert sum(steps) == 40
    assert max(steps) <= 4, "some events are between two looks"
    assert shelf.files("c") == files, "what lies on its disks is left alone"
    assert shelf.nodes_of("logs") == [{"a", "b"}] * 40
    shelf.check()


def test_a_node_with_many_blocks_is_forgotten_while_a_batch_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Batches look again when a copy goes: that is no reason to give up more in the same event."""
    monkeypatch.setattr(tiers, "MOST_GIVEN_UP", 2)
    words: dict[str, Any] = {"generation": "nursery", "mib": 2000}
    lending = [with_tiers(name, **words, **AGENT) for name in "ab"]
    shelf = Library(*lending, with_tiers("c", **words))
    shelf.put("logs", 3 * MAX_ROUNDS, replicas=3)
    shelf.work()
    shelf.scan("logs", 100)
    shelf.configure(*lending)
    left = [3 * MAX_ROUNDS - 2]
    while "c" in shelf.tables.nodes:
        shelf.say(Tick(at_us=0), after_us=1)
        left.append(sum(len(block.replicas) == 3 for block in shelf.blocks("logs")))
        assert len(left) < 1000
    assert left[-1] == 0
    assert max(a - b for a, b in pairwise(left)) <= 2
    shelf.check()


def test_many_copies_begin_while_a_batch_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches look again when one begins: that is no reason to begin all in the same event."""
    monkeypatch.setattr(copies, "TURN", 1)
    monkeypatch.setattr(copies, "MOST_LOOKED", 10)
    words: dict[str, Any] = {"generation": "nursery", "mib": 2000}
    lending = [with_tiers(name, **words, **AGENT) for name in "ab"]
    shelf = Library(*lending, copies_per_node=2 * MAX_ROUNDS)
    shelf.put("logs", 2, replicas=1)
    shelf.work()
    shelf.scan("logs", 2)
    shelf.put("more", 2 * MAX_ROUNDS, replicas=1)
    begun = [e for e in shelf.tables.effects.values() if e.kind == "copy_block"]
    assert len(begun) == 10
    shelf.work()
    assert shelf.dataset("more").state == "ready"


def test_a_node_that_is_named_again_while_it_is_given_up_has_its_blocks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiers, "MOST_GIVEN_UP", 2)
    shelf = Shelf(*(with_tiers(name) for name in THREE))
    shelf.put("logs", 7, replicas=3)
    shelf.work()
    shelf.configure(with_tiers("a"), with_tiers("b"))
    while all(len(block.replicas) == 3 for block in shelf.blocks("logs")):
        shelf.say(Tick(at_us=0), after_us=1)
    assert "c" in shelf.tables.nodes
    shelf.configure(*(with_tiers(name) for name in THREE))
    shelf.connect_again("c")
    shelf.listed("c")
    shelf.work()
    shelf.wait(60)
    assert shelf.nodes_of("logs") == [set(THREE)] * 7
    shelf.check()


def _warm(count: int) -> Shelf:
    """Return nodes of which a has so many blocks in memory too, and is about to go off."""
    shelf = switchable("a", "b", "c", kinds=("memory", "ssd"))
    shelf.put("logs", count, replicas=2, tiers=(TierKind.SSD,))
    shelf.work()
    for block in shelf.blocks("logs"):
        copy = Replica("a", "memory", ReplicaState.PRESENT, since_us=shelf.now_us)
        shelf.store(with_replica(block, copy))
    return shelf


def _in_memory(shelf: Shelf) -> int:
    return len(shelf.state_of(BlockIndex).held.get("a/memory", ()))


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_was_in_the_memory_of_a_node_that_went_off_is_given_up_in_parts(
    monkeypatch: pytest.MonkeyPatch, *, is_restarted: bool
) -> None:
    monkeypatch.setattr(tiers, "MOST_GIVEN_UP", 5)
    shelf = _warm(12)
    node = shelf.tables.nodes["a"]
    assert _in_memory(shelf) == 12
    shelf.lose("a")
    shelf.act(power.is_off, shelf.store(replace(shelf.tables.nodes["a"], power=Power.STOPPING)))
    shelf.say(Tick(at_us=0), after_us=1)
    assert _in_memory(shelf) == 7, "some in each transaction"
    assert shelf.tables.nodes["a"].power is Power.OFF
    assert node.power is Power.ON
    if is_restarted:
        shelf.restart()
    shelf.wait(2)
    assert _in_memory(shelf) == 0
    assert not shelf.state_of(BlockIndex).fading
    assert shelf.state_of(BlockIndex).held["a/ssd"], "what lies on its disk stays"


def test_a_lost_node_that_is_switched_on_has_as_long_to_come_back() -> None:
    shelf = switchable("a", "b", "c")
    shelf.put("logs", 4, replicas=2)
    shelf.work()
    shelf.lose("a")
    shelf.wait(61)
    assert shelf.read(replicas.standing, "a") is Standing.LOST
    node = replace(shelf.tables.nodes["a"], power=Power.BOOTING, power_since_us=shelf.now_us)
    shelf.store(node)
    shelf.wait(50)
    assert shelf.read(replicas.standing, "a") is Standing.AWAY, "it may be there in a moment"
    shelf.wait(20)
    assert shelf.read(replicas.standing, "a") is Standing.LOST
