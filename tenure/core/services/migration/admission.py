"""How a migration begins: it is queued, and checked again at the moment when budgets allow it.

Owns ``Arming``.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.capacity import ledger, room
from tenure.core.nodes import power
from tenure.core.services.migration import eligibility
from tenure.core.services.migration.eligibility import AT_REST
from tenure.core.services.migration.move_records import MACHINE, choice_of, is_blocked, put, to_next
from tenure.core.services.migration.move_vetoes import (
    GO_VETOES,
    LEAVE_VETOES,
    PASSING,
    Asks,
    Going,
    Leaving,
)
from tenure.core.services.services import SERVICES
from tenure.core.state.context import Context
from tenure.core.state.owned import Owned
from tenure.core.state.vetoes import Reason
from tenure.model.container import ContainerState, Migration, Service, Step
from tenure.model.events import MoveService
from tenure.model.node import Node, Power
from tenure.model.plan import Verdict
from tenure.model.units import HOUR_US, US, iso

#: A container that may move live alone is not tried for so long after a refusal, twice that after
#: the next, and at most so long: what refuses it (a connection that is open) may pass.
LIVE_RETRY_US = 600 * US
MAX_LIVE_RETRY_US = 2 * HOUR_US
MAX_LIVE_DOUBLINGS = 4
NO_LIVE = 400
"""Characters of an engine's refusal that are kept."""
RETRY_US = 2 * US
#: A move that nobody could begin for so long is given up; booting its target counts besides.
WITHIN_US = 600 * US


class Arming(Owned):
    """Services that a restore gives their restart policy at this moment."""

    def __init__(self) -> None:
        self.services: set[str] = set()


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
    choice = choice_of(ctx, service, target)
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
        request=room.need_of(ctx, service, generation),
        kind=choice.kind or "restart",
        why=choice.why,
        is_start_first=choice.is_start_first,
        expires_us=expires_us,
        changed_us=ctx.now_us,
        rest=service.state.value if choice.is_at_rest else "",
    )
    ctx.put_migration(move)
    ctx.publish(
        "migration.queued",
        service.id,
        migration=key,
        run=run_id,
        source=move.source,
        target=target,
        method=move.method,
        why=move.why,
    )


def ask(ctx: Context, command: MoveService) -> None:
    """Have a container go to the node that a person names, as soon as budgets allow."""
    service, node = ctx.tables.services.get(command.container), ctx.tables.nodes.get(command.node)
    if service is None or service.state is ContainerState.REMOVED:
        ctx.refuse(command, "not_found", f"no container {command.container}", status=404)
        return
    if node is None:
        ctx.refuse(command, "not_found", f"no node {command.node}", status=404, field="node")
        return
    veto = _forbidden(ctx, service, node)
    if veto is not None:
        ctx.refuse(command, veto.code, f"container {service.name} {veto.advice}", status=409)
        return
    told, key = choice_of(ctx, service, node.name).told, ""
    if not command.is_dry:
        key = f"by-hand@{ctx.now_us}#{service.id}"
        queue(
            ctx,
            service,
            key=key,
            run_id="",
            target=node.name,
            generation=node.spec.generation,
            expires_us=ctx.now_us + WITHIN_US + node.spec.power.timeout_us,
        )
    ctx.reply(command, Verdict(service.id, node.name, "accepted", key, told))


def _forbidden(ctx: Context, service: Service, node: Node) -> Reason | None:
    """Return why a container may not go to the node that a person names."""
    if service.state not in (*PASSING, *AT_REST, ContainerState.RUNNING):
        return Reason("wrong_state", f"is {service.state.value}: there is no copy to move")
    if service.node == node.name:
        return Reason("same_node", f"is on node {node.name} already")
    leaving = Leaving(service, service.node, service.incarnation, service.state)
    veto = LEAVE_VETOES.first(Asks.HAND, ctx, leaving)
    return veto or GO_VETOES.first(Asks.HAND, ctx, Going(service, node))


def refuse(ctx: Context, move: Migration, reason: str) -> None:
    """End a move that has not begun."""
    put(ctx, move, Step.REFUSED, reason=reason, finished_us=ctx.now_us)


def begin(ctx: Context, move: Migration, service: Service) -> None:
    """Start a queued move: budgets and fit are checked again, at this moment."""
    if ctx.is_closing:
        return
    veto = _veto(ctx, move, service)
    if veto is not None:
        refuse(ctx, move, veto.code)
        return
    # a policy that is on its way to the source would arm it again after the move has disarmed it
    if service.id in ctx.own(Arming).services or not _within_budget(ctx, move):
        ctx.arm(ctx.now_us + RETRY_US, MACHINE, move.id)
        return
    node = ctx.tables.nodes[move.target]
    if node.power is not Power.ON:
        power.want_on(ctx, move.target, f"move {move.id} of {service.name}")
    choice = choice_of(ctx, service, move.target)
    SERVICES.to(ctx, service, ContainerState.MOVING)
    service = ctx.tables.services[service.id]
    ctx.put_service(replace(service, turns=max(service.turns, move.incarnation)))
    ledger.begin_stay(ctx, f"{service.id}/{move.incarnation}", move.target, "")
    # what was measured since it was queued counts: that is what it was found room for
    move = replace(
        move,
        kind=choice.kind,
        why=choice.why,
        is_start_first=choice.is_start_first,
        request=room.need_of(ctx, service, move.generation),
    )
    put(ctx, move, to_next(ctx, move), started_us=ctx.now_us)


def _veto(ctx: Context, move: Migration, service: Service) -> Reason | None:
    """Return why a queued move must not start any more."""
    turn, node = move.source_incarnation, ctx.tables.nodes.get(move.target)
    leaving = Leaving(service, move.source, turn, move.end_state, move.expires_us)
    veto = LEAVE_VETOES.first(Asks.BEGIN, ctx, leaving)
    if node is None:
        return veto or Reason("no_node", f"was to go to node {move.target}, which is no more")
    return veto or GO_VETOES.first(Asks.BEGIN, ctx, Going(service, node))


def _within_budget(ctx: Context, move: Migration) -> bool:
    """Whether one more move may begin; those that wait for somebody do not count."""
    running = [other for other in ctx.begun_moves() if not is_blocked(ctx, other)]
    if len(running) >= ctx.params.moves_total:
        return False
    for node in (move.source, move.target):
        touching = sum(node in (m.source, m.target) for m in running)
        if touching >= ctx.params.moves_per_node:
            return False
    return True


def bar_live(ctx: Context, move: Migration, reason: str) -> None:
    """Have the next move of a container be no live one; one that may not move else waits longer
    after each failure, for what stood against it may pass (an open connection).
    """
    service = ctx.tables.services[move.container]
    if eligibility.may_fall_back(service):
        ctx.put_service(replace(service, no_live=reason))
        return
    wait_us = min(
        LIVE_RETRY_US << min(service.live_refusals, MAX_LIVE_DOUBLINGS), MAX_LIVE_RETRY_US
    )
    retry_us = ctx.now_us + wait_us
    told = f"{reason[:NO_LIVE]}; it is tried again from {iso(retry_us)} on"
    count = service.live_refusals + 1
    ctx.put_service(replace(service, no_live=told, live_retry_us=retry_us, live_refusals=count))
