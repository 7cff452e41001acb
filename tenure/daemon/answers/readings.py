"""Why a reader of a dataset is where it is: the copies it reads, their cost, what else there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from tenure.api.views.readings import ChoiceView, CopyView, ReadingView
from tenure.api.views.render import render
from tenure.core.attempts.executors import block_file
from tenure.core.attempts.tasks import stage_of
from tenure.core.batches import planning
from tenure.core.blocks import external, replicas
from tenure.core.datasets import prefetching
from tenure.core.dispatch import dispatch_list, task_inputs
from tenure.core.jobs import executor_inputs, locality_preference
from tenure.core.state.context import Context
from tenure.model.batch import INPUT_FOLDER, Task, TaskState
from tenure.model.dataset import Location
from tenure.model.job import Executor, Job
from tenure.model.reading import DatasetInput, Reading


def explain(ctx: Context, task: Task) -> dict[str, object]:
    """Return what a task reads and why there; ``choices`` are the cheapest nodes as things are."""
    stage = stage_of(ctx, task)
    found: dict[str, object] = {
        "task": task.index,
        "state": task.state.value,
        "node": task.node,
        "reading": _reading(task.reading),
        "block": None,
        "choices": [],
        "scores": dict(ctx.localizer.told()),
        "reason": _reason(ctx, task),
    }
    wait = task_inputs.look_at(ctx, stage, task)
    if wait is not None:
        found["block"] = {"number": wait.block.number, "copies": _copies(wait.places)}
        found["choices"] = [render(ChoiceView, one) for one in task_inputs.choices(ctx, task)]
    return found


def _reading(reading: Reading | None) -> ReadingView | None:
    return None if reading is None else render(ReadingView, reading)


def _copies(places: Iterable[Location]) -> list[CopyView]:
    return [render(CopyView, place) for place in places]


def silence(ctx: Context, task: Task) -> str:
    """Say what a task on a node that does not answer waits for; "" where the node answers."""
    node = ctx.tables.nodes.get(task.place)
    if node is None or node.unreachable_us is None:
        return ""
    return f"for {node.name}, which does not answer, or `tenure node fence {node.name}`"


def _reason(ctx: Context, task: Task) -> str:
    """Say in a sentence why a task is where it is."""
    stage = stage_of(ctx, task)
    awaited = silence(ctx, task)
    if awaited:
        return f"it waits {awaited}"
    if stage.dataset is None:
        return "its stage reads no dataset: it goes to any node with room"
    if task.reading is not None and task.reading.is_remote:
        return "it reads its block from HDFS over the network: no node with a copy was free soon"
    if task.reading is not None:
        kind = task.reading.kind.value
        how = "which was prefetched" if task.reading.is_ahead else "the cheapest match"
        how = "which was brought there for it" if task.reading.is_brought else how
        passed = ctx.prefetches.passed.get(task.key, "")
        faster = f"; faster copies, with the starts of its stage there: {passed}" if passed else ""
        return f"it reads a copy in {kind} of {task.node}, {how}{faster}"
    return task.note if task.state is not TaskState.PENDING else _waits(ctx, task)


def _waits_for_hdfs(ctx: Context, key: str, wait: task_inputs.Wait | None) -> str:
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
    stage = stage_of(ctx, task)
    wait = task_inputs.look_at(ctx, stage, task)
    if stage.dataset is not None and stage.dataset.is_external:
        return _waits_for_hdfs(ctx, stage.dataset.id, wait)
    if wait is None or not wait.places:
        return "no copy of its block can be read now"
    if task.key in ctx.prefetches.brought:
        node, tier = ctx.prefetches.brought[task.key]
        return f"its block is being brought to {tier} of {node}"
    if prefetching.is_held(ctx, ctx.tables.batches[task.batch], stage):
        return "its stage is held back for copies into memory that are worth it"
    if planning.is_planned(ctx, task.batch):
        return f"it waits for its turn: {dispatch_list.next_start(ctx, task.batch, stage.name)}"
    return "no node that is free for it now is worth it: others were matched, or a slot is awaited"


# executors


def summary(ctx: Context, job: Job, executor: Executor) -> dict[str, object]:
    """Return in short what an executor of a job over a dataset reads, and what it waits for."""
    kinds = Counter(reading.word for reading in executor.readings)
    return {
        "blocks": len(executor.blocks),
        "reads": dict(sorted(kinds.items())),
        "cost": sum(reading.cost for reading in executor.readings) / 1000,
        "waits_for": executor_inputs.waits_for(ctx, job, executor),
    }


def explain_executor(ctx: Context, executor: Executor) -> dict[str, object]:
    """Return which copies an executor reads and why; ``choices`` are the cheapest nodes of each."""
    job = ctx.tables.jobs[executor.job]
    waits_for, given = executor_inputs.waits_for(ctx, job, executor), job.spec.dataset
    return {
        "executor": executor.index,
        "state": executor.state.value,
        "node": executor.node,
        "reason": _why_there(job, executor, waits_for),
        "waits_for": waits_for,
        "blocks": [_block(ctx, job, given, *row) for row in _rows(executor)] if given else [],
        "scores": dict(ctx.localizer.told()),
    }


def _rows(executor: Executor) -> Iterator[tuple[int, Reading | None]]:
    return zip_longest(executor.blocks, executor.readings)


def _block(
    ctx: Context, job: Job, given: DatasetInput, number: int, reading: Reading | None
) -> dict[str, object]:
    block = ctx.tables.blocks.get(given.key(number))
    places = () if block is None else replicas.offered(ctx, block)
    return {
        "number": number,
        "file": f"{INPUT_FOLDER}/{block_file(job.spec, number)}",
        "reading": _reading(reading),
        "copies": _copies(places),
        "choices": [render(ChoiceView, one) for one in executor_inputs.choices(ctx, given, number)],
    }


def _why_there(job: Job, executor: Executor, waits_for: str) -> str:
    """Say in a sentence what an executor reads, or why not yet."""
    if job.spec.dataset is None:
        return "its job reads no dataset: its policy alone chose its node"
    if not executor.readings:
        return waits_for or executor.note or "its job has no place yet"
    kinds = Counter(reading.word for reading in executor.readings)
    told = ", ".join(f"{count} in {word}" for word, count in sorted(kinds.items()))
    told = told.replace("in brought", "brought there for it")
    is_nearer = job.decision.startswith(locality_preference.NEARER) and executor.attempt == 1
    there = f"it is on {executor.node}, {job.decision}"
    there = there if is_nearer else f"its policy chose {executor.node}"
    return (
        f"{there}; of the blocks of {job.spec.dataset.name} it reads "
        f"{len(executor.blocks)} there, by the cheapest matching of all blocks: {told}"
    )
