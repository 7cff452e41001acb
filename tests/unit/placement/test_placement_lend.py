"""Lent arrays: the same numbers, and nobody frees or keeps them."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from tenure.placement.arrays import Fleet, lend, lent
from tenure.placement.compiling import lender


def test_uncompiled_they_are_the_arrays_themselves() -> None:
    numbers, flags = np.arange(3), np.ones(3, dtype=np.bool_)
    assert lend(numbers) is numbers
    fleet = Fleet(*(numbers,) * 6, flags, flags, *(numbers,) * 3)
    assert all(a is b for a, b in zip(lent(fleet), fleet, strict=True))


def test_compiled_they_are_neither_freed_nor_kept() -> None:
    numba: Any = importlib.import_module("numba")
    runtime: Any = importlib.import_module("numba.core.runtime.nrt")
    borrowed: Any = lender()

    @numba.njit  # type: ignore[untyped-decorator, unused-ignore]
    def part(array: Any) -> Any:
        array = borrowed(array)
        rest = array[1:]
        return rest.sum() - rest[0]

    @numba.njit  # type: ignore[untyped-decorator, unused-ignore]
    def total(outer: Any, turns: int) -> Any:
        found = 0
        for turn in range(turns):
            own = np.arange(turn, turn + 5)
            found += part(own) + part(outer) + own[0]
        return found

    outer = np.arange(100)
    expected = sum(4 * turn + 9 for turn in range(50)) + 50 * sum(range(2, 100))
    assert total(outer, 50) == expected
    runtime._nrt.memsys_enable_stats()
    try:
        before = runtime.rtsys.get_allocation_stats()
        assert total(outer, 50) == expected
        after = runtime.rtsys.get_allocation_stats()
    finally:
        runtime._nrt.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free >= 50
    assert outer.sum() == 4950
