"""Records of the core as arrays for the prefetch models, and their answer as records again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, compress
from typing import NamedTuple

import numpy as np

from tenure.locality.arrays import PREFERS, Places, Wants, places_of, weights_of
from tenure.locality.correction import CpuModel
from tenure.locality.kernels import Kernels
from tenure.locality.levelling import Level
from tenure.locality.nearest import Options
from tenure.locality.prefetch import NOT_COPIED, Blocks, Devices, Timing, Work
from tenure.locality.scores import PAPER_BANDWIDTHS, SCORE, Scores, Tier, thousandths
from tenure.model.locality import (
    PlannedCopy,
    PrefetchAsk,
    PrefetchBlock,
    PrefetchPlan,
    Read,
    Seats,
    Site,
    Taken,
)
from tenure.model.placing import Bools, Ints
from tenure.model.units import MIB, US

TIMING = Timing()
#: Bytes a second of a device that nobody measured or declared, by its tier's rank; the last is of
#: a block without a copy.
USUAL = np.array([round(PAPER_BANDWIDTHS[tier] * MIB) for tier in (*Tier, Tier.HDD)])
MEMORY = int(Tier.MEMORY)


def arrays_of(
    seats: Seats, reads: Sequence[Read], scores: Scores, fastest: float
) -> tuple[Places, Wants]:
    """Return places and wants of tasks over blocks; copies on nodes without a seat are left out.

    A task has one entry a node, by name: its fastest copy there, and the cost of pending ones until
    they are done. ``fastest`` is the bandwidth that a score of 1 stands for, 0 where it is not
    known. Straight into flat lists, for this is most of what a question takes beside the matching.
    """
    _, rack = _numbered(seats.racks)
    places = places_of(seats.free, rack)
    index = dict(zip(seats.nodes, range(len(seats.nodes)), strict=True))
    costs, pending = Costs(scores, fastest), thousandths(scores.pending)
    first, place, score, base = [0], [], [], []
    for read in reads:
        best: dict[str, int] = {}
        waits = []
        for node, _, tier, is_pending, bytes_per_s in read.copies:
            if node in index:
                cost = costs[tier, bytes_per_s]
                best[node] = min(cost, best.get(node, cost))
                if is_pending:
                    waits.append(node)
        for node in sorted(best):
            place.append(index[node])
            score.append(pending if node in waits else best[node])
            base.append(best[node])
        first.append(len(place))
    weight = weights_of([read.weight for read in reads])
    rows = (first, place, score, base, [PREFERS] * len(reads), weight)
    return places, Wants(*map(_ints, rows))


class Costs(dict[tuple[int, int], int]):
    """The cost of a copy in thousandths, by its tier's rank and its device's bandwidth.

    Its device's own where that speed is known (ours), else its tier's; kept between the scores of
    memory and HDD, whose order pruning and matching rely on. A disk that was measured to be as fast
    as memory costs a thousandth more for each rank: what was copied into memory is read there.
    Memory costs the same on all nodes: what one of them was measured at beside other load hangs on
    that load, and would have disks read in its place.
    """

    def __init__(self, scores: Scores, fastest: float) -> None:
        super().__init__()
        self._scores, self._fastest = scores, fastest

    def __missing__(self, key: tuple[int, int]) -> int:
        (tier, bytes_per_s), scores = key, self._scores
        if tier == MEMORY or bytes_per_s <= 0 or self._fastest <= 0:
            found = scores.of(Tier(tier))
        else:
            own = self._fastest / bytes_per_s
            found = thousandths(min(max(own, scores.memory), scores.hdd))
        found = self[key] = max(found, thousandths(scores.memory) + tier)
        return found


def options_of(sites: Sequence[Site]) -> Options:
    """Return nodes that executors may go to as arrays."""
    return Options(
        _ints([site.room for site in sites]),
        _ints([site.chosen for site in sites]),
        _ints([site.cost_nano for site in sites]),
        np.array([site.stays for site in sites], dtype=np.bool_),
    )


class Input(NamedTuple):
    """What the models take; ``nodes`` and ``labels`` are names of nodes and of their devices.

    Device d is the one called ``labels[label[d]]`` on its node.
    """

    blocks: Blocks
    devices: Devices
    work: Work
    memory: Level
    nodes: list[str]
    labels: list[str]
    label: Ints


def input_of(
    ask: PrefetchAsk, scores: Scores, factor: float, computing: CpuModel | None = None
) -> Input:
    """Return a question as arrays; devices are as much slower as copies took, by ``factor``.

    What tasks compute is what the question says until ``computing`` knows better.
    """
    first, tier, is_pending, speed, names = _columns(ask.blocks)
    below = tier != MEMORY
    if not below.all():
        names = tuple(list(compress(column, below)) for column in names)
    (nodes, node), (labels, label) = map(_numbered, names)
    number, one, device = np.unique(node * len(labels) + label, True, True)
    one = np.flatnonzero(below)[one]  # the first copy of each device
    slowed = np.maximum(1, np.rint(speed[one] / factor)).astype(np.int64)
    costs = _costs_of(scores)
    devices = Devices(number // max(1, len(labels)), costs[tier[one]], slowed)
    length, held = _ints([block.length for block in ask.blocks]), np.zeros_like(first[1:])
    held[_block_of(first)[~below | is_pending]] = 1
    kept = np.concatenate(([0], np.cumsum(below, dtype=np.int64)))[first]
    blocks = Blocks(length, kept, device, held, _by(length))
    memory = Level(
        _told(ask.room, nodes, 0),
        _told(ask.lying, nodes, 0),
        np.maximum(1, _told(ask.worth, nodes, 1)),
    )
    work = _work(ask, _fastest(first, tier, speed), length, costs)
    if computing is not None and computing.is_known:
        work = work._replace(cpu_us=_ints([computing.predict_us(b.length) for b in ask.blocks]))
    return Input(blocks, devices, work, memory, nodes, labels, number % max(1, len(labels)))


class Columns(NamedTuple):
    """All copies of all blocks, block after block; ``first`` (n + 1) is where each block's begin.

    ``speed`` is the usual one where none is known; ``names`` those of nodes and of devices.
    """

    first: Ints
    tier: Ints
    is_pending: Bools
    speed: Ints
    names: tuple[Sequence[str], ...]


def _columns(blocks: Sequence[PrefetchBlock]) -> Columns:
    first = np.zeros(len(blocks) + 1, dtype=np.int64)
    np.cumsum(_ints([len(block.copies) for block in blocks]), out=first[1:])
    copies = chain.from_iterable([block.copies for block in blocks])
    node, device, tier, is_pending, speed = tuple(zip(*copies, strict=True)) or ((),) * 5
    rank, known = _ints(tier), _ints(speed)
    pending = np.array(is_pending, dtype=np.bool_)
    return Columns(first, rank, pending, np.where(known > 0, known, USUAL[rank]), (node, device))


def _numbered(names: Sequence[str]) -> tuple[list[str], Ints]:
    """Return each name once, and which of these the names are."""
    once = list(dict.fromkeys(names))
    number = dict(zip(once, range(len(once)), strict=True)).__getitem__
    return once, np.fromiter(map(number, names), dtype=np.int64, count=len(names))


def _told(by_node: Mapping[str, int], nodes: Sequence[str], less: int) -> Ints:
    """Return what is said of each node, ``less`` where nothing is."""
    if not by_node:
        return np.full(len(nodes), less, dtype=np.int64)
    return _ints([by_node.get(name, less) for name in nodes])


def _block_of(first: Ints) -> Ints:
    """Return the block of each copy."""
    return np.repeat(np.arange(len(first) - 1), np.diff(first))


def _fastest(first: Ints, tier: Ints, speed: Ints) -> tuple[Ints, Ints]:
    """Return rank and speed of each block's fastest copy, of those alike the first one's."""
    rank = np.full(len(first) - 1, len(Tier), dtype=np.int64)
    found = np.full(len(first) - 1, USUAL[-1], dtype=np.int64)
    has = np.flatnonzero(np.diff(first))
    if has.size:
        order = tier * len(tier) + np.arange(len(tier))
        best = np.minimum.reduceat(order, first[has]) % len(tier)
        rank[has], found[has] = tier[best], speed[best]
    return rank, found


def computed_us(taken: Taken) -> float:
    """Return what a task computed on a node of speed 1: what it took less reading its copy."""
    speed = taken.copy.bytes_per_s or int(USUAL[taken.copy.tier])
    return max(0.0, taken.took_us - taken.length * US / speed) * taken.speed


def _work(ask: PrefetchAsk, fastest: tuple[Ints, Ints], length: Ints, costs: Ints) -> Work:
    """Return what tasks take; each reads its ``fastest`` copy until another is made."""
    rank, speed = fastest
    read = length * US // np.maximum(1, speed)
    memory = length * US // (ask.memory_bytes_per_s or int(USUAL[MEMORY]))
    cpu = _ints([block.cpu_us for block in ask.blocks])
    score, slots = costs[rank], _ints(ask.speeds or (SCORE,))
    return Work(read, memory, cpu, score, _by(score), slots, int(costs[MEMORY]))


def _costs_of(scores: Scores) -> Ints:
    """Return the scores of tiers by rank, and what a block without a copy costs."""
    return _ints([scores.of(tier) for tier in (*Tier, Tier.HDD)])


def _by(values: Ints) -> Ints:
    return np.argsort(values, kind="stable")


def answer(kernels: Kernels, ask: PrefetchAsk, given: Input, factor: float) -> PrefetchPlan:
    """Return what to copy, by Algorithm 7's search, or all that fits, shared between the nodes."""
    if not ask.blocks or not given.nodes:
        return PrefetchPlan()
    blocks, devices, work, memory = given[:4]
    if ask.is_all:
        source = kernels.level(blocks, devices, memory)
        cached = kernels.cache_times(blocks, devices, source, TIMING.begin_copy_us)
        most = np.bincount(source[source != NOT_COPIED], minlength=1).max()
        return PrefetchPlan(_copies(ask, given, (source, cached), factor), limit=int(most))
    found = kernels.find_prefetch(blocks, devices, work, TIMING, (memory.room, ask.may_wait))
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
    """Return the blocks that have a source in order of ``cached``, then of their keys."""
    source, cached = chosen
    blocks, devices = given.blocks, given.devices
    key = _ints([block.key for block in ask.blocks])
    copied = np.flatnonzero(source != NOT_COPIED)
    copied = copied[np.lexsort((key[copied], cached[copied]))]
    device = source[copied]
    alone = np.rint(blocks.length[copied] * US / devices.bandwidth[device] / factor)
    rows = zip(
        key[copied].tolist(),
        [given.nodes[j] for j in devices.node[device].tolist()],
        [given.labels[j] for j in given.label[device].tolist()],
        cached[copied].tolist(),
        np.maximum(1, alone).astype(np.int64).tolist(),
        strict=True,
    )
    return tuple(map(PlannedCopy._make, rows))


def _ints(rows: Sequence[int]) -> Ints:
    return np.array(rows, dtype=np.int64)
