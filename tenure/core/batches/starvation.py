"""Tasks that get no CPU: begun anew on nodes with room, where their own gives them none (ours).

The control law throttles the tasks of a saturated node, which costs no work that was done; but
where owners want all of it for long they would hold their slots and crawl. Once a node's quota was
at its floor for ``Params.starved_us`` nothing more begins there, and as many of its tasks as others
have room for, the latest-started first, are begun anew there. One that had got half-way goes on at
the floor, for ending it would win little, but not for longer than it takes anew: owners may want
their node for hours, and its batch would wait as long. Owns nothing: ``harvestable`` keeps since
when.
"""

from __future__ import annotations

from tenure.core.attempts.tasks import TASKS, stage_of
from tenure.core.nodes import harvestable
from tenure.core.nodes.harvestable import Starved
from tenure.core.state import work_limits
from tenure.core.state.context import Context
from tenure.model.batch import StageSpec, Task, TaskState

MACHINE = "starved"


def note(ctx: Context, node: str, *, is_at_floor: bool) -> None:
    """Take in whether a node's tasks have next to no CPU."""
    if not is_at_floor:
        ctx.own(Starved).by_node.pop(node, None)
    elif node not in ctx.own(Starved).by_node:
        ctx.own(Starved).by_node[node] = ctx.now_us
        ctx.arm(ctx.now_us + ctx.params.starved_us, MACHINE, node)


def on_timer(ctx: Context, key: str) -> None:
    """Begin tasks of a starved node anew elsewhere, and look again later."""
    ctx.serve_again(key)
    since_us = ctx.own(Starved).by_node.get(key)
    if since_us is None or ctx.now_us < since_us + ctx.params.starved_us:
        return
    if ctx.work.is_spent:  # others were starved at this moment too
        ctx.arm(ctx.now_us, MACHINE, key)
        return
    ctx.arm(ctx.now_us + ctx.params.starved_us, MACHINE, key)
    running = [task for task in ctx.tasks_on(key) if task.state is TaskState.RUNNING]
    room: dict[tuple[str, str], int] = {}
    for task in sorted(running, key=lambda t: (t.started_us or 0, t.index), reverse=True):
        stage = stage_of(ctx, task)
        if (task.batch, task.stage) not in room:
            room[task.batch, task.stage] = _room_for(ctx, stage, len(running))
        left = room[task.batch, task.stage]
        if left > 0 and _is_worth_it(ctx, task, stage):
            room[task.batch, task.stage] = left - 1
            TASKS.reclaim(ctx, task, "its node had no CPU for it for long, and others have")
            ctx.work.spend(work_limits.PLACE)


def _room_for(ctx: Context, stage: StageSpec, most: int) -> int:
    """Return how many tasks of a stage the nodes that lend have room for now, ``most`` or more."""
    found = 0
    for looked, node in enumerate(ctx.tables.nodes.values()):
        if found >= most:
            break
        if harvestable.is_lendable(ctx, node) and harvestable.holds(node, stage):
            found += harvestable.slots_on(stage, harvestable.look_at(ctx, node).free, node)
        ctx.work.spend(looked % work_limits.LOOKS == 0)
    return found


def _is_worth_it(ctx: Context, task: Task, stage: StageSpec) -> bool:
    """Whether less than half of a task was done, or it has waited for as long as it takes."""
    since_us = ctx.own(Starved).by_node[task.node]
    run_us = harvestable.task_us(stage, ctx.tables.nodes[task.node])
    fed_us = since_us - (task.started_us or 0)
    return fed_us < run_us / 2 or ctx.now_us - since_us >= run_us
