"""Nodes that are off and hold what can be read nowhere else: switched on for who needs it.

A node whose copies are not the last may be switched off. What lies elsewhere may turn bad or be
lost meanwhile; then the block is read, and copied, from the node that is off. Owns nothing, reads
only.
"""

from __future__ import annotations

from tenure.core.blocks import replicas, surveys
from tenure.core.blocks.block_records import mark_of
from tenure.core.nodes import power
from tenure.core.state.block_index import Standing
from tenure.core.state.context import Context
from tenure.model.dataset import Block
from tenure.model.node import Power
from tenure.model.tier import DURABLE


def wake(ctx: Context, block: Block) -> bool:
    """Switch on a node with a copy of a block that can be read nowhere; False: none is off.

    Not while another copy is on a node that is about to be there again.
    """
    off = []
    for replica in block.replicas:
        node = ctx.tables.nodes.get(replica.node)
        tier = replicas.tier_of(ctx, replica)
        if node is None or tier is None or not replica.is_present:
            continue
        if surveys.is_wrong(ctx, block, replica) or mark_of(ctx, node.name, tier.name).fault:
            continue
        if node.power is Power.OFF and tier.kind not in DURABLE:
            continue  # it is gone, though not all of it may be given up yet
        if node.power is Power.OFF:
            off.append(node)
        elif node.power is Power.BOOTING or replicas.standing(ctx, node.name) is not Standing.LOST:
            return True
    for node in off:
        if replicas.is_wakeable(node) and ctx.now_us >= node.retry_us:
            power.want_on(ctx, node.name, f"block {block.key} can be read nowhere else")
            break
    return bool(off)
