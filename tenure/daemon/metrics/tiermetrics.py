"""Metrics of storage tiers: what they may hold and do, how fast they are, what ails them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import Metric

from tenure.core.blocks import replicas
from tenure.core.blocks.block_records import mark_of
from tenure.core.state.context import Context
from tenure.daemon.metrics.families import gauge
from tenure.model.node import Node

LABELS = ("node", "tier", "kind")


@dataclass(frozen=True, slots=True)
class TierFacts:
    """A tier at one moment; ``bytes_per_s`` 0: not known."""

    node: str
    tier: str
    kind: str
    capacity_bytes: int
    used_bytes: int
    bytes_per_s: int
    is_sound: bool


def facts_of(ctx: Context, node: Node) -> Iterator[TierFacts]:
    """Yield what there is to tell of a node's tiers now."""
    for tier in node.spec.tiers:
        mark = mark_of(ctx, node.name, tier.name)
        yield TierFacts(
            node.name,
            tier.name,
            tier.kind.value,
            tier.capacity_bytes,
            ctx.block_index.used.get(mark.key, 0),
            replicas.speed_of(ctx, node.name, tier),
            mark.surveyed_us > 0 and not mark.fault,
        )


def families(rows: tuple[TierFacts, ...]) -> Iterator[Metric]:
    """Yield the metric families; none where no node has tiers."""
    if not rows:
        return
    numbers = {
        "tier_capacity_bytes": ("What blocks may take", "capacity_bytes"),
        "tier_used_bytes": ("What blocks take, copies on their way included", "used_bytes"),
        "tier_read_bytes_per_second": ("As stated or measured, 0: unknown", "bytes_per_s"),
        "tier_up": ("1 when it was looked at and has no fault", "is_sound"),
    }
    for name, (text, field) in numbers.items():
        values = {(row.node, row.tier, row.kind): float(getattr(row, field)) for row in rows}
        yield gauge(name, text, values, *LABELS)
