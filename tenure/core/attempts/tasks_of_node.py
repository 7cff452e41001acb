"""What befalls the tasks of a node: kills by its agent, power-off, the end of lending.

Owns nothing: ``tasks`` has the records.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.attempts import tasks
from tenure.core.state.context import Context
from tenure.model.batch import TaskState as S
from tenure.model.harvest import HarvestAction


def on_kill(ctx: Context, node: str, action: HarvestAction) -> None:
    """Note that a node's agent ended a task, or is about to have ended it, or saw the kernel do."""
    is_oom = action.kind == "oom"
    is_guess = is_oom and not action.numbers.get("is_certain")
    why = f"its node's agent ended it for its owners ({action.resource}, {action.reason})"
    if is_oom:
        why = "the kernel ended it, for its node was short of memory"
    for task in ctx.tasks_on(node):
        is_here = task.engine_id == action.task
        if is_here and task.state in (S.STARTING, S.RUNNING, S.EXITED):
            ctx.put_task(replace(task, killed=why, is_guess=is_guess))


def on_node_off(ctx: Context, node: str) -> None:
    """Give every task of a node that is off a new attempt elsewhere."""
    for task in ctx.tasks_on(node):
        tasks.lose(ctx, task, "node is off")


def evict(ctx: Context, node: str, why: str) -> bool:
    """End every task of a node; return whether there was any."""
    found = ctx.tasks_on(node)
    for task in found:
        tasks.reclaim(ctx, task, why)
    return bool(found)
