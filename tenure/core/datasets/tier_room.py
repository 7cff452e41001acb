"""Room in tiers: what is free, and which copies leave memory for one that is wanted there.

Owns nothing, reads only.
"""

from __future__ import annotations

from tenure.core.blocks import replicas, tiers
from tenure.core.blocks.block_records import mark_of
from tenure.core.state.context import Context
from tenure.model.dataset import Block
from tenure.model.tier import TierSpec


def make_room(ctx: Context, node: str, tier: TierSpec, need_bytes: int) -> bool:
    """Evict from a memory tier what was used least lately; False: not enough can go.

    Never a block that is pinned, is read by a task, or has no other copy.
    """
    missing = need_bytes - free_in(ctx, node, tier)
    missing -= sum(drop.size_bytes for drop in mark_of(ctx, node, tier.name).drops)
    if missing <= 0:
        return True
    rows = [ctx.tables.blocks[key] for key in ctx.block_index.held.get(f"{node}/{tier.name}", ())]
    doomed = []
    for block in sorted(rows, key=lambda b: _used_us(b, node, tier.name)):
        if missing > 0 and _may_leave(ctx, block, node, tier):
            missing -= block.length
            doomed.append(block)
    if missing > 0:
        return False
    for block in doomed:
        tiers.discard(ctx, block, node, tier.name)
    return True


def _used_us(block: Block, node: str, tier: str) -> tuple[int, str]:
    replica = block.on(node, tier)
    return (0 if replica is None else replica.used_us), block.key


def _may_leave(ctx: Context, block: Block, node: str, tier: TierSpec) -> bool:
    """Whether a copy may be evicted: enough others can be read, one of them at least."""
    dataset = ctx.tables.datasets.get(block.dataset)
    replica = block.on(node, tier.name)
    if dataset is None or replica is None or not replica.is_present:
        return False
    if dataset.is_pinned or block.pins:
        return False
    others = [p for p in replicas.offered(ctx, block) if (p.node, p.tier) != (node, tier.name)]
    nodes = {place.node for place in others}
    return node in nodes or len(nodes) >= max(1, dataset.spec.replicas)


def free_in(ctx: Context, node: str, tier: TierSpec) -> int:
    """Return the bytes that are free in a tier; what is still to be dropped takes room."""
    return tier.capacity_bytes - ctx.block_index.used.get(f"{node}/{tier.name}", 0)
