"""Which blocks to prefetch, and how long to wait for them (Algorithms 6 and 7).

Slips are mended: Algorithm 6 copies from the slowest tier that holds a block (as its text says),
skips blocks that are in memory already, and takes what it chose off the room that is left;
Algorithm 7 begins each round without cache times, and only prefetched tasks can ask for a delay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.locality.prefetch import (
    NOT_COPIED,
    Blocks,
    Devices,
    Timing,
    Work,
    cache_times,
    run_us,
)
from tenure.model.placing import Ints
from tenure.model.units import FOREVER_US

#: Copies at a time from one device, beyond which the search does not go: a disk with as many
#: readers only seeks.
MOST_COPIES = 64
#: Rounds in a row that may bring nothing before it ends.
FRUITLESS = 2
#: For ``select``: as many as there are.
ALL = 1 << 30


class Prefetch(NamedTuple):
    """What to copy: ``source`` (b,) the device for each block, or NOT_COPIED; and how long to wait.

    ``predicted_us`` is the job's time with it, ``without_us`` with nothing prefetched; ``copies``
    the limit per device that was best (0: prefetch nothing). ``cached_us`` (b,) is when each is
    expected.
    """

    source: Ints
    cached_us: Ints
    delay_us: int
    predicted_us: int
    without_us: int
    copies: int


def select(blocks: Blocks, devices: Devices, room: Ints, most: int) -> Ints:
    """Return the device to copy each block from (b,), at most ``most`` a device (Algorithm 6).

    Of a block's replicas the one on the slowest tier, then on the node with the most ``room``
    (nodes,) in memory, bytes, if the block fits there. ALL for ``most`` is PrefetchAll. O(e).
    """
    source = np.full(blocks.length.shape[0], NOT_COPIED, dtype=np.int64)
    left, used = room.copy(), np.zeros(devices.node.shape[0], dtype=np.int64)
    for i in range(source.shape[0]):
        best = NOT_COPIED
        for e in range(blocks.first[i], blocks.first[i + 1]):
            device = blocks.device[e]
            if left[devices.node[device]] >= blocks.length[i] and is_better(
                devices, left, device, best
            ):
                best = device
        if best == NOT_COPIED or blocks.held[i] > 0 or used[best] >= most:
            continue
        source[i] = best
        used[best] += 1
        left[devices.node[best]] -= blocks.length[i]
    return source


def is_better(devices: Devices, left: Ints, device: int, best: int) -> bool:
    """Return whether a replica is a better source than the best so far, or than none."""
    if best == NOT_COPIED or devices.score[device] != devices.score[best]:
        return best == NOT_COPIED or devices.score[device] > devices.score[best]
    return bool(left[devices.node[device]] > left[devices.node[best]])


def find_prefetch(
    blocks: Blocks, devices: Devices, work: Work, timing: Timing, limits: tuple[Ints, bool]
) -> Prefetch:
    """Return the prefetches with the shortest modelled run of the job (Algorithm 7).

    ``limits`` are the room in memory of each node (nodes,), bytes, and whether the job may be
    delayed. Ends when every block is selected, no more can be, or FRUITLESS rounds brought nothing.
    """
    room, may_wait = limits
    b = blocks.length.shape[0]
    start = np.zeros(b, dtype=np.int64)
    nothing = np.full(b, NOT_COPIED, dtype=np.int64)
    never = np.full(b, FOREVER_US, dtype=np.int64)
    without_us = run_us(work, timing, never, 0, start)
    best = Prefetch(nothing, never, 0, without_us, without_us, 0)
    before, fruitless = 0, 0
    for copies in range(1, MOST_COPIES + 1):
        source = select(blocks, devices, room, copies)
        selected = np.sum(source != NOT_COPIED)
        if selected == before:
            break
        before = selected
        cached = cache_times(blocks, devices, source, timing.begin_copy_us)
        delay_us, took_us = 0, run_us(work, timing, cached, 0, start)
        if may_wait:
            for i in range(b):
                if source[i] != NOT_COPIED:
                    delay_us = max(delay_us, cached[i] - start[i])
            late_us = run_us(work, timing, cached, delay_us, start) if delay_us > 0 else took_us
            if late_us < took_us:
                took_us = late_us
            else:
                delay_us = 0
        fruitless += 1
        if took_us < best.predicted_us:
            best = Prefetch(source, cached, delay_us, took_us, without_us, copies)
            fruitless = 0
        if fruitless >= FRUITLESS:
            break
    return best
