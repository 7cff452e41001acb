"""Blocks that a restored state does not know: kept until somebody says that they may go.

Theory of operation (ours). A state that was put back from a backup is older than the tiers: what
was put since lies in them, and no record tells of it. Such blocks may be the only ones of their
dataset, so the first whole look at a tier since then has no block removed whose dataset, or whose
checksum, no record knows. They take room, are told of, and stay through later looks; an operator
has them removed. Where a put that the backup knew goes on, its blocks are no orphans then. What
comes later without a record is what a copy left whose end was not waited for. Stored records and
events still call them strays. Owns the orphans in the records of tiers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tenure.core.blocks import replicas
from tenure.core.blocks.block_records import mark_of, put_mark
from tenure.core.state.context import Context
from tenure.model.dataset import Block, Drop, Orphan, TierMark
from tenure.model.events import DiscardOrphans


def is_orphan(ctx: Context, mark: TierMark, name: str, block: Block | None) -> bool:
    """Whether a block's file in a tier is kept though no record tells what it is to be.

    ``block`` is the record of its ``name``, if there is one.
    """
    if not ctx.meta.restored_us or (block is not None and block.sha256):
        return False
    is_first = mark.known_us < ctx.meta.restored_us
    return is_first or any(orphan.dataset == name.split("/")[1] for orphan in mark.strays)


@dataclass(slots=True)
class Tally:
    """What one look at a tier finds of orphans, by dataset: blocks and bytes."""

    rows: dict[str, Orphan] = field(default_factory=dict)

    def add(self, name: str, size_bytes: int) -> None:
        """Count the file of a block, by its name in the tier."""
        key = name.split("/")[1]
        was = self.rows.get(key) or Orphan(key, 0, 0)
        self.rows[key] = Orphan(key, was.blocks + 1, was.size_bytes + size_bytes)


def note(ctx: Context, mark: TierMark, tally: Tally, *, is_whole: bool) -> None:
    """Keep what a look has found; what was known stays where it did not get to the end."""
    mark = mark_of(ctx, mark.node, mark.tier)
    rows = dict(tally.rows)
    if not is_whole:
        rows = {orphan.dataset: orphan for orphan in mark.strays} | rows
    for drop in mark.drops:  # discarded while it was being looked at
        rows.pop(drop.name.rpartition("/")[2], None)
    found = tuple(rows[key] for key in sorted(rows))
    known_us = ctx.now_us if is_whole else mark.known_us
    put_mark(ctx, replace(mark, strays=found, known_us=known_us))
    if found == mark.strays:
        return
    blocks, size = sum(s.blocks for s in found), sum(s.size_bytes for s in found)
    ctx.publish("tier.strays", mark.key, datasets=len(found), blocks=blocks, bytes=size)


def discard(ctx: Context, command: DiscardOrphans) -> None:
    """Have the orphans of a dataset removed from all tiers; replies their sum."""
    key = command.dataset
    marks = [m for m in ctx.tables.tiers.values() if any(s.dataset == key for s in m.strays)]
    if not marks:
        ctx.refuse(command, "not_found", f"no tier has orphans of dataset {key}", status=404)
        return
    if key in ctx.tables.datasets:
        told = f"dataset {key} is known, and they may be its blocks: put the same files again, or "
        told += "remove the dataset first"
        ctx.refuse(command, "in_use", told, status=409)
        return
    gone = [_drop(ctx, mark, key) for mark in marks]
    whole = _sum(key, gone)
    ctx.publish("dataset.strays_discarded", key, blocks=whole.blocks, bytes=whole.size_bytes)
    ctx.notices.nodes |= {mark.node for mark in marks}  # they have something to remove
    ctx.reply(command, whole)


def _drop(ctx: Context, mark: TierMark, key: str) -> Orphan:
    """Have the folder of a dataset removed from a tier; it takes room until then."""
    orphan = next(orphan for orphan in mark.strays if orphan.dataset == key)
    left = tuple(other for other in mark.strays if other is not orphan)
    folder = Drop(f"{replicas.folder_of(ctx)}/{key}", orphan.size_bytes)
    put_mark(ctx, replace(mark, strays=left, drops=(*mark.drops, folder)))
    return orphan


def _sum(key: str, rows: Iterable[Orphan]) -> Orphan:
    found = list(rows)
    return Orphan(key, sum(s.blocks for s in found), sum(s.size_bytes for s in found))
