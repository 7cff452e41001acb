"""The records of migrations: how a step is put down, and what decides the next.

Owns nothing: ``migrations`` does, through it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.core.services.migration import eligibility
from tenure.core.services.migration.steps import following
from tenure.core.services.services import RECORD
from tenure.core.state.context import Context
from tenure.core.state.owned import Change
from tenure.model.container import STEP_OVER, Migration, Service, Step, Tombstone

MACHINE = "migration"


def choice_of(ctx: Context, service: Service, target: str) -> eligibility.Choice:
    """Return how a service would move to ``target`` now, and why no better way."""
    nodes, service = ctx.tables.nodes, eligibility.as_of(service, ctx.now_us)
    source, best = nodes.get(service.node), ctx.params.best_kind
    return eligibility.choose(service, source, nodes.get(target), best)


def source_of(service: Service, move: Migration) -> Service:
    """Return a service as it is at the source of a move."""
    turn, copy = move.source_incarnation, move.source_id
    return replace(service, node=move.source, engine_id=copy, incarnation=turn)


def target_of(service: Service, move: Migration) -> Service:
    """Return a service as it is at the target of a move."""
    turn, copy = move.incarnation, move.target_id
    return replace(service, node=move.target, engine_id=copy, incarnation=turn)


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
        ctx.tell(Change.MOVED, move.id)
    ctx.notices.services.add(move.container)
    ctx.publish(
        f"migration.{step.value}",
        move.container,
        migration=move.id,
        run=move.run_id,
        source=move.source,
        target=move.target,
        method=move.method,
        reason=move.reason,
    )
    return move


def is_left(ctx: Context, move: Migration) -> bool:
    """Whether a move is left as it is, or its container is, without which it cannot go on."""
    is_mine = ctx.is_quarantined(MACHINE, move.id)
    return is_mine or ctx.is_quarantined(RECORD, move.container)


def is_blocked(ctx: Context, move: Migration) -> bool:
    """Whether a move waits for somebody to clear a copy, or for an engine that refuses its source.

    What is left of it is a removal or a start: it carries nothing any more.
    """
    if move.step is Step.UNDO_SOURCE:
        return move.tries > 0
    return any(tombstone.reason for tombstone in doomed(ctx, move))


def doomed(ctx: Context, move: Migration) -> list[Tombstone]:
    """Return the tombstones of the copy that a move waits to see ended; none in its other steps."""
    if move.step not in (Step.UNDO_TARGET, Step.SWEEP):
        return []
    turn = move.incarnation if move.step is Step.UNDO_TARGET else move.source_incarnation
    tombstones = ctx.tombstones_of(move.container)
    return [tombstone for tombstone in tombstones if tombstone.turn == turn and tombstone.may_run]


def to_next(ctx: Context, move: Migration) -> Step:
    """Return the step after this one is done."""
    body = ctx.tables.services[move.container].body
    return following(move.method, move.step, has_volumes=eligibility.has_volumes(body))


def has_policy(service: Service) -> bool:
    """Whether a service has a restart policy of its own, other than ``no``."""
    return service.restart_policy.get("Name") not in ("", "no", None)
