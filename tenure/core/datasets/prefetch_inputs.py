"""What the prefetch model is asked: blocks with their copies, room in memory, speeds and slots.

Owns nothing, reads only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tenure.core.blocks import replicas
from tenure.core.nodes import harvestable
from tenure.core.state.context import Context
from tenure.model.batch import StageSpec, Task
from tenure.model.dataset import Dataset, Location
from tenure.model.locality import Copy, PrefetchAsk, PrefetchBlock, Taken
from tenure.model.node import Node
from tenure.model.tier import TierKind, TierSpec
from tenure.model.units import US

#: Ranks of kinds of tiers, fastest first.
RANKS = {kind: rank for rank, kind in enumerate(TierKind)}
#: Blocks or tasks that are looked at at a time: looking at their copies takes some milliseconds.
MOST = 256
#: Of an HDD that nobody measured: what of a task's time is reading.
USUAL_BYTES_PER_S = 160 << 20
#: How often the speeds of tiers are read.
RATES_US = 30 * US
#: Of bringing a block from another node what is beside the copy itself: the helpers on both sides,
#: checksums, a listing.
BRING_US = 2 * US


def bring_us(length: int, bytes_per_s: int = USUAL_BYTES_PER_S) -> int:
    """Return how long bringing so many bytes to a node takes, read at this speed."""
    return BRING_US + length * US // max(1, bytes_per_s)


def most(ctx: Context) -> int:
    """Return how many blocks or tasks are looked at at a time."""
    return min(MOST, ctx.localizer.most(len(ctx.tables.nodes)))


def copy_of(place: Location, *, is_pending: bool) -> Copy:
    """Return a copy as costs are made of it."""
    return Copy(place.node, place.tier, RANKS[place.kind], is_pending, place.bytes_per_s)


def learn_rates(ctx: Context) -> None:
    """Have costs follow the speeds of tiers: of memory the fastest, of others the slowest."""
    if ctx.now_us < ctx.prefetches.rates_us:
        return
    ctx.prefetches.rates_us = ctx.now_us + RATES_US
    rates: dict[int, float] = {}
    for node in ctx.tables.nodes.values():
        for tier in node.spec.tiers:
            speed = replicas.speed_of(ctx, node.name, tier)
            rank = RANKS[tier.kind]
            if speed:
                choose = max if tier.kind is TierKind.MEMORY else min
                rates[rank] = choose(speed, rates.get(rank, speed))
    if rates:
        ctx.localizer.learn_rates(rates)


def ask_for(
    ctx: Context, stage: StageSpec, numbers: Iterable[int], *, may_wait: bool
) -> PrefetchAsk:
    """Return the question of what to prefetch for tasks ``numbers`` of a stage over a dataset."""
    assert stage.dataset is not None
    read_us = stage.dataset.block_bytes * US // USUAL_BYTES_PER_S
    blocks = _blocks(ctx, stage.dataset.id, numbers, max(0, stage.run_us - read_us))
    ask = _ask(ctx, blocks, _speeds(ctx, stage), may_wait=may_wait)
    is_all = ctx.params.prefetch.policy == "all"
    return _for_all(ctx, stage.dataset.id, ask) if is_all else ask


def taken_by(ctx: Context, task: Task) -> Taken | None:
    """Return what a task over a block took that has ended; None if that is not known.

    As of one that read over the network, or whose node, dataset or batch is gone by now.
    """
    batch, node = ctx.tables.batches.get(task.batch), ctx.tables.nodes.get(task.node)
    if batch is None or node is None or task.reading is None:
        return None
    given, tier = batch.spec.stage(task.stage).dataset, node.spec.tier(task.reading.tier)
    if given is None or tier is None or task.started_us is None or task.finished_us is None:
        return None
    block = ctx.tables.blocks.get(given.key(task.number))
    if block is None:
        return None
    speed = replicas.speed_of(ctx, node.name, tier)
    copy = Copy(node.name, tier.name, RANKS[tier.kind], bytes_per_s=speed)
    return Taken(copy, block.length, task.finished_us - task.started_us, node.spec.speed)


def ask_for_all(ctx: Context, dataset: Dataset, numbers: Iterable[int]) -> PrefetchAsk:
    """Return the question of how to bring all blocks ``numbers`` of a dataset into memory."""
    blocks = _blocks(ctx, dataset.id, numbers, 0)
    return _for_all(ctx, dataset.id, _ask(ctx, blocks, (), may_wait=False))


def _blocks(
    ctx: Context, dataset: str, numbers: Iterable[int], cpu_us: int
) -> tuple[PrefetchBlock, ...]:
    found = []
    for number in numbers:
        block = ctx.tables.blocks.get(f"{dataset}/{number}")
        if block is None or not block.sha256:
            continue
        pending = replicas.pending_on(ctx, block)
        rows = tuple(
            copy_of(place, is_pending=place.node in pending)
            for place in replicas.offered(ctx, block)
        )
        if rows:
            found.append(PrefetchBlock(number, block.length, rows, cpu_us))
    return tuple(found)


def _ask(
    ctx: Context,
    blocks: tuple[PrefetchBlock, ...],
    speeds: tuple[int, ...],
    *,
    may_wait: bool,
) -> PrefetchAsk:
    names = {copy.node for block in blocks for copy in block.copies}
    nodes = [ctx.tables.nodes[name] for name in sorted(names)]
    speed = [
        replicas.speed_of(ctx, node.name, tier)
        for node in nodes
        for tier in node.spec.tiers
        if tier.kind is TierKind.MEMORY
    ]
    return PrefetchAsk(
        blocks=blocks,
        room={node.name: room_on(ctx, node) for node in nodes},
        speeds=speeds,
        memory_bytes_per_s=max(speed, default=0),
        may_wait=may_wait,
    )


def _for_all(ctx: Context, dataset: str, ask: PrefetchAsk) -> PrefetchAsk:
    """Return the question of what to copy as that of how all of a dataset gets into memory.

    Nodes are worth what they compute: tasks that read it are shared between them like that.
    """
    nodes = [ctx.tables.nodes[name] for name in ask.room]
    return replace(
        ask,
        is_all=True,
        lying={node.name: _lying(ctx, dataset, node) for node in nodes},
        worth={node.name: round(node.capacity.cpu_m * node.spec.speed) for node in nodes},
    )


def _lying(ctx: Context, dataset: str, node: Node) -> int:
    """Return the bytes of a dataset in a node's memory, and on their way."""
    lying = ctx.block_index.lying
    return sum(lying.get(mark, {}).get(dataset, 0) for mark, _ in _memory_of(node))


def room_on(ctx: Context, node: Node) -> int:
    """Return the bytes of a node's memory tiers that prefetches may still fill: their budget.

    That is a part of the capacity, less copies that are under way, that nobody has read yet, or
    that are being read; what else lies there makes room by least recent use.
    """
    stays, share = ctx.block_index.stays, ctx.params.prefetch.share
    return sum(
        max(0, round(tier.capacity_bytes * share) - stays.get(mark, 0))
        for mark, tier in _memory_of(node)
    )


def _memory_of(node: Node) -> list[tuple[str, TierSpec]]:
    """Return a node's memory tiers, each with its mark."""
    kind = TierKind.MEMORY
    return [(f"{node.name}/{tier.name}", tier) for tier in node.spec.tiers if tier.kind is kind]


def _speeds(ctx: Context, stage: StageSpec) -> tuple[int, ...]:
    """Return the slots that a stage may have, busy ones included, in thousandths of the usual."""
    found: list[int] = []
    for node in sorted(ctx.tables.nodes.values(), key=lambda node: node.name):
        if node.spec.tiers and harvestable.is_lendable(ctx, node):
            fits = _fits(ctx, stage, node)
            found += [round(node.spec.speed * 1000)] * min(fits, stage.count - len(found))
    return tuple(found)


def _fits(ctx: Context, stage: StageSpec, node: Node) -> int:
    spare, request = harvestable.spare_on(ctx, node), stage.request
    fits: Sequence[int] = [stage.count]
    if request.cpu_m:
        fits = [*fits, spare.cpu_m // request.cpu_m]
    if request.memory_bytes:
        fits = [*fits, spare.memory_bytes // request.memory_bytes]
    return max(0, min(fits))
