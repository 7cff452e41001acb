"""Tiers of nodes in the core: power, drains and names against what lies there."""

from __future__ import annotations

import pytest

from tenure.core.blocks import replicas
from tenure.model.effects import SwitchPower
from tenure.model.events import DrainNode, NodeListed
from tenure.model.tier import TierKind
from tenure.model.units import MIB, US
from tests.unit.core.bench import Bench
from tests.unit.core.shelf import Shelf, switchable, with_tiers

THREE = ("a", "b", "c")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf(*(with_tiers(name, "memory", "ssd", "hdd") for name in THREE))


def test_the_node_with_the_last_replica_is_never_switched_off() -> None:
    shelf = switchable("a", "b")
    shelf.put("logs", 2, replicas=2)
    shelf.work()
    for _ in range(8):
        for name in "ab":
            if shelf.tables.nodes[name].power == "on":
                shelf.listed(name)
        shelf.wait(6)
    off = [e.node for e in shelf.effects if isinstance(e, SwitchPower) and e.to == "off"]
    assert len(off) == 1, "one of the two, never both"
    assert all(shelf.places("logs"))


def test_a_copy_in_memory_that_was_asked_for_keeps_its_node_on() -> None:
    shelf = switchable("a", "b", kinds=("memory", "ssd"))
    shelf.put("logs", 1, replicas=2, tiers=(TierKind.SSD, TierKind.MEMORY))
    shelf.work()
    for _ in range(8):
        for name in "ab":
            shelf.listed(name)
        shelf.wait(6)
    warm = {node for places in shelf.places("logs") for node, tier in places if tier == "memory"}
    off = {e.node for e in shelf.effects if isinstance(e, SwitchPower) and e.to == "off"}
    assert warm
    assert not warm & off, "it would be lost, and made anew on a node that is switched on for it"
    assert not [e for e in shelf.effects if isinstance(e, SwitchPower) and e.to == "on"]
    shelf.change("remove", shelf.dataset("logs").id)
    shelf.work()
    for _ in range(8):
        for name in "ab":
            if shelf.tables.nodes[name].power == "on":
                shelf.listed(name)
        shelf.wait(6)
    assert [e for e in shelf.effects if isinstance(e, SwitchPower) and e.to == "off"]


def test_two_nodes_seen_empty_at_one_moment_do_not_both_go_off() -> None:
    shelf = switchable("a", "b")
    shelf.put("logs", 2, replicas=2)
    shelf.work()
    assert not shelf.read(replicas.is_sole, "a")
    assert not shelf.read(replicas.is_sole, "b")
    now = shelf.now_us + 60 * US
    seen = [
        NodeListed(at_us=now, node=name, started_us=now, containers=(), images=()) for name in "ab"
    ]
    effects = shelf.state.handle_all(seen)
    off = [e.node for e in effects if isinstance(e, SwitchPower) and e.to == "off"]
    assert off == ["a"]


def test_a_drain_copies_last_replicas_first_and_says_what_blocks_it(shelf: Shelf) -> None:
    shelf.put("logs", 5, replicas=1)
    shelf.work()
    here = [nodes for nodes in shelf.nodes_of("logs") if nodes == {"a"}]
    assert here
    shelf.away.update(("b", "c"))
    shelf.say(DrainNode(at_us=0, request="drain", node="a"))
    drain = shelf.tables.drains["a"]
    assert drain.state == "draining"
    assert [b.code for b in drain.blockers] == ["last_replica"]
    assert f"{len(here)} blocks of dataset logs" in drain.blockers[0].reason
    shelf.away.clear()
    shelf.work()
    shelf.wait(15)
    assert shelf.tables.drains["a"].state == "drained"
    assert all(nodes - {"a"} for nodes in shelf.nodes_of("logs"))


def test_a_drain_without_room_elsewhere_is_blocked_with_the_reason() -> None:
    shelf = Shelf(with_tiers("a", "ssd"), with_tiers("b", "ssd", mib=4))
    shelf.put("logs", 6, replicas=1)
    shelf.work()
    shelf.say(DrainNode(at_us=0, request="drain", node="a"))
    shelf.work()
    shelf.wait(30)
    (blocker,) = shelf.tables.drains["a"].blockers
    assert blocker.code == "last_replica"
    assert "no tier" in blocker.reason
    assert not blocker.is_passing


def test_a_node_of_which_the_configuration_knows_no_more_gives_its_blocks_first() -> None:
    specs = [with_tiers(name, "ssd") for name in THREE]
    shelf = Shelf(*specs)
    shelf.put("logs", 6, replicas=1)
    shelf.work()
    shelf.configure(*specs[:2])
    shelf.work()
    shelf.wait(30)
    assert "c" not in shelf.tables.nodes
    assert all(shelf.places("logs"))
    shelf.check()


def test_a_tier_that_is_named_no_more_is_given_up_and_made_good() -> None:
    shelf = Shelf(with_tiers("a", "ssd", "hdd"), with_tiers("b", "ssd"), with_tiers("c", "ssd"))
    shelf.put("logs", 6, replicas=2)
    shelf.work()
    shelf.configure(with_tiers("a", "hdd"), with_tiers("b", "ssd"), with_tiers("c", "ssd"))
    shelf.work()
    assert all(len(nodes) == 2 for nodes in shelf.nodes_of("logs"))
    shelf.check()


def test_the_last_copy_in_a_tier_that_is_named_no_more_waits_for_it() -> None:
    specs = with_tiers("a", "ssd", "hdd"), with_tiers("b", "ssd")
    shelf = Shelf(*specs)
    shelf.put("logs", 3, replicas=1, tiers=(TierKind.HDD,))
    shelf.work()
    assert shelf.places("logs") == [[("a", "hdd")]] * 3
    shelf.configure(with_tiers("a", "ssd"), specs[1])
    shelf.work(60)
    assert shelf.places("logs") == [[]] * 3
    shelf.configure(*specs)
    shelf.work(60)
    assert shelf.places("logs") == [[("a", "hdd")]] * 3


def test_a_last_copy_that_is_gone_is_told_and_brought_back_by_a_put(shelf: Shelf) -> None:
    shelf.put("logs", 1, replicas=1)
    shelf.work()
    node, tier = shelf.places("logs")[0][0]
    disk = shelf.disks[node, f"/mnt/{tier}"]
    del disk[shelf.read(replicas.name_of, shelf.blocks("logs")[0])]
    shelf.lose(node)
    shelf.find(node)
    assert "is gone: put the same files again" in shelf.dataset("logs").reason
    shelf.put("logs", 1, replicas=1)
    shelf.work()
    assert shelf.places("logs")[0]
    assert shelf.dataset("logs").reason == ""


def test_nodes_that_are_off_are_switched_on_where_copies_find_no_room() -> None:
    shelf = switchable("a", "b")
    shelf.put("early", 1, replicas=2)
    shelf.work()
    for _ in range(8):
        for name in "ab":
            if shelf.tables.nodes[name].power == "on":
                shelf.listed(name)
        shelf.wait(6)
    (off,) = [e for e in shelf.tables.effects.values() if e.kind == "power"]
    shelf.end(off)
    shelf.put("late", 2, replicas=2)
    shelf.work(30)
    assert shelf.tables.nodes[off.node].power == "booting"


def test_memory_tiers_are_taken_off_a_nodes_memory() -> None:
    bench = Bench(with_tiers("a", "memory", "ssd", mib=300))
    bench.connect("a")
    assert bench.tables.nodes["a"].capacity.memory_bytes == (1024 - 300) * MIB
