"""Copies beyond those that a block is to have: removed once a lost node stays back."""

from __future__ import annotations

from dataclasses import replace

from tenure.core.datasets import copies as making
from tenure.core.state.block_index import BlockIndex
from tenure.core.state.prefetch_state import Prefetches
from tenure.model.tier import TierKind
from tests.unit.core.jobreaders import WIDE, library
from tests.unit.core.shelf import Shelf, with_tiers


def copies(shelf: Shelf) -> list[int]:
    return [len(places) for places in shelf.places("logs")]


def lost_and_found(shelf: Shelf, name: str = "a") -> None:
    """Have a node be gone until its blocks were copied elsewhere, and come back."""
    shelf.lose(name)
    shelf.wait(120)
    assert all(len(places) == 2 for places in shelf.places("logs"))
    shelf.find(name)


def with_lost_node(*names: str, **more: object) -> Shelf:
    shelf = Shelf(*(with_tiers(name, mib=200) for name in names))
    shelf.put("logs", 6, replicas=2, **more)
    shelf.work()
    return shelf


def test_a_node_that_comes_back_leaves_no_more_copies_than_were_asked_for() -> None:
    shelf = with_lost_node("a", "b", "c")
    lost_and_found(shelf)
    assert 3 in copies(shelf), "what came back may go again"
    shelf.wait(120)
    assert copies(shelf) == [2] * 6
    assert sum(shelf.files(name) for name in "abc") == 12
    assert not shelf.state_of(BlockIndex).surplus
    shelf.check()


def test_what_is_read_is_not_removed() -> None:
    shelf = with_lost_node("a", "b", "c")
    lost_and_found(shelf)
    many = next(
        b for b, places in zip(shelf.blocks("logs"), copies(shelf), strict=True) if places > 2
    )
    pinned = shelf.store(replace(many, pins=("b-1/0",)))
    shelf.wait(200)
    assert copies(shelf)[many.number] == 3
    shelf.store(replace(pinned, pins=()))
    shelf.wait(200)
    assert copies(shelf) == [2] * 6


def test_what_is_brought_to_be_read_is_not_removed_and_others_are() -> None:
    made = library("ssd", nodes="abc")
    made.put("logs", 6, replicas=2)
    made.work()
    made.submit("long", executors=3, request=WIDE)
    made.over("logs", 1, request=WIDE)
    assert made.job().state == "waiting"
    made.lose("a")
    made.wait(120)
    made.find("a")
    kept = next(b for b, n in zip(made.blocks("logs"), copies(made), strict=True) if n > 2)
    place = kept.replicas[0]
    made.state_of(Prefetches).brought[f"j/0@{kept.number}"] = (place.node, place.tier)
    made.wait(200)
    assert copies(made)[kept.number] == 3
    assert sorted(copies(made)) == [2] * 5 + [3], "the others are not waited for"
    made.state_of(Prefetches).brought.clear()
    made.wait(200)
    assert copies(made) == [2] * 6


def test_copies_that_come_back_while_others_are_away_stay() -> None:
    shelf = with_lost_node("a", "b", "c")
    lost_and_found(shelf)
    shelf.lose("b")
    shelf.wait(50)
    shelf.find("b")
    before = copies(shelf)
    assert min(before) >= 2
    shelf.lose("c")
    shelf.wait(30)
    assert min(copies(shelf)) >= 1
    shelf.wait(300)
    assert copies(shelf) == [2] * 6
    shelf.check()


def test_one_copy_is_never_left_alone_for_the_sake_of_room() -> None:
    shelf = Shelf(with_tiers("a"), with_tiers("b"))
    shelf.put("logs", 2, replicas=1)
    shelf.work()
    for block in shelf.blocks("logs"):
        [(where, _)] = shelf.places("logs")[block.number]
        other = "b" if where == "a" else "a"
        shelf.act(making.send, block, other, shelf.tables.nodes[other].spec.tiers[0])
    shelf.work()
    shelf.wait(300)
    assert copies(shelf) == [2, 2]


def test_a_copy_in_a_tier_that_nobody_asked_for_goes_first() -> None:
    shelf = Shelf(*(with_tiers(name, "ssd", "hdd") for name in "abc"))
    shelf.put("logs", 1, replicas=2, tiers=(TierKind.SSD,))
    shelf.work()
    block = shelf.blocks("logs")[0]
    (third,) = {"a", "b", "c"} - shelf.nodes_of("logs")[0]
    shelf.act(making.send, block, third, shelf.tables.nodes[third].spec.tiers[1])
    shelf.work()
    assert copies(shelf) == [3]
    shelf.wait(200)
    assert {tier for _, tier in shelf.places("logs")[0]} == {"ssd"}
    assert copies(shelf) == [2]


def test_racks_stay_apart() -> None:
    racks = {"a": "r1", "b": "r1", "c": "r2"}
    shelf = Shelf(*(with_tiers(name, rack=rack) for name, rack in racks.items()))
    shelf.put("logs", 8, replicas=2)
    shelf.work()
    lost_and_found(shelf, "c")
    many = [number for number, count in enumerate(copies(shelf)) if count == 3]
    assert len(many) > 2
    shelf.wait(200)
    assert copies(shelf) == [2] * 8
    assert all("c" in shelf.nodes_of("logs")[number] for number in many)


def test_a_second_copy_on_the_same_node_goes() -> None:
    """One that ended unknown was found while the next went to the other tier of its node."""
    shelf = Shelf(*(with_tiers(name, "ssd", "hdd") for name in "ab"))
    shelf.put("logs", 3, replicas=2)
    shelf.work()
    block = shelf.blocks("logs")[0]
    (node, there), *_ = shelf.places("logs")[0]
    other = next(t for t in shelf.tables.nodes[node].spec.tiers if t.name != there)
    shelf.act(making.send, block, node, other)
    shelf.work()
    assert copies(shelf) == [3, 2, 2]
    shelf.wait(200)
    assert copies(shelf) == [2, 2, 2]
    assert shelf.nodes_of("logs")[0] == {"a", "b"}
    assert sum(shelf.files(name) for name in "ab") == 6
    shelf.check()


def test_a_copy_in_memory_beside_one_for_good_stays() -> None:
    shelf = Shelf(*(with_tiers(name, "memory", "hdd") for name in "ab"))
    shelf.put("logs", 2, replicas=2)
    shelf.work()
    block = shelf.blocks("logs")[0]
    assert shelf.act(making.cache, block, "a")
    shelf.work()
    shelf.wait(300)
    assert copies(shelf) == [3, 2]
