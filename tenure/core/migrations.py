"""Restart migrations: a service is recreated on another node (DESIGN.md section 5).

Stop-first: create target, disarm source (restart policy no), stop source, start target, verify,
commit. Start-first: create, start, verify, commit. Until the commit any failure goes back: the
target is buried, then the source is started again and its restart policy restored. From the
commit on it only goes forward: the source is buried. Target copies are created with restart policy
no, so that an engine that comes back does not revive a copy that was given up; the commit gives
them their own policy. No step follows one whose outcome is unknown: a listing decides first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.core import ledger, power, room, services
from tenure.core.context import Context
from tenure.core.steps import FORWARD, TARGET_MAY_RUN, is_committed, may_be_start_first
from tenure.model.container import STEP_OVER, ContainerState, Migration, Service, Step
from tenure.model.effects import (
    CreateContainer,
    EngineEffect,
    Relist,
    SetRestartPolicy,
    StartContainer,
    StopContainer,
)
from tenure.model.facts import ContainerFacts
from tenure.model.node import Power
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.resources import exhausted
from tenure.model.units import US

MACHINE = "migration"
RETRY_US = 2 * US
MAX_DOUBLINGS = 4
#: A target that could not be created or started for unclear reasons is given up after this many.
MAX_TRIES = 4
NO_POLICY = {"Name": "no"}
SOURCE_STEPS = frozenset((Step.DISARM, Step.STOP, Step.UNDO_SOURCE, Step.UNDO_ARM))


def queue(  # noqa: PLR0913 - a move is these things
    ctx: Context,
    service: Service,
    *,
    key: str,
    run_id: str,
    target: str,
    generation: str,
    expires_us: int,
) -> None:
    """Accept a move off the service's node; it begins once budgets allow, and is checked then."""
    move = Migration(
        id=key,
        run_id=run_id,
        container=service.id,
        source=service.node,
        target=target,
        generation=generation,
        incarnation=max(service.turns, service.incarnation) + 1,
        created_us=ctx.now_us,
        source_id=service.engine_id,
        source_incarnation=service.incarnation,
        request=room.need_of(ctx, service),
        is_start_first=may_be_start_first(service.body, overlap=service.overlap),
        expires_us=expires_us,
        changed_us=ctx.now_us,
    )
    ctx.put_migration(move)
    ctx.publish("migration.queued", service.id, migration=key, source=move.source, target=target)


def refuse(ctx: Context, move: Migration, reason: str) -> None:
    """End a move that has not begun."""
    put(ctx, move, Step.REFUSED, reason=reason, finished_us=ctx.now_us)


def put(ctx: Context, move: Migration, step: Step, **changes: Any) -> Migration:
    """Record the next step of a move, before anything of it is sent."""
    defaults: dict[str, Any] = {
        "changed_us": ctx.now_us,
        "effect": "",
        "is_unsure": False,
        "tries": 0,
        "retry_us": 0,
    }
    move = ctx.put_migration(replace(move, step=step, **(defaults | changes)))
    if step in STEP_OVER:
        ctx.ended.append(move)
    ctx.touched_services.add(move.container)
    ctx.publish(
        f"migration.{step.value}",
        move.container,
        migration=move.id,
        source=move.source,
        target=move.target,
        reason=move.reason,
    )
    return move


def review_all(ctx: Context) -> None:
    """Bring every open move forward as far as it can go now."""
    for move in ctx.open_moves():
        advance(ctx, move.id)


def advance(ctx: Context, key: str) -> None:
    """Send the next effect of a move, if its turn has come."""
    move = ctx.tables.migrations.get(key)
    if move is None or move.is_over or move.effect or move.is_unsure:
        return
    if ctx.now_us < move.retry_us:
        ctx.arm(move.retry_us, MACHINE, key)
        return
    service = ctx.tables.services[move.container]
    if move.step is Step.QUEUED:
        _begin(ctx, move, service)
    elif move.step is Step.UNDO_TARGET:
        _undo_target(ctx, move)
    elif move.step is Step.COMMIT and not has_policy(service):
        _next(ctx, move)
    elif move.step is Step.SWEEP:
        _finish(ctx, move)
    elif move.step is not Step.VERIFY:
        _send(ctx, move, service)


def _begin(ctx: Context, move: Migration, service: Service) -> None:
    """Start a queued move: budgets and fit are checked again, at this moment."""
    if ctx.is_closing:
        return
    code = _objection(ctx, move, service)
    if code:
        refuse(ctx, move, code)
        return
    if not _within_budget(ctx, move):
        ctx.arm(ctx.now_us + RETRY_US, MACHINE, move.id)
        return
    node = ctx.tables.nodes[move.target]
    if node.power is not Power.ON:
        power.want_on(ctx, move.target, f"move of {service.name}")
    services.to(ctx, service, ContainerState.MOVING)
    service = ctx.tables.services[service.id]
    ctx.put_service(replace(service, turns=max(service.turns, move.incarnation)))
    ledger.begin_stay(ctx, f"{service.id}/{move.incarnation}", move.target, "")
    put(ctx, move, Step.CREATE, started_us=ctx.now_us)


def _objection(ctx: Context, move: Migration, service: Service) -> str:
    """Return why a queued move must not start any more, or ""."""
    if ctx.now_us >= move.expires_us:
        return "expired"
    if service.state is not ContainerState.RUNNING or service.is_removing:
        return "not_running"
    if (service.node, service.incarnation) != (move.source, move.source_incarnation):
        return "changed"
    return _barred(ctx, move, service)


def _barred(ctx: Context, move: Migration, service: Service) -> str:
    if ctx.now_us < service.late_us:
        return "unsure"
    node = ctx.tables.nodes.get(move.target)
    if node is None:
        return "no_node"
    code = room.drop_for(ctx, service, node)
    if code:
        return code
    need = room.need_of(ctx, service)
    return "no_room" if exhausted(need, room.free_on(ctx, node), node.capacity) else ""


def _within_budget(ctx: Context, move: Migration) -> bool:
    running = [m for m in ctx.open_moves() if m.step is not Step.QUEUED]
    if len(running) >= ctx.params.moves_total:
        return False
    for node in (move.source, move.target):
        touching = sum(node in (m.source, m.target) for m in running)
        if touching >= ctx.params.moves_per_node:
            return False
    return True


def has_policy(service: Service) -> bool:
    """Whether a service has a restart policy of its own, other than ``no``."""
    return service.restart_policy.get("Name") not in ("", "no", None)


def _send(ctx: Context, move: Migration, service: Service) -> None:
    node = move.source if move.step in SOURCE_STEPS else move.target
    if not services.is_reachable(ctx, node):
        if move.step is Step.CREATE:
            _wait_for_target(ctx, move)
        elif ctx.tables.nodes[node].is_fenced:
            _without(ctx, move, node)
        return
    effect = _effect(ctx, move, service)
    touched = move.is_source_touched or move.step is Step.DISARM
    stopped = move.is_source_stopped or move.step is Step.STOP
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


def _wait_for_target(ctx: Context, move: Migration) -> None:
    if ctx.now_us >= move.expires_us:
        _back(ctx, move, "target was not ready before the plan expired")
    else:
        ctx.arm(move.expires_us, MACHINE, move.id)


def _effect(ctx: Context, move: Migration, service: Service) -> EngineEffect:
    key, owner = ctx.effect_id(), f"{MACHINE}:{move.id}"
    own, source, target = service.restart_policy, move.source, move.target
    if move.step is Step.CREATE:
        arriving = replace(service, generation=move.generation)
        body = services.body_of(ctx, arriving, move.incarnation, NO_POLICY)
        return CreateContainer(key, owner, target, service.name, body, service.is_pullable)
    if move.step is Step.STOP:
        grace_s = service.grace(ctx.params.grace_stop_s)
        return StopContainer(key, owner, source, move.source_id, grace_s)
    if move.step is Step.START:
        return StartContainer(key, owner, target, move.target_id)
    if move.step is Step.UNDO_SOURCE:
        return StartContainer(key, owner, source, move.source_id)
    at, copy = (target, move.target_id) if move.step is Step.COMMIT else (source, move.source_id)
    policy = NO_POLICY if move.step is Step.DISARM else own
    return SetRestartPolicy(key, owner, at, copy, policy)


def on_effect(ctx: Context, key: str, effect: str, outcome: Outcome) -> None:
    """Take in the end of a step's effect."""
    move = ctx.tables.migrations.get(key)
    if move is None or move.effect != effect:
        return
    if isinstance(outcome, Done):
        if move.step is Step.CREATE:
            move = replace(move, target_id=outcome.value)
        _next(ctx, move)
    elif isinstance(outcome, Refused) and outcome.code != "unreachable":
        _refused(ctx, move, f"{outcome.code}: {outcome.detail}"[:500], outcome.code)
    else:
        if move.step in (Step.START, Step.UNDO_SOURCE):
            service = ctx.tables.services[move.container]
            ctx.put_service(replace(service, late_us=ctx.now_us + services.LATE_US))
        ctx.put_migration(replace(move, effect="", is_unsure=True, changed_us=ctx.now_us))
        ctx.emit(Relist(move.source if move.step in SOURCE_STEPS else move.target))
        if move.step is Step.CREATE:
            ctx.arm(move.expires_us, MACHINE, move.id)


def _next(ctx: Context, move: Migration) -> None:
    """Go to the step after the one that is done."""
    if move.step is Step.STOP:
        move = replace(move, down_us=ctx.now_us)
    following = FORWARD[move.is_start_first][move.step]
    if following is Step.VERIFY:
        verify = ctx.now_us + ctx.params.verify_us
        move = replace(move, verify_us=verify, up_us=ctx.now_us)
        ctx.arm(verify, MACHINE, move.id)
    if move.step is Step.COMMIT:
        service = ctx.tables.services[move.container]
        services.to(ctx, service, ContainerState.RUNNING, moved_us=ctx.now_us)
    is_untouched = following is Step.UNDO_ARM and not move.is_source_touched
    if following is Step.ROLLED_BACK or is_untouched:
        _rolled_back(ctx, move)
    else:
        put(ctx, move, following)
        advance(ctx, move.id)


def _refused(ctx: Context, move: Migration, reason: str, code: str) -> None:
    is_gone = code == "no_such_container"
    if move.step in (Step.DISARM, Step.STOP) and is_gone:
        _next(ctx, move)  # the source is gone: nothing is left to stop
    elif move.step in (Step.CREATE, Step.START, Step.DISARM, Step.STOP):
        _back(ctx, move, reason)
    elif move.step is Step.UNDO_SOURCE and is_gone:
        _lost(ctx, move, reason)
    elif move.step in (Step.UNDO_ARM, Step.COMMIT) and is_gone:
        _next(ctx, move)  # removed by somebody: the next listing says so of the service
    else:
        _retry(ctx, replace(move, reason=reason))


def _retry(ctx: Context, move: Migration) -> None:
    wait = RETRY_US << min(move.tries, MAX_DOUBLINGS)
    move = replace(move, effect="", is_unsure=False, tries=move.tries + 1)
    ctx.put_migration(replace(move, changed_us=ctx.now_us, retry_us=ctx.now_us + wait))
    ctx.arm(ctx.now_us + wait, MACHINE, move.id)


def _back(ctx: Context, move: Migration, reason: str) -> None:
    """Turn round before the commit: first the target must be gone for certain."""
    if is_committed(move.step):
        raise AssertionError(f"migration {move.id}: no way back from {move.step}")
    may_run = move.step in TARGET_MAY_RUN
    put(ctx, move, Step.UNDO_TARGET, reason=reason)
    service = ctx.tables.services[move.container]
    copy = (move.target, move.target_id, move.incarnation)
    services.bury(ctx, service, copy, may_run=may_run)
    advance(ctx, move.id)


def _undo_target(ctx: Context, move: Migration) -> None:
    mine = [g for g in ctx.graves_of(move.container) if g.turn == move.incarnation]
    if any(grave.may_run for grave in mine):
        return
    ledger.end_stay(ctx, f"{move.container}/{move.incarnation}")
    if ctx.tables.nodes[move.source].is_fenced:
        _lost(ctx, move, "source is off")
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
    guard = ctx.now_us + services.LATE_US if move.is_source_stopped else 0
    services.to(ctx, service, ContainerState.RUNNING, moved_us=ctx.now_us, guard_us=guard)


def _lost(ctx: Context, move: Migration, reason: str) -> None:
    """The source was removed by somebody, or its node is off: create it anew."""
    put(ctx, move, Step.ROLLED_BACK, finished_us=ctx.now_us, reason=reason)
    service = ctx.tables.services[move.container]
    service = services.to(ctx, service, ContainerState.RUNNING)
    services.again(ctx, service, reason)


def _commit(ctx: Context, move: Migration) -> None:
    """Make the target the service and bury the source."""
    service = ctx.tables.services[move.container]
    services.bury(ctx, service, (move.source, move.source_id, move.source_incarnation))
    ledger.end_stay(ctx, f"{service.id}/{move.source_incarnation}")
    is_promoted = move.generation != service.generation
    ctx.put_service(
        replace(
            service,
            node=move.target,
            engine_id=move.target_id,
            incarnation=move.incarnation,
            generation=move.generation,
            since_us=ctx.now_us if is_promoted else service.since_us,
            started_us=move.up_us,
            moved_us=ctx.now_us,
            changed_us=ctx.now_us,
        )
    )
    put(ctx, move, Step.COMMIT)
    advance(ctx, move.id)


def _finish(ctx: Context, move: Migration) -> None:
    """End the move once its source is gone, not before; a dropped grave calls again."""
    mine = [g for g in ctx.graves_of(move.container) if g.turn == move.source_incarnation]
    if not any(grave.may_run for grave in mine):
        put(ctx, move, Step.DONE, finished_us=ctx.now_us)


def on_listing(
    ctx: Context,
    move: Migration,
    node: str,
    copies: tuple[ContainerFacts | None, ContainerFacts | None],
    started_us: int,
) -> None:
    """Take in a listing of ``node``: the source's and the target's copy as seen there."""
    if move.effect or started_us <= move.changed_us or move.step is Step.QUEUED:
        return
    at_source = node == move.source
    facts = copies[0] if at_source else copies[1]
    if move.step is Step.VERIFY:
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
        Step.START: facts is not None and facts.is_running,
        Step.UNDO_SOURCE: facts is not None and facts.is_running,
    }.get(move.step, False)
    if has_happened:
        if move.step is Step.CREATE and facts is not None:
            move = replace(move, target_id=facts.engine_id)
        _next(ctx, move)
    elif move.step in (Step.CREATE, Step.START) and move.tries >= MAX_TRIES:
        _back(ctx, move, "target could not be created or started for certain")
    elif move.step is Step.START and (facts is None or facts.state != "created"):
        _back(ctx, move, "target vanished or ended at once")
    else:
        _retry(ctx, move)
        advance(ctx, move.id)


def on_timer(ctx: Context, key: str) -> None:
    """Go on: retry a step, or look whether the target is verified."""
    move = ctx.tables.migrations.get(key)
    if move is None or move.is_over:
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
        _without(ctx, move, node)


def _without(ctx: Context, move: Migration, node: str) -> None:
    """React to a fenced node: a lost target turns the move round, a lost source lets it go on."""
    free = replace(move, effect="", is_unsure=False)
    if node == move.target and move.step is Step.COMMIT:
        _next(ctx, free)
        services.again(ctx, ctx.tables.services[move.container], "target is off")
    elif node == move.target and not is_committed(move.step):
        if move.step is Step.QUEUED:
            refuse(ctx, move, "target is off")
        elif move.step not in (Step.UNDO_SOURCE, Step.UNDO_ARM, Step.UNDO_TARGET):
            _back(ctx, free, "target is off")
    elif node == move.source and move.step in (Step.DISARM, Step.STOP):
        _next(ctx, replace(free, is_source_stopped=True))
    elif node == move.source and move.step in (Step.UNDO_SOURCE, Step.UNDO_ARM):
        _lost(ctx, free, "source is off")


def rearm(ctx: Context) -> None:
    """Set the timers of loaded moves."""
    for move in ctx.open_moves():
        at = max(ctx.now_us, move.verify_us if move.step is Step.VERIFY else move.retry_us)
        ctx.arm(at, MACHINE, move.id)
