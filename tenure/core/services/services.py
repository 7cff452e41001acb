"""Services: containers that people submit and cycles move (docs/moving-containers.md).

A service keeps its id for ever; each recreation is an incarnation with a container of its own.
While a migration is open, the migration owns both copies and this machine looks on. Owns the
records of services.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.core.attempts import tombstones
from tenure.core.capacity import candidates, ledger, room
from tenure.core.nodes import capacity_probes, power
from tenure.core.state.context import UNPLACED_SERVICE, Context
from tenure.core.state.transitions import may_go
from tenure.model.container import ContainerState, Service, Tombstone
from tenure.model.effects import CreateContainer, Relist, StartContainer, StopContainer
from tenure.model.facts import (
    LABEL_CONTAINER,
    LABEL_FLEET,
    LABEL_GENERATION,
    LABEL_INCARNATION,
    ContainerFacts,
)
from tenure.model.node import Power, Reach
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.units import US

MACHINE = "service"
#: What its records are called where one is quarantined: what people call them.
RECORD = "container"
NO_ROOM = "no node of its generation has room"
VANISHED = "removed on its engine, not by tenure"
#: One copy of a service: its node, its engine id ("" where never learned), its incarnation.
Copy = tuple[str, str, int]
S = ContainerState
RETRY_US = 5 * US
#: A call that ended unknown happens within this time or never.
LATE_US = 600 * US
#: A create or start that was refused for a passing reason is tried this often, then it failed.
MAX_TRIES = 5
#: Back-off of a start that is asked for again doubles up to RETRY_US * 2**3, 40 s.
MAX_DOUBLINGS = 3
TORN = "its engine died while it started it, and may hold a process of it that it does not show"


def to(ctx: Context, service: Service, state: ContainerState, **changes: Any) -> Service:
    """Move a service to another state; an illegal step quarantines it."""
    if not may_go(ctx, RECORD, service.id, service.state, state):
        return service
    defaults: dict[str, Any] = {"changed_us": ctx.now_us, "is_unsure": False, "effect": ""}
    service = ctx.put_service(replace(service, state=state, **(defaults | changes)))
    ctx.notices.services.add(service.id)
    ctx.publish(
        f"container.{state.value}",
        service.id,
        name=service.name,
        node=service.node,
        generation=service.generation,
        reason=service.reason,
    )
    return service


def review(ctx: Context, key: str) -> None:
    """Bring a service forward: place it, send its next effect, remove it."""
    service = ctx.tables.services.get(key)
    if service is None or service.state is S.REMOVED or ctx.is_quarantined(RECORD, key):
        return
    if service.is_removing:
        _remove(ctx, service)
        return
    if service.effect or service.is_unsure:
        return
    if ctx.now_us < service.retry_us:
        ctx.arm(service.retry_us, MACHINE, key)
        return
    if service.state in UNPLACED_SERVICE:
        _place(ctx, service)
    elif service.state is S.CREATED and not is_tombstoned(ctx, service):
        start(ctx, to(ctx, service, S.STARTING))
    elif service.state is S.EXITED and ctx.now_us < service.guard_us:
        start(ctx, to(ctx, service, S.STARTING, reason="undoing a late stop"))
    elif service.state is S.STARTING and service.retry_us and not is_tombstoned(ctx, service):
        start(ctx, service)


def _remove(ctx: Context, service: Service) -> None:
    if ctx.move_of(service.id) is not None or service.state is S.MOVING:
        return
    if service.node and service.state is not S.FAILED:
        condemn(ctx, service, _copy(service))
        ledger.end_stay(ctx, stay_of(service))
        service = ctx.put_service(
            replace(service, node="", engine_id="", effect="", changed_us=ctx.now_us)
        )
    if not is_tombstoned(ctx, service):
        to(ctx, service, S.REMOVED, reason=service.reason or "removed")


def condemn(ctx: Context, service: Service, copy: Copy, *, may_run: bool = True) -> None:
    """Have one copy of the service stopped and removed for good."""
    node, engine_id, turn = copy
    tombstone = Tombstone(
        id=f"{service.id}/{turn}",
        node=node,
        owner=service.id,
        turn=turn,
        name=service.name,
        engine_id=engine_id,
        created_us=ctx.now_us,
        may_run=may_run,
        request=room.need_of(ctx, service),
        grace_s=service.grace(ctx.params.grace_stop_s),
    )
    tombstones.condemn(ctx, tombstone)


def _place(ctx: Context, service: Service) -> None:
    if is_tombstoned(ctx, service):
        return
    home = service.generation
    service, node = candidates.found(ctx, service)
    if node is None:
        _wait(ctx, service, NO_ROOM)
        capacity_probes.hear_service(ctx, service)
        return
    power.want_on(ctx, node, f"container {service.name}")
    fresh = {"since_us": ctx.now_us, "started_us": None}
    reason = "" if service.generation == home else f"generation {home} has no room"
    service = to(ctx, service, S.CREATING, node=node, reason=reason, **fresh)
    ledger.begin_stay(ctx, stay_of(service), node, "")
    _create(ctx, service)


def is_tombstoned(ctx: Context, service: Service) -> bool:
    """Whether a copy before this one may still run, or run again since its engine is back."""
    return any(tombstone.may_run for tombstone in ctx.tombstones_of(service.id))


def _wait(ctx: Context, service: Service, reason: str) -> None:
    if service.state is S.ACCEPTED:
        to(ctx, service, S.WAITING, reason=reason)
    elif service.reason != reason:
        ctx.put_service(replace(service, reason=reason))


def is_reachable(ctx: Context, name: str) -> bool:
    """Whether effects can be sent to the node's engine now."""
    node = ctx.tables.nodes.get(name)
    return node is not None and node.power is Power.ON and node.reach is Reach.OK


def _create(ctx: Context, service: Service) -> None:
    if not is_reachable(ctx, service.node):
        return
    effect = CreateContainer(
        id=ctx.effect_id(),
        owner=f"{MACHINE}:{service.id}",
        node=service.node,
        name=service.name,
        body=body_of(ctx, service, service.incarnation, service.restart_policy),
        pull=service.is_pullable,
    )
    ctx.put_service(replace(service, effect=effect.id, is_unsure=False, changed_us=ctx.now_us))
    ctx.emit(effect)


def body_of(
    ctx: Context, service: Service, incarnation: int, policy: dict[str, Any]
) -> dict[str, Any]:
    """Return the create body of an incarnation: the user's, with tenure's labels added."""
    labels = dict(service.body.get("Labels") or {}) | {
        LABEL_FLEET: ctx.meta.fleet,
        LABEL_CONTAINER: service.id,
        LABEL_INCARNATION: str(incarnation),
        LABEL_GENERATION: service.generation,
    }
    host = dict(service.body.get("HostConfig") or {}) | {"RestartPolicy": policy}
    return dict(service.body) | {"Labels": labels, "HostConfig": host}


def start(ctx: Context, service: Service) -> None:
    """Have a copy started, once its node answers."""
    if not is_reachable(ctx, service.node):
        return
    effect = StartContainer(
        ctx.effect_id(), f"{MACHINE}:{service.id}", service.node, service.engine_id
    )
    ctx.put_service(replace(service, effect=effect.id, is_unsure=False, changed_us=ctx.now_us))
    ctx.emit(effect)


def on_effect(ctx: Context, service: Service, effect: str, outcome: Outcome) -> None:
    """Take in the end of a create, start or stop."""
    if service.effect != effect:
        return
    if isinstance(outcome, Done):
        _done(ctx, service, outcome.value)
    elif isinstance(outcome, Refused) and outcome.code != "unreachable":
        _refused(ctx, service, outcome)
    else:
        late_us = ctx.now_us + LATE_US if service.state is S.STARTING else service.late_us
        ctx.put_service(
            replace(service, effect="", is_unsure=True, changed_us=ctx.now_us, late_us=late_us)
        )
        ctx.emit(Relist(service.node))


def _done(ctx: Context, service: Service, value: str) -> None:
    if service.state is S.CREATING:
        to(ctx, service, S.CREATED, engine_id=value)
    elif service.state is S.STARTING:
        to(ctx, service, S.RUNNING, started_us=ctx.now_us, tries=0, exit_code=None, reason="")
    elif service.state is S.STOPPING:
        to(ctx, service, S.STOPPED, finished_us=ctx.now_us)


def _refused(ctx: Context, service: Service, outcome: Refused) -> None:
    reason = f"{outcome.code}: {outcome.detail}"[:500]
    if service.state is S.STOPPING:
        to(ctx, service, S.RUNNING, reason=reason)
    elif outcome.code == "no_such_container":
        again(ctx, service, "container vanished from its engine")
    elif outcome.code == "start_blocked":
        _blocked(ctx, service)
    elif service.state is S.STARTING and service.started_us is not None:
        _not_restarted(ctx, service, outcome, reason)
    elif outcome.code in ("no_image", "engine_error", "name_taken") and service.tries < MAX_TRIES:
        again(ctx, service, reason)
    else:
        condemn(ctx, service, _copy(service))
        ledger.end_stay(ctx, stay_of(service))
        to(ctx, service, S.FAILED, reason=reason, finished_us=ctx.now_us)


def _blocked(ctx: Context, service: Service) -> None:
    """Keep a copy that its engine neither starts nor ends: its process may run, so no other may.

    The start is asked for again and again, until somebody has cleared it; whatever trouble the
    engine has then finds tries left.
    """
    if service.reason != TORN:
        tombstones.tell_blocked(ctx, service.id, service.node, service.engine_id, TORN)
    _start_later(ctx, replace(service, reason=TORN, tries=min(service.tries + 1, MAX_DOUBLINGS)))


def _not_restarted(ctx: Context, service: Service, outcome: Refused, reason: str) -> None:
    """Keep a copy that has run, and so may hold files: one made anew would not have them."""
    is_passing = outcome.code == "engine_error" and service.tries < MAX_TRIES
    if is_passing:
        _start_later(ctx, replace(service, reason=reason, tries=service.tries + 1))
    else:
        to(ctx, service, S.EXITED, reason=reason, guard_us=0)


def _start_later(ctx: Context, service: Service) -> None:
    retry_us = ctx.now_us + (RETRY_US << min(service.tries, MAX_DOUBLINGS))
    ctx.put_service(replace(service, effect="", changed_us=ctx.now_us, retry_us=retry_us))
    ctx.arm(retry_us, MACHINE, service.id)


def again(ctx: Context, service: Service, reason: str) -> None:
    """Give up this incarnation and wait for another placement."""
    if not may_go(ctx, RECORD, service.id, service.state, S.WAITING):
        return
    ledger.end_stay(ctx, stay_of(service))
    condemn(ctx, service, _copy(service))
    turn = max(service.turns, service.incarnation) + 1
    retry = ctx.now_us + RETRY_US
    to(
        ctx,
        service,
        S.WAITING,
        reason=reason,
        node="",
        engine_id="",
        incarnation=turn,
        turns=turn,
        tries=service.tries + 1,
        started_us=None,
        retry_us=retry,
    )
    ctx.arm(retry, MACHINE, service.id)


def on_listing(
    ctx: Context, service: Service, facts: ContainerFacts | None, started_us: int
) -> None:
    """Take in what an engine shows of this incarnation (None: it is not there)."""
    if started_us <= service.changed_us or service.effect or service.state is S.MOVING:
        return
    if ctx.is_quarantined(RECORD, service.id):
        return
    if facts is None:
        _absent(ctx, service)
    elif service.state is S.CREATING:
        # it may run: somebody started it while nobody knew of the create; our start is then a no-op
        to(ctx, service, S.CREATED, engine_id=facts.engine_id)
    elif facts.state == "created":
        _found_created(ctx, service, facts)
    elif facts.is_running:
        _found_running(ctx, service, facts)
    elif facts.state in ("exited", "dead"):
        _found_exited(ctx, service, facts)


def _absent(ctx: Context, service: Service) -> None:
    if service.state is S.CREATING:
        _create(ctx, service)
    elif service.state in (S.CREATED, S.STARTING):
        again(ctx, service, "container vanished from its engine")
    elif service.state not in (S.REMOVED, S.FAILED):
        ledger.end_stay(ctx, stay_of(service))
        to(ctx, service, S.REMOVED, reason=VANISHED)


def _found_created(ctx: Context, service: Service, facts: ContainerFacts) -> None:
    if service.state is not S.STARTING or ctx.now_us < service.retry_us:
        return
    service = replace(service, engine_id=facts.engine_id)
    if facts.is_torn:
        _blocked(ctx, replace(service, is_unsure=False))
    else:
        start(ctx, service)


def _found_running(ctx: Context, service: Service, facts: ContainerFacts) -> None:
    if service.state in (S.STARTING, S.STOPPED, S.EXITED):
        to(
            ctx,
            service,
            S.RUNNING,
            engine_id=facts.engine_id,
            started_us=facts.started_us or ctx.now_us,
            exit_code=None,
            reason="",
        )
    elif service.state is S.STOPPING:
        _stop_again(ctx, service)


def _stop_again(ctx: Context, service: Service) -> None:
    effect = StopContainer(
        ctx.effect_id(), f"{MACHINE}:{service.id}", service.node, service.engine_id
    )
    ctx.put_service(replace(service, effect=effect.id, is_unsure=False, changed_us=ctx.now_us))
    ctx.emit(effect)


def _found_exited(ctx: Context, service: Service, facts: ContainerFacts) -> None:
    if service.state is S.STOPPING:
        to(ctx, service, S.STOPPED, finished_us=facts.finished_us or ctx.now_us)
    elif service.state is S.RUNNING or (service.state is S.STARTING and service.is_unsure):
        # a start that was not sent yet waits for its node, and is sent now
        note = "killed for memory (OOM)" if facts.is_oom_killed else facts.error
        to(
            ctx,
            service,
            S.EXITED,
            engine_id=facts.engine_id,
            exit_code=facts.exit_code,
            finished_us=facts.finished_us or ctx.now_us,
            reason=note,
        )


def on_connected(ctx: Context, node: str) -> None:
    """Have what somebody had to clear asked for at once: its engine is restarted for it."""
    for service in ctx.services_on(node):
        if service.state is S.STARTING and service.reason == TORN:
            ctx.put_service(replace(service, retry_us=ctx.now_us, tries=0))


def on_node_ready(ctx: Context, node: str) -> None:
    """Send what waited for the node: creates and starts not yet under way."""
    for service in ctx.services_on(node):
        is_later = service.state is S.STARTING and ctx.now_us < service.retry_us
        is_later |= ctx.is_quarantined(RECORD, service.id)
        if service.effect or service.is_unsure or service.is_removing or is_later:
            continue
        if service.state is S.CREATING:
            _create(ctx, service)
        elif service.state is S.STARTING and not is_tombstoned(ctx, service):
            start(ctx, service)


def on_node_off(ctx: Context, node: str) -> None:
    """Find another place for the services of a fenced node; one that was to stop has stopped."""
    for service in ctx.services_on(node):
        if service.state is S.STOPPING:
            to(ctx, service, S.STOPPED, finished_us=ctx.now_us)
        if service.state in (S.CREATING, S.CREATED, S.STARTING, S.RUNNING):
            again(ctx, service, f"node {node} is gone")


def on_no_boot(ctx: Context, node: str) -> None:
    """Let services to which nothing was sent look for another node than one that did not boot."""
    unplace_unsent(ctx, node, f"node {node} did not boot")


def unplace_unsent(ctx: Context, node: str, reason: str) -> None:
    """Take services off a node to which nothing was sent for this incarnation."""
    for service in ctx.services_on(node):
        is_left = ctx.is_quarantined(RECORD, service.id)
        if service.state is S.CREATING and not (service.effect or service.is_unsure or is_left):
            ledger.end_stay(ctx, stay_of(service))
            turn = max(service.turns, service.incarnation) + 1
            to(ctx, service, S.WAITING, reason=reason, node="", incarnation=turn, turns=turn)


def on_timer(ctx: Context, key: str) -> None:
    """Try again what waited."""
    ctx.notices.services.add(key)


def rearm(ctx: Context) -> None:
    """Have all loaded services reviewed."""
    for service in ctx.tables.services.values():
        if service.state is not S.REMOVED:
            ctx.notices.services.add(service.id)
            if service.retry_us > ctx.now_us:
                ctx.arm(service.retry_us, MACHINE, service.id)


def _copy(service: Service) -> Copy:
    return service.node, service.engine_id, service.incarnation


def stay_of(service: Service) -> str:
    """Return the ledger's key of this incarnation's stay on its node."""
    return f"{service.id}/{service.incarnation}"
