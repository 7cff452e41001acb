"""The kernels of this room as one bundle: plain functions, or the same compiled by numba.

numba is imported only inside ``compile_kernels``; see ``placement.kernels`` for how.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenure.locality import (
    ahead,
    costs,
    heap,
    levelling,
    matching,
    prefetch,
    prefetching,
    pruning,
    schedule,
)
from tenure.locality.arrays import PREFERS, Places, Wants
from tenure.locality.levelling import Level
from tenure.locality.prefetch import Blocks, Devices, Timing, Work
from tenure.locality.prefetching import Prefetch
from tenure.locality.schedule import Matching
from tenure.locality.scores import SCORE, Rates
from tenure.model.placing import Ints
from tenure.placement.kernels import fingerprint, rebound


class Kernels(NamedTuple):
    """What is worth compiling, under the names of the plain functions."""

    schedule: Callable[[Places, Wants, Rates], Matching]
    match_now: Callable[[Places, Wants, Ints, Ints], tuple[Ints, Ints]]
    cache_times: Callable[[Blocks, Devices, Ints, int], Ints]
    run_us: Callable[[Work, Timing, Ints, int, Ints], int]
    select: Callable[[Blocks, Devices, Ints, int], Ints]
    level: Callable[[Blocks, Devices, Level], Ints]
    find_prefetch: Callable[[Blocks, Devices, Work, Timing, tuple[Ints, bool]], Prefetch]


PLAIN = Kernels(
    schedule.schedule,
    ahead.match_now,
    prefetch.cache_times,
    prefetch.run_us,
    prefetching.select,
    levelling.level,
    prefetching.find_prefetch,
)

#: Every kernel; each calls only kernels above it, by the name it is defined under.
LEAVES_FIRST: tuple[Callable[..., Any], ...] = (
    *heap.KERNELS,
    *costs.KERNELS,
    *pruning.KERNELS,
    *matching.KERNELS,
    *schedule.KERNELS,
    *ahead.KERNELS,
    *prefetch.KERNELS,
    *prefetching.KERNELS,
    *levelling.KERNELS,
)


def compile_kernels(cache: str = "") -> Kernels | None:
    """Return the kernels, None where numba is not installed; the first call of each compiles it.

    ``cache`` is a directory that keeps the machine code, so that a later process only loads it.
    """
    made = compile_rows(LEAVES_FIRST, Kernels._fields, cache)
    return Kernels(*made) if made is not None else None


def compile_rows(
    rows: Sequence[Callable[..., Any]], outer: Sequence[str], cache: str = ""
) -> list[Callable[..., Any]] | None:
    """Return those of ``rows`` that are named ``outer``, as ``compile_kernels`` does.

    ``rows`` are in the order of ``LEAVES_FIRST``; only ``outer`` ones are called by Python.
    """
    try:
        import numba
    except ImportError:
        return None
    from tenure.placement import linking

    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = f"{cache}/{name_of_code(rows)}" if cache else before
    known: dict[str, Any] = {}
    try:
        for kernel in rows:
            is_outer = kernel.__name__ in outer
            inner = linking.inner(is_inlined=kernel in INLINED)
            # one that both Python and kernels call is made twice
            bound = rebound(kernel, known)
            known[kernel.__name__] = inner(bound)
            if is_outer:
                known["outer." + kernel.__name__] = linking.outer(is_kept=bool(cache))(
                    rebound(kernel, known)
                )
    finally:
        config.CACHE_DIR = before
    return [known["outer." + name] for name in outer]


def warm(kernels: Kernels) -> None:
    """Call those that the daemon asks once, so that none compiles later."""
    one, none = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    first = np.array([0, 1], dtype=np.int64)
    places, rates = Places(one, none, none, none), Rates(2, 4)
    wants = Wants(first, none, one, one, none + PREFERS, one * SCORE)
    kernels.schedule(places, wants, rates)
    kernels.match_now(places, wants, one, one)
    blocks, devices = Blocks(one, first, none, none, none), Devices(none, one * 2, one)
    work = Work(one, one, one, one, none, one, 1)
    source = kernels.select(blocks, devices, one, 1)
    kernels.level(blocks, devices, Level(one, none, one))
    kernels.cache_times(blocks, devices, source, 1)
    kernels.find_prefetch(blocks, devices, work, Timing(), (one, True))


def name_of_code(rows: Sequence[Callable[..., Any]] = LEAVES_FIRST) -> str:
    """Return a name for the code of the kernels as it is, and for what is put into what."""
    return fingerprint((*rows, *(kernel for kernel in rows if kernel in INLINED)))


#: Put into their callers: a call hands over some fifty arrays, and a match makes ten thousand.
INLINED = frozenset(
    (
        heap.is_before,
        costs.weighed,
        matching.free_member,
        matching.label,
        matching.settle,
        matching.take_cheapest,
        matching.relax,
        matching.scan,
        matching.explore,
        ahead.priced,
    )
)
