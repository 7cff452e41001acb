"""What the controllers of nodes did to harvest tasks: told to their batches, and as public events.

Each once. Whether a node's agent protects its owners is known from ``GuardSeen`` alone. Owns how
far the journals of agents were read.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.attempts.tasks import TASKS
from tenure.core.batches import starvation
from tenure.core.state.context import Context
from tenure.model.events import GuardSeen, HarvestReported
from tenure.model.harvest import HarvestAction, HarvestMark


def reported(ctx: Context, event: HarvestReported) -> None:
    """Publish what is new: each end of a task, and the throttling of one report as one event.

    A controller may move its quota ten times a second: single moves are in the agent's journal,
    and would push everything else out of ours.
    """
    if event.node not in ctx.tables.nodes:
        return
    mark = ctx.tables.harvests.get(event.node) or HarvestMark(event.node)
    fresh = [action for action in event.actions if action.seq > mark.seq]
    if not fresh:
        return
    if mark.seq and event.oldest_seq > mark.seq and event.oldest_seq == fresh[0].seq:
        ctx.publish("harvest.gap", event.node, since_seq=mark.seq, until_seq=event.oldest_seq)
        mark = replace(mark, gap_us=ctx.now_us)
    kills = [action for action in fresh if action.kind == "kill"]
    for action in kills:
        ctx.publish("harvest.kill", event.node, **_shown(action))
        if action.is_done:
            TASKS.on_kill(ctx, event.node, action)
    for action in (action for action in fresh if action.kind == "oom"):
        ctx.publish("harvest.oom", event.node, **_shown(action))
        TASKS.on_kill(ctx, event.node, action)
    for kind in ("quota", "soft_memory"):
        if moves := [action for action in fresh if action.kind == kind]:
            _publish_moves(ctx, event.node, moves)
    done = sum(action.is_done for action in kills)
    ctx.tables.harvests.put(event.node, replace(mark, seq=fresh[-1].seq, kills=mark.kills + done))


def guarded(ctx: Context, event: GuardSeen) -> None:
    """Note how a node's agent is; what waited for it goes on."""
    before = ctx.learned.guards.get(event.node)
    if event.node not in ctx.tables.nodes:
        return
    is_same = before is not None and bool(before.fault) is bool(event.guard.fault)
    since_us = before.since_us if before is not None and is_same else ctx.now_us
    ctx.learned.guards[event.node] = replace(event.guard, since_us=since_us)
    starvation.note(ctx, event.node, is_at_floor=event.guard.is_at_floor)
    ctx.notices.tasks.update(ctx.index.tasks.get(event.node, ()))
    ctx.serve_again(event.node)
    was, now = ("" if before is None else before.fault), event.guard.fault
    if now and now != was:
        ctx.publish("harvest.unguarded", event.node, why=now)
    elif was and not now:
        ctx.publish("harvest.guarded", event.node)


def forget(ctx: Context, node: str) -> None:
    """Forget how far the actions of a node were published; the node is forgotten."""
    ctx.tables.harvests.drop(node)


def _publish_moves(ctx: Context, node: str, moves: list[HarvestAction]) -> None:
    """Publish a report's moves of one kind: the last one, the least, and how many there were."""
    name = "quota_m" if moves[0].kind == "quota" else "soft_bytes"
    least = min(moves, key=lambda action: action.numbers.get(name, 0))
    ctx.publish(
        f"harvest.{moves[0].kind}",
        node,
        **_shown(moves[-1]),
        moves=len(moves),
        least=_shown(least),
    )


def _shown(action: HarvestAction) -> dict[str, object]:
    shown: dict[str, object] = {
        "seq": action.seq,
        "acted_us": action.at_us,
        "reason": action.reason,
        "is_done": action.is_done,
        **action.numbers,
    }
    texts = {"task": action.task, "resource": action.resource, "error": action.error}
    return shown | {name: text for name, text in texts.items() if text}
