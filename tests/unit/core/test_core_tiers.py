"""Tiers of nodes in the core: power, drains and names against what lies there; speeds, checks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tenure.core import copies, inspection, replicas, tiers
from tenure.core.fleet import MAX_ROUNDS
from tenure.core.shelves import mark_of
from tenure.model.dataset import Drop
from tenure.model.effects import CheckBlocks, Relist, SwitchPower
from tenure.model.events import DrainNode, NodeListed, Tick
from tenure.model.outcome import Refused, Unknown
from tenure.model.tier import TierKind
from tenure.model.units import MIB, US
from tests.unit.core.bench import Bench
from tests.unit.core.lender import AGENT
from tests.unit.core.shelf import FAST, Shelf, is_refused, with_tiers
from tests.unit.core.test_core_reading import Library
from tests.unit.core.test_core_restore import backup, put_back

THREE = ("a", "b", "c")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf(*(with_tiers(name, "memory", "ssd", "hdd") for name in THREE))


def switchable(*names: str, kinds: tuple[str, ...] = ("ssd",)) -> Shelf:
    specs = [with_tiers(name, *kinds, driver="command") for name in names]
    shelf = Shelf(*specs)
    for name in names:
        for effect in [e for e in shelf.tables.effects.values() if e.node == name]:
            if effect.kind == "probe":
                from tenure.model.outcome import Done

                shelf.end(effect, Done("on"))
    shelf.work()
    return shelf


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
    assert not replicas.is_sole(shelf.state.ctx, "a")
    assert not replicas.is_sole(shelf.state.ctx, "b")
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
    del disk[replicas.name_of(shelf.state.ctx, shelf.blocks("logs")[0])]
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


def test_speeds_are_measured_and_kept(shelf: Shelf) -> None:
    speeds = {m.key: m.bytes_per_s for m in shelf.tables.tiers.values()}
    assert speeds["a/ssd"] == 400 * 10**6
    shelf.put("logs", 1)
    shelf.work()
    block = shelf.blocks("logs")[0]
    assert replicas.offered(shelf.state.ctx, block)[0].bytes_per_s > 0
    shelf.restart()
    shelf.done.clear()
    for name in THREE:
        shelf.connect_again(name)
        shelf.listed(name)
    shelf.work()
    assert not [e for e in shelf.done if e.kind == "measure_tiers"]


def test_every_replica_is_checked_once_in_a_while(shelf: Shelf) -> None:
    shelf.put("logs", 3)
    shelf.work()
    shelf.done.clear()
    shelf.wait(FAST.scrub_us / US + 60)
    checked = [sums for e in shelf.done if e.kind == "check_blocks" for sums in e.sums]
    assert len(checked) >= 6


def test_no_copies_begin_while_the_daemon_closes_or_elsewhere(shelf: Shelf) -> None:
    from tenure.model.events import Closing

    shelf.say(Closing(at_us=0))
    shelf.put("logs", 3)
    assert not shelf.has_open("copy_block")
    assert not [e for e in shelf.effects if isinstance(e, Relist) and e.node not in THREE]


def test_copies_that_are_gone_do_not_hold_up_the_check_of_others() -> None:
    shelf = Shelf(with_tiers("a"))
    shelf.put("logs", 1, replicas=1)
    shelf.work()
    gone = dict.fromkeys(f"d-0/{number}" for number in range(3 * tiers.MOST_NAMES))
    (block,) = shelf.blocks("logs")
    ctx = shelf.state.ctx
    ctx.shelves.checks["a/ssd"] = gone | {block.key: None}
    tiers.next_chore(ctx, "a")
    shelf.wait(1)
    assert [e.sums for e in shelf.done if isinstance(e, CheckBlocks)] == [
        ((replicas.name_of(ctx, block), block.sha256),)
    ]
    assert not ctx.shelves.checks["a/ssd"]


def test_a_restored_state_removes_nothing_that_is_the_last_copy_by_now() -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    shelf.put("logs", 1, replicas=1)
    shelf.work()
    (block,) = shelf.blocks("logs")
    ((held, _),) = shelf.places("logs")[0]
    other = "b" if held == "a" else "a"
    name = replicas.name_of(shelf.state.ctx, block)
    older = backup(shelf)  # the block was to go from the other node then
    older["tiers"][f"{other}/ssd"] = replace(
        older["tiers"][f"{other}/ssd"], drops=(Drop(name, block.length),)
    )
    # since then it has moved there
    shelf.disks[other, "/mnt/ssd"] = {name: shelf.disks[held, "/mnt/ssd"].pop(name)}
    put_back(shelf, older)
    for node in "ab":
        shelf.connect_again(node)
        shelf.listed(node)
    for node in "ab":
        shelf.listed(node)
    shelf.work()
    assert name in shelf.disks[other, "/mnt/ssd"]
    assert shelf.nodes_of("logs") == [{other}]
    shelf.check()


def test_what_was_to_go_stays_where_it_is_the_last_copy_by_then() -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    shelf.put("logs", 1, replicas=2)
    shelf.work()
    (block,) = shelf.blocks("logs")
    ctx = shelf.state.ctx
    inspection.give_up(ctx, block, "b", "ssd")  # its node has something else to do first
    shelf.lose("a")
    tiers.next_chore(ctx, "b")
    shelf.work_now()
    assert shelf.nodes_of("logs") == [{"b"}]
    assert not mark_of(ctx, "b", "ssd").drops
    shelf.find("a")
    shelf.wait(10)
    assert shelf.nodes_of("logs") == [{"a", "b"}]
    shelf.check()


def test_a_tier_at_another_path_is_looked_at_before_it_is_read() -> None:
    before = [with_tiers(name) for name in "ab"]
    shelf = Shelf(*before)
    shelf.put("logs", 2, replicas=2)
    shelf.work()
    moved = replace(before[0], tiers=(replace(before[0].tiers[0], path="/mnt/new"),))
    shelf.configure(moved, before[1])
    assert shelf.nodes_of("logs") == [{"b"}] * 2
    shelf.work_now()
    assert shelf.nodes_of("logs") == [{"b"}] * 2
    assert "disk mounted" in shelf.tables.tiers["a/ssd"].fault
    shelf.configure(*before)
    shelf.work_now()
    assert shelf.nodes_of("logs") == [{"a", "b"}] * 2
    shelf.check()


def test_files_without_a_record_are_removed_before_more_are_looked_for() -> None:
    shelf = Shelf(with_tiers("a"))
    shelf.put("logs", 1, replicas=1)
    shelf.work()
    disk = shelf.disks["a", "/mnt/ssd"]
    folder = replicas.folder_of(shelf.state.ctx)
    for number in range(3 * inspection.MOST_STRAYS):
        disk[f"{folder}/d-gone/{number:06}"] = ("", 1)
    tiers.survey_soon(shelf.state.ctx, "a")
    most = 0
    while shelf.tables.effects or shelf.state.ctx.shelves.comparing:
        shelf.say(Tick(at_us=0), after_us=1)
        most = max(most, len(mark_of(shelf.state.ctx, "a", "ssd").drops))
        for effect in list(shelf.tables.effects.values()):
            shelf.end(effect, shelf.perform(effect))
    assert most <= inspection.MOST_STRAYS + inspection.SLICE
    assert shelf.files("a") == 1
    shelf.check()


def test_a_put_before_the_first_look_is_asked_to_come_again() -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    shelf.lose("a")
    early = shelf.put("logs", 1, replicas=2)
    assert is_refused(early, "not_looked_at")
    assert (early.status, early.extra) == (503, {"retry_after_s": 2.0})
    assert "a unreachable" in early.detail
    assert is_refused(shelf.put("wide", 1, replicas=3), "too_few_nodes"), "that helps nothing"
    shelf.wait(11)
    assert is_refused(shelf.put("logs", 1, replicas=2), "too_few_nodes"), "it does not come"
    shelf.away.discard("a")
    shelf.connect_again("a")
    assert is_refused(shelf.put("logs", 1, replicas=2), "not_looked_at")
    assert is_refused(shelf.put("big", 150, replicas=1), "not_looked_at"), "a has the room"
    shelf.listed("a")
    shelf.work()
    assert shelf.put("logs", 1, replicas=2).state == "putting"


def test_a_tier_that_cannot_be_looked_at_is_not_waited_for() -> None:
    shelf = Shelf(with_tiers("a"))
    shelf.lose("a")
    shelf.away.discard("a")
    shelf.failing["survey_tiers"] = Refused("no_image", "no such image")
    shelf.connect_again("a")
    shelf.listed("a")
    shelf.work_now()
    assert is_refused(shelf.put("logs", 1, replicas=1), "too_few_nodes")


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


def test_a_copy_whose_end_is_not_known_leaves_nothing_of_a_removed_dataset() -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    made = shelf.put("logs", 1, replicas=1)
    (copy,) = shelf.tables.effects.values()
    shelf.change("remove", made.id)
    shelf.perform(copy)  # it comes to its end, and nobody hears of it
    assert shelf.files(copy.node) == 1
    shelf.end(copy, Unknown("cut"))
    shelf.work()
    shelf.wait(10)
    assert made.id not in shelf.tables.datasets
    assert shelf.files(copy.node) == 0
    shelf.check()
