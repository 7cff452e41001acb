"""The kernels of this room as one bundle: plain functions, or the same compiled by numba.

numba is imported only inside ``compile_kernels``; see ``placement.compiling`` for how.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tenure.locality import (
    ahead,
    costs,
    heap,
    levelling,
    matching,
    prefetch,
    prefetching,
    schedule,
)
from tenure.locality.arrays import PREFERS, Places, Wants
from tenure.locality.levelling import Level
from tenure.locality.prefetch import Blocks, Devices, Timing, Work
from tenure.locality.prefetching import Prefetch
from tenure.locality.schedule import Matching
from tenure.locality.scores import SCORE, Rates
from tenure.model.placing import Ints
from tenure.placement.binding import Kernel, bind
from tenure.placement.compiling import Form, code_of, compile_all


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


def plain_kernels() -> Kernels:
    """Return the kernels for who has no compiled ones: these match over lists."""
    instead = {matching.match: matching.match_plainly}
    return PLAIN._replace(
        schedule=bind(schedule.schedule, instead), match_now=bind(ahead.match_now, instead)
    )


def compile_kernels(cache: str = "") -> Kernels:
    """Return the kernels; the first call of each compiles it.

    ``cache`` is a directory that keeps the machine code, so that a later process only loads it.
    """
    form = Form("locality", INLINED, cache and f"{cache}/{code_of(PLAIN)}")
    return Kernels(*compile_all(PLAIN, form))


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


#: Put into their callers: a call hands over some fifty arrays, and a match makes ten thousand.
INLINED: frozenset[Kernel] = frozenset(
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
