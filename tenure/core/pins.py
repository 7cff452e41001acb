"""Blocks that tasks read are pinned: they leave no tier until the task is over."""

from __future__ import annotations

from dataclasses import replace

from tenure.core import replicas, shelves, tiers
from tenure.core.context import Context
from tenure.model.batch import TASK_OVER, Task
from tenure.model.dataset import Block, Location


def touch(ctx: Context, block: Block, here: Location, reader: str) -> None:
    """Pin a block for the task that begins to read one of its copies."""
    copy = block.on(here.node, here.tier)
    assert copy is not None
    block = shelves.with_replica(block, replace(copy, used_us=ctx.now_us))
    shelves.put_block(ctx, replace(block, pins=tuple(sorted({*block.pins, reader}))))


def rearm(ctx: Context) -> None:
    """Let go of blocks whose readers are no more: a restore begins tasks anew."""
    for block in list(ctx.tables.blocks.values()):
        kept = tuple(pin for pin in block.pins if _reads(ctx, pin))
        if kept != block.pins:
            shelves.put_block(ctx, replace(block, pins=kept))


def _reads(ctx: Context, reader: str) -> bool:
    task = ctx.tables.tasks.get(reader)
    return task is not None and task.reading is not None and task.state not in TASK_OVER


def release(ctx: Context, task: Task) -> None:
    """Let go of the block of a task that is over, and of the copy that was brought for it."""
    stage = ctx.tables.batches[task.batch].spec.stage(task.stage)
    ctx.ahead.brought.pop(task.key, None)
    if task.reading is None or stage.dataset is None:
        return
    block = ctx.tables.blocks.get(stage.dataset.key(task.number))
    if block is None or task.key not in block.pins:
        return
    block = replace(block, pins=tuple(pin for pin in block.pins if pin != task.key))
    block = shelves.put_block(ctx, block)
    if task.reading.is_brought and not block.pins and _is_spare(ctx, block, task.node):
        tiers.discard(ctx, block, task.node, task.reading.tier)


def _is_spare(ctx: Context, block: Block, node: str) -> bool:
    """Whether a block lies on enough other nodes without its copy on this one."""
    dataset = ctx.tables.datasets.get(block.dataset)
    others = {place.node for place in replicas.offered(ctx, block)} - {node}
    return dataset is not None and len(others) >= dataset.spec.replicas
