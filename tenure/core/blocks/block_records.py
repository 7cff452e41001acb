"""Datasets, blocks and tiers as they are stored; what is indexed of them goes along.

Owns the records of datasets, blocks and tiers: others change them by its functions.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.state.context import Context
from tenure.model.dataset import Block, Dataset, Replica, TierMark


def put_dataset(ctx: Context, dataset: Dataset) -> Dataset:
    """Store a dataset."""
    dataset = replace(dataset, version=dataset.version + 1)
    ctx.block_index.take_dataset(dataset)
    return ctx.tables.datasets.put(dataset.id, dataset)


def drop_dataset(ctx: Context, dataset: Dataset) -> None:
    """Forget a dataset that has no blocks any more."""
    ctx.block_index.open.discard(dataset.id)
    block_index = ctx.block_index
    for kept in (block_index.whole, block_index.stored, block_index.cuts, block_index.walks):
        kept.pop(dataset.id, None)
    for spread in block_index.spread.values():
        spread.pop(dataset.id, None)
    for lying in block_index.lying.values():
        lying.pop(dataset.id, None)
    if ctx.block_index.names.get(dataset.spec.name) == dataset.id:
        del ctx.block_index.names[dataset.spec.name]
    ctx.tables.datasets.drop(dataset.id)


def put_block(ctx: Context, block: Block) -> Block:
    """Store a block and count its copies."""
    old = ctx.tables.blocks.get(block.key)
    found = ctx.tables.blocks.put(block.key, block)
    if old is None or (old.replicas, old.broken) != (block.replicas, block.broken):
        if old is not None:
            _count(ctx, old, -1)
        _count(ctx, block, 1)
        ctx.block_index.want(block.key)
    recount(ctx, block.key)
    return found


def drop_block(ctx: Context, block: Block) -> None:
    """Forget a block; its copies are not counted any more."""
    _count(ctx, block, -1)
    for waiting in (ctx.block_index.wanting, ctx.block_index.starved, ctx.block_index.surplus):
        waiting.pop(block.key, None)
    ctx.tables.blocks.drop(block.key)
    recount(ctx, block.key)


def recount(ctx: Context, key: str) -> None:
    """Count what stays in tiers of a block: it was changed, or what was copied ahead of it was."""
    prefetches = ctx.prefetches
    if key in prefetches.made:
        prefetches.moved.add(key)
    is_unread = key in prefetches.made or key in prefetches.under_way
    ctx.block_index.count_staying(key, ctx.tables.blocks.get(key), is_unread=is_unread)


def _count(ctx: Context, block: Block, sign: int) -> None:
    ctx.block_index.count(block, ctx.tables.datasets.get(block.dataset), sign)


def with_replica(block: Block, replica: Replica) -> Block:
    """Return a block with a copy added, or changed."""
    others = (r for r in block.replicas if (r.node, r.tier) != (replica.node, replica.tier))
    rows = sorted((*others, replica), key=lambda r: (r.node, r.tier))
    return replace(block, replicas=tuple(rows))


def without_replica(block: Block, node: str, tier: str) -> Block:
    """Return a block without one of its copies."""
    left = tuple(r for r in block.replicas if (r.node, r.tier) != (node, tier))
    broken = tuple(mark for mark in block.broken if mark != f"{node}/{tier}")
    return replace(block, replicas=left, broken=broken)


def put_mark(ctx: Context, mark: TierMark) -> TierMark:
    """Store what is known of a tier: what is to be dropped and orphans take room there."""
    old = ctx.tables.tiers.get(mark.key)
    was = 0 if old is None else old.spoken_for_bytes
    now = mark.spoken_for_bytes
    ctx.block_index.used[mark.key] = ctx.block_index.used.get(mark.key, 0) + now - was
    ctx.block_index.tiers_at.setdefault(mark.node, set()).add(mark.tier)
    ctx.block_index.turn += 1
    return ctx.tables.tiers.put(mark.key, mark)


def mark_of(ctx: Context, node: str, tier: str) -> TierMark:
    """Return what is known of a tier."""
    return ctx.tables.tiers.get(f"{node}/{tier}") or TierMark(node, tier)


def drop_mark(ctx: Context, mark: TierMark) -> None:
    """Forget a tier that the configuration does not name any more."""
    block_index = ctx.block_index
    for kept in (block_index.held, block_index.used, block_index.checks, block_index.proofs):
        kept.pop(mark.key, None)
    for told in (block_index.lying, block_index.stays, block_index.troubles):
        told.pop(mark.key, None)
    block_index.tiers_at.get(mark.node, set()).discard(mark.tier)
    ctx.tables.tiers.drop(mark.key)
