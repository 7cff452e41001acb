"""L17: what the core keeps between events is what it would work out of its records anew."""

from __future__ import annotations

from collections import Counter

from tenure.core.capacity import room, snapshots
from tenure.core.nodes import harvestable
from tenure.core.state import queue_order
from tenure.core.state.context import UNDER_WAY, Context
from tenure.core.state.indexes import (
    held_by_batch,
    held_by_container,
    held_by_dataset,
    held_by_job,
)
from tenure.model.batch import Batch
from tenure.model.container import ContainerState, Service, Step
from tenure.model.dataset import Dataset
from tenure.model.job import ExecutorState, Job
from tenure.model.node import Power
from tenure.model.quota import NOTHING, Amounts
from tests.fleet.story import LawBroken


def check(ctx: Context) -> None:
    """Raise LawBroken unless snapshot, queue, moves, idle clocks and sums are as records say."""
    text = snapshots.snapshot_of(ctx).problem(ctx) or _line(ctx) or _idle(ctx) or _homeless(ctx)
    text = text or _lent(ctx) or _moves(ctx) or shelved(ctx) or _held(ctx)
    if text:
        raise LawBroken("L17", text)


def _line(ctx: Context) -> str:
    queued = [job for job in ctx.tables.jobs.values() if queue_order.is_queued(job)]
    due = [job.id for job in sorted(queued, key=queue_order.queue_key)]
    found = list(ctx.index.waiting_jobs)
    names = {job.spec.name: job.id for job in ctx.tables.jobs.values() if not job.is_over}
    if names != ctx.index.job_names:
        return f"names: {ctx.index.job_names}, should be {names}"
    return "" if found == due else f"line: {found}, should be {due}"


def _moves(ctx: Context) -> str:
    moves = [move for move in ctx.tables.migrations.values() if not move.is_over]
    due = {move.id for move in moves if move.step is not Step.QUEUED}
    return "" if ctx.index.begun == due else f"begun: {ctx.index.begun}, should be {due}"


def _held(ctx: Context) -> str:
    """Say which namespace does not hold what its records add up to."""
    rows: list[tuple[Job | Batch | Dataset | Service, Amounts]] = [
        *((job, held_by_job(job.spec)) for job in ctx.tables.jobs.values() if not job.is_over),
        *((one, held_by_batch(one.spec)) for one in ctx.tables.batches.values() if not one.is_over),
        *((one, held_by_dataset(one.spec)) for one in ctx.tables.datasets.values()),
        *(
            (one, held_by_container(one.request))
            for one in ctx.tables.services.values()
            if one.state is not ContainerState.REMOVED
        ),
    ]
    due: dict[str, Amounts] = {}
    for record, amounts in rows:
        namespace = record.owner.namespace
        due[namespace] = due.get(namespace, NOTHING).plus(amounts)
    due = {namespace: held for namespace, held in due.items() if held != NOTHING}
    return "" if due == ctx.index.usage else f"held: {ctx.index.usage}, should be {due}"


def _idle(ctx: Context) -> str:
    """Say which node's idle clock was not looked at when it became idle or busy."""
    if ctx.meta.is_restoring:
        return ""  # nobody looks until every node was seen; then at all that was touched
    for node in ctx.tables.nodes.values():
        if node.power is Power.ON and node.is_switchable:
            is_busy = room.is_needed(ctx, node.name) or node.foreign_running > 0
            if is_busy != (node.idle_us is None):
                return f"{node.name}: busy {is_busy}, idle since {node.idle_us}"
    return ""


def shelved(ctx: Context) -> str:
    """Say which bytes in tiers are not what their copies add up to."""
    lying, stays = Counter[tuple[str, str]](), Counter[str]()
    for block in ctx.tables.blocks.values():
        is_unread = block.key in ctx.prefetches.made or block.key in ctx.prefetches.under_way
        for replica in block.replicas:
            mark = f"{replica.node}/{replica.tier}"
            lying[mark, block.dataset] += block.length
            stays[mark] += block.length if block.pins or is_unread else 0
    kept, block_index = Counter[tuple[str, str]](), ctx.block_index
    for mark, row in block_index.lying.items():
        kept.update({(mark, dataset): length for dataset, length in row.items()})
    if kept != lying:
        return f"lying: {kept}, should be {lying}"
    return (
        ""
        if Counter(block_index.stays) == stays
        else f"stays: {block_index.stays}, should be {stays}"
    )


def _lent(ctx: Context) -> str:
    """Say of which node what can be lent was not looked at anew when it changed."""
    looks = ctx.own(harvestable.Looks).by_node
    for name, look in list(looks.items()):
        node = ctx.tables.nodes.get(name)
        del looks[name]
        if node is not None and harvestable.look_at(ctx, node) != look:
            return f"{name}: lends {look}, should be {looks[name]}"
    for node in ctx.tables.nodes.values():
        why = harvestable.objection(ctx, node)
        if harvestable.is_lendable(ctx, node) is bool(why):
            return f"{node.name}: may lend is {bool(why)}, and stands against it: {why!r}"
    return ""


def _homeless(ctx: Context) -> str:
    for executor in ctx.tables.executors.values():
        is_homeless = executor.state is ExecutorState.PLACED and not executor.node
        is_due = is_homeless and ctx.tables.jobs[executor.job].state in UNDER_WAY
        if is_due and executor.job not in ctx.index.homeless:
            return f"{executor.key} is without a node and nobody looks for one"
    return ""
