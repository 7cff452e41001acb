"""Migrations: a service goes on on another node (docs/moving-containers.md).

The steps of each method are in ``steps``, the choice of the method in ``eligibility``. The source
is disarmed (restart policy no) before it is ended: an engine revives one that was checkpointed.
Until the commit any failure goes back: the target is condemned, then the source is started again,
from its checkpoint where there is one, and its restart policy restored. From the commit on it only
goes forward: the source is condemned. Target copies are created with restart policy no, so that an
engine that comes back does not revive a copy that was given up; the commit gives them their own
policy. No step that may start or stop something follows one whose outcome is unknown: a listing
decides first. What only carries bytes is simply done again, a few times. Owns the records of
migrations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tenure.core.attempts import tombstones
from tenure.core.capacity import ledger
from tenure.core.services.migration import admission, eligibility
from tenure.core.services.migration.move_records import (
    MACHINE,
    doomed,
    has_policy,
    is_blocked,
    is_left,
    put,
    source_of,
    target_of,
    to_next,
)
from tenure.core.services.migration.step_effects import effect_of
from tenure.core.services.migration.steps import CARRYING, TARGET_MAY_RUN, is_committed
from tenure.core.services.services import LATE_US, SERVICES, TORN
from tenure.core.state.context import Context
from tenure.model.container import ContainerState, Migration, Service, Step
from tenure.model.effects import Relist
from tenure.model.facts import ContainerFacts
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.units import FOREVER_US, US

RETRY_US = 2 * US
MAX_DOUBLINGS = 4
#: A target that could not be created or started for unclear reasons is given up after this many, a
#: source that its engine refuses to start again, and a restart policy that it refuses.
MAX_TRIES = 4
#: Of these a source that its engine neither starts nor ends takes at most so many.
BLOCKED_TRIES = 2
#: What carries bytes is done again so often; in all but its first step the container is down.
MAX_CARRIES = 2
#: A stopped source waits so long for word of its target's creation before it is started again.
PATIENCE_US = 10 * US
#: An engine that does not answer for so long may be away for long: until then it may be restarted,
#: or the daemon was, which has not heard of it yet.
AWAY_US = 30 * US
SOURCE_STEPS = frozenset((Step.DISARM, Step.CHECKPOINT, Step.STOP, Step.UNDO_SOURCE, Step.UNDO_ARM))
#: Steps that end the source.
ENDING = (Step.CHECKPOINT, Step.STOP)
#: Steps that give a copy its restart policy; late, in a live move, it would revive the source.
ARMING = (Step.UNDO_ARM, Step.COMMIT)
#: Steps after which nothing of the target can run.
BEFORE_START = frozenset((*CARRYING, *ENDING, Step.CREATE, Step.DISARM))
_LOST_WITH_SOURCE = frozenset((*CARRYING, *ENDING, Step.DISARM))


def review_all(ctx: Context) -> None:
    """Bring every open move forward as far as it can go now."""
    for move in ctx.open_moves():
        advance(ctx, move.id)


def advance(ctx: Context, key: str) -> None:
    """Send the next effect of a move, if its turn has come."""
    move = ctx.tables.migrations.get(key)
    if move is None or move.is_over or move.effect or move.is_unsure or is_left(ctx, move):
        return
    if ctx.now_us < move.retry_us:
        ctx.arm(move.retry_us, MACHINE, key)
        return
    service = ctx.tables.services[move.container]
    if move.step is Step.QUEUED:
        admission.begin(ctx, move, service)
    elif move.step is Step.UNDO_TARGET:
        _undo_target(ctx, move)
    elif move.step is Step.COMMIT and (move.rest or not has_policy(service)):
        _next(ctx, move)  # an engine that comes back starts what is created with a policy
    elif move.step is Step.SWEEP:
        _finish(ctx, move)
    elif move.step is not Step.VERIFY:
        _send(ctx, move, service)


def _send(ctx: Context, move: Migration, service: Service) -> None:
    for node in _places(move):
        if not ctx.is_reachable(node):
            _unreachable(ctx, move, node)
            return
    if move.step is Step.CHECKPOINT:
        # the processes freeze before they are kept: the downtime begins here at the earliest
        name = f"tenure-{move.incarnation}-{ctx.meta.next_effect}"
        move = replace(move, checkpoint=name, down_us=ctx.now_us)
    effect = effect_of(ctx, move, service)
    touched = move.is_source_touched or move.step is Step.DISARM
    stopped = move.is_source_stopped or move.step in ENDING
    ctx.put_migration(
        replace(
            move,
            effect=effect.id,
            changed_us=ctx.now_us,
            is_source_touched=touched,
            is_source_stopped=stopped,
        )
    )
    ctx.emit(effect)


def _places(move: Migration) -> tuple[str, ...]:
    """Return the nodes whose engines a step needs."""
    if move.step in CARRYING:
        return (move.target, move.source)
    return (move.source,) if move.step in SOURCE_STEPS else (move.target,)


def _unreachable(ctx: Context, move: Migration, node: str) -> None:
    """Wait for a node that does not answer, or do without it; never with a stopped source."""
    if ctx.tables.nodes[node].is_fenced and move.step not in (Step.CREATE, Step.PREPARE):
        _without(ctx, move, node)
    elif node == move.target and move.is_source_stopped and _is_unsent(move):
        _back(ctx, move, f"node {node} does not answer")
    elif move.step in (Step.CREATE, Step.PREPARE):
        _wait_for_target(ctx, move)


def held_up_us(ctx: Context, move: Migration) -> int:
    """Return from when on a move waits for what may take long, FOREVER_US if it does not.

    That is somebody who clears a copy, an engine that refuses to start the source again, or one
    that has not answered for AWAY_US. What has not begun to touch anything waits for no engine for
    longer than its plan holds.
    """
    if is_blocked(ctx, move):
        return ctx.now_us
    if move.step in (Step.UNDO_TARGET, Step.SWEEP):
        needed: Iterable[str] = {tombstone.node for tombstone in doomed(ctx, move)}
    elif move.step in (Step.QUEUED, Step.PREPARE, Step.CREATE):
        needed = ()
    else:
        needed = _places(move)
    away = (ctx.tables.nodes.get(name) for name in needed if not ctx.is_reachable(name))
    since_us = ((node.unreachable_us or 0) if node else 0 for node in away)
    return min((at_us + AWAY_US for at_us in since_us), default=FOREVER_US)


def _is_unsent(move: Migration) -> bool:
    """Whether nothing that runs the target was ever sent."""
    is_fresh = move.tries == 0 and not move.is_unsure
    return move.step in BEFORE_START or (move.step is Step.START and is_fresh)


def _wait_for_target(ctx: Context, move: Migration) -> None:
    if ctx.now_us >= move.expires_us or move.is_source_stopped:
        _back(ctx, move, "target was not ready before the plan expired")
    else:
        ctx.arm(move.expires_us, MACHINE, move.id)


def on_effect(ctx: Context, key: str, effect: str, outcome: Outcome) -> None:
    """Take in the end of a step's effect."""
    move = ctx.tables.migrations.get(key)
    if move is None or move.effect != effect:
        return
    if isinstance(outcome, Done):
        _next(ctx, _done(move, outcome))
    elif isinstance(outcome, Refused) and outcome.code != "unreachable":
        _refused(ctx, move, f"{outcome.code}: {outcome.detail}"[:500], outcome.code)
    elif move.step in CARRYING and move.tries >= MAX_CARRIES:
        _back(ctx, move, f"could not be brought to {move.target}: {outcome.detail}"[:500])
    elif move.step in CARRYING:
        _retry(ctx, move)
    else:
        service = ctx.tables.services[move.container]
        is_arming = move.step in ARMING and has_policy(service)
        if move.step in (Step.START, Step.UNDO_SOURCE) or is_arming:
            ctx.put_service(replace(service, late_us=ctx.now_us + LATE_US))
        ctx.put_migration(replace(move, effect="", is_unsure=True, changed_us=ctx.now_us))
        ctx.emit(Relist(move.source if move.step in SOURCE_STEPS else move.target))
        if move.step is Step.CREATE:
            soon_us = ctx.now_us + PATIENCE_US
            wait_us = min(soon_us, move.expires_us) if move.is_source_stopped else move.expires_us
            ctx.arm(wait_us, MACHINE, move.id)


def _done(move: Migration, outcome: Done) -> Migration:
    """Return the move with what its step brought."""
    if move.step is Step.CREATE:
        return replace(move, target_id=outcome.value)
    if move.step in CARRYING:
        moved_bytes = move.moved_bytes + outcome.moved_bytes
        image = move.image if move.step is Step.TRANSFER else outcome.value
        return replace(move, image=image, moved_bytes=moved_bytes)
    return move


def _next(ctx: Context, move: Migration) -> None:
    """Go to the step after the one that is done."""
    if move.step is Step.STOP:
        move = replace(move, down_us=ctx.now_us)
    after = to_next(ctx, move)
    if after is Step.COMMIT:  # of one at rest there is nothing to verify but that it rested
        ctx.put_migration(replace(move, effect="", is_unsure=True, changed_us=ctx.now_us))
        ctx.emit(Relist(move.source))
        return
    if after is Step.VERIFY:
        verify = ctx.now_us + ctx.params.verify_us
        move = replace(move, verify_us=verify, up_us=ctx.now_us)
        ctx.arm(verify, MACHINE, move.id)
    if move.step is Step.COMMIT:
        service = ctx.tables.services[move.container]
        SERVICES.to(ctx, service, move.end_state, moved_us=ctx.now_us)
    is_untouched = after is Step.UNDO_ARM and not move.is_source_touched
    if after is Step.ROLLED_BACK or is_untouched:
        _rolled_back(ctx, move)
    else:
        put(ctx, move, after)
        advance(ctx, move.id)


def _refused(ctx: Context, move: Migration, reason: str, code: str) -> None:
    is_gone = code == "no_such_container"
    if move.step in (Step.DISARM, Step.STOP) and is_gone and not _needs_source(ctx, move):
        _next(ctx, move)  # the source is gone: nothing is left to stop
    elif move.step is Step.CHECKPOINT and not is_gone:
        _not_checkpointed(ctx, move, reason)
    elif move.step in BEFORE_START or move.step is Step.START:
        if move.step is Step.START and move.kind == "live":
            admission.bar_live(ctx, move, f"it could not be restored: {reason}")
        _back(ctx, move, reason)
    elif move.step is Step.UNDO_SOURCE and code == "start_blocked":
        _blocked(ctx, move, reason)
    elif move.step is Step.UNDO_SOURCE and not is_gone and move.checkpoint:
        told = f"{move.reason}; its memory could not be brought back: {reason}"
        _retry(ctx, replace(move, checkpoint="", reason=told[:500]))
    elif move.step is Step.UNDO_SOURCE and is_gone:
        _lost(ctx, move, reason)
    elif move.step is Step.UNDO_SOURCE and move.tries >= MAX_TRIES:
        _not_back(ctx, move, reason)
    elif move.step in (Step.UNDO_ARM, Step.COMMIT) and (is_gone or move.tries >= MAX_TRIES):
        # removed by somebody, of which the next listing tells; or it has to do without its policy
        _next(ctx, replace(move, reason=reason))
    else:
        _retry(ctx, replace(move, reason=reason))


def _blocked(ctx: Context, move: Migration, reason: str) -> None:
    """Wait for somebody to clear the source: its process may run, so nothing else may take over."""
    if move.reason != reason:
        tombstones.tell_blocked(ctx, move.container, move.source, move.source_id, reason)
    _retry(ctx, replace(move, reason=reason, tries=min(move.tries, BLOCKED_TRIES)))


def _not_back(ctx: Context, move: Migration, reason: str) -> None:
    """Give up a source that its engine refuses to start: it is made anew, or kept for its files."""
    reason = f"its source could not be started again: {reason}"[:500]
    if move.kind == "restart":
        _lost(ctx, move, reason)
    else:
        _next(ctx, replace(move, reason=reason, is_source_stopped=False))


def _needs_source(ctx: Context, move: Migration) -> bool:
    """Whether something of the source has yet to be brought over, so that it cannot be missed."""
    is_carried = eligibility.has_volumes(ctx.tables.services[move.container].body)
    return move.kind != "restart" or is_carried


def _not_checkpointed(ctx: Context, move: Migration, reason: str) -> None:
    """Go on as a snapshot, if the owner allows it: the source runs on, nothing was lost."""
    move = replace(move, checkpoint="", is_source_stopped=False)
    admission.bar_live(ctx, move, reason)
    if eligibility.may_fall_back(ctx.tables.services[move.container]):
        put(ctx, replace(move, kind="snapshot", why=f"not live: {reason}"), Step.STOP)
        advance(ctx, move.id)
    else:
        _back(ctx, move, reason)


def _retry(ctx: Context, move: Migration) -> None:
    wait = RETRY_US << min(move.tries, MAX_DOUBLINGS)
    move = replace(move, effect="", is_unsure=False, tries=move.tries + 1)
    ctx.put_migration(replace(move, changed_us=ctx.now_us, retry_us=ctx.now_us + wait))
    ctx.arm(ctx.now_us + wait, MACHINE, move.id)


def _back(ctx: Context, move: Migration, reason: str) -> None:
    """Turn round before the commit: first the target must be gone for certain."""
    if is_committed(move.step):
        ctx.quarantine(MACHINE, move.id, f"there is no way back from {move.step}")
        return
    may_run = move.step in TARGET_MAY_RUN and (bool(move.effect) or not _is_unsent(move))
    put(ctx, move, Step.UNDO_TARGET, reason=reason)
    service = ctx.tables.services[move.container]
    SERVICES.condemn(ctx, target_of(service, move), may_run=may_run)
    advance(ctx, move.id)


def _undo_target(ctx: Context, move: Migration) -> None:
    if tombstones.may_run(ctx, move.container, move.incarnation):
        return
    ledger.end_stay(ctx, f"{move.container}/{move.incarnation}")
    if ctx.tables.nodes[move.source].is_fenced:
        _without_source(ctx, move)
    elif move.is_source_stopped:
        put(ctx, move, Step.UNDO_SOURCE)
        advance(ctx, move.id)
    elif move.is_source_touched:
        put(ctx, move, Step.UNDO_ARM)
        advance(ctx, move.id)
    else:
        _rolled_back(ctx, move)


def _rolled_back(ctx: Context, move: Migration) -> None:
    up = ctx.now_us if move.is_source_stopped else move.up_us
    put(ctx, move, Step.ROLLED_BACK, finished_us=ctx.now_us, up_us=up)
    service = ctx.tables.services[move.container]
    guard = ctx.now_us + LATE_US if move.is_source_stopped else 0
    SERVICES.to(ctx, service, move.end_state, moved_us=ctx.now_us, guard_us=guard)


def _without_source(ctx: Context, move: Migration) -> None:
    """End a move whose source is off: what ran is created anew, what did not waits for its node."""
    if move.rest:
        _rolled_back(ctx, replace(move, reason="source is off"))
    else:
        _lost(ctx, move, "source is off")


def _lost(ctx: Context, move: Migration, reason: str) -> None:
    """The source was removed by somebody, or its node is off: create it anew."""
    put(ctx, move, Step.ROLLED_BACK, finished_us=ctx.now_us, reason=reason)
    service = ctx.tables.services[move.container]
    service = SERVICES.to(ctx, service, ContainerState.RUNNING)
    SERVICES.lose(ctx, service, reason)


def _commit(ctx: Context, move: Migration) -> None:
    """Make the target the service and condemn the source."""
    service = ctx.tables.services[move.container]
    SERVICES.condemn(ctx, source_of(service, move), may_run=True)
    ledger.end_stay(ctx, SERVICES.stay_of(source_of(service, move)))
    is_promoted = move.generation != service.generation
    ctx.put_service(
        replace(
            target_of(service, move),
            generation=move.generation,
            since_us=ctx.now_us if is_promoted else service.since_us,
            started_us=service.started_us if move.rest else move.up_us,
            is_disarmed=bool(move.rest) and has_policy(service),
            no_live="",
            live_retry_us=0,
            live_refusals=0,
            moved_us=ctx.now_us,
            changed_us=ctx.now_us,
        )
    )
    put(ctx, move, Step.COMMIT)
    advance(ctx, move.id)


def _finish(ctx: Context, move: Migration) -> None:
    """End the move once its source is gone, not before; a dropped tombstone calls again."""
    if not tombstones.may_run(ctx, move.container, move.source_incarnation):
        put(ctx, move, Step.DONE, finished_us=ctx.now_us)


def on_listing(
    ctx: Context,
    move: Migration,
    node: str,
    facts: ContainerFacts | None,
    started_us: int,
) -> None:
    """Take in a listing of ``node``, source or target: its copy as seen there (None: it is not)."""
    if move.effect or started_us <= move.changed_us or move.step is Step.QUEUED:
        return
    if is_left(ctx, move):
        return
    at_source = node == move.source
    is_woken = bool(move.rest) and at_source and facts is not None and facts.is_running
    if is_woken and move.step in BEFORE_START:
        _back(ctx, replace(move, is_unsure=False), "somebody has started it meanwhile")
    elif move.rest and move.is_unsure and move.step is Step.TRANSFER:
        if at_source:
            _commit(ctx, replace(move, is_unsure=False))
    elif move.step is Step.VERIFY:
        if not at_source:
            _verify(ctx, move, facts)
    elif move.is_unsure and at_source == (move.step in SOURCE_STEPS):
        _resolve(ctx, move, facts)


def _verify(ctx: Context, move: Migration, facts: ContainerFacts | None) -> None:
    if facts is None or not facts.is_running:
        code = "vanished" if facts is None else f"exited with {facts.exit_code}"
        _back(ctx, move, f"target {code} before it was verified")
    elif facts.health == "unhealthy" or ctx.now_us > move.verify_us + ctx.params.healthy_us:
        _back(ctx, move, "target did not become healthy")
    elif ctx.now_us >= move.verify_us and facts.health in ("none", "healthy"):
        _commit(ctx, move)
    else:
        ctx.arm(max(move.verify_us, ctx.now_us + US), MACHINE, move.id)


def _resolve(ctx: Context, move: Migration, facts: ContainerFacts | None) -> None:
    """Decide by what is there whether the step happened; sent again only where that is safe."""
    has_happened = {
        Step.CREATE: facts is not None,
        Step.STOP: facts is None or not facts.is_running,
        Step.CHECKPOINT: facts is not None and not facts.is_running,
        Step.START: facts is not None and facts.is_running,
        Step.UNDO_SOURCE: facts is not None and facts.is_running,
    }.get(move.step, False)
    if has_happened:
        if move.step is Step.CREATE and facts is not None:
            move = replace(move, target_id=facts.engine_id)
        _next(ctx, move)
    elif move.step is Step.CHECKPOINT:
        # it may still be taken: going back starts the source from it then
        _back(ctx, move, "it is not known whether it was checkpointed")
    elif move.step in (Step.CREATE, Step.START) and move.tries >= MAX_TRIES:
        _back(ctx, move, "target could not be created or started for certain")
    elif move.step is Step.START and (facts is None or facts.state != "created"):
        _back(ctx, move, "target vanished or ended at once")
    elif move.step is Step.START and facts is not None and facts.is_torn:
        _back(ctx, move, f"target: {TORN}")
    else:
        _retry(ctx, move)
        advance(ctx, move.id)


def on_timer(ctx: Context, key: str) -> None:
    """Go on: retry a step, or look whether the target is verified."""
    move = ctx.tables.migrations.get(key)
    if move is None or move.is_over or is_left(ctx, move):
        return
    if move.step is Step.VERIFY:
        ctx.emit(Relist(move.target))
        ctx.arm(ctx.now_us + 5 * US, MACHINE, key)
    elif move.step is Step.CREATE and move.is_unsure:
        _wait_for_target(ctx, move)  # what was not started cannot run, so going back is safe
    else:
        advance(ctx, key)


def on_node_off(ctx: Context, node: str) -> None:
    """Have every move that counts on a fenced node go on without it."""
    for move in ctx.moves_at(node):
        if not is_left(ctx, move):
            _without(ctx, move, node)


def _without(ctx: Context, move: Migration, node: str) -> None:
    """React to a fenced node: a lost target turns the move round, a lost source lets it go on."""
    free = replace(move, effect="", is_unsure=False)
    if node == move.target and move.step is Step.COMMIT:
        _next(ctx, free)
        if not move.rest:
            SERVICES.lose(ctx, ctx.tables.services[move.container], "target is off")
    elif node == move.target and not is_committed(move.step):
        if move.step is Step.QUEUED:
            admission.refuse(ctx, move, "target is off")
        elif move.step not in (Step.UNDO_SOURCE, Step.UNDO_ARM, Step.UNDO_TARGET):
            _back(ctx, free, "target is off")
    elif node == move.source and move.step in _LOST_WITH_SOURCE and _needs_source(ctx, move):
        _back(ctx, free, "source is off")
    elif node == move.source and move.step in (Step.DISARM, Step.STOP):
        _next(ctx, replace(free, is_source_stopped=True))
    elif node == move.source and move.step in (Step.UNDO_SOURCE, Step.UNDO_ARM):
        _without_source(ctx, free)


def rearm(ctx: Context) -> None:
    """Set the timers of loaded moves."""
    for move in ctx.open_moves():
        at = max(ctx.now_us, move.verify_us if move.step is Step.VERIFY else move.retry_us)
        ctx.arm(at, MACHINE, move.id)
