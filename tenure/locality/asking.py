"""Records of the core as arrays for the prefetch models, and their answer as records again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tenure.locality.arrays import Places, Task, Wants, places_of, wants_of
from tenure.locality.kernels import Kernels
from tenure.locality.prefetch import NOT_COPIED, Blocks, Devices, Timing, Work
from tenure.locality.prefetching import ALL
from tenure.locality.replicas import Preference
from tenure.locality.scores import PAPER_BANDWIDTHS, SCORE, Scores, Tier, thousandths
from tenure.model.locality import (
    Copy,
    PlannedCopy,
    PrefetchAsk,
    PrefetchBlock,
    PrefetchPlan,
    Read,
    Seats,
)
from tenure.model.placing import Ints
from tenure.model.units import MIB, US

TIMING = Timing()
#: Bytes a second of a device that nobody measured or declared, by its tier.
USUAL: Mapping[int, int] = {tier: round(value * MIB) for tier, value in PAPER_BANDWIDTHS.items()}


def arrays_of(
    seats: Seats, reads: Sequence[Read], scores: Scores, fastest: float
) -> tuple[Places, Wants]:
    """Return places and wants of tasks over blocks; copies on nodes without a seat are left out.

    ``fastest`` is the bandwidth that a score of 1 stands for, 0 where it is not known.
    """
    number = {rack: g for g, rack in enumerate(dict.fromkeys(seats.racks))}
    places = places_of(seats.free, [number[rack] for rack in seats.racks])
    index = {node: j for j, node in enumerate(seats.nodes)}
    tasks = [
        Task(preferences_of(read.copies, scores, fastest), weight=read.weight) for read in reads
    ]
    return places, wants_of(tasks, index, scores)


def preferences_of(copies: Sequence[Copy], scores: Scores, fastest: float) -> list[Preference]:
    """Return P(T) of a block's task, one entry a node, by name; pending ones cost until done."""
    best: dict[str, int] = {}
    waits = set()
    for copy in copies:
        score = score_of(copy, scores, fastest)
        best[copy.node] = min(score, best.get(copy.node, score))
        if copy.is_pending:
            waits.add(copy.node)
    pending = thousandths(scores.pending)
    return [
        Preference(node, pending if node in waits else best[node], best[node])
        for node in sorted(best)
    ]


def score_of(copy: Copy, scores: Scores, fastest: float) -> int:
    """Return a copy's score: its device's own where that speed is known (ours), else its tier's.

    Kept between the scores of memory and HDD, whose order pruning and matching rely on.
    """
    if copy.bytes_per_s <= 0 or fastest <= 0:
        return scores.of(Tier(copy.tier))
    own = fastest / copy.bytes_per_s
    return thousandths(min(max(own, scores.memory), scores.hdd))


class Input(NamedTuple):
    """What the models take, and the (node, device) that each of their devices is."""

    blocks: Blocks
    devices: Devices
    work: Work
    room: Ints
    names: list[tuple[str, str]]


def input_of(ask: PrefetchAsk, scores: Scores, factor: float) -> Input:
    """Return a question as arrays; devices are as much slower as copies took, by ``factor``."""
    tiers: dict[tuple[str, str], int] = {}
    for block in ask.blocks:
        for copy in block.copies:
            if copy.tier != Tier.MEMORY:
                tiers[copy.node, copy.device] = copy.tier
    names = sorted(tiers)
    nodes = {node: j for j, node in enumerate(dict.fromkeys(node for node, _ in names))}
    speed = [ask.bandwidth.get(name, USUAL[tiers[name]]) for name in names]
    devices = Devices(
        _ints([nodes[node] for node, _ in names]),
        _ints([scores.of(Tier(tiers[name])) for name in names]),
        _ints([max(1, round(value / factor)) for value in speed]),
    )
    number = {name: d for d, name in enumerate(names)}
    room = _ints([ask.room.get(node, 0) for node in nodes])
    return Input(_blocks(ask, number), devices, _work(ask, scores), room, names)


def _blocks(ask: PrefetchAsk, number: Mapping[tuple[str, str], int]) -> Blocks:
    first, device, held = [0], [], []
    for block in ask.blocks:
        device += [number[c.node, c.device] for c in block.copies if c.tier != Tier.MEMORY]
        first.append(len(device))
        held.append(int(any(c.tier == Tier.MEMORY or c.is_pending for c in block.copies)))
    length = _ints([block.length for block in ask.blocks])
    by_length = np.argsort(length, kind="stable")
    return Blocks(length, _ints(first), _ints(device), _ints(held), by_length)


def _work(ask: PrefetchAsk, scores: Scores) -> Work:
    """Return what tasks take; each reads its fastest copy until another is made."""
    rows = [_reading(ask, block) for block in ask.blocks]
    score = _ints([scores.of(tier) for tier, _ in rows])
    length = _ints([block.length for block in ask.blocks])
    memory = length * US // (ask.memory_bytes_per_s or USUAL[Tier.MEMORY])
    cpu = _ints([block.cpu_us for block in ask.blocks])
    read, by_score = _ints([us for _, us in rows]), np.argsort(score, kind="stable")
    speeds = _ints(ask.speeds or (SCORE,))
    return Work(read, memory, cpu, score, by_score, speeds, scores.of(Tier.MEMORY))


def _reading(ask: PrefetchAsk, block: PrefetchBlock) -> tuple[Tier, int]:
    """Return the tier of a block's fastest copy, and what reading it takes in microseconds."""
    best = min(block.copies, key=lambda copy: copy.tier, default=None)
    if best is None:
        return Tier.HDD, block.length * US // USUAL[Tier.HDD]
    speed = ask.bandwidth.get((best.node, best.device), USUAL[best.tier])
    return Tier(best.tier), block.length * US // max(1, speed)


def answer(kernels: Kernels, ask: PrefetchAsk, given: Input, factor: float) -> PrefetchPlan:
    """Return what to copy, by Algorithm 7's search, or all that fits (PrefetchAll)."""
    if not ask.blocks or not given.names:
        return PrefetchPlan()
    blocks, devices, work, room, _ = given
    if ask.is_all:
        source = kernels.select(blocks, devices, room, ALL)
        cached = kernels.cache_times(blocks, devices, source, TIMING.begin_copy_us)
        most = np.bincount(source[source != NOT_COPIED], minlength=1).max()
        return PrefetchPlan(_copies(ask, given, (source, cached), factor), limit=int(most))
    found = kernels.find_prefetch(blocks, devices, work, TIMING, (room, ask.may_wait))
    return PrefetchPlan(
        _copies(ask, given, (found.source, found.cached_us), factor),
        int(found.delay_us),
        int(found.copies),
        int(found.predicted_us),
        int(found.without_us),
    )


def _copies(
    ask: PrefetchAsk, given: Input, chosen: tuple[Ints, Ints], factor: float
) -> tuple[PlannedCopy, ...]:
    rows = []
    for block, source, cached_us in zip(ask.blocks, *(row.tolist() for row in chosen), strict=True):
        if source != NOT_COPIED:
            node, device = given.names[source]
            alone_us = block.length * US / float(given.devices.bandwidth[source]) / factor
            rows.append(PlannedCopy(block.key, node, device, cached_us, max(1, round(alone_us))))
    return tuple(sorted(rows, key=lambda row: (row.cached_us, row.key)))


def _ints(rows: Sequence[int]) -> Ints:
    return np.array(rows, dtype=np.int64)
