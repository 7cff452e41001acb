"""The kernels of this room as one bundle: plain functions, or the same compiled by numba.

numba is imported only inside ``compile_kernels``; see ``placement.kernels`` for how.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tenure.locality import (
    ahead,
    allocation,
    contention,
    costs,
    greedy,
    heap,
    levelling,
    matching,
    paper,
    prefetch,
    prefetching,
    pruning,
    schedule,
)
from tenure.locality.allocation import Containers, Requests
from tenure.locality.arrays import PREFERS, Places, Wants
from tenure.locality.contention import Contention
from tenure.locality.greedy import Rule
from tenure.locality.levelling import Level
from tenure.locality.prefetch import Blocks, Devices, Timing, Work
from tenure.locality.prefetching import Prefetch
from tenure.locality.schedule import Matching
from tenure.locality.scores import SCORE, Rates
from tenure.model.placing import Ints
from tenure.placement.kernels import fingerprint, rebound


class Kernels(NamedTuple):
    """What is worth compiling, under the names of the plain functions."""

    schedule: Callable[[Places, Wants, Rates, int], Matching]
    schedule_contended: Callable[[Places, Wants, Rates, Contention], Matching]
    match_now: Callable[[Places, Wants, Ints, Ints], tuple[Ints, Ints]]
    fill_slots: Callable[[Places, Wants, Rule], Ints]
    requests_of: Callable[[Places, Wants], Requests]
    allocate: Callable[[Places, Requests, Rates, int], Containers]
    cache_times: Callable[[Blocks, Devices, Ints, int], Ints]
    run_us: Callable[[Work, Timing, Ints, int, Ints], int]
    select: Callable[[Blocks, Devices, Ints, int], Ints]
    level: Callable[[Blocks, Devices, Level], Ints]
    find_prefetch: Callable[[Blocks, Devices, Work, Timing, tuple[Ints, bool]], Prefetch]


PLAIN = Kernels(
    schedule.schedule,
    contention.schedule_contended,
    ahead.match_now,
    greedy.fill_slots,
    allocation.requests_of,
    allocation.allocate,
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
    *paper.KERNELS,
    *matching.KERNELS,
    *schedule.KERNELS,
    *contention.KERNELS,
    *ahead.KERNELS,
    *greedy.KERNELS,
    *allocation.KERNELS,
    *prefetch.KERNELS,
    *prefetching.KERNELS,
    *levelling.KERNELS,
)


def compile_kernels(cache: str = "") -> Kernels | None:
    """Return the kernels, None where numba is not installed; the first call of each compiles it.

    ``cache`` is a directory that keeps the machine code, so that a later process only loads it.
    """
    try:
        import numba
    except ImportError:
        return None
    from tenure.placement import linking

    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = f"{cache}/{name_of_code()}" if cache else before
    known: dict[str, Any] = {}
    try:
        for kernel in LEAVES_FIRST:
            is_outer = kernel.__name__ in Kernels._fields
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
    return Kernels(*(known["outer." + name] for name in Kernels._fields))


def warm(kernels: Kernels) -> None:
    """Call those that the daemon asks once, so that none compiles later."""
    one, none = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    first = np.array([0, 1], dtype=np.int64)
    places, rates = Places(one, none, none, none), Rates(2, 4)
    wants = Wants(first, none, one, one, none + PREFERS, one * SCORE)
    kernels.schedule(places, wants, rates, schedule.OURS)
    kernels.match_now(places, wants, one, one)
    blocks, devices = Blocks(one, first, none, none, none), Devices(none, one * 2, one)
    work = Work(one, one, one, one, none, one, 1)
    source = kernels.select(blocks, devices, one, 1)
    kernels.level(blocks, devices, Level(one, none, one))
    kernels.cache_times(blocks, devices, source, 1)
    kernels.find_prefetch(blocks, devices, work, Timing(), (one, True))


def name_of_code() -> str:
    """Return a name for the code of the kernels as it is, and for what is put into what."""
    return fingerprint((*LEAVES_FIRST, *(kernel for kernel in LEAVES_FIRST if kernel in INLINED)))


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
