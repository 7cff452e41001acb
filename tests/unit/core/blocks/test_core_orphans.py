"""Blocks that a restored state does not know: kept, counted, told of; removed by word alone."""

from __future__ import annotations

from typing import Any

from tenure.core.blocks import replicas, surveys
from tenure.core.blocks.block_records import mark_of
from tenure.model.dataset import Orphan
from tenure.model.errors import Problem
from tenure.model.events import DiscardOrphans
from tenure.model.outcome import Refused
from tests.unit.core.lifecycle.restores import backup, put_back
from tests.unit.core.shelf import BLOCK, Shelf, is_refused, with_tiers


def look(shelf: Shelf) -> None:
    """Have the restored fleet answer, and all of its tiers looked at."""
    shelf.answer_again("ab")
    shelf.wait(30)


def discard(shelf: Shelf, key: str) -> Any:
    shelf._requests += 1
    command = DiscardOrphans(at_us=0, request=f"r{shelf._requests}", dataset=key)
    return shelf._reply(shelf.say(command))


def orphans(shelf: Shelf) -> dict[str, int]:
    """Return how many orphan blocks lie in all tiers, by dataset."""
    found: dict[str, int] = {}
    for mark in shelf.tables.tiers.values():
        for orphan in mark.strays:
            found[orphan.dataset] = found.get(orphan.dataset, 0) + orphan.blocks
    return found


def events(shelf: Shelf) -> list[Any]:
    return [event for event in shelf.public if event.type == "tier.strays"]


def restored(blocks: int = 3) -> tuple[Shelf, str]:
    """Return a fleet whose backup is older than a dataset of so many blocks, and the id of it."""
    shelf = Shelf(*(with_tiers(name, mib=40) for name in "ab"))
    shelf.put("old", 1)
    shelf.work()
    older = backup(shelf)
    made = shelf.put("new", blocks)
    shelf.work()
    assert shelf.dataset("new").state == "ready"
    put_back(shelf, older)
    look(shelf)
    return shelf, made.id


def test_what_was_put_since_the_backup_stays_and_takes_room() -> None:
    shelf, key = restored()
    assert orphans(shelf) == {key: 6}
    assert (shelf.files("a"), shelf.files("b")) == (4, 4)
    assert shelf.read(mark_of, "a", "ssd").strays == (Orphan(key, 3, 3 * BLOCK),)
    told = events(shelf)
    assert [event.data["blocks"] for event in told] == [3, 3]
    shelf.check()
    assert is_refused(shelf.put("more", 7), "no_room"), "6 of 10 blocks a node are free"
    shelf.wait(2 * 3600)
    assert orphans(shelf) == {key: 6}, "later looks find them again"
    assert len(events(shelf)) == len(told), "and tell nothing new"


def test_they_go_by_word_and_their_room_is_free_then() -> None:
    shelf, key = restored()
    assert is_refused(discard(shelf, "d-of-nobody"), "not_found")
    assert discard(shelf, key) == Orphan(key, 6, 6 * BLOCK)
    shelf.work()
    shelf.wait(5)
    assert not orphans(shelf)
    assert (shelf.files("a"), shelf.files("b")) == (1, 1), "what is known stays"
    assert all(shelf.places("old"))
    assert not isinstance(shelf.put("more", 9), Problem)
    shelf.check()


def test_blocks_of_a_put_that_the_backup_saw_half_are_kept_until_it_has_them() -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    shelf.away |= {"a", "b"}  # nothing ends until the backup was taken
    made = shelf.put("new", 3)
    older = backup(shelf)
    shelf.away.clear()
    shelf.work()
    assert shelf.dataset("new").state == "ready"
    files = {key: dict(disk) for key, disk in shelf.disks.items()}
    put_back(shelf, older)
    shelf.failing["copy_block"] = Refused("no_input", "there is no such file")
    look(shelf)
    assert shelf.dataset("new").state == "failed", "its file is gone meanwhile"
    for key, disk in files.items():
        assert shelf.disks[key].keys() >= disk.keys(), "its blocks are not"
    assert orphans(shelf) == {made.id: 6}
    assert is_refused(discard(shelf, made.id), "in_use")
    shelf.failing.clear()
    shelf.put("new", 3)  # the same file, found again
    shelf.work()
    shelf.wait(2 * 3600)
    assert shelf.dataset("new").state == "ready"
    assert not orphans(shelf)
    assert (shelf.files("a"), shelf.files("b")) == (3, 3)
    shelf.check()


def test_without_a_restore_what_nobody_knows_is_removed() -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    shelf.put("old", 1)
    shelf.work()
    name = f"{shelf.read(replicas.folder_of)}/d-of-nobody/000000"
    shelf.disks["a", "/mnt/ssd"][name] = ("x", BLOCK)
    shelf.wait(2 * 3600)
    assert name not in shelf.disks["a", "/mnt/ssd"]
    assert not orphans(shelf)


def test_many_files_of_copies_that_were_cut_hide_no_orphans() -> None:
    shelf, key = restored()
    disk = shelf.disks["a", "/mnt/ssd"]
    folder = shelf.read(replicas.folder_of)
    for number in range(3 * surveys.MOST_ORPHANS):
        disk[f"{folder}/d-gone/{number:06d}.7.part"] = ("", 1)
    shelf.wait(2 * 3600)
    shelf.wait(60)
    assert not [name for name in disk if name.endswith(".part")]
    assert orphans(shelf) == {key: 6}
    assert shelf.files("a") == 4


def test_what_comes_after_the_first_look_is_no_orphan() -> None:
    shelf, key = restored()
    folder = shelf.read(replicas.folder_of)
    late = f"{folder}/d-late/000000"
    shelf.disks["a", "/mnt/ssd"][late] = ("x", BLOCK)
    shelf.wait(2 * 3600)
    assert late not in shelf.disks["a", "/mnt/ssd"]
    assert orphans(shelf) == {key: 6}


def test_a_disk_that_comes_back_after_the_restore_has_its_orphans() -> None:
    shelf = Shelf(*(with_tiers(name, mib=40) for name in "ab"))
    shelf.put("old", 2)
    shelf.work()
    older = backup(shelf)
    made = shelf.put("new", 3)
    shelf.work()
    put_back(shelf, older)
    disk = shelf.disks["a", "/mnt/ssd"]
    shelf.disks["a", "/mnt/ssd"] = {}
    look(shelf)
    assert shelf.read(mark_of, "a", "ssd").fault
    assert orphans(shelf) == {made.id: 3}
    shelf.disks["a", "/mnt/ssd"] = disk
    shelf.wait(60)
    assert orphans(shelf) == {made.id: 6}
    shelf.check()
