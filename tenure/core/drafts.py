"""Tasks of batches that are not accepted yet: made in slices, and nobody's until then.

A batch is accepted whole, in one transaction; its tasks may be ten thousand records, so they are
stored before, as drafts. Nothing looks at a task whose batch is not there. Where the daemon ends in
between, or the batch is not accepted after all, they are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

from tenure.core.context import Context
from tenure.core.index import Strand
from tenure.model.batch import BatchSpec, Task
from tenure.model.events import SubmitBatch


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
    ctx.index.strands.setdefault((task.batch, task.stage), Strand()).take(None, task)
    ctx.tables.tasks.put(task.key, task)


def drop(ctx: Context, batch: str, spec: BatchSpec) -> None:
    """Forget the tasks of a batch that is forgotten, or not accepted. O(tasks)."""
    for index in range(spec.tasks):
        ctx.tables.tasks.drop(f"{batch}/{index}")
    for stage in spec.stages:
        ctx.index.strands.pop((batch, stage.name), None)


def sweep(ctx: Context) -> None:
    """Forget tasks whose batch was not accepted before the daemon ended. O(tasks)."""
    table, batches = ctx.tables.tasks, ctx.tables.batches
    for key, task in [row for row in table.items() if row[1].batch not in batches]:
        table.drop(key)
        ctx.index.strands.pop((task.batch, task.stage), None)
