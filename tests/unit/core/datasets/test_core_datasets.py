"""Datasets in the core: replicas where they belong, losses made good, room kept, nothing lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tenure.core.blocks import replicas
from tenure.core.datasets import copies, tier_room
from tenure.core.state.block_index import BlockIndex
from tenure.model.dataset import DatasetFile
from tenure.model.effects import CopyBlock
from tenure.model.events import PutDataset
from tenure.model.outcome import Outcome, Refused, Unknown
from tenure.model.tier import TierKind
from tests.unit.core.shelf import BLOCK, FAST, Shelf, is_refused, with_tiers

THREE = ("a", "b", "c")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf(*(with_tiers(name, "memory", "ssd", "hdd") for name in THREE))


def test_every_block_gets_its_replicas_on_different_nodes(shelf: Shelf) -> None:
    made = shelf.put("logs", 5, replicas=3, size=4 * BLOCK + 7)
    assert made.state == "putting"
    shelf.work()
    assert shelf.dataset("logs").state == "ready"
    assert shelf.nodes_of("logs") == [set(THREE)] * 5
    assert [block.length for block in shelf.blocks("logs")] == [BLOCK] * 4 + [7]
    assert shelf.blocks("logs")[4].sha256
    shelf.check()


def test_replicas_take_the_kinds_that_were_asked_for(shelf: Shelf) -> None:
    kinds = (TierKind.MEMORY, TierKind.SSD, TierKind.HDD)
    shelf.put("logs", 3, replicas=3, tiers=kinds)
    shelf.work()
    for places in shelf.places("logs"):
        assert sorted(tier for _, tier in places) == ["hdd", "memory", "ssd"]
        assert places[0][1] == "memory", "the fastest comes first"


def test_files_of_a_folder_are_cut_each_by_itself(shelf: Shelf) -> None:
    files = (
        DatasetFile("a", BLOCK + 1, 1),
        DatasetFile("empty", 0, 1),
        DatasetFile("b/c", BLOCK, 1),
    )
    shelf.put("logs", files=files)
    shelf.work()
    cuts = [(block.file, block.offset, block.length) for block in shelf.blocks("logs")]
    assert cuts == [(0, 0, BLOCK), (0, BLOCK, 1), (2, 0, BLOCK)]
    origins = {e.origin.path for e in shelf.done if isinstance(e, CopyBlock) and e.origin}
    assert origins <= {"/srv/logs/a", "/srv/logs/b/c"}


def test_without_a_single_byte_it_is_ready_at_once(shelf: Shelf) -> None:
    assert shelf.put("none", files=(DatasetFile("", 0, 1),)).state == "ready"


def test_no_more_copies_at_a_time_than_a_node_takes(shelf: Shelf) -> None:
    shelf.put("logs", 40, replicas=1)
    open_ = [e.node for e in shelf.tables.effects.values() if e.kind == "copy_block"]
    assert all(open_.count(name) == FAST.copies_per_node for name in THREE)
    shelf.work()
    assert shelf.dataset("logs").state == "ready"


def test_what_does_not_fit_is_refused_with_what_would(shelf: Shelf) -> None:
    assert is_refused(shelf.put("big", 1000, replicas=2), "no_room")
    assert is_refused(shelf.put("wide", 1, replicas=4), "too_few_nodes")
    shelf.put("half", 190, replicas=3)
    told = shelf.put("other", 100, replicas=3)
    assert is_refused(told, "no_room"), "what is on its way counts"
    assert "remove datasets" in told.detail
    bare = Shelf(with_tiers("x", "memory"))
    assert is_refused(bare.put("logs", 1, replicas=1), "no_tiers")


@pytest.mark.parametrize(("replicas", "most"), [(1, 6), (2, 3), (3, 2)])
def test_blocks_that_no_tier_has_room_for_as_a_whole_are_refused(replicas: int, most: int) -> None:
    """Six tiers on three nodes have 72 MiB free, in pieces of 12: room for a block of 8 each."""
    small = Shelf(*(with_tiers(name, "ssd", "hdd", mib=12) for name in THREE))
    words: dict[str, Any] = {"block_bytes": 2 * BLOCK, "replicas": replicas}
    told = small.put("more", size=(most + 1) * 2 * BLOCK, **words)
    assert is_refused(told, "no_room")
    assert f"{replicas} replicas of {most + 1} blocks of 8MiB" in told.detail
    wide = small.put("wide", size=5 * BLOCK, block_bytes=8 * BLOCK, replicas=replicas)
    assert is_refused(wide, "no_room"), "its only block is shorter than block_bytes"
    assert small.put("all", size=most * 2 * BLOCK + 1, **words).state == "putting"
    small.work()
    assert small.dataset("all").state == "ready"


def test_a_put_that_is_under_way_takes_room_only_where_there_is_little(shelf: Shelf) -> None:
    """Each node has room for 200 blocks; a replica of the first on each of them leaves 190."""
    assert shelf.put("first", 10, replicas=3).state == "putting"
    assert is_refused(shelf.put("big", 191, replicas=3), "no_room")
    assert shelf.put("wide", 180, replicas=3).state == "putting", "both have room everywhere"
    shelf.work()
    assert {shelf.dataset(name).state for name in ("first", "wide")} == {"ready"}


def test_a_name_is_taken_by_other_files_and_goes_on_with_the_same(shelf: Shelf) -> None:
    first = shelf.put("logs", 2)
    assert is_refused(shelf.put("logs", 3), "name_taken")
    assert shelf.put("logs", 2).id == first.id
    shelf.work()
    assert shelf.dataset("logs").state == "ready"


def test_a_node_that_is_lost_has_its_blocks_copied_anew(shelf: Shelf) -> None:
    shelf.put("logs", 6)
    shelf.work()
    shelf.lose("a")
    assert all("a" not in nodes for nodes in shelf.nodes_of("logs")), "not offered"
    shelf.wait(30)
    assert not any(isinstance(e, CopyBlock) and e.source for e in shelf.done), "it may come back"
    shelf.wait(60)
    assert shelf.nodes_of("logs") == [{"b", "c"}] * 6
    shelf.check()


def test_a_node_that_comes_back_is_looked_at_before_it_is_read(shelf: Shelf) -> None:
    shelf.put("logs", 6, replicas=3, tiers=(TierKind.MEMORY, TierKind.SSD))
    shelf.work()
    was = shelf.places("logs")
    shelf.lose("a")
    shelf.disks["a", "/mnt/memory"].clear()
    shelf.away.discard("a")
    shelf.connect_again("a")
    assert all("a" not in nodes for nodes in shelf.nodes_of("logs"))
    shelf.listed("a")
    shelf.work()
    for before, now in zip(was, shelf.places("logs"), strict=True):
        kept = {place for place in before if place != ("a", "memory")}
        assert kept <= set(now)
        assert {node for node, _ in now} == set(THREE), "what was in memory is made good"
    shelf.check()


def test_files_that_nobody_knows_are_removed(shelf: Shelf) -> None:
    shelf.put("logs", 2)
    shelf.work()
    folder = shelf.read(replicas.folder_of)
    shelf.disks.setdefault(("a", "/mnt/hdd"), {})[f"{folder}/d-gone/000001"] = ("x", 9)
    shelf.lose("a")
    shelf.find("a")
    assert f"{folder}/d-gone/000001" not in shelf.disks["a", "/mnt/hdd"]
    assert sum(map(shelf.files, THREE)) == 4
    shelf.check()


@pytest.mark.parametrize("outcome", [Unknown("no answer"), Refused("unreachable", "cut")])
def test_a_removal_whose_end_is_not_known_is_ended_before_its_name_is_used_again(
    outcome: Outcome,
) -> None:
    shelf = Shelf(*(with_tiers(name, "ssd") for name in THREE))
    made = shelf.put("logs", 1, replicas=3)
    shelf.work()
    node, tier = shelf.places("logs")[0][0]
    name = shelf.read(replicas.name_of, shelf.blocks("logs")[0])
    shelf.disks[node, f"/mnt/{tier}"][name] = ("rotten", BLOCK)
    shelf.change("verify", made.id)
    while not shelf.has_open("drop_blocks"):
        effect = next(e for e in shelf.tables.effects.values() if e.kind == "check_blocks")
        shelf.end(effect, shelf.perform(effect))
    shelf.end(shelf.open("drop_blocks"), outcome)
    begun = len(shelf.done)
    shelf.work()
    kinds = [e.kind for e in shelf.done[begun:] if e.node == node]
    wanted = ["survey_tiers", "drop_blocks", "copy_block"]
    assert [kind for kind in kinds if kind in wanted][:3] == wanted
    assert shelf.nodes_of("logs") == [set(THREE)]
    shelf.check()


def test_a_disk_that_is_not_mounted_is_a_fault_and_loses_nothing(shelf: Shelf) -> None:
    shelf.put("logs", 4, replicas=1)
    shelf.work()
    mine = {key: disk for key, disk in shelf.disks.items() if key[0] == "a"}
    assert shelf.files("a"), "one of them lies there"
    for key in mine:
        shelf.disks[key] = {}
    shelf.lose("a")
    shelf.find("a")
    marks = [mark for mark in shelf.tables.tiers.values() if mark.node == "a" and mark.fault]
    assert marks
    assert "mounted" in marks[0].fault
    assert any(not places for places in shelf.places("logs"))
    shelf.disks.update(mine)
    shelf.wait(40)
    assert all(shelf.places("logs"))


def test_a_wrong_checksum_is_found_and_the_copy_replaced(shelf: Shelf) -> None:
    made = shelf.put("logs", 3)
    shelf.work()
    node, tier = shelf.places("logs")[0][0]
    name = shelf.read(replicas.name_of, shelf.blocks("logs")[0])
    shelf.disks[node, f"/mnt/{tier}"][name] = ("rotten", BLOCK)
    shelf.change("verify", made.id)
    shelf.work()
    assert len(shelf.places("logs")[0]) == 2
    rotten = [d for disk in shelf.disks.values() for d, _ in disk.values() if d == "rotten"]
    assert not rotten
    assert "block.corrupted" in {event.type for event in shelf.public}
    shelf.check()


@pytest.mark.parametrize("is_right", [True, False])
def test_a_file_that_no_record_knows_is_kept_if_its_block_has_no_right_copy(
    shelf: Shelf, is_right: bool
) -> None:
    made = shelf.put("logs", 1, replicas=1)
    shelf.work()
    node, tier = shelf.places("logs")[0][0]
    name = shelf.read(replicas.name_of, shelf.blocks("logs")[0])
    good = shelf.disks[node, f"/mnt/{tier}"][name]
    shelf.disks[node, f"/mnt/{tier}"][name] = ("rotten", BLOCK)
    shelf.change("verify", made.id)
    shelf.work()
    assert shelf.places("logs") == [[]]
    other = next(n for n in THREE if n != node)
    stray = good if is_right else ("rotten too", BLOCK)
    shelf.disks.setdefault((other, "/mnt/hdd"), {})[name] = stray
    odd = name.rpartition("/")[0] + "/\u00b2"  # a digit to str.isdigit, none to int
    shelf.disks[other, "/mnt/hdd"][odd] = stray
    shelf.lose(other)
    shelf.find(other)
    assert shelf.places("logs") == [[(other, "hdd")] if is_right else []]
    held = [key for key, disk in shelf.disks.items() if name in disk]
    assert (held == [(other, "/mnt/hdd")]) is is_right, "what was wrong goes once one is right"
    assert bool(shelf.dataset("logs").reason) is not is_right
    shelf.check()


def test_the_last_copy_is_kept_though_wrong_and_replaced_by_a_new_put(shelf: Shelf) -> None:
    made = shelf.put("logs", 1, replicas=1)
    shelf.work()
    node, tier = shelf.places("logs")[0][0]
    name = shelf.read(replicas.name_of, shelf.blocks("logs")[0])
    right = shelf.disks[node, f"/mnt/{tier}"][name]
    shelf.disks[node, f"/mnt/{tier}"][name] = ("rotten", BLOCK)
    shelf.change("verify", made.id)
    shelf.work()
    assert shelf.places("logs") == [[]]
    assert shelf.disks[node, f"/mnt/{tier}"][name] == ("rotten", BLOCK)
    assert "put the same files again" in shelf.dataset("logs").reason
    shelf.put("logs", 1, replicas=1)
    shelf.work()
    (places,) = shelf.places("logs")
    assert [shelf.disks[n, f"/mnt/{t}"][name] for n, t in places] == [right]
    assert shelf.dataset("logs").state == "ready"
    shelf.check()


def test_a_source_that_rots_is_found_by_the_copy_that_is_made_of_it(shelf: Shelf) -> None:
    shelf.put("logs", 1)
    shelf.work()
    (places,) = shelf.places("logs")
    name = shelf.read(replicas.name_of, shelf.blocks("logs")[0])
    for node, tier in places:
        if node == places[0][0]:
            shelf.disks[node, f"/mnt/{tier}"][name] = ("rotten", BLOCK)
    shelf.lose(places[1][0])
    shelf.wait(100)
    assert shelf.places("logs") == [[]], "what is wrong is not given to anybody"
    shelf.find(places[1][0])
    shelf.wait(100)
    assert len(shelf.places("logs")[0]) == 2
    assert not any(d == "rotten" for disk in shelf.disks.values() for d, _ in disk.values())


def test_a_removal_frees_the_name_at_once_and_the_room_with_the_files(shelf: Shelf) -> None:
    made = shelf.put("logs", 300, replicas=1)
    shelf.work()
    assert shelf.change("remove", made.id).state == "removing"
    again = shelf.put("logs", 2, replicas=1)
    assert again.id != made.id
    shelf.work()
    assert made.id not in shelf.tables.datasets
    assert shelf.dataset("logs").id == again.id
    assert sum(map(shelf.files, THREE)) == 2
    assert sum(shelf.state_of(BlockIndex).used.values()) == 2 * BLOCK
    shelf.check()


def test_put_and_removal_of_one_name_at_a_time_leave_nothing(shelf: Shelf) -> None:
    made = shelf.put("logs", 8)
    assert shelf.has_open("copy_block")
    shelf.change("remove", made.id)
    assert is_refused(shelf.change("pin", made.id), "removing")
    shelf.work()
    assert not len(shelf.tables.datasets)
    assert not len(shelf.tables.blocks)
    assert not sum(map(shelf.files, THREE))
    assert not any(shelf.state_of(BlockIndex).used.values())


def test_a_put_goes_on_after_a_restart(shelf: Shelf) -> None:
    shelf.put("logs", 30)
    for effect in [e for e in shelf.tables.effects.values() if e.kind == "copy_block"][:3]:
        shelf.end(effect, shelf.perform(effect))
    shelf.restart()
    for name in THREE:
        shelf.connect_again(name)
        shelf.listed(name)
    shelf.work()
    assert shelf.dataset("logs").state == "ready"
    assert all(len(nodes) == 2 for nodes in shelf.nodes_of("logs"))
    assert sum(map(shelf.files, THREE)) == 60
    shelf.check()


def test_uneven_blocks_lie_where_their_ends_say_and_stay_so(shelf: Shelf) -> None:
    ends = (BLOCK - 5, 2 * BLOCK - 9, 5 * BLOCK, 5 * BLOCK + 3)
    files = (
        DatasetFile("a", BLOCK + 1, 1),
        DatasetFile("b", ends[-1], 1, ends=ends),
        DatasetFile("c", 7, 1),
    )
    shelf.put("logs", files=files, split="lines")
    shelf.work()
    cuts = [(block.file, block.offset, block.length) for block in shelf.blocks("logs")]
    pieces = [(1, a, b - a) for a, b in pairwise((0, *ends))]
    assert cuts == [(0, 0, BLOCK), (0, BLOCK, 1), *pieces, (2, 0, 7)]
    spec = shelf.dataset("logs").spec
    assert (spec.blocks, spec.longest_bytes) == (7, 3 * BLOCK + 9)
    # content is compared once it was whole, so that its files may have been touched
    touched = tuple(replace(file, mtime_ns=2, ends=file.ends[:-1]) for file in files)
    assert shelf.put("logs", files=touched, split="lines").id == shelf.dataset("logs").id
    assert [file.ends for file in shelf.dataset("logs").spec.files] == [(), ends, ()]
    assert is_refused(shelf.put("logs", files=files), "name_taken"), "it is split by lines"
    shelf.check()


def test_a_put_under_way_is_not_cut_anew(shelf: Shelf) -> None:
    files = (DatasetFile("", 2 * BLOCK, 1, ends=(BLOCK - 5, 2 * BLOCK)),)
    shelf.put("logs", files=files, split="lines")
    other = (replace(files[0], mtime_ns=2, ends=(BLOCK - 6, 2 * BLOCK)),)
    assert is_refused(shelf.put("logs", files=other, split="lines"), "input_changed")
    assert shelf.put("logs", files=files, split="lines").id == shelf.dataset("logs").id


def test_uneven_blocks_that_no_tier_has_room_for_as_a_whole_are_refused() -> None:
    shelf = Shelf(*(with_tiers(name, "ssd", mib=11) for name in THREE))
    ends = tuple(range(BLOCK - 7, 8 * BLOCK - 56, BLOCK - 7))  # of which a tier has room for two
    files = (DatasetFile("", ends[-1], 1, ends=ends),)
    told = shelf.put("logs", replicas=1, files=files, split="lines")
    assert is_refused(told, "no_room")
    assert "7 blocks" in told.detail
    files = (DatasetFile("", ends[5], 1, ends=ends[:6]),)
    assert shelf.put("logs", replicas=1, files=files, split="lines").state == "putting"


def test_a_dry_put_tells_of_files_that_changed_before_they_are_sent(shelf: Shelf) -> None:
    shelf.put("logs", 5)
    for effect in [e for e in shelf.tables.effects.values() if e.kind == "copy_block"][:3]:
        shelf.end(effect, shelf.perform(effect))
    spec = shelf.dataset("logs").spec

    def dry(mtime_ns: int) -> Any:
        files = tuple(replace(file, mtime_ns=mtime_ns) for file in spec.files)
        sent = replace(spec, root="", files=files)
        words: dict[str, Any] = {"dataset": "plan", "spec": sent, "is_dry": True}
        return shelf._reply(shelf.say(PutDataset(at_us=0, request=f"dry {mtime_ns}", **words)))

    assert is_refused(dry(2), "input_changed")
    for same in (spec.files[0].mtime_ns, 0):  # 0: its time is that of its arrival
        assert dry(same).id == shelf.dataset("logs").id
    assert shelf.dataset("logs").spec == spec


def test_a_put_whose_file_changed_fails_and_goes_on_with_the_right_one(shelf: Shelf) -> None:
    shelf.put("logs", 5)
    shelf.failing["copy_block"] = Refused("input_changed", "/srv/logs was changed")
    shelf.work(20)
    found = shelf.dataset("logs")
    assert found.state == "failed"
    assert "was changed" in found.reason
    shelf.failing.clear()
    shelf.put("logs", 5)
    shelf.work()
    assert shelf.dataset("logs").state == "ready"


def test_a_tier_that_is_full_before_its_time_is_left_alone(shelf: Shelf) -> None:
    shelf.put("logs", 1, replicas=1)
    effect = shelf.open("copy_block")
    shelf.end(effect, Refused("tier_full", "12 KiB left"))
    shelf.work()
    (places,) = shelf.places("logs")
    assert places != [(effect.node, effect.path.removeprefix("/mnt/"))]
    assert "tier.trouble" in {event.type for event in shelf.public}


def test_a_copy_whose_end_is_not_known_is_made_again(shelf: Shelf) -> None:
    shelf.put("logs", 2)
    effect = next(e for e in shelf.tables.effects.values() if e.kind == "copy_block")
    shelf.perform(effect)
    shelf.end(effect, Unknown("no answer"))
    shelf.work()
    assert shelf.dataset("logs").state == "ready"
    shelf.check()
    assert sum(map(shelf.files, THREE)) == 4, "what it left is removed"


def test_memory_makes_room_by_least_recent_use(shelf: Shelf) -> None:
    small = Shelf(*(with_tiers(name, "memory", "ssd", mib=12) for name in THREE))
    small.put("logs", 4, replicas=1)
    small.work()
    here = [p[0][0] for p in small.places("logs")]
    for number in range(4):
        block = small.blocks("logs")[number]
        while not small.act(copies.cache, block, "a"):
            small.work()
            block = small.blocks("logs")[number]
        small.work()
        small.wait(1)
    cached = [("a", "memory") in places for places in small.places("logs")]
    assert cached == [False, True, True, True]
    assert [p[-1][0] for p in small.places("logs")] == here, "the others stay"
    small.check()


def test_neither_pinned_nor_last_copies_make_room(shelf: Shelf) -> None:
    small = Shelf(with_tiers("a", "memory", "ssd", mib=4), with_tiers("b", "ssd"))
    pinned = small.put("pinned", 1, replicas=1)
    small.put("other", 1, replicas=1)
    small.work()
    assert small.act(copies.cache, small.blocks("pinned")[0], "a")
    small.work()
    small.change("pin", pinned.id)
    other = small.blocks("other")[0]
    assert not small.act(copies.cache, other, "a")
    small.change("unpin", pinned.id)
    assert not small.act(copies.cache, other, "a"), "its file has to go first"
    small.work()
    assert small.act(copies.cache, small.blocks("other")[0], "a")
    alone = Shelf(with_tiers("a", "memory", "ssd", mib=4))
    alone.put("only", 1, replicas=1, tiers=(TierKind.MEMORY,))
    alone.work()
    assert alone.places("only") == [[("a", "memory")]]
    memory = alone.tables.nodes["a"].spec.tiers[0]
    assert not alone.act(tier_room.make_room, "a", memory, BLOCK)


def test_a_task_that_reads_a_block_keeps_it(shelf: Shelf) -> None:
    small = Shelf(with_tiers("a", "memory", "ssd", mib=8))
    small.put("logs", 2, replicas=1)
    small.work()
    for _ in range(2):
        for block in small.blocks("logs"):
            small.act(copies.cache, block, "a")
        small.work()
    first = small.blocks("logs")[0]

    small.store(replace(first, pins=("b-1/0",)))
    memory = small.tables.nodes["a"].spec.tiers[0]
    assert small.act(tier_room.make_room, "a", memory, BLOCK)
    small.work()
    assert [("a", "memory") in places for places in small.places("logs")] == [True, False]
    assert not small.act(tier_room.make_room, "a", memory, 2 * BLOCK)
