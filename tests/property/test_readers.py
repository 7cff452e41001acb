"""Who reads what: blocks of a job are shared out as cheaply as can be among its executors."""

from __future__ import annotations

from collections import Counter
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core.blocks import replicas
from tenure.core.datasets import copies, reads
from tenure.model.tier import TierKind
from tests.unit.core.jobreaders import WIDE, Readers
from tests.unit.core.shelf import with_tiers

KINDS = ("memory", "ssd", "hdd")
RACKS = st.sampled_from(("", "r1", "r2"))


def made_of(racks: list[str]) -> Readers:
    """Return nodes with all tiers, each in a rack."""
    specs = [with_tiers(f"n{i}", *KINDS, rack=rack) for i, rack in enumerate(racks)]
    return Readers(*specs)


def costs(made: Readers) -> list[dict[str, int]]:
    """Return what each block costs on each node now."""
    data = made.given("data")
    seats = made.read(reads.seats_of, lambda node: 1)
    found = []
    for block in made.blocks("data"):
        here = made.read(replicas.offered, block)
        read = made.read(reads.read_of, data, block, here, block.number)
        found.append(dict(made.localizer.choices(seats, read, 99)))
    return found


def cheapest(table: list[dict[str, int]], slots: list[str]) -> int:
    """Return the least cost of giving each slot as many blocks, over all ways."""
    share = len(table) // len(slots)
    best = 1 << 60
    for way in product(range(len(slots)), repeat=len(table)):
        if all(count == share for count in Counter(way).values()) and len(set(way)) == len(slots):
            best = min(best, sum(row[slots[i]] for row, i in zip(table, way, strict=True)))
    return best


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_blocks_are_shared_out_as_cheaply_as_can_be(data: st.DataObject) -> None:
    made = made_of(data.draw(st.lists(RACKS, min_size=2, max_size=4)))
    crew = data.draw(st.integers(1, min(3, len(made.tables.nodes))))
    blocks = crew * data.draw(st.integers(1, 6 // crew))
    kinds = data.draw(st.sampled_from(((), (TierKind.SSD,), (TierKind.HDD, TierKind.SSD))))
    made.put("data", blocks, replicas=data.draw(st.integers(1, 2)), tiers=kinds)
    made.work()
    for block in data.draw(st.sets(st.integers(0, blocks - 1))):
        here = made.blocks("data")[block]
        made.act(copies.cache, here, here.replicas[-1].node)
        made.work()
    table = costs(made)
    made.over("data", crew, request=WIDE)
    executors = made.crew()
    assert sorted(n for e in executors for n in e.blocks) == list(range(blocks))
    assert {len(e.blocks) for e in executors} == {blocks // crew}
    assert len({e.node for e in executors}) == crew
    found = sum(table[number][e.node] for e in executors for number in e.blocks)
    assert found == cheapest(table, [e.node for e in executors])
    made.work()
    assert all(len(e.readings) == len(e.blocks) for e in made.crew()), "all was brought"
    made.check()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(0, 9), st.integers(1, 2))
def test_shares_differ_by_one_at_most(crew: int, more: int, count: int) -> None:
    made = made_of(["", "", ""])
    made.put("data", crew + more, replicas=count)
    made.work()
    made.over("data", crew)
    made.work()
    executors = made.crew()
    assert sorted(n for e in executors for n in e.blocks) == list(range(crew + more))
    assert all(list(e.blocks) == sorted(e.blocks) for e in executors)
    sizes = [len(e.blocks) for e in executors]
    assert max(sizes) - min(sizes) <= 1
    held = made.places("data")
    for executor in executors:
        for number, one in zip(executor.blocks, executor.readings, strict=True):
            assert (executor.node, one.tier) in held[number]
