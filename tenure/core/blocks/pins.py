"""Blocks that tasks and executors read are pinned: they leave no tier until the reader is over.

A task is over with its attempt, for the next one is matched anew. An executor keeps its blocks over
all of its attempts, so it holds them until it has succeeded or its job is over. Owns the pins in
the records of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tenure.core.blocks import block_records, replicas, tiers
from tenure.core.state.context import Context
from tenure.model.batch import TASK_OVER, Task
from tenure.model.dataset import Block, Location
from tenure.model.facts import LABEL_BLOCKS, ContainerFacts, number_of
from tenure.model.job import Executor, ExecutorState, Job
from tenure.model.reading import DatasetInput, Reading


def touch(ctx: Context, block: Block, here: Location, reader: str) -> None:
    """Pin a block for the task or executor that begins to read one of its copies."""
    copy = block.on(here.node, here.tier)
    assert copy is not None
    hold(ctx, block_records.with_replica(block, replace(copy, used_us=ctx.now_us)), reader)


def hold(ctx: Context, block: Block, reader: str) -> None:
    """Pin a block for the task or executor that is to read it."""
    block_records.put_block(ctx, replace(block, pins=tuple(sorted({*block.pins, reader}))))


def rearm(ctx: Context) -> None:
    """Let go of blocks whose readers are no more: a restore begins tasks anew."""
    for block in list(ctx.tables.blocks.values()):
        kept = tuple(pin for pin in block.pins if _reads(ctx, block, pin))
        if kept != block.pins:
            block_records.put_block(ctx, replace(block, pins=kept))


def _reads(ctx: Context, block: Block, reader: str) -> bool:
    task = ctx.tables.tasks.get(reader)
    if task is not None:
        return task.reading is not None and task.state not in TASK_OVER
    executor = ctx.tables.executors.get(reader)
    if executor is None:
        return ctx.is_set_aside(reader)
    if block.number not in executor.blocks:
        return False
    return not (has_succeeded(executor) or ctx.tables.jobs[executor.job].is_over)


def has_succeeded(executor: Executor) -> bool:
    """Whether an executor has done its part: it reads no more."""
    return executor.state is ExecutorState.EXITED and executor.exit_code == 0


def release(ctx: Context, task: Task) -> None:
    """Let go of the block of a task that is over, and of the copy that was brought for it."""
    stage = ctx.tables.batches[task.batch].spec.stage(task.stage)
    ctx.prefetches.brought.pop(task.key, None)
    if task.reading is None or stage.dataset is None:
        return
    block = ctx.tables.blocks.get(stage.dataset.key(task.number))
    if block is not None and task.key in block.pins:
        _give_back(ctx, _let_go(ctx, block, task.key), task.node, task.reading)


def _let_go(ctx: Context, block: Block, reader: str) -> Block:
    kept = tuple(pin for pin in block.pins if pin != reader)
    return block_records.put_block(ctx, replace(block, pins=kept))


def _give_back(ctx: Context, block: Block, node: str, reading: Reading) -> None:
    """Remove a copy that was brought for a reader that needs it no more."""
    is_there = block.on(node, reading.tier) is not None
    if reading.is_brought and is_there and not block.pins and _is_spare(ctx, block, node):
        tiers.discard(ctx, block, node, reading.tier)


def _is_spare(ctx: Context, block: Block, node: str) -> bool:
    """Whether a block lies on enough other nodes without its copy on this one."""
    dataset = ctx.tables.datasets.get(block.dataset)
    others = {place.node for place in replicas.offered(ctx, block)} - {node}
    return dataset is not None and len(others) >= dataset.spec.replicas


# executors


def leave(ctx: Context, executor: Executor) -> None:
    """Have the blocks of an executor that reads no more let go of, some in this event."""
    if executor.blocks:
        ctx.prefetches.leaving[executor.key] = None


def leave_all(ctx: Context, job: Job) -> None:
    """Have the blocks of a job that is over let go of."""
    if job.spec.dataset is not None:
        ctx.prefetches.deals.pop(job.id, None)
        for executor in ctx.executors_of(job.id):
            ctx.prefetches.lost_us.pop(executor.key, None)
            leave(ctx, executor)


def sweep(ctx: Context, most: int) -> int:
    """Let go of blocks of executors that read no more; return how many of ``most`` are left."""
    for key in list(ctx.prefetches.leaving):
        if most <= 0:
            break
        del ctx.prefetches.leaving[key]
        executor = ctx.tables.executors.get(key)
        job = None if executor is None else ctx.tables.jobs.get(executor.job)
        if executor is None or job is None or job.spec.dataset is None:
            continue
        most -= len(executor.blocks)
        readings = executor.readings or (None,) * len(executor.blocks)
        for number, reading in zip(executor.blocks, readings, strict=True):
            ctx.prefetches.brought.pop(part_of(executor, number), None)
            block = ctx.tables.blocks.get(job.spec.dataset.key(number))
            if block is None or key not in block.pins:
                continue
            block = _let_go(ctx, block, key)
            if reading is not None:
                _give_back(ctx, block, executor.node, reading)
    return most


def move_out(ctx: Context, executor: Executor, job: Job) -> None:
    """Remove what was brought to the node that an executor leaves; its blocks stay pinned."""
    for number, reading in zip(executor.blocks, executor.readings, strict=False):
        block = None
        if job.spec.dataset is not None and reading.is_brought:
            block = ctx.tables.blocks.get(job.spec.dataset.key(number))
        if block is not None and block.pins == (executor.key,):
            _give_back(ctx, _let_go(ctx, block, executor.key), executor.node, reading)
            hold(ctx, ctx.tables.blocks[block.key], executor.key)


def adopted(ctx: Context, executor: Executor, facts: ContainerFacts) -> Executor:
    """Return an executor with the blocks that its container was made for, and have them pinned."""
    dataset = ctx.tables.jobs[executor.job].spec.dataset
    if dataset is None:
        return executor
    told = {number_of(word) for word in facts.labels.get(LABEL_BLOCKS, "").split()}
    numbers = tuple(sorted(number for number in told if number < dataset.blocks))
    for number in numbers:
        block = ctx.tables.blocks.get(dataset.key(number))
        if block is not None:
            hold(ctx, block, executor.key)
    left = ctx.prefetches.deals.get(executor.job)
    if left is not None:  # the backup was made while blocks were shared out: these are by now
        ctx.prefetches.deals[executor.job] = [number for number in left if number not in told]
    return replace(executor, blocks=numbers or executor.blocks, readings=())


def part_of(executor: Executor, number: int) -> str:
    """Return the key of one block of an executor, among those that are brought."""
    return f"{executor.key}@{number}"


def brought(ctx: Context) -> Iterator[str]:
    """Yield the keys of blocks that are being brought for a reader, or lie there for it by now."""
    for part in ctx.prefetches.brought:
        owner, _, number = part.partition("@")
        given: DatasetInput | None = None
        task, executor = ctx.tables.tasks.get(owner), ctx.tables.executors.get(owner)
        if number and executor is not None:
            given = ctx.tables.jobs[executor.job].spec.dataset
        elif task is not None:
            given = ctx.tables.batches[task.batch].spec.stage(task.stage).dataset
            number = str(task.number)
        if given is not None:
            yield given.key(int(number))


def are_there(ctx: Context, executor: Executor, job: Job) -> bool:
    """Whether the copies that an executor is to read are chosen, and still there."""
    dataset = job.spec.dataset
    if dataset is None:
        return True
    for number, reading in zip(executor.blocks, executor.readings, strict=False):
        block = ctx.tables.blocks.get(dataset.key(number))
        copy = None if block is None else block.on(executor.node, reading.tier)
        if copy is None or not copy.is_present:
            return False
    return bool(executor.readings)
