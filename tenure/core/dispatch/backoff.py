"""Tasks that wait for a node, and which of them may begin.

Theory of operation. One that was tried before is held back until its pause is over, and until
nothing of its last attempt can run any more. Of a lost rack these are thousands, and each look for
the next task would go through all of them. So whoever finds one held back takes it out of the order
(``Strand.hold``), and it comes back when it is touched: a timer is set for the end of its pause,
and each grave that goes, or is fenced, touches its owner. Nothing of this is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenure.core.state.context import Context
from tenure.core.state.indexes import Strand
from tenure.model.batch import Task


def placeable(ctx: Context, batch: str, stage: str) -> Iterator[Task]:
    """Yield the tasks of a stage that wait for a node and may begin: tried ones, then by index."""
    strand = ctx.index.strands[batch, stage]
    yield from free(ctx, batch, strand, strand.waiting())


def free(ctx: Context, batch: str, strand: Strand, indices: Iterable[int]) -> Iterator[Task]:
    """Yield those tasks of a stage that may begin; others are held back from then on."""
    for index in indices:
        task = ctx.tables.tasks[f"{batch}/{index}"]
        if is_held(ctx, task):
            strand.hold(task)
        else:
            yield task


def is_held(ctx: Context, task: Task) -> bool:
    """Whether a task's pause lasts, or something of its last attempt may still run."""
    return ctx.now_us < task.retry_us or any(g.may_run for g in ctx.graves_of(task.key))


def release(ctx: Context, task: Task) -> None:
    """Have a task that was touched be looked at again."""
    ctx.index.strands[task.batch, task.stage].release(task.index)
