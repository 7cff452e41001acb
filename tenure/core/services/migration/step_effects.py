"""What the steps of a migration ask of the engines. Owns nothing, reads only."""

from __future__ import annotations

from dataclasses import replace

from tenure.core.services.migration.move_records import MACHINE
from tenure.core.services.migration.steps import CARRYING
from tenure.core.services.services import body_of
from tenure.core.state.context import Context
from tenure.model.container import Migration, Service, Step
from tenure.model.effects import (
    CarryImage,
    CheckpointContainer,
    CreateContainer,
    EngineEffect,
    SetRestartPolicy,
    StartContainer,
    StopContainer,
    TransferState,
)

NO_POLICY = {"Name": "no"}


def effect_of(ctx: Context, move: Migration, service: Service) -> EngineEffect:
    """Return what is to be done on the engines for the step that a move is in."""
    key, owner = ctx.effect_id(), f"{MACHINE}:{move.id}"
    own, source, target = service.restart_policy, move.source, move.target
    if move.step in CARRYING:
        return _carrying(ctx, move, key, owner)
    if move.step is Step.CREATE:
        arriving = replace(service, generation=move.generation)
        body = body_of(ctx, arriving, move.incarnation, NO_POLICY)
        if move.image:
            body["Image"] = move.image
        may_pull = service.is_pullable and not move.image
        return CreateContainer(key, owner, target, service.name, body, may_pull)
    if move.step is Step.CHECKPOINT:
        return CheckpointContainer(key, owner, source, move.source_id, move.checkpoint)
    if move.step is Step.STOP:
        grace_s = service.grace(ctx.params.grace_stop_s)
        return StopContainer(key, owner, source, move.source_id, grace_s)
    if move.step in (Step.START, Step.UNDO_SOURCE):
        is_there = move.step is Step.START
        at, copy = (target, move.target_id) if is_there else (source, move.source_id)
        return StartContainer(key, owner, at, copy, move.checkpoint)
    at, copy = (target, move.target_id) if move.step is Step.COMMIT else (source, move.source_id)
    policy = NO_POLICY if move.step is Step.DISARM else own
    return SetRestartPolicy(key, owner, at, copy, policy)


def _carrying(ctx: Context, move: Migration, key: str, owner: str) -> EngineEffect:
    source, source_id, limit = move.source, move.source_id, ctx.params.volumes_bytes
    if move.step is Step.TRANSFER:
        return TransferState(
            key,
            owner,
            move.target,
            move.target_id,
            source,
            source_id,
            move.container,
            checkpoint=move.checkpoint,
            limit_bytes=limit,
        )
    return CarryImage(
        key,
        owner,
        move.target,
        source,
        source_id,
        move.container,
        with_changes=move.step is Step.CARRY,
        with_image=move.kind != "restart",
        limit_bytes=limit,
    )
