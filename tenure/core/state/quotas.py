"""What namespaces hold, and may hold: whether a submission keeps to its namespace's quota.

Owns nothing: what is held is an index over the records, ``Index.held``.
"""

from __future__ import annotations

from collections.abc import Callable

from tenure.core.state.context import Context
from tenure.core.state.indexes import (
    held_by_batch,
    held_by_container,
    held_by_dataset,
    held_by_job,
)
from tenure.model.errors import Problem
from tenure.model.events import Command, CreateService, PutDataset, SubmitBatch, SubmitJob
from tenure.model.quota import NOTHING, Amounts, Quota
from tenure.model.roles import Owner
from tenure.model.units import size_text


def hold(ctx: Context, command: Command) -> bool:
    """Whether what a command would make keeps to the quota of its namespace; else refuse it."""
    problem = objection(ctx, command.owner, _wanted(ctx, command))
    if problem is not None:
        ctx.reply(command, problem)
    return problem is None


def objection(ctx: Context, owner: Owner, wanted: Amounts) -> Problem | None:
    """Return why a namespace may not hold this beside what it holds, None if it may."""
    quota = ctx.params.quotas.get(owner.namespace)
    if quota is None or wanted == NOTHING:
        return None
    held = ctx.index.held.get(owner.namespace, NOTHING)
    name = quota.exceeded(held, wanted)
    return None if not name else _problem(owner.namespace, name, quota, held, wanted)


def _wanted(ctx: Context, command: Command) -> Amounts:
    """Return what would be held beside the present if a command were accepted."""
    if isinstance(command, SubmitJob):
        return held_by_job(command.spec)
    if isinstance(command, CreateService):
        return held_by_container(command.request_resources)
    if isinstance(command, SubmitBatch):
        return held_by_batch(command.spec)
    if isinstance(command, PutDataset) and command.spec.name not in ctx.block_index.names:
        return held_by_dataset(command.spec)
    return NOTHING


#: How amounts are called and written.
_WORDS: dict[str, tuple[str, Callable[[int], str]]] = {
    "jobs": ("jobs that are not over", str),
    "containers": ("containers", str),
    "batches": ("batches that are not over", str),
    "tasks": ("tasks of batches that are not over", str),
    "cpu_m": ("cores", lambda cpu_m: f"{cpu_m / 1000:g}"),
    "memory_bytes": ("memory", size_text),
    "dataset_bytes": ("copies of datasets", size_text),
}


def _problem(namespace: str, name: str, quota: Quota, held: Amounts, wanted: Amounts) -> Problem:
    word, text = _WORDS[name]
    limit, has, more = (getattr(one, name) for one in (quota, held, wanted))
    told = f"the namespace {namespace} may have {text(limit)} of {word}, has {text(has)}, and this "
    told += f"is {text(more)} more; end something of it, or ask for a larger quota"
    extra = {"namespace": namespace, "quota": name, "limit": limit, "held": has, "wanted": more}
    return Problem("quota_exceeded", told, 403, extra=extra)
