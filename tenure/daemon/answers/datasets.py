"""Datasets, the tiers of nodes and what nobody knows in them, as the API shows them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tenure.api.requests.backend import Steps
from tenure.api.views.datasets import HoldingView, OrphanView, Shelved
from tenure.api.views.nodes import TierView
from tenure.api.views.render import moment
from tenure.core.blocks import external, replicas
from tenure.core.blocks.block_records import mark_of
from tenure.core.datasets import copies
from tenure.core.state.context import Context
from tenure.model.dataset import Dataset, Replica
from tenure.model.tier import DURABLE, TierKind

#: Blocks counted in one go.
STEP = 64
#: Blocks that wait for copies that one look at a dataset goes through.
MOST_LOOKED = 200


def shelved(ctx: Context, dataset: Dataset) -> Shelved:
    """Return how far the copies of a dataset are."""
    if dataset.spec.is_external:
        outlook = external.outlook_of(ctx, dataset)
        return Shelved(dataset.spec.blocks, 0, outlook.seen_us, outlook.fault)
    block_index = ctx.block_index
    whole, stored = block_index.whole.get(dataset.id, 0), block_index.stored.get(dataset.id, 0)
    return Shelved(whole, stored, waits_for="" if dataset.is_going else _waits_for(ctx, dataset))


def _waits_for(ctx: Context, dataset: Dataset) -> str:
    """Say why a block of a dataset gets no more copies now, and which tier cannot take any."""
    keys = (key for key in islice(ctx.block_index.starved, MOST_LOOKED))
    rows = (ctx.tables.blocks[key] for key in keys if key.startswith(f"{dataset.id}/"))
    block = next((block for block in rows if block.note), None)
    if block is None:
        return ""
    shut = next(_shut(ctx, frozenset(dataset.spec.tiers) or DURABLE), "")
    return f"block {block.number} waits: {block.note}{shut and f' ({shut})'}"


def _shut(ctx: Context, kinds: frozenset[TierKind]) -> Iterator[str]:
    """Yield which tiers of some kinds take nothing new now, and why."""
    for node in ctx.tables.nodes.values():
        for tier in node.spec.tiers:
            mark = mark_of(ctx, node.name, tier.name)
            if tier.kind in kinds and not copies.is_open(ctx, node.name, tier):
                trouble = ctx.block_index.troubles.get(mark.key, "it took no copy a moment ago")
                yield f"{mark.key}: {mark.fault or trouble}"


def holdings(ctx: Context, dataset: Dataset) -> Steps[tuple[list[HoldingView], int]]:
    """Return what tiers hold of a dataset, and of how many blocks no copy can be read now."""
    found: dict[str, HoldingView] = {}
    reads: dict[str, bool] = {}
    unreadable = 0
    for block in replicas.blocks_of(ctx, dataset):
        is_read = dataset.spec.is_external and bool(replicas.offered(ctx, block))
        for replica in block.replicas:
            mark = f"{replica.node}/{replica.tier}"
            if mark not in found:
                found[mark], reads[mark] = _holding(ctx, replica), replicas.reads(ctx, replica)
            row = found[mark]
            row["blocks"] += replica.is_present
            row["copying"] += not replica.is_present
            row["bytes"] += block.length
            is_read |= replica.is_present and reads[mark] and mark not in block.broken
        unreadable += not is_read
        if block.number % STEP == 0:
            yield
    return sorted(found.values(), key=lambda row: (row["node"], row["tier"])), unreadable


def _holding(ctx: Context, replica: Replica) -> HoldingView:
    tier = replicas.tier_of(ctx, replica)
    return HoldingView(
        node=replica.node,
        tier=replica.tier,
        kind=_kind_of(replica) if tier is None else tier.kind.value,
        blocks=0,
        bytes=0,
        copying=0,
    )


def _kind_of(replica: Replica) -> str:
    """Return the kind of a copy in HDFS, "" of one whose tier is configured no more."""
    word, _, kind = replica.tier.partition("-")
    return kind if word == external.TIER else ""


def tiers(ctx: Context, name: str) -> list[TierView]:
    """Return the tiers of a node, and what is in them."""
    node = ctx.tables.nodes[name]
    found = []
    for tier in node.spec.tiers:
        mark = mark_of(ctx, name, tier.name)
        row = TierView(
            name=tier.name,
            kind=tier.kind.value,
            path=tier.path,
            capacity_bytes=tier.capacity_bytes,
            used_bytes=ctx.block_index.used.get(mark.key, 0),
            blocks=len(ctx.block_index.held.get(mark.key, ())),
            bytes_per_s=tier.bytes_per_s or mark.bytes_per_s or None,
            is_measured=not tier.bytes_per_s and mark.bytes_per_s > 0,
            surveyed_at=moment(mark.surveyed_us),
            verified_at=moment(mark.checked_us),
            fault=mark.fault or mark.note,
        )
        found.append(row)
    return found


def orphans(ctx: Context) -> list[OrphanView]:
    """Return the blocks in tiers that no record knows, by dataset, node and tier."""
    found = []
    for mark in ctx.tables.tiers.values():
        node = ctx.tables.nodes.get(mark.node)
        tier = None if node is None else node.spec.tier(mark.tier)
        if tier is None:
            continue
        for orphan in mark.strays:
            row = OrphanView(
                dataset=orphan.dataset,
                node=mark.node,
                tier=mark.tier,
                path=f"{tier.path}/{replicas.folder_of(ctx)}/{orphan.dataset}",
                blocks=orphan.blocks,
                bytes=orphan.size_bytes,
                is_known=orphan.dataset in ctx.tables.datasets,
            )
            found.append(row)
    return sorted(found, key=lambda row: (row["dataset"], row["node"], row["tier"]))
