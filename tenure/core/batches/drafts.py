"""Tasks of batches that are not accepted yet: made in slices, and nobody's until then.

A batch is accepted whole, in one transaction; its tasks may be ten thousand records, so they are
stored before, as drafts. Nothing looks at a task whose batch is not there. Where the daemon ends in
between, or the batch is not accepted after all, they are dropped. So are those of a batch that is
forgotten: its own record goes at once, they go part by part; a restart ends that. Owns the records
of tasks whose batch is not accepted yet, or was forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator

from tenure.core.state import work_limits
from tenure.core.state.context import Context
from tenure.model.batch import BatchSpec, Task
from tenure.model.events import SubmitBatch

MACHINE = "drafts"
#: Tasks that are dropped in one transaction: so many records are removed in a millisecond.
PART = 100


def tasks_of(ctx: Context, command: SubmitBatch) -> Iterator[Task]:
    """Yield the tasks of a batch that is submitted, in their order."""
    index = 0
    for stage in command.spec.stages:
        chunks = command.chunks.get(stage.name, ())
        for number in range(stage.count):
            chunk = chunks[number] if chunks else None
            yield Task(command.batch, index, stage.name, number, chunk, changed_us=ctx.now_us)
            index += 1


def put(ctx: Context, task: Task) -> None:
    """Store a task of a batch that is not there yet."""
    while task.batch in ctx.index.remains:  # it comes again by the same id
        _drop_one(ctx, task.batch)
    ctx.tables.tasks.put(task.key, task)


def drop(ctx: Context, batch: str, spec: BatchSpec) -> None:
    """Forget the tasks of a batch that is forgotten, or not accepted: part by part, from now on."""
    ctx.index.remains[batch] = spec.tasks
    ctx.arm(ctx.now_us, MACHINE, "all")
    for stage in spec.stages:
        ctx.index.tasks_by_stage.pop((batch, stage.name), None)


def on_timer(ctx: Context, key: str) -> None:
    """Drop one more part of what is left of forgotten batches."""
    for _ in range(PART):
        if not ctx.index.remains:
            return
        _drop_one(ctx, next(iter(ctx.index.remains)))
        ctx.work.spend(work_limits.ENTRY)
    ctx.arm(ctx.now_us, MACHINE, "all")


def _drop_one(ctx: Context, batch: str) -> None:
    """Drop the last task that is left of a batch."""
    left = ctx.index.remains[batch] - 1
    if left >= 0:
        ctx.tables.tasks.drop(f"{batch}/{left}")
    if left > 0:
        ctx.index.remains[batch] = left
    else:
        del ctx.index.remains[batch]


def sweep(ctx: Context) -> None:
    """Forget tasks of batches that are not there: none of them, after a restart. O(tasks)."""
    ctx.index.remains.clear()
    table, batches = ctx.tables.tasks, ctx.tables.batches
    for key, task in [row for row in table.items() if row[1].batch not in batches]:
        table.drop(key)
        ctx.index.tasks_by_stage.pop((task.batch, task.stage), None)
