"""Records of the core as arrays for the prefetch models, and their answer as records again."""

from __future__ import annotations

from collections.abc import Sequence
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
    Copy,
    PlannedCopy,
    PrefetchAsk,
    PrefetchPlan,
    Read,
    Seats,
    Site,
    Taken,
)
from tenure.model.placing import Ints
from tenure.model.units import MIB, US

TIMING = Timing()
#: Bytes a second of a device that nobody measured or declared, by its tier's rank; the last is of
#: a block without a copy.
USUAL = tuple(round(PAPER_BANDWIDTHS[tier] * MIB) for tier in (*Tier, Tier.HDD))
#: Looked up for each copy: as a member of its class it would take as long as the rest of the look.
MEMORY = int(Tier.MEMORY)
NOWHERE = Copy("", "", len(Tier))


def arrays_of(
    seats: Seats, reads: Sequence[Read], scores: Scores, fastest: float
) -> tuple[Places, Wants]:
    """Return places and wants of tasks over blocks; copies on nodes without a seat are left out.

    A task has one entry a node, by name: its fastest copy there, and the cost of pending ones until
    they are done. ``fastest`` is the bandwidth that a score of 1 stands for, 0 where it is not
    known. Straight into flat lists, for this is most of what a question takes beside the matching.
    """
    number = {rack: g for g, rack in enumerate(dict.fromkeys(seats.racks))}
    places = places_of(seats.free, [number[rack] for rack in seats.racks])
    index = {node: j for j, node in enumerate(seats.nodes)}
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
    memory and HDD, whose order pruning and matching rely on.
    """

    def __init__(self, scores: Scores, fastest: float) -> None:
        super().__init__()
        self._scores, self._fastest = scores, fastest

    def __missing__(self, key: tuple[int, int]) -> int:
        (tier, bytes_per_s), scores = key, self._scores
        if bytes_per_s <= 0 or self._fastest <= 0:
            found = scores.of(Tier(tier))
        else:
            own = self._fastest / bytes_per_s
            found = thousandths(min(max(own, scores.memory), scores.hdd))
        self[key] = found
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
    """What the models take, and the (node, device) that each of their devices is."""

    blocks: Blocks
    devices: Devices
    work: Work
    memory: Level
    names: list[tuple[str, str]]


def input_of(
    ask: PrefetchAsk, scores: Scores, factor: float, computing: CpuModel | None = None
) -> Input:
    """Return a question as arrays; devices are as much slower as copies took, by ``factor``.

    What tasks compute is what the question says until ``computing`` knows better.
    """
    number: dict[tuple[str, str], int] = {}
    ranks: list[int] = []
    first, device, held, fastest = [0], [], [], []
    for block in ask.blocks:
        best, is_held = NOWHERE, False
        for copy in block.copies:
            node, name, tier, is_pending, _ = copy
            if tier < best.tier:
                best = copy
            if tier == MEMORY:
                is_held = True
                continue
            place = node, name
            if place not in number:
                number[place] = len(ranks)
                ranks.append(tier)
            device.append(number[place])
            is_held |= is_pending
        first.append(len(device))
        held.append(is_held)
        fastest.append(best)
    names, rank = list(number), _ints(ranks)
    length, costs = _ints([block.length for block in ask.blocks]), _costs_of(scores)
    blocks = Blocks(length, _ints(first), _ints(device), _ints(held), _by(length))
    nodes = {node: j for j, node in enumerate(dict.fromkeys(node for node, _ in names))}
    speed = np.maximum(1, np.rint(_speeds(ask, names, ranks) / factor)).astype(np.int64)
    devices = Devices(_ints([nodes[node] for node, _ in names]), costs[rank], speed)
    memory = Level(
        _ints([ask.room.get(node, 0) for node in nodes]),
        _ints([ask.lying.get(node, 0) for node in nodes]),
        _ints([max(1, ask.worth.get(node, 1)) for node in nodes]),
    )
    work = _work(ask, fastest, length, costs)
    if computing is not None and computing.is_known:
        work = work._replace(cpu_us=_ints([computing.predict_us(b.length) for b in ask.blocks]))
    return Input(blocks, devices, work, memory, names)


def computed_us(taken: Taken) -> float:
    """Return what a task computed on a node of speed 1: what it took less reading its copy."""
    speed = taken.copy.bytes_per_s or USUAL[taken.copy.tier]
    return max(0.0, taken.took_us - taken.length * US / speed) * taken.speed


def _work(ask: PrefetchAsk, fastest: Sequence[Copy], length: Ints, costs: Ints) -> Work:
    """Return what tasks take; each reads its ``fastest`` copy until another is made."""
    ranks = [copy.tier for copy in fastest]
    speed = _speeds(ask, [(copy.node, copy.device) for copy in fastest], ranks)
    read = length * US // np.maximum(1, speed)
    memory = length * US // (ask.memory_bytes_per_s or USUAL[MEMORY])
    cpu = _ints([block.cpu_us for block in ask.blocks])
    score, slots = costs[_ints(ranks)], _ints(ask.speeds or (SCORE,))
    return Work(read, memory, cpu, score, _by(score), slots, int(costs[MEMORY]))


def _speeds(ask: PrefetchAsk, names: Sequence[tuple[str, str]], ranks: Sequence[int]) -> Ints:
    """Return bytes a second of devices (d,), what is usual for their ranks where not known."""
    known = ask.bandwidth.get
    return _ints([known(name, USUAL[rank]) for name, rank in zip(names, ranks, strict=True)])


def _costs_of(scores: Scores) -> Ints:
    """Return the scores of tiers by rank, and what a block without a copy costs."""
    return _ints([scores.of(tier) for tier in (*Tier, Tier.HDD)])


def _by(values: Ints) -> Ints:
    return np.argsort(values, kind="stable")


def answer(kernels: Kernels, ask: PrefetchAsk, given: Input, factor: float) -> PrefetchPlan:
    """Return what to copy, by Algorithm 7's search, or all that fits, shared between the nodes."""
    if not ask.blocks or not given.names:
        return PrefetchPlan()
    blocks, devices, work, memory, _ = given
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
    places = [given.names[d] for d in device.tolist()]
    return tuple(
        map(
            PlannedCopy,
            key[copied].tolist(),
            [node for node, _ in places],
            [name for _, name in places],
            cached[copied].tolist(),
            np.maximum(1, alone).astype(np.int64).tolist(),
        )
    )


def _ints(rows: Sequence[int]) -> Ints:
    return np.array(rows, dtype=np.int64)
