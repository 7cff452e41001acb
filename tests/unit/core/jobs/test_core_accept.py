"""Disks of tiers that were replaced by empty ones, and are accepted by an operator's word."""

from __future__ import annotations

from typing import Any

from tenure.core.blocks.block_records import mark_of
from tenure.model.errors import Problem
from tenure.model.events import AcceptTier
from tests.unit.core.shelf import Shelf, is_refused, with_tiers


def accept(shelf: Shelf, node: str, tier: str, *, gives_up: bool = False) -> Any:
    shelf._requests += 1
    request = f"r{shelf._requests}"
    asked = AcceptTier(at_us=0, request=request, node=node, tier=tier, gives_up=gives_up)
    return shelf._reply(shelf.say(asked))


def test_a_disk_that_was_replaced_is_accepted_and_its_blocks_are_copied_anew() -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    shelf.put("logs", 3, replicas=2)
    shelf.work()
    assert is_refused(accept(shelf, "a", "ssd"), "no_fault")
    assert is_refused(accept(shelf, "a", "tape"), "not_found")
    shelf.disks["a", "/mnt/ssd"] = {}
    shelf.lose("a")
    shelf.find("a")
    assert shelf.read(mark_of, "a", "ssd").fault
    assert shelf.nodes_of("logs") == [{"b"}] * 3
    assert not isinstance(accept(shelf, "a", "ssd"), Problem)
    shelf.work()
    assert not shelf.read(mark_of, "a", "ssd").fault
    assert not shelf.read(mark_of, "a", "ssd").is_accepted
    assert shelf.nodes_of("logs") == [{"a", "b"}] * 3
    shelf.check()


def test_a_disk_that_was_replaced_since_the_last_look_is_looked_at_by_word() -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    shelf.put("logs", 3, replicas=2)
    shelf.work()
    shelf.disks["a", "/mnt/ssd"] = {}
    refused = accept(shelf, "a", "ssd")
    assert is_refused(refused, "no_fault")
    assert "ask again" in refused.detail
    shelf.work()
    assert shelf.read(mark_of, "a", "ssd").fault
    assert not isinstance(accept(shelf, "a", "ssd"), Problem)
    shelf.work()
    assert shelf.nodes_of("logs") == [{"a", "b"}] * 3
    shelf.check()


def test_a_replaced_disk_with_the_last_copies_is_accepted_only_where_they_are_given_up() -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    shelf.put("logs", 2, replicas=1)
    shelf.work()
    lying = {node for places in shelf.nodes_of("logs") for node in places}
    node = sorted(lying)[0]
    mine = shelf.disks[node, "/mnt/ssd"]
    shelf.disks[node, "/mnt/ssd"] = {}
    shelf.lose(node)
    shelf.find(node)
    assert is_refused(accept(shelf, node, "ssd"), "last_copies")
    assert not shelf.read(mark_of, node, "ssd").is_accepted
    # the old disk is found again before anything was given up
    shelf.disks[node, "/mnt/ssd"] = mine
    shelf.wait(40)
    assert all(shelf.places("logs"))
    shelf.disks[node, "/mnt/ssd"] = {}
    shelf.lose(node)
    shelf.find(node)
    assert not isinstance(accept(shelf, node, "ssd", gives_up=True), Problem)
    shelf.work()
    shelf.wait(5)
    assert "put the same files again" in shelf.dataset("logs").reason
    assert not shelf.read(mark_of, node, "ssd").fault
    shelf.check()
