"""Why a submission is refused before anybody looks at the room there is.

Owns nothing, reads only.
"""

from __future__ import annotations

from collections.abc import Collection

from tenure.core.jobs import executor_inputs, plan_head
from tenure.core.state import reservations
from tenure.core.state.context import Context
from tenure.model.errors import FieldError, Problem
from tenure.model.job import JobSpec


def objection(ctx: Context, spec: JobSpec, beside: Collection[str] = ()) -> Problem | None:
    """Return why a job cannot be considered, None where it can.

    ``beside`` are the names of jobs that will have been accepted before it.
    """
    if spec.name in ctx.index.job_names or spec.name in beside:
        detail = f"a job named {spec.name!r} is not over yet; choose another name or cancel it"
        return Problem("name_taken", detail, 409, (FieldError("name", detail),))
    if spec.policy not in ctx.placer.policies():
        known = ", ".join(ctx.placer.policies())
        detail = f"unknown policy {spec.policy!r}; known are {known}"
        return Problem("unknown_policy", detail, 422, (FieldError("policy", detail),))
    if spec.spark is not None and not any(n.spec.host for n in ctx.tables.nodes.values()):
        detail = "no node has an address that others reach it by; set nodes[].address"
        return Problem("no_address", detail, 422, (FieldError("kind", detail),))
    return executor_inputs.objection(ctx, spec) or _no_room(ctx, spec, len(beside))


def _no_room(ctx: Context, spec: JobSpec, beside: int) -> Problem | None:
    """Return why the queue takes no more jobs, None where it does."""
    waits = len(ctx.index.waiting_jobs) + beside
    if waits >= ctx.params.max_queue:
        detail = f"the queue holds {waits} jobs, its limit; try again later"
        return Problem("queue_full", detail, 429)
    # the first of a planned policy has the whole queue planned, all of whose deadlines count then
    counts = spec.deadline_us is not None or not reservations.is_planned(ctx)
    if counts and is_planned(ctx, spec.policy) and plan_head.is_full(ctx, beside):
        most = ctx.params.max_planned
        detail = f"the queue is planned and holds {most} jobs with deadlines, the limit of plans; "
        detail += "try again later"
        return Problem("queue_full", detail, 429)
    return None


def is_planned(ctx: Context, policy: str) -> bool:
    """Whether a job of ``policy`` would be judged by the plan of the queue."""
    return ctx.placer.is_planned(policy) or reservations.is_planned(ctx)
