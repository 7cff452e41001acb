"""Tiers of nodes in the core: how fast they are, what lies there, whether it is right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.core.blocks import replicas, surveys, tiers
from tenure.core.blocks.block_records import mark_of
from tenure.core.state.block_index import BlockIndex
from tenure.model.dataset import Drop
from tenure.model.effects import CheckBlocks, Relist
from tenure.model.events import Tick
from tenure.model.outcome import Refused, Unknown
from tenure.model.units import US
from tests.unit.core.lifecycle.restores import backup, put_back
from tests.unit.core.shelf import FAST, Shelf, is_refused, with_tiers

THREE = ("a", "b", "c")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf(*(with_tiers(name, "memory", "ssd", "hdd") for name in THREE))


def test_speeds_are_measured_and_kept(shelf: Shelf) -> None:
    speeds = {m.key: m.bytes_per_s for m in shelf.tables.tiers.values()}
    assert speeds["a/ssd"] == 400 * 10**6
    shelf.put("logs", 1)
    shelf.work()
    block = shelf.blocks("logs")[0]
    assert shelf.read(replicas.offered, block)[0].bytes_per_s > 0
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
    shelf.state_of(BlockIndex).checks["a/ssd"] = gone | {block.key: None}
    shelf.read(tiers.next_chore, "a")
    shelf.wait(1)
    assert [e.sums for e in shelf.done if isinstance(e, CheckBlocks)] == [
        ((shelf.read(replicas.name_of, block), block.sha256),)
    ]
    assert not shelf.state_of(BlockIndex).checks["a/ssd"]


def test_a_restored_state_removes_nothing_that_is_the_last_copy_by_now() -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    shelf.put("logs", 1, replicas=1)
    shelf.work()
    (block,) = shelf.blocks("logs")
    ((held, _),) = shelf.places("logs")[0]
    other = "b" if held == "a" else "a"
    name = shelf.read(replicas.name_of, block)
    older = backup(shelf)  # the block was to go from the other node then
    older["tiers"][f"{other}/ssd"] = replace(
        older["tiers"][f"{other}/ssd"], drops=(Drop(name, block.length),)
    )
    # since then it has moved there
    shelf.disks[other, "/mnt/ssd"] = {name: shelf.disks[held, "/mnt/ssd"].pop(name)}
    put_back(shelf, older)
    shelf.answer_again("ab")
    assert name in shelf.disks[other, "/mnt/ssd"]
    assert shelf.nodes_of("logs") == [{other}]
    shelf.check()


def test_what_was_to_go_stays_where_it_is_the_last_copy_by_then() -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    shelf.put("logs", 1, replicas=2)
    shelf.work()
    (block,) = shelf.blocks("logs")
    shelf.act(surveys.give_up, block, "b", "ssd")  # its node has something else to do first
    shelf.lose("a")
    shelf.read(tiers.next_chore, "b")
    shelf.work_now()
    assert shelf.nodes_of("logs") == [{"b"}]
    assert not shelf.read(mark_of, "b", "ssd").drops
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
    folder = shelf.read(replicas.folder_of)
    for number in range(3 * surveys.MOST_ORPHANS):
        disk[f"{folder}/d-gone/{number:06}"] = ("", 1)
    shelf.act(tiers.survey_soon, "a")
    most = 0
    while shelf.tables.effects or shelf.state_of(BlockIndex).comparing:
        shelf.say(Tick(at_us=0), after_us=1)
        most = max(most, len(shelf.read(mark_of, "a", "ssd").drops))
        for effect in list(shelf.tables.effects.values()):
            shelf.end(effect, shelf.perform(effect))
    assert most <= surveys.MOST_ORPHANS + surveys.SLICE
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
