"""What namespaces hold, and may hold: whether a submission keeps to its namespace's quota.

Owns nothing: what is held is an index over the records, ``Index.usage``.
"""

from __future__ import annotations

from collections import Counter

from tenure.core.state.context import Context
from tenure.core.state.indexes import held_by_container, held_by_dataset, held_by_job
from tenure.model.dataset import Dataset
from tenure.model.errors import FieldError, Problem
from tenure.model.events import ApplyDeployment, Command, CreateService, PutDataset, SubmitJob
from tenure.model.quota import NOTHING, Amounts, Quota
from tenure.model.resources import Resources
from tenure.model.roles import Owner
from tenure.model.units import size_text

#: The code of a refusal; it says nothing of the fleet, so it is no public event.
EXCEEDED = "quota_exceeded"


def hold(ctx: Context, command: Command) -> bool:
    """Whether what a command would make keeps to the quota of its namespace; else refuse it."""
    problem = objection(ctx, command.owner, _wanted(ctx, command))
    if isinstance(command, CreateService):
        problem = problem or _unstated(ctx, command.owner, command.request_resources)
    if isinstance(command, ApplyDeployment):
        problem = problem or _unstated(ctx, command.owner, command.template.request_resources)
    if problem is not None:
        ctx.reply(command, problem)
    return problem is None


def objection(
    ctx: Context, owner: Owner, wanted: Amounts, more: Amounts = NOTHING
) -> Problem | None:
    """Return why a namespace may not hold this beside what it holds, None if it may.

    ``more`` is what it holds beside what the index counts.
    """
    quota = ctx.learned.quotas.get(owner.namespace)
    if quota is None or wanted == NOTHING:
        return None
    held = ctx.index.usage.get(owner.namespace, NOTHING).plus(more)
    name = quota.exceeded(held, wanted)
    return None if not name else _problem(owner.namespace, name, quota, held, wanted)


def outputs_objection(ctx: Context, owner: Owner) -> Problem | None:
    """Return why a namespace may have no more batches for what those before put out, else None."""
    quota = ctx.learned.quotas.get(owner.namespace)
    if quota is None or quota.output_bytes is None:
        return None
    held = Amounts(output_bytes=put_out(ctx)[owner.namespace])
    if held.output_bytes < quota.output_bytes:
        return None
    return _problem(owner.namespace, "output_bytes", quota, held, NOTHING)


def prefetch_objection(ctx: Context, dataset: Dataset) -> Problem | None:
    """Return why a namespace may have no copy of a dataset in memory beside the others, else None.

    All that its datasets have beyond their ``replicas`` counts, and what was asked for. O(datasets)
    """
    asked = {one.dataset for one in ctx.prefetches.courses.values() if one.is_ordered}
    beyond = 0
    for one in ctx.tables.datasets.values():
        if one.owner.namespace == dataset.owner.namespace and one.id != dataset.id:
            spare = ctx.block_index.stored.get(one.id, 0) - held_by_dataset(one.spec).dataset_bytes
            beyond += max(0, spare, one.spec.size_bytes if one.id in asked else 0)
    wanted = Amounts(dataset_bytes=dataset.spec.size_bytes)
    return objection(ctx, dataset.owner, wanted, Amounts(dataset_bytes=beyond))


def upload_objection(ctx: Context, namespace: str, held: int, size: int) -> Problem | None:
    """Return why a namespace with open uploads may have no more of this size, None if it may."""
    amounts = Amounts(upload_bytes=size), Amounts(upload_bytes=held)
    return objection(ctx, Owner(namespace), *amounts)


def put_out(ctx: Context) -> Counter[str]:
    """Return the bytes of outputs of batches that are kept, by namespace. O(batches)."""
    found: Counter[str] = Counter()
    for batch in ctx.tables.batches.values():
        if batch.keeps_output(ctx.now_us):
            names = batch.spec.last if batch.is_over else [one.name for one in batch.spec.stages]
            stages = (ctx.index.tasks_by_stage.get((batch.id, name)) for name in names)
            found[batch.owner.namespace] += sum(one.put_out for one in stages if one is not None)
    return found


def _wanted(ctx: Context, command: Command) -> Amounts:
    """Return what would be held beside the present if a command were accepted.

    Of batches nothing: others may be planned at the moment, so ``batches`` asks by itself.
    """
    if isinstance(command, SubmitJob):
        return held_by_job(command.spec)
    if isinstance(command, CreateService):
        return held_by_container(command.request_resources)
    if isinstance(command, ApplyDeployment) and command.name not in ctx.tables.deployments:
        return Amounts(services=1)
    if isinstance(command, PutDataset) and command.spec.name not in ctx.block_index.names:
        return held_by_dataset(command.spec)
    return NOTHING


def _unstated(ctx: Context, owner: Owner, asked: Resources) -> Problem | None:
    """Return that a container must say what it asks for, where its namespace has bounds on that."""
    quota = ctx.learned.quotas.get(owner.namespace, Quota())
    for limit, amount, field in (
        (quota.cpu_m, asked.cpu_m, "HostConfig.NanoCpus"),
        (quota.memory_bytes, asked.memory_bytes, "HostConfig.Memory"),
    ):
        if limit is not None and not amount:
            told = f"is needed: the namespace {owner.namespace} has a quota of it"
            return Problem("unstated", f"{field} {told}", 422, (FieldError(field, told),))
    return None


#: Keys of the configuration that are not called as the amounts.
_KEYS = {
    **{"cpu_m": "cpus", "memory_bytes": "memory"},
    **{"dataset_bytes": "datasets", "output_bytes": "outputs", "upload_bytes": "uploads"},
}


def _problem(namespace: str, name: str, quota: Quota, held: Amounts, wanted: Amounts) -> Problem:
    unit, member = (1000, "cpus") if name == "cpu_m" else (1, name)
    amounts = [getattr(one, name) / unit for one in (quota, held, wanted)]
    is_size = name.endswith("_bytes")
    limit, has, more = (size_text(int(one)) if is_size else f"{one:g}" for one in amounts)
    key = _KEYS.get(name, name)
    rest = f", and this is {more} more; end something of it" if getattr(wanted, name) else ""
    rest = rest or "; an output goes seven days after its batch, wait for that"
    told = f"the namespace {namespace} may have {limit} {key}, has {has}{rest}, or have "
    told += f"namespaces.{namespace}.{key} raised"
    extra = dict(zip(("limit", "held", "wanted"), amounts, strict=True))
    return Problem(EXCEEDED, told, 403, extra={"namespace": namespace, "quota": member, **extra})
