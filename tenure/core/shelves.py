"""Datasets, blocks and tiers as indexes: what lies where, and how much room it takes.

All of it is worked out of the records, which are changed by the functions here alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tenure.model.dataset import Block, Dataset, Replica, TierMark

if TYPE_CHECKING:
    from tenure.core.context import Context


class Standing(StrEnum):
    """What the replicas on a node are worth.

    ready: they can be read. away: the node is off, does not answer, or was not looked at since it
    came back; they count. leaving: they can be read, and are copied elsewhere. lost: they do not
    count any more.
    """

    READY = "ready"
    AWAY = "away"
    LEAVING = "leaving"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Chore:
    """What a node does with its tiers (one thing at a time): the effect, since when, of what."""

    effect: str
    kind: str
    begun_us: int
    tier: str = ""
    items: tuple[str, ...] = ()


@dataclass(slots=True)
class Shelves:
    """Where blocks lie.

    ``names`` are the ids of datasets by name, ``open`` those that are being put or removed;
    ``held`` the keys of blocks in a tier (by ``node/tier``, copies under way included), ``used``
    the bytes that these and what is to be dropped take; ``tiers_at`` the tiers of a node of which
    anything is known; ``arriving`` the copies under way to a
    node; ``whole`` how many blocks of a dataset have all of their replicas. ``wanting`` are blocks
    to be looked at for copies, in order, ``starved`` those that wait for room or a source.
    ``stored`` are the bytes of all copies of a dataset. ``standing`` is that of each node when it
    was last looked at; ``turn`` changes with everything, ``settled`` is that of the last look.
    ``chores`` are what a node does with its tiers at the moment, ``surveys`` the nodes whose tiers
    are to be looked at, not before ``again_us``; ``checks`` the blocks of a tier to be compared
    with their checksums; ``cuts`` the number of the first block of each file of a dataset;
    ``sole`` in which turn it was found whether a node has the last copy of a block; ``outlooks``
    where the blocks of datasets in HDFS were last seen (``external``).
    """

    names: dict[str, str] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    held: dict[str, set[str]] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    tiers_at: dict[str, set[str]] = field(default_factory=dict)
    arriving: dict[str, int] = field(default_factory=dict)
    whole: dict[str, int] = field(default_factory=dict)
    wanting: dict[str, None] = field(default_factory=dict)
    starved: dict[str, None] = field(default_factory=dict)
    standing: dict[str, Standing] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    chores: dict[str, Chore] = field(default_factory=dict)
    surveys: set[str] = field(default_factory=set)
    again_us: dict[str, int] = field(default_factory=dict)
    checks: dict[str, dict[str, None]] = field(default_factory=dict)
    cuts: dict[str, list[int]] = field(default_factory=dict)
    sole: dict[str, tuple[int, bool]] = field(default_factory=dict)
    outlooks: dict[str, Any] = field(default_factory=dict)
    turn: int = 0
    settled: int = -1


def put_dataset(ctx: Context, dataset: Dataset) -> Dataset:
    """Store a dataset."""
    dataset = replace(dataset, version=dataset.version + 1)
    _index_dataset(ctx.shelves, dataset)
    return ctx.tables.datasets.put(dataset.id, dataset)


def _index_dataset(shelves: Shelves, dataset: Dataset) -> None:
    if not dataset.is_going:
        shelves.names[dataset.spec.name] = dataset.id
    elif shelves.names.get(dataset.spec.name) == dataset.id:
        del shelves.names[dataset.spec.name]
    if dataset.state == "putting" or dataset.is_going:
        shelves.open.add(dataset.id)
    else:
        shelves.open.discard(dataset.id)


def drop_dataset(ctx: Context, dataset: Dataset) -> None:
    """Forget a dataset that has no blocks any more."""
    ctx.shelves.open.discard(dataset.id)
    for kept in (ctx.shelves.whole, ctx.shelves.stored, ctx.shelves.cuts):
        kept.pop(dataset.id, None)
    if ctx.shelves.names.get(dataset.spec.name) == dataset.id:
        del ctx.shelves.names[dataset.spec.name]
    ctx.tables.datasets.drop(dataset.id)


def put_block(ctx: Context, block: Block) -> Block:
    """Store a block and count its copies."""
    old = ctx.tables.blocks.get(block.key)
    if old is not None and (old.replicas, old.broken) == (block.replicas, block.broken):
        return ctx.tables.blocks.put(block.key, block)
    if old is not None:
        _count(ctx, old, -1)
    _count(ctx, block, 1)
    ctx.shelves.wanting[block.key] = None
    ctx.shelves.starved.pop(block.key, None)
    return ctx.tables.blocks.put(block.key, block)


def drop_block(ctx: Context, block: Block) -> None:
    """Forget a block; its copies are not counted any more."""
    _count(ctx, block, -1)
    for waiting in (ctx.shelves.wanting, ctx.shelves.starved):
        waiting.pop(block.key, None)
    ctx.tables.blocks.drop(block.key)


def _count(ctx: Context, block: Block, sign: int) -> None:
    shelves = ctx.shelves
    shelves.turn += 1
    for replica in block.replicas:
        mark = f"{replica.node}/{replica.tier}"
        shelves.tiers_at.setdefault(replica.node, set()).add(replica.tier)
        here = shelves.held.setdefault(mark, set())
        here.add(block.key) if sign > 0 else here.discard(block.key)
        shelves.used[mark] = shelves.used.get(mark, 0) + sign * block.length
        if not replica.is_present:
            shelves.arriving[replica.node] = shelves.arriving.get(replica.node, 0) + sign
    stored = sign * block.length * len(block.replicas)
    shelves.stored[block.dataset] = shelves.stored.get(block.dataset, 0) + stored
    dataset = ctx.tables.datasets.get(block.dataset)
    if dataset is not None and len(nodes_of(block)) >= dataset.spec.replicas:
        shelves.whole[dataset.id] = shelves.whole.get(dataset.id, 0) + sign


def nodes_of(block: Block) -> set[str]:
    """Return the nodes on which a block is present in some tier, as it was put."""
    return {
        replica.node
        for replica in block.replicas
        if replica.is_present and f"{replica.node}/{replica.tier}" not in block.broken
    }


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
    """Store what is known of a tier; what is to be dropped takes room there."""
    old = ctx.tables.tiers.get(mark.key)
    was = 0 if old is None else sum(drop.size_bytes for drop in old.drops)
    now = sum(drop.size_bytes for drop in mark.drops)
    ctx.shelves.used[mark.key] = ctx.shelves.used.get(mark.key, 0) + now - was
    ctx.shelves.tiers_at.setdefault(mark.node, set()).add(mark.tier)
    ctx.shelves.turn += 1
    return ctx.tables.tiers.put(mark.key, mark)


def mark_of(ctx: Context, node: str, tier: str) -> TierMark:
    """Return what is known of a tier."""
    return ctx.tables.tiers.get(f"{node}/{tier}") or TierMark(node, tier)


def drop_mark(ctx: Context, mark: TierMark) -> None:
    """Forget a tier that the configuration does not name any more."""
    for kept in (ctx.shelves.held, ctx.shelves.used):
        kept.pop(mark.key, None)
    ctx.shelves.tiers_at.get(mark.node, set()).discard(mark.tier)
    ctx.tables.tiers.drop(mark.key)


def reindex(ctx: Context) -> None:
    """Build the indexes from freshly loaded tables."""
    ctx.shelves = Shelves()
    for dataset in ctx.tables.datasets.values():
        _index_dataset(ctx.shelves, dataset)
    for block in ctx.tables.blocks.values():
        _count(ctx, block, 1)
        ctx.shelves.wanting[block.key] = None
    for mark in ctx.tables.tiers.values():
        ctx.shelves.tiers_at.setdefault(mark.node, set()).add(mark.tier)
        size = sum(drop.size_bytes for drop in mark.drops)
        ctx.shelves.used[mark.key] = ctx.shelves.used.get(mark.key, 0) + size
