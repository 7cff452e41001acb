"""Tasks that wait for a node, and which of them may begin.

Theory of operation. One that was tried before is held back until its pause is over, and until
nothing of its last attempt can run any more. Of a lost rack these are thousands, and each look for
the next task would go through all of them. So whoever finds one held back takes it out of the order
(``StageTasks.hold``), and it comes back when it is touched: a timer is set for the end of its
pause, and each tombstone that goes, or is fenced, touches its owner. Nothing of this is stored.
Owns which tasks are held back, in the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenure.core.attempts import tombstones
from tenure.core.attempts.tasks import TASKS
from tenure.core.state.context import Context
from tenure.core.state.indexes import StageTasks
from tenure.model.batch import Task


def placeable(ctx: Context, batch: str, stage: str) -> Iterator[Task]:
    """Yield the tasks of a stage that wait for a node and may begin: tried ones, then by index."""
    stage_tasks = ctx.index.tasks_by_stage[batch, stage]
    yield from free(ctx, batch, stage_tasks, stage_tasks.waiting())


def free(
    ctx: Context, batch: str, stage_tasks: StageTasks, indices: Iterable[int]
) -> Iterator[Task]:
    """Yield those tasks of a stage that may begin; others are held back from then on."""
    for index in indices:
        task = ctx.tables.tasks[f"{batch}/{index}"]
        if is_held(ctx, task):
            stage_tasks.hold(task)
        else:
            yield task


def is_held(ctx: Context, task: Task) -> bool:
    """Whether a task's pause lasts, something of its last attempt may run, or it is left alone."""
    if ctx.is_quarantined(TASKS.machine, task.key):
        return True
    return ctx.now_us < task.retry_us or tombstones.may_run(ctx, task.key)


def release(ctx: Context, task: Task) -> None:
    """Have a task that was touched be looked at again."""
    ctx.index.tasks_by_stage[task.batch, task.stage].release(task.index)
