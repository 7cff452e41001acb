"""Why a task over a dataset is where it is: the copy it reads, its cost, and what else there is."""

from __future__ import annotations

from typing import Any

from tenure.api.batchviews import reading_view
from tenure.core import external, prefetching, reading, tasks
from tenure.core.context import Context
from tenure.model.batch import Task, TaskState


def explain(ctx: Context, task: Task) -> dict[str, Any]:
    """Return what a task reads and why there; ``choices`` are the cheapest nodes as things are."""
    stage = tasks.stage_of(ctx, task)
    found: dict[str, Any] = {
        "task": task.index,
        "state": task.state.value,
        "node": task.node,
        "reading": reading_view(task.reading),
        "block": None,
        "choices": [],
        "scores": dict(ctx.localizer.told()),
        "reason": _reason(ctx, task),
    }
    wait = reading.look_at(ctx, stage, task)
    if wait is not None:
        places = [{"node": p.node, "tier": p.tier, "kind": p.kind.value} for p in wait.places]
        found["block"] = {"number": wait.block.number, "copies": places}
        found["choices"] = [
            {"node": choice.node, "cost": choice.cost / 1000}
            for choice in reading.choices(ctx, task)
        ]
    return found


def _reason(ctx: Context, task: Task) -> str:
    """Say in a sentence why a task is where it is."""
    stage = tasks.stage_of(ctx, task)
    if stage.dataset is None:
        return "its stage reads no dataset: it goes to any node with room"
    if task.reading is not None and task.reading.is_remote:
        return "it reads its block from HDFS over the network: no node with a copy was free soon"
    if task.reading is not None:
        kind = task.reading.kind.value
        how = "which was prefetched" if task.reading.is_ahead else "the cheapest match"
        how = "which was brought there for it" if task.reading.is_brought else how
        return f"it reads a copy in {kind} of {task.node}, {how}"
    return task.note if task.state is not TaskState.PENDING else _waits(ctx, task)


def _waits_for_hdfs(ctx: Context, key: str, wait: reading.Wait | None) -> str:
    dataset = ctx.tables.datasets.get(key)
    if dataset is None:
        return "its dataset was removed"
    fault = external.outlook_of(ctx, dataset).fault
    if fault:
        return f"where its block lies in HDFS cannot be told: {fault}"
    if wait is None:
        return "where its block lies in HDFS is being looked up"
    return wait.block.note or "for a slot on a node with a copy, or any other a moment later"


def _waits(ctx: Context, task: Task) -> str:
    """Say what a task waits for."""
    stage = tasks.stage_of(ctx, task)
    wait = reading.look_at(ctx, stage, task)
    if stage.dataset is not None and stage.dataset.is_external:
        return _waits_for_hdfs(ctx, stage.dataset.id, wait)
    if wait is None or not wait.places:
        return "no copy of its block can be read now"
    if task.key in ctx.ahead.brought:
        node, tier = ctx.ahead.brought[task.key]
        return f"its block is being brought to {tier} of {node}"
    if prefetching.is_held(ctx, ctx.tables.batches[task.batch], stage):
        return "its stage is held back for copies into memory that are worth it"
    return "no node that is free for it now is worth it: others were matched, or a slot is awaited"
