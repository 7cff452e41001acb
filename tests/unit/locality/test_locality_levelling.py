"""All of a dataset into memory: as much as can be, and level, against all ways of doing so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.locality.kernels import PLAIN, compile_kernels
from tenure.locality.levelling import Level, level
from tenure.locality.prefetch import NOT_COPIED
from tenure.model.units import MIB
from tenure.simulation.sla.loops import kept_kernels
from tests.unit.locality.test_locality_prefetch import blocks_of, disks, ints

COMPILED = compile_kernels(kept_kernels())


def memory(*room: int, lying: Sequence[int] = (), worth: Sequence[int] = ()) -> Level:
    """Return the memory of nodes with so many MiB of room."""
    return Level(
        ints(*room) * MIB,
        ints(*lying or [0] * len(room)) * MIB,
        ints(*worth or [1] * len(room)),
    )


def sources(rows: Sequence[Sequence[int]], room: Level, held: Sequence[int] = ()) -> list[int]:
    blocks = blocks_of([(1, on) for on in rows], held)
    found: list[int] = level(blocks, disks(len(room.room)), room).tolist()
    return found


def test_what_was_put_elsewhere_makes_room_for_a_block_with_fewer_copies() -> None:
    assert sources([[0, 1], [0, 2], [0]], memory(1, 1, 1)) == [1, 2, 0]


def test_a_block_goes_where_less_of_its_dataset_lies_for_what_nodes_are_worth() -> None:
    assert sources([[0, 1]], memory(9, 9, lying=(3, 2))) == [1]
    assert sources([[0, 1]], memory(9, 9, lying=(3, 2), worth=(4, 1))) == [0]
    assert Counter(sources([[0, 1]] * 8, memory(9, 9, worth=(3, 1)))) == {0: 6, 1: 2}


def test_blocks_in_memory_and_those_without_room_stay_out() -> None:
    found = sources([[0], [0], [0]], memory(1), held=[0])
    assert found == [NOT_COPIED, 0, NOT_COPIED]


def test_of_a_nodes_copies_the_slowest_is_read() -> None:
    devices = disks(2, per_node=2)._replace(score=ints(8000, 20_000))
    assert level(blocks_of([(1, [0, 1])]), devices, memory(9)).tolist() == [1]


def test_a_longer_block_does_not_take_room_that_a_short_one_leaves() -> None:
    blocks = blocks_of([(1, [0, 1]), (4, [0])])
    assert level(blocks, disks(2), memory(4, 1)).tolist() == [1, 0]
    assert level(blocks, disks(2), memory(3, 1)).tolist() == [0, NOT_COPIED]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_as_many_as_can_be_and_no_node_with_more_than_needed(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 4))
    nodes = st.lists(st.integers(0, n - 1), min_size=1, max_size=3, unique=True)
    rows = data.draw(st.lists(nodes, max_size=6))
    room = data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    found = sources(rows, memory(*room))
    ways = [
        Counter(at for at in way if at != NOT_COPIED)
        for way in product(*([NOT_COPIED, *row] for row in rows))
    ]
    fits = [way for way in ways if all(way[k] <= room[k] for k in way)]
    most = max(way.total() for way in fits)
    least = min(max(way.values(), default=0) for way in fits if way.total() == most)
    ours = Counter(at for at in found if at != NOT_COPIED)
    assert all(at in (NOT_COPIED, *row) for at, row in zip(found, rows, strict=True))
    assert all(ours[k] <= room[k] for k in ours)
    assert (ours.total(), max(ours.values(), default=0)) == (most, least)


@pytest.mark.computes
@pytest.mark.timeout(1800)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**16), st.integers(1, 9))
def test_compiled_and_plain_answer_the_same(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        (int(rng.integers(1, 4)), rng.permutation(n)[: rng.integers(1, 4)].tolist())
        for _ in range(int(rng.integers(0, 30)))
    ]
    given_ = blocks_of(rows), disks(n), memory(*rng.integers(0, 12, n).tolist())
    plain, compiled = (kernels.level(*given_) for kernels in (PLAIN, COMPILED))
    assert plain.tolist() == compiled.tolist()
