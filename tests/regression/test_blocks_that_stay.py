"""Copies of blocks are not given up with a name, a fault, a record of an older day, or a rush."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.core.blocks import replicas
from tenure.core.blocks.block_records import (
    mark_of,
    without_replica,
)
from tenure.core.datasets.reads import store_on
from tenure.core.state.block_index import BlockIndex
from tenure.daemon.answers.datasets import holdings
from tenure.model.dataset import Block, DatasetFile, DatasetState, Drop, Replica, ReplicaState
from tenure.model.effects import CheckBlocks, CopyBlock, SurveyTiers
from tenure.model.events import Tick
from tenure.model.outcome import Refused
from tenure.model.tier import TierKind, TierSpec
from tenure.model.units import MIB
from tests.unit.core.bench import node
from tests.unit.core.shelf import BLOCK, Shelf, is_refused, with_tiers

FAST = TierSpec("fast", TierKind.SSD, "/mnt/ssd", 400 * MIB)


def test_tiers_of_one_directory_and_another_name_keep_their_blocks() -> None:
    shelf = Shelf(with_tiers("a"), with_tiers("b"))
    shelf.put("logs", 3, replicas=2)
    shelf.put("once", 3, replicas=1)
    shelf.work()
    before = sum(isinstance(effect, CopyBlock) for effect in shelf.done)
    shelf.configure(node("a", tiers=(FAST,)), node("b", tiers=(FAST,)))
    shelf.work()
    shelf.wait(60)
    assert shelf.places("logs") == [[("a", "fast"), ("b", "fast")]] * 3
    assert all(shelf.places("once"))
    assert sum(isinstance(effect, CopyBlock) for effect in shelf.done) == before
    assert shelf.files("a") + shelf.files("b") == 9
    shelf.check()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_an_older_state_knows_elsewhere_is_found_where_it_lies(*, is_restarted: bool) -> None:
    shelf = Shelf(with_tiers("a"), with_tiers("b"))
    shelf.put("logs", 2, replicas=1)
    shelf.work()
    a, b = (shelf.disks.setdefault((name, "/mnt/ssd"), {}) for name in ("a", "b"))
    swapped = {name: row for name, row in a.items() if not name.endswith(".tier")}
    back = {name: row for name, row in b.items() if not name.endswith(".tier")}
    for here, gone, come in ((a, swapped, back), (b, back, swapped)):
        for name in gone:
            del here[name]
        here.update(come)
    if is_restarted:
        shelf.restart()
    else:
        shelf.lose("a")
        shelf.lose("b")
    for name in ("a", "b"):
        shelf.find(name)
    shelf.wait(60)
    assert all(shelf.places("logs"))
    assert not shelf.dataset("logs").reason
    shelf.check()


def test_a_file_that_is_found_and_not_what_was_put_is_not_offered() -> None:
    shelf = Shelf(with_tiers("a"), with_tiers("b"))
    shelf.put("logs", 1, replicas=1)
    shelf.work()
    [[(where, _)]] = shelf.places("logs")
    disk = shelf.disks[where, "/mnt/ssd"]
    name = next(name for name in disk if not name.endswith(".tier"))
    del disk[name]
    other = "b" if where == "a" else "a"
    shelf.disks.setdefault((other, "/mnt/ssd"), {})[name] = ("of something else", BLOCK)
    for one in ("a", "b"):
        shelf.lose(one)
        shelf.find(one)
    shelf.wait(60)
    assert shelf.places("logs") == [[]]
    assert "put the same files again" in shelf.dataset("logs").reason


def test_a_copy_on_a_disk_that_is_gone_lets_no_node_go_off() -> None:
    shelf = Shelf(with_tiers("a"), with_tiers("b"))
    shelf.put("logs", 2, replicas=2)
    shelf.work()
    assert not shelf.read(replicas.is_sole, "a")
    shelf.store(replace(shelf.read(mark_of, "b", "ssd"), fault="/mnt/ssd is no mounted disk"))
    assert shelf.read(replicas.is_sole, "a")


def test_a_block_is_not_brought_to_where_its_file_is_still_being_removed() -> None:
    shelf = Shelf(with_tiers("a"), with_tiers("b"))
    shelf.put("logs", 1, replicas=1)
    shelf.work()
    block = shelf.blocks("logs")[0]
    [[(where, _)]] = shelf.places("logs")
    there = shelf.tables.nodes["b" if where == "a" else "a"]
    assert shelf.read(store_on, there, block) is not None
    mark = shelf.read(mark_of, there.name, "ssd")
    shelf.store(replace(mark, drops=(Drop(shelf.read(replicas.name_of, block), block.length),)))
    assert shelf.read(store_on, there, block) is None
    assert shelf.read(store_on, shelf.tables.nodes[where], block) is None, "a copy is there"


def test_blocks_that_cannot_be_read_hold_no_other_put_up() -> None:
    shelf = Shelf(with_tiers("a", mib=4000), with_tiers("b", mib=4000))
    shelf.put("logs", 150, replicas=1)
    shelf.work()
    shelf.lose("a")
    shelf.wait(120)
    assert len(shelf.state_of(BlockIndex).starved) < 100, "only the half of them was there"
    for block in shelf.blocks("logs"):
        shelf.store(without_replica(block, "b", "ssd"))
    shelf.wait(30)
    assert len(shelf.state_of(BlockIndex).starved) >= 100
    shelf.put("new", 5, replicas=1)
    shelf.wait(30)
    assert shelf.dataset("new").state == "ready"


def test_old_and_new_content_of_a_file_are_not_mixed() -> None:
    shelf = Shelf(with_tiers("a"), with_tiers("b"))
    files = DatasetFile("a", 3 * BLOCK, 1), DatasetFile("b", 3 * BLOCK, 1)
    shelf.put("logs", files=files)
    copied = next(e for e in shelf.tables.effects.values() if isinstance(e, CopyBlock))
    shelf.end(copied, shelf.perform(copied))
    shelf.failing["copy_block"] = Refused("input_changed", "/srv/logs/a was changed")
    shelf.work(20)
    shelf.failing.clear()
    assert shelf.dataset("logs").state == "failed"
    first = DatasetFile("a", 3 * BLOCK, 2)
    assert is_refused(shelf.put("logs", files=(first, files[1])), "input_changed")
    second = DatasetFile("b", 3 * BLOCK, 2)
    assert shelf.put("logs", files=(files[0], second)).state == "putting", "none of it was there"
    shelf.work()
    assert shelf.dataset("logs").state == "ready"
    assert shelf.put("logs", files=(first, second)).state == "ready", "each would be compared"


def test_many_blocks_are_shown_and_checked_a_few_at_a_time() -> None:
    shelf = Shelf(with_tiers("a", mib=20_000))
    shelf.put("logs", 2500, replicas=1)
    made = shelf.store(replace(shelf.dataset("logs"), state=DatasetState.READY, made=2500))
    disk = shelf.disks.setdefault(("a", "/mnt/ssd"), {})
    for number in range(2500):
        disk[f"{shelf.read(replicas.folder_of)}/{made.id}/{number:06d}"] = ("sha", BLOCK)
        copy = Replica("a", "ssd", ReplicaState.PRESENT)
        shelf.store(Block(made.id, number, 0, number * BLOCK, BLOCK, "sha", (copy,)))
    work = shelf.read(holdings, made)
    turns = 0
    try:
        while True:
            next(work)
            turns += 1
    except StopIteration as end:
        [row], unreadable = end.value
    assert (row["blocks"], row["bytes"], unreadable) == (2500, 2500 * BLOCK, 0)
    assert turns > 30
    shelf.change("verify", made.id)
    assert len(shelf.state_of(BlockIndex).checks["a/ssd"]) <= 500
    shelf.wait(1)
    checked = [e for e in shelf.done if isinstance(e, CheckBlocks)]
    assert {name for e in checked for name, _ in e.sums} >= {
        shelf.read(replicas.name_of, block) for block in shelf.blocks("logs")
    }


def test_a_wrong_copy_is_written_anew_in_its_own_place() -> None:
    shelf = Shelf(with_tiers("a"))
    shelf.put("logs", 1, replicas=1)
    shelf.work()
    disk = shelf.disks["a", "/mnt/ssd"]
    name = next(name for name in disk if not name.endswith(".tier"))
    disk[name] = ("rotten", BLOCK)
    shelf.change("verify", shelf.dataset("logs").id)
    shelf.work()
    assert shelf.places("logs") == [[]]
    shelf.put("logs", 1, replicas=1)
    shelf.work()
    assert shelf.places("logs") == [[("a", "ssd")]]
    shelf.check()


def test_copies_that_are_found_are_compared_before_others_are_made() -> None:
    shelf = Shelf(with_tiers("a"), with_tiers("b"), with_tiers("c"))
    shelf.put("logs", 4, replicas=2)
    shelf.work()
    before = sum(isinstance(effect, CopyBlock) for effect in shelf.done)
    shelf.configure(*(node(name, tiers=(FAST,)) for name in "abc"))
    shelf.away.add("c")  # what lies there is looked at late, and is not made anew meanwhile
    shelf.work()
    shelf.away.discard("c")
    shelf.work()
    shelf.wait(60)
    assert all(len(nodes) == 2 for nodes in shelf.nodes_of("logs"))
    assert sum(isinstance(effect, CopyBlock) for effect in shelf.done) == before
    shelf.check()


def test_a_found_copy_that_is_wrong_is_made_good() -> None:
    shelf = Shelf(with_tiers("a"), with_tiers("b"))
    shelf.put("logs", 2, replicas=2)
    shelf.work()
    disk = shelf.disks["b", "/mnt/ssd"]
    name = next(name for name in disk if not name.endswith(".tier"))
    disk[name] = ("of something else", BLOCK)
    shelf.configure(with_tiers("a"), node("b", tiers=(FAST,)))
    shelf.work()
    shelf.wait(60)
    assert all(len(nodes) == 2 for nodes in shelf.nodes_of("logs"))
    assert disk[name][0].startswith("sha of")
    shelf.check()


def test_a_look_at_many_files_is_compared_a_few_at_a_time() -> None:
    shelf = Shelf(with_tiers("a", mib=20_000), with_tiers("b", mib=20_000))
    shelf.put("logs", 1200, replicas=1)
    made = shelf.store(replace(shelf.dataset("logs"), state=DatasetState.READY, made=1200))
    disk = shelf.disks.setdefault(("a", "/mnt/ssd"), {})
    disk[f"{shelf.read(replicas.folder_of)}/.tier"] = ("", 0)
    for number in range(1200):
        disk[f"{shelf.read(replicas.folder_of)}/{made.id}/{number:06d}"] = ("sha", BLOCK)
        copy = Replica("a", "ssd", ReplicaState.PRESENT)
        shelf.store(Block(made.id, number, 0, number * BLOCK, BLOCK, "sha", (copy,)))
    gone = f"{shelf.read(replicas.folder_of)}/{made.id}/{700:06d}"
    stray = f"{shelf.read(replicas.folder_of)}/d-unknown/{1:06d}"
    del disk[gone]
    disk[stray] = ("sha", BLOCK)
    shelf.lose("a")
    shelf.away.discard("a")
    shelf.connect_again("a")
    shelf.listed("a")
    survey = next(e for e in shelf.tables.effects.values() if isinstance(e, SurveyTiers))
    shelf.end(survey, shelf.perform(survey))
    turns = 0
    while shelf.state_of(BlockIndex).comparing:
        assert shelf.places("logs")[0] == [], "not offered before all was compared"
        shelf.say(Tick(at_us=0), after_us=1)
        turns += 1
    assert 5 <= turns <= 20
    assert [n for n, places in enumerate(shelf.places("logs")) if not places] == [700]
    shelf.work()
    assert stray not in disk
    shelf.check()


def test_a_look_whose_node_goes_meanwhile_is_no_look() -> None:
    shelf = Shelf(with_tiers("a", mib=20_000))
    shelf.put("logs", 600, replicas=1)
    shelf.work(3600)
    assert shelf.dataset("logs").state == "ready"
    for name in [name for name in shelf.disks["a", "/mnt/ssd"] if name.endswith("5")]:
        del shelf.disks["a", "/mnt/ssd"][name]
    shelf.lose("a")
    shelf.find("a")
    shelf.lose("a")
    shelf.find("a")
    assert not shelf.state_of(BlockIndex).comparing
    assert [bool(places) for places in shelf.places("logs")] == [n % 10 != 5 for n in range(600)]
    shelf.check()


def test_a_put_ends_where_its_last_copies_are_found() -> None:
    shelf = Shelf(with_tiers("a"), with_tiers("b"))
    shelf.failing["copy_block"] = Refused("engine_error", "no")
    shelf.put("logs", 1, replicas=2)
    shelf.work(5)
    shelf.failing.clear()
    shelf.away.add("b")
    shelf.work(60)
    block = shelf.blocks("logs")[0]
    assert shelf.places("logs") == [[("a", "ssd")]]
    shelf.lose("b")
    disk = shelf.disks.setdefault(("b", "/mnt/ssd"), {})
    disk[shelf.read(replicas.name_of, block)] = (block.sha256, BLOCK)
    before = sum(isinstance(effect, CopyBlock) for effect in shelf.done)
    shelf.find("b")
    assert shelf.dataset("logs").state == "ready"
    assert sum(isinstance(effect, CopyBlock) for effect in shelf.done) == before
