"""What forbids that a container leaves its node, or goes to another: one table for all who ask.

The sentences begin with what the container is or has. A drain finds where a container may go over
all nodes at once (``capacity/destinations``), so it asks the first table alone. Owns nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Flag, auto

from tenure.core.attempts import tombstones
from tenure.core.capacity import room
from tenure.core.services.migration import eligibility
from tenure.core.services.migration.move_records import choice_of
from tenure.core.state.context import Context
from tenure.core.state.vetoes import Reason, Veto, VetoTable
from tenure.model.container import ContainerState, Service
from tenure.model.drain import Setback
from tenure.model.node import Node
from tenure.model.plan import CycleSpec
from tenure.model.resources import Resources, exhausted
from tenure.model.units import FOREVER_US, US

S = ContainerState
WAIT = "wait; it ends by itself"
#: So long after its end one that is kept up is not moved: its engine may go away next.
SUSPECT_US = 30 * US
#: States that end by themselves, and what is told of them.
PASSING = {
    S.CREATING: Reason("starting", "is being created", WAIT, is_passing=True),
    S.CREATED: Reason("starting", "is about to be started", WAIT, is_passing=True),
    S.STARTING: Reason("starting", "is being started", WAIT, is_passing=True),
    S.STOPPING: Reason("stopping", "is being stopped", WAIT, is_passing=True),
    S.MOVING: Reason("moving", "is being moved", WAIT, is_passing=True),
}


class Asks(Flag):
    """Who asks: a drain, dry or not; a cycle's plan that is submitted; a person who names the node;
    a move that begins.
    """

    DRAIN = auto()
    CYCLE = auto()
    HAND = auto()
    BEGIN = auto()


@dataclass(frozen=True, slots=True)
class Leaving:
    """A container that is to leave ``source``: the copy and state of it that the asker knows.

    ``expires_us`` is until when its plan holds, ``setback`` how its last move from there failed.
    """

    service: Service
    source: str
    turn: int
    state: ContainerState = S.RUNNING
    expires_us: int = FOREVER_US
    setback: Setback | None = None


@dataclass(frozen=True, slots=True)
class Going:
    """A container that is to go to ``target``, of whose room others of its plan take ``taken``."""

    service: Service
    target: Node
    taken: Resources = Resources()
    cycle: CycleSpec | None = None


def _is_another(ctx: Context, move: Leaving) -> bool:
    return (move.service.node, move.service.incarnation) != (move.source, move.turn)


def _is_passing(ctx: Context, move: Leaving) -> bool | Reason:
    service = move.service
    if service.is_removing:
        return Reason("removing", "is being removed", WAIT, is_passing=True)
    if service.state is S.EXITED and ctx.now_us < service.guard_us:
        return PASSING[S.CREATED]
    if service.state is S.EXITED and ctx.now_us < (until_us := service.suspect_us + SUSPECT_US):
        text = "has just ended, maybe by the end of its host"
        return Reason("unsure", text, WAIT, is_passing=True, until_us=until_us)
    if service.state is S.CREATING and not (service.effect or service.is_unsure):
        text = "was not sent to the node yet; the drain has it placed elsewhere"
        return Reason("unsent", text, WAIT, is_passing=True)
    return PASSING.get(service.state, False)


def _is_other_state(ctx: Context, move: Leaving) -> bool | Reason:
    if move.service.state is move.state and not move.service.is_removing:
        return False
    return move.state is S.RUNNING or Reason("changed", "is not at rest any more")


def _stays(code: str, text: str, holds: Callable[[Service], bool]) -> Veto[Leaving]:
    """Return the row of what keeps a container where it is whatever the nodes."""

    def forbids(ctx: Context, move: Leaving) -> bool | Reason:
        return holds(move.service) and replace(no_kind(move.service, text), code=code)

    return Veto(code, text, Asks.DRAIN | Asks.CYCLE | Asks.HAND, forbids)


def _is_cut_off(ctx: Context, move: Leaving) -> bool | Reason:
    remedy = f"bring the node back, or if nothing runs there: tenure node fence {move.source}"
    text = "is on a node that does not answer"
    return not ctx.is_reachable(move.source) and Reason("unreachable", text, remedy)


def _is_unconfirmed(ctx: Context, move: Leaving) -> bool | Reason:
    service, is_late = move.service, ctx.now_us < move.service.late_us
    if not (is_late or service.is_unsure or service.effect):
        return False
    text = "had a call that was not confirmed and may still happen"
    until_us = service.late_us if is_late else None
    return Reason("unsure", text, WAIT, is_passing=True, until_us=until_us)


def _may_start_late(ctx: Context, move: Leaving) -> bool:
    guard_us = 0 if move.state is S.RUNNING else move.service.guard_us
    return ctx.now_us < max(move.service.late_us, guard_us)


def _has_older_copy(ctx: Context, move: Leaving) -> bool | Reason:
    for old in ctx.tombstones_of(move.service.id):
        if old.may_run:
            text = f"has an older copy on {old.node} that may run, and is removed first"
            remedy = tombstones.REMEDY if old.reason else WAIT
            return Reason("unsure", text, remedy, is_passing=True)
    return False


def _has_failed(ctx: Context, move: Leaving) -> bool | Reason:
    setback = move.setback
    if setback is None or ctx.now_us >= setback.retry_us:
        return False
    text = f"could not be moved ({setback.count} times): {setback.reason}"
    remedy = f"it is tried again; else see tenure container inspect {move.service.name}"
    return Reason("retrying", text, remedy, is_passing=True, until_us=setback.retry_us)


def _is_of_other_cycle(ctx: Context, move: Going) -> bool:
    cycle = move.cycle
    if cycle is None:
        return False
    is_within = cycle.is_consolidating or cycle.relief_after > 0
    leaving = (cycle.source, cycle.target) if is_within else (cycle.source,)
    return move.target.spec.generation != cycle.target or move.service.generation not in leaving


def _is_cooling(ctx: Context, move: Going) -> bool:
    moved_us = move.service.moved_us
    return moved_us is not None and ctx.now_us < moved_us + ctx.params.cooldown_us


def _is_filtered(ctx: Context, move: Going) -> bool | Reason:
    code = room.drop_for(ctx, move.service, move.target)
    return bool(code) and Reason(code, f"cannot go to node {move.target.name}: {code}")


def no_kind(service: Service, why: str) -> Reason:
    """Return the veto on a container that no kind of move suits, told ``why``."""
    remedy = f"tenure container rm {service.name}, and create it again: it goes elsewhere"
    return Reason("not_movable", f"may not be moved: {why}", remedy)


def _has_no_kind(ctx: Context, move: Going) -> bool | Reason:
    choice = choice_of(ctx, move.service, move.target.name)
    return not choice.kind and no_kind(move.service, choice.why)


def _lacks_room(ctx: Context, move: Going) -> bool | Reason:
    free = room.free_on(ctx, move.target) - move.taken
    need = room.need_of(ctx, move.service, move.target.spec.generation)
    short = exhausted(need, free, move.target.capacity)
    if move.cycle is None or not short:
        return bool(short)
    return Reason(f"no_room_{short[0]}", f"finds too little {short[0]} there")


_PLANNED = Asks.CYCLE | Asks.BEGIN
_ASKED = Asks.DRAIN | Asks.HAND
_TOLD = _PLANNED | Asks.HAND
#: May it leave its node, in this order.
LEAVE_VETOES: VetoTable[Leaving] = VetoTable(
    Asks,
    Veto(
        "expired",
        "was planned to move for longer than its plan holds",
        Asks.BEGIN,
        lambda ctx, move: ctx.now_us >= move.expires_us,
    ),
    Veto("passing", "is being created, started, stopped or removed", _ASKED, _is_passing),
    Veto("not_running", "does not run any more", _PLANNED, _is_other_state),
    Veto(
        "moving",
        "is to be moved already",
        Asks.CYCLE | Asks.HAND,
        lambda ctx, move: ctx.move_of(move.service.id) is not None,
    ),
    Veto("changed", "is another copy, or elsewhere", _PLANNED, _is_another),
    *(_stays(*row) for row in eligibility.NEVER),
    Veto("unreachable", "is on a node that does not answer", _ASKED, _is_cut_off),
    # nobody could end the source: it would run beside the target
    Veto(
        "source_unreachable",
        "is on a node that does not answer",
        _PLANNED,
        lambda ctx, move: not ctx.is_reachable(move.source),
    ),
    # a late start could revive the source beside the target
    Veto("unsure", "had a call that may still happen", _ASKED, _is_unconfirmed),
    Veto("unsure", "may be started late", _PLANNED, _may_start_late),
    Veto("unsure", "has an older copy that may run", _ASKED | _PLANNED, _has_older_copy),
    Veto("retrying", "could not be moved a moment ago", Asks.DRAIN, _has_failed),
)
#: May it go to a node, in this order.
GO_VETOES: VetoTable[Going] = VetoTable(
    Asks,
    Veto("wrong_generation", "is of no generation of the cycle", Asks.CYCLE, _is_of_other_cycle),
    Veto("cooldown", "was moved a moment ago", Asks.CYCLE, _is_cooling),
    Veto("filter", "meets a filter of the node: its state, image or ports", _TOLD, _is_filtered),
    Veto("not_movable", "has no kind of move open to it", _TOLD, _has_no_kind),
    Veto("no_room", "finds too little room there", _TOLD, _lacks_room),
)
