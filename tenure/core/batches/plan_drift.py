"""How far nodes are off the plan of their batches: ahead of their starts, or behind them (ours).

Owns nothing, reads only.
"""

from __future__ import annotations

from bisect import bisect_left

from tenure.core.attempts.tasks import stage_of
from tenure.core.dispatch import dispatch_list
from tenure.core.dispatch.dispatch_list import Entry, Key
from tenure.core.nodes import harvestable
from tenure.core.state.context import Context
from tenure.model.node import Node

#: So many nodes are compared with their plan at a time.
DRIFT_NODES = 64


def drift(ctx: Context, slack_us: int) -> str:
    """Return in words how a node is off the plan by more than ``slack_us``, "" if none is.

    Behind it: what is due has no room, also where its input lies there already. Ahead of it: it has
    nothing more to begin, and what it has room for is planned elsewhere for later. ``DRIFT_NODES``
    are looked at with each call, in a circle. O(stages) each.
    """
    names = sorted(node.name for node in ctx.tables.nodes.values() if _may_drift(ctx, node))
    begin = bisect_left(names, ctx.own(dispatch_list.DispatchList).looked)
    circle = [*names[begin:], *names[:begin]]
    ctx.own(dispatch_list.DispatchList).looked = (
        circle[DRIFT_NODES] if len(circle) > DRIFT_NODES else ""
    )
    for name in circle[:DRIFT_NODES]:
        node, entries = (
            ctx.tables.nodes[name],
            ctx.own(dispatch_list.DispatchList).entries.get(name, []),
        )
        is_late = bool(entries) and _is_late(ctx, node, entries[0], slack_us)
        if is_late or _is_stuck(ctx, node, slack_us):
            return f"{name} is behind its plan"
        if (
            not entries
            and not ctx.own(dispatch_list.DispatchList).apart.get(name)
            and _is_early(ctx, node, slack_us)
        ):
            return f"{name} is ahead of its plan"
    return ""


def _may_drift(ctx: Context, node: Node) -> bool:
    return harvestable.is_said_to_lend(node) or bool(ctx.index.tasks.get(node.name))


def _is_early(ctx: Context, node: Node, slack_us: int) -> bool:
    """Whether a node with nothing more to begin could take something that is planned elsewhere."""
    if not harvestable.is_said_to_lend(node):
        return False
    late = (
        (key, at)
        for key, at in ctx.own(dispatch_list.DispatchList).latest.items()
        if ctx.own(dispatch_list.DispatchList).left.get(key)
    )
    return any(_could_begin(ctx, node, key, at_us - slack_us) for key, at_us in sorted(late))


def _is_late(ctx: Context, node: Node, entry: Entry, slack_us: int) -> bool:
    batch = ctx.tables.batches.get(entry.batch)
    if batch is None or batch.is_over or batch.is_ending:
        return False
    stage = batch.spec.stage(entry.stage)
    late_us = entry.at_us + slack_us + harvestable.task_us(stage, node) // 2
    return dispatch_list.has_turn(ctx, batch, stage) and ctx.now_us > late_us


def _is_stuck(ctx: Context, node: Node, slack_us: int) -> bool:
    """Whether the first task whose input lies on a node should have begun there long ago."""
    ahead = harvestable.look_at(ctx, node).ahead
    if not ahead:
        return False
    task = ctx.tables.tasks[ahead[0]]
    lasts_us = harvestable.task_us(stage_of(ctx, task), node)
    return ctx.now_us > task.start_us + slack_us + lasts_us // 2


def _could_begin(ctx: Context, node: Node, key: Key, before_us: int) -> bool:
    """Whether a task of a stage would end on an idle node before it is to begin elsewhere."""
    batch = ctx.tables.batches.get(key[0])
    if batch is None or batch.is_over or batch.is_ending:
        return False
    stage = batch.spec.stage(key[1])
    is_late = ctx.now_us + harvestable.task_us(stage, node) > before_us
    if is_late or not dispatch_list.has_turn(ctx, batch, stage):
        return False
    return harvestable.seat(ctx, stage, node) is not None
