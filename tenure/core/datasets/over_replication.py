"""Copies beyond those that a block is to have: a node that counted as lost came back with its own.

Or one that ended unknown had been made after all, and was found while the next was on its way to
another tier of the same node: such twins are of no use to anybody, for they are lost together.

Theory of operation. Such a block is noted when it is looked at, and looked at again after a while,
for what came back may go again. Then one copy is given up at a time, as long as enough others lie
on nodes that are ready: in a tier that nobody asked for, in the rack with most of them, in the
fullest tier. Nothing that is read, or brought to be read, is touched. Owns which copies are too
many, in the block index.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

from tenure.core.blocks import pins, replicas, tiers
from tenure.core.blocks.block_records import mark_of
from tenure.core.state.block_index import Standing
from tenure.core.state.context import Context
from tenure.model.dataset import Block, Dataset, Location
from tenure.model.tier import DURABLE
from tenure.model.units import US

MACHINE = "surplus"
#: A block has too many copies for so long before one goes, and is looked at as late again.
LATER_US = 60 * US
#: Between two turns, and the blocks looked at in one.
AGAIN_US, TURN = US, 100
#: A copy is never given up for a single other, which may have turned bad unnoticed.
FEWEST = 2


def note(ctx: Context, block: Block, spare: int) -> None:
    """Note that a block lies on ``spare`` nodes more than it is to, or twice for good on one."""
    if spare <= 0 and not _has_twins(ctx, block):
        ctx.block_index.surplus.pop(block.key, None)
    elif block.key not in ctx.block_index.surplus:
        _wait(ctx, block.key)


def _wait(ctx: Context, key: str) -> None:
    ctx.block_index.surplus[key] = ctx.now_us + LATER_US
    ctx.arm(ctx.now_us + LATER_US, MACHINE, "thin")


def _has_twins(ctx: Context, block: Block) -> bool:
    """Whether a node has two copies of a block in tiers for good; one in memory is a cache."""
    if len(block.replicas) < FEWEST:
        return False
    tiers_ = ((replica.node, replicas.tier_of(ctx, replica)) for replica in block.replicas)
    nodes = [node for node, tier in tiers_ if tier is not None and tier.kind in DURABLE]
    return len(nodes) > len(set(nodes))


def _least(dataset: Dataset) -> int:
    return max(FEWEST, dataset.spec.replicas)


def on_timer(ctx: Context, key: str) -> None:
    """Give up copies of the next blocks that have too many."""
    if ctx.is_closing:
        return
    surplus = ctx.block_index.surplus
    in_use, brought = _in_use(ctx), set(pins.brought(ctx))
    for row in list(islice(surplus, TURN)):
        if ctx.now_us < surplus[row]:
            break
        del surplus[row]
        block = ctx.tables.blocks.get(row)
        spare = None if block is None else _spare(ctx, block)
        if block is None or spare is None:
            continue
        is_busy = len(mark_of(ctx, spare.node, spare.tier).drops) >= tiers.MOST_NAMES
        if is_busy or block.pins or block.dataset in in_use or row in brought:
            _wait(ctx, row)
        else:
            tiers.discard(ctx, block, spare.node, spare.tier)
    if surplus:
        due_us = next(iter(surplus.values()))
        ctx.arm(max(due_us, ctx.now_us + AGAIN_US), MACHINE, "thin")


def _in_use(ctx: Context) -> set[str]:
    """Return the datasets that batches which are not over read."""
    stages = (s for key in ctx.index.open_batches for s in ctx.tables.batches[key].spec.stages)
    return {stage.dataset.id for stage in stages if stage.dataset is not None}


def _spare(ctx: Context, block: Block) -> Location | None:
    """Return the copy that is best given up, None if there are no more than there are to be."""
    dataset = ctx.tables.datasets.get(block.dataset)
    if dataset is None or dataset.is_going or any(not r.is_present for r in block.replicas):
        return None
    asked = dataset.spec.tiers
    kinds = DURABLE | {*asked}
    places = [p for p in replicas.offered(ctx, block) if p.kind in kinds and _stays(ctx, p)]
    if len({place.node for place in places}) <= _least(dataset):
        places = _twins(places) if len(places) > _least(dataset) else []
        if not places:
            return None
    racks = Counter(ctx.tables.nodes[place.node].spec.rack for place in places)
    wanted = [asked[i % len(asked)] for i in range(dataset.spec.replicas)] if asked else []
    unasked = set()
    for place in places:
        if place.kind in wanted:
            wanted.remove(place.kind)
        elif asked:
            unasked.add((place.node, place.tier))

    def rank(place: Location) -> tuple[bool, int, float, str, str]:
        is_unasked = (place.node, place.tier) in unasked
        rack = ctx.tables.nodes[place.node].spec.rack
        return is_unasked, racks[rack], _filled(ctx, place), place.node, place.tier

    return max(places, key=rank)


def _twins(places: list[Location]) -> list[Location]:
    """Return the copies for good that have another such one beside them on their node."""
    good = [place for place in places if place.kind in DURABLE]
    counts = Counter(place.node for place in good)
    return [place for place in good if counts[place.node] > 1]


def _stays(ctx: Context, place: Location) -> bool:
    return replicas.standing(ctx, place.node) is Standing.READY


def _filled(ctx: Context, place: Location) -> float:
    """Return which part of a tier is taken."""
    tier = ctx.tables.nodes[place.node].spec.tier(place.tier)
    used = ctx.block_index.used.get(f"{place.node}/{place.tier}", 0)
    return 0.0 if tier is None else used / tier.capacity_bytes
