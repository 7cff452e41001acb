"""Drains: nodes are emptied of what is ours, and then cordoned (docs/moving-containers.md).

Theory of operation. A drain is one durable record. Whenever something changed, and every few
seconds, it asks ``drain_plan`` what can be done now and hands those moves to the machine of
migrations, which has the budgets and the roll-back; what cannot be moved is a blocker with a name
and a remedy. A move that failed is tried again after a while, elsewhere if there is another node.
Nothing new is placed on the node from the first moment on. It is done when nothing of ours is or
may be there; containers that are not ours are left alone. A node that the configuration no longer
names is drained in the same way. Owns the records of drains, and ``Looks``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tenure.core.attempts.executors import EXECUTORS
from tenure.core.attempts.tasks import TASKS
from tenure.core.lifecycle import drain_plan
from tenure.core.nodes import capacity_probes
from tenure.core.nodes.off_vetoes import OFF_VETOES, Asks
from tenure.core.services.migration import admission
from tenure.core.services.services import SERVICES
from tenure.core.state.context import Context
from tenure.core.state.owned import Change, Owned
from tenure.core.state.transitions import may_go
from tenure.model.container import Migration, Step
from tenure.model.drain import (
    Blocker,
    Drain,
    DrainPlan,
    DrainReport,
    DrainState,
    PlannedMove,
    Setback,
)
from tenure.model.events import CancelDrain, DrainNode
from tenure.model.node import Node, Power, Scheduling
from tenure.model.units import US

MACHINE = "drain"
#: No drain looks again sooner: a look reads its services and all nodes of their generation.
LOOK_US = US
#: What only time changes is found by looking this often.
REVIEW_US = 10 * US
#: The wait doubles with each look that finds the same, up to REVIEW_US.
MAX_CALM = 4
#: After a restart the engines are given this long to answer before blockers are told.
GREET_US = 3 * US
#: The first wait after a failed move; it doubles with every failure, up to 2**5 times.
RETRY_US = 5 * US
MAX_DOUBLINGS = 5
#: Blockers told in one event; more are in the drain's report.
MAX_TOLD = 50


@dataclass(frozen=True, slots=True)
class Look:
    """When a drain looks again: not before ``soonest_us``, by ``due_us`` if nothing happens there.

    ``calm`` counts looks in a row that found the same.
    """

    soonest_us: int
    due_us: int
    calm: int = 0


class Looks(Owned):
    """When the drain of each node looks again, and which moves ended since the last pass."""

    hears = frozenset((Change.MOVED,))

    def __init__(self) -> None:
        self.by_node: dict[str, Look] = {}
        self.ended: list[str] = []

    def hear(self, change: Change, key: str) -> None:
        """Have the end of a migration counted."""
        self.ended.append(key)


def active(ctx: Context, node: str) -> Drain | None:
    """Return the drain that is under way on a node."""
    drain = ctx.tables.drains.get(node)
    return None if drain is None or drain.is_over else drain


def report(ctx: Context, drain: Drain) -> DrainReport:
    """Return a drain as it stands: its moves under way, and the blockers of its latest look."""
    node = drain.node
    moves = tuple(m for m in ctx.open_moves() if m.source == node and not drain.is_over)
    nodes = (ctx.tables.nodes[move.target] for move in moves)
    plan = DrainPlan(
        node,
        blockers=drain.blockers,
        switch_on=tuple(sorted({n.name for n in nodes if n.power is not Power.ON})),
        under_way=moves,
        strangers=ctx.learned.strangers.get(node, ()),
    )
    return DrainReport(plan, drain, _left(ctx, node))


def rehearse(ctx: Context, node: Node) -> DrainReport:
    """Return what a drain would do now, whether or not there is one (a dry run)."""
    drain = active(ctx, node.name)
    setbacks = {} if drain is None else drain.setbacks
    return DrainReport(drain_plan.plan(ctx, node, setbacks), None, _left(ctx, node.name))


def _left(ctx: Context, node: str) -> int:
    return len(ctx.services_on(node)) + len(ctx.executors_on(node)) + len(ctx.tasks_on(node))


def begin(ctx: Context, command: DrainNode) -> None:
    """Begin a drain because a person asks, or say what it would do."""
    node = ctx.find(command, ctx.tables.nodes, "node", command.node)
    if node is None:
        return
    if command.is_dry:
        ctx.reply(command, rehearse(ctx, node).plan)
        return
    drain = active(ctx, node.name)
    if node.is_removed:
        detail = f"node {node.name} is not in the configuration any more, and is being drained"
        ctx.refuse(command, "removed", detail, status=409)
        return
    deadline = None if command.timeout_us is None else ctx.now_us + command.timeout_us
    if drain is None:
        drain = _open(ctx, node, reason=command.reason, deadline_us=deadline)
    else:
        reason = command.reason or drain.reason
        drain = ctx.put_drain(replace(drain, reason=reason, deadline_us=deadline))
        ctx.put_node(replace(node, reason=reason or node.reason))
    _arm(ctx, drain)
    ctx.own(Looks).by_node.pop(node.name, None)
    _advance(ctx, drain)
    ctx.reply(command, ctx.tables.drains[node.name])


def _open(ctx: Context, node: Node, **words: Any) -> Drain:
    """Make the record of a new drain; from here on nothing new is placed on the node."""
    drain = Drain(node.name, ctx.now_us, node.scheduling, node.reason, **words)
    last = ctx.tables.drains.get(node.name)
    if last is not None and last.began_us >= drain.began_us:
        drain = replace(drain, began_us=last.began_us + 1)  # ids of moves are made of it
    reason = drain.reason or node.reason
    ctx.put_node(replace(node, scheduling=Scheduling.DRAINING, reason=reason))
    _publish(ctx, drain, "node.draining", reason=drain.reason, is_removal=drain.is_removal)
    return ctx.put_drain(drain)


def cancel(ctx: Context, command: CancelDrain) -> None:
    """End a drain because a person asks: the node is what it was before."""
    node = ctx.find(command, ctx.tables.nodes, "node", command.node)
    if node is None:
        return
    drain = active(ctx, node.name)
    if drain is None:
        ctx.refuse(command, "not_draining", f"node {node.name} is not being drained", status=409)
        return
    if drain.is_removal:
        detail = f"node {node.name} is drained because the configuration no longer names it; "
        ctx.refuse(command, "removed", detail + "name it again and reload", status=409)
        return
    _give_up(ctx, drain)
    ctx.reply(command, ctx.tables.drains[node.name])


def _give_up(ctx: Context, drain: Drain) -> None:
    node = ctx.tables.nodes[drain.node]
    _restore(ctx, node, drain)
    _withdraw(ctx, drain)
    _close(ctx, drain, DrainState.CANCELLED)
    _publish(ctx, drain, "node.drain_cancelled", moved=drain.moved)


def _restore(ctx: Context, node: Node, drain: Drain) -> None:
    back = Scheduling.CORDONED if node.is_in_maintenance else drain.before
    reason = node.reason if node.is_in_maintenance else drain.before_reason
    ctx.put_node(replace(node, scheduling=back, reason=reason))


def begin_removal(ctx: Context, name: str) -> None:
    """Drain a node that the configuration no longer names; a person's drain becomes that."""
    node = ctx.tables.nodes[name]
    drain = active(ctx, name)
    if drain is None:
        drain = _open(ctx, node, is_ordered=False, is_removal=True)
    elif not drain.is_removal:
        drain = ctx.put_drain(replace(drain, is_removal=True, deadline_us=None))
    _arm(ctx, drain)


def named_again(ctx: Context, name: str) -> None:
    """End the drain of a node that the configuration names again, unless a person asked for it."""
    drain = ctx.tables.drains.get(name)
    if drain is None or not drain.is_removal:
        return
    if drain.is_over:
        _restore(ctx, ctx.tables.nodes[name], drain)
    elif drain.is_ordered:
        ctx.put_drain(replace(drain, is_removal=False))
    else:
        _give_up(ctx, drain)


def review_all(ctx: Context) -> None:
    """Take in the moves that ended, then bring every drain forward as far as it goes now."""
    looks = ctx.own(Looks)
    ended, looks.ended = looks.ended, []
    for move in filter(None, map(ctx.tables.migrations.get, ended)):  # else forgotten since
        _on_end(ctx, move)
    for node in sorted(ctx.index.open_drains):
        ctx.cause = ctx.tables.drains[node].id
        _advance(ctx, ctx.tables.drains[node])
    ctx.cause = ""


def _publish(ctx: Context, drain: Drain, kind: str, **told: Any) -> None:
    ctx.publish(kind, drain.node, run=drain.id, **told)


def _advance(ctx: Context, drain: Drain) -> None:
    """Do what can be done now; unlike a look, an end is noticed at once."""
    if ctx.is_quarantined(MACHINE, drain.node):
        return
    if OFF_VETOES.first(Asks.DRAINED, ctx, ctx.tables.nodes[drain.node]) is None:
        _done(ctx, drain)
    elif drain.deadline_us is not None and ctx.now_us >= drain.deadline_us:
        _time_out(ctx, drain)
    elif ctx.now_us < _due_us(ctx, drain.node):
        ctx.arm(ctx.own(Looks).by_node[drain.node].due_us, MACHINE, drain.node)
    elif not ctx.is_closing:
        _look(ctx, drain)


def _due_us(ctx: Context, node: str) -> int:
    """Return when the drain of a node looks again: soon if anything happened on the node itself."""
    look = ctx.own(Looks).by_node.get(node)
    if look is None:
        return 0
    if node in ctx.notices.nodes:
        look = ctx.own(Looks).by_node[node] = Look(look.soonest_us, look.soonest_us)
    return look.due_us


def _look(ctx: Context, drain: Drain) -> None:
    SERVICES.unplace_unsent(ctx, drain.node, f"node {drain.node} is drained")
    EXECUTORS.unplace_unsent(ctx, drain.node, f"node {drain.node} is drained")
    TASKS.evict(ctx, drain.node, "its node is drained")
    found = drain_plan.plan(ctx, ctx.tables.nodes[drain.node], drain.setbacks)
    is_same = not found.moves and _keys(drain.blockers) == _keys(found.blockers)
    for move in found.moves:
        drain = _queue(ctx, drain, move)
    _tell(ctx, drain, found.blockers)
    for blocker in found.blockers:
        if blocker.code.startswith(drain_plan.NOWHERE):
            capacity_probes.hear_service(ctx, ctx.tables.services[blocker.id])
    was = ctx.own(Looks).by_node.get(drain.node)
    calm = min(was.calm + 1, MAX_CALM) if was is not None and is_same else 0
    ends = [b.until_us for b in found.blockers if b.until_us is not None]
    soonest_us = ctx.now_us + LOOK_US
    due_us = min([ctx.now_us + min(LOOK_US << calm, REVIEW_US), *ends])
    look = ctx.own(Looks).by_node[drain.node] = Look(soonest_us, max(due_us, soonest_us), calm)
    ctx.arm(look.due_us, MACHINE, drain.node)


def _queue(ctx: Context, drain: Drain, planned: PlannedMove) -> Drain:
    """Hand a move to the machine of migrations, which begins it once the budgets allow."""
    target = ctx.tables.nodes[planned.target]
    admission.queue(
        ctx,
        ctx.tables.services[planned.container],
        key=f"{drain.id}#{drain.next_move}",
        run_id=drain.id,
        target=planned.target,
        generation=planned.generation,
        expires_us=ctx.now_us + admission.WITHIN_US + target.spec.power.timeout_us,
    )
    return ctx.put_drain(replace(drain, next_move=drain.next_move + 1))


def _tell(ctx: Context, drain: Drain, blockers: tuple[Blocker, ...]) -> None:
    """Keep the blockers; publish them once for each change of who blocks and why."""
    if drain.blockers == blockers:
        return
    ctx.put_drain(replace(drain, blockers=blockers))
    if blockers and _keys(drain.blockers) != _keys(blockers):
        _publish(ctx, drain, "node.drain_blocked", blockers=_told(blockers))


def _keys(blockers: tuple[Blocker, ...]) -> set[tuple[str, str]]:
    return {(blocker.id, blocker.code) for blocker in blockers}


def _told(blockers: tuple[Blocker, ...]) -> list[dict[str, str]]:
    return [
        {"kind": b.kind, "name": b.name, "code": b.code, "remedy": b.remedy}
        for b in blockers[:MAX_TOLD]
    ]


def _on_end(ctx: Context, move: Migration) -> None:
    """Take in the end of a move of ours: count it, or wait before the next try."""
    drain = active(ctx, move.source)
    if drain is None or move.run_id != drain.id:
        return
    setbacks = dict(drain.setbacks)
    was = setbacks.pop(move.container, None)
    if move.step is Step.DONE:
        drain = replace(drain, moved=drain.moved + 1)
    elif move.step is Step.ROLLED_BACK:
        count = 1 if was is None else was.count + 1
        avoid = (move.target,) if was is None else tuple(sorted({*was.avoid, move.target}))
        retry = ctx.now_us + (RETRY_US << min(count - 1, MAX_DOUBLINGS))
        setbacks[move.container] = Setback(count, retry, avoid, move.reason)
    elif was is not None:
        setbacks[move.container] = was  # refused before it began: what it met has changed
    ctx.put_drain(replace(drain, setbacks=setbacks))
    if move.step is Step.DONE:
        left = _left(ctx, drain.node)
        _publish(ctx, drain, "node.drain_progress", moved=drain.moved, left=left)


def _done(ctx: Context, drain: Drain) -> None:
    node = ctx.tables.nodes[drain.node]
    ctx.put_node(replace(node, scheduling=Scheduling.CORDONED))
    _close(ctx, replace(drain, blockers=(), setbacks={}), DrainState.DRAINED)
    took_s = (ctx.now_us - drain.began_us) / US
    _publish(ctx, drain, "node.drained", moved=drain.moved, took_s=took_s, reason=drain.reason)


def _time_out(ctx: Context, drain: Drain) -> None:
    """Give up: the node takes no new work all the same, and what was left is told."""
    node = ctx.tables.nodes[drain.node]
    _withdraw(ctx, drain)
    blockers = drain_plan.plan(ctx, node, drain.setbacks).blockers
    ctx.put_node(replace(node, scheduling=Scheduling.CORDONED))
    _close(ctx, replace(drain, blockers=blockers), DrainState.TIMED_OUT)
    _publish(ctx, drain, "node.drain_timed_out", moved=drain.moved, blockers=_told(blockers))


def _withdraw(ctx: Context, drain: Drain) -> None:
    """Take back the moves that have not begun; those that have end."""
    for move in ctx.open_moves():
        if move.run_id == drain.id and move.step is Step.QUEUED:
            admission.refuse(ctx, move, "the drain has ended")


def _close(ctx: Context, drain: Drain, state: DrainState) -> None:
    if may_go(ctx, MACHINE, drain.node, drain.state, state):
        ctx.put_drain(replace(drain, state=state, finished_us=ctx.now_us))


def _arm(ctx: Context, drain: Drain) -> None:
    ctx.arm(ctx.now_us, MACHINE, drain.node)
    if drain.deadline_us is not None:
        ctx.arm(max(ctx.now_us, drain.deadline_us), MACHINE, drain.node)


def forget(ctx: Context, name: str) -> None:
    """Forget the drain of a node that is forgotten."""
    ctx.tables.drains.drop(name)
    ctx.own(Looks).by_node.pop(name, None)


def on_timer(ctx: Context, key: str) -> None:
    """Look again: its time is up, a retry is due, or only time has passed."""
    drain = active(ctx, key)
    if drain is None:
        return
    if drain.deadline_us is not None:
        ctx.arm(max(ctx.now_us + 1, drain.deadline_us), MACHINE, key)
    ctx.serve_again(key)


def rearm(ctx: Context) -> None:
    """Set the timers of loaded drains."""
    for node in sorted(ctx.index.open_drains):
        ctx.own(Looks).by_node[node] = Look(ctx.now_us + GREET_US, ctx.now_us + GREET_US)
        _arm(ctx, ctx.tables.drains[node])
