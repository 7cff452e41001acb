"""L17: what the core keeps between events is what it would work out of its records anew."""

from __future__ import annotations

from collections import Counter

from tenure.core.capacity import room, snapshots
from tenure.core.fleet import FleetState
from tenure.core.nodes import harvestable
from tenure.core.state import queue_order
from tenure.core.state.block_index import BlockIndex
from tenure.core.state.context import UNDER_WAY
from tenure.core.state.indexes import (
    Index,
    held_by_batch,
    held_by_container,
    held_by_dataset,
    held_by_job,
)
from tenure.core.state.prefetch_state import Prefetches
from tenure.model.batch import Batch
from tenure.model.container import ContainerState, Service, Step
from tenure.model.dataset import Dataset
from tenure.model.deployment import Deployment
from tenure.model.job import ExecutorState, Job
from tenure.model.node import Power
from tenure.model.quota import NOTHING, Amounts
from tests.fleet.states import state_of
from tests.fleet.story import LawBroken


def check(core: FleetState) -> None:
    """Raise LawBroken unless snapshot, queue, moves, idle clocks and sums are as records say."""
    text = core.read(core.read(snapshots.snapshot_of).problem) or _line(core) or _idle(core)
    text = text or _homeless(core) or _lent(core) or _moves(core) or shelved(core) or _held(core)
    if text:
        raise LawBroken("L17", text)


def _line(core: FleetState) -> str:
    queued = [job for job in core.tables.jobs.values() if queue_order.is_queued(job)]
    due = [job.id for job in sorted(queued, key=queue_order.queue_key)]
    index = state_of(core, Index)
    found = list(index.waiting_jobs)
    names = {job.spec.name: job.id for job in core.tables.jobs.values() if not job.is_over}
    if names != index.job_names:
        return f"names: {index.job_names}, should be {names}"
    return "" if found == due else f"line: {found}, should be {due}"


def _moves(core: FleetState) -> str:
    moves = [move for move in core.tables.migrations.values() if not move.is_over]
    due = {move.id for move in moves if move.step is not Step.QUEUED}
    begun = state_of(core, Index).begun
    return "" if begun == due else f"begun: {begun}, should be {due}"


def _held(core: FleetState) -> str:
    """Say which namespace does not hold what its records add up to."""
    rows: list[tuple[Job | Batch | Dataset | Deployment | Service, Amounts]] = [
        *((job, held_by_job(job.spec)) for job in core.tables.jobs.values() if not job.is_over),
        *(
            (one, held_by_batch(one.spec))
            for one in core.tables.batches.values()
            if not one.is_over
        ),
        *((one, Amounts(services=1)) for one in core.tables.deployments.values()),
        *((one, held_by_dataset(one.spec)) for one in core.tables.datasets.values()),
        *(
            (one, held_by_container(one.request))
            for one in core.tables.services.values()
            if one.state is not ContainerState.REMOVED
        ),
    ]
    due: dict[str, Amounts] = {}
    for record, amounts in rows:
        namespace = record.owner.namespace
        due[namespace] = due.get(namespace, NOTHING).plus(amounts)
    due = {namespace: held for namespace, held in due.items() if held != NOTHING}
    usage = state_of(core, Index).usage
    return "" if due == usage else f"held: {usage}, should be {due}"


def _idle(core: FleetState) -> str:
    """Say which node's idle clock was not looked at when it became idle or busy."""
    if core.meta.is_restoring:
        return ""  # nobody looks until every node was seen; then at all that was touched
    for node in core.tables.nodes.values():
        if node.power is Power.ON and node.is_switchable:
            is_busy = core.read(room.is_needed, node.name) or node.foreign_running > 0
            if is_busy != (node.idle_us is None):
                return f"{node.name}: busy {is_busy}, idle since {node.idle_us}"
    return ""


def shelved(core: FleetState) -> str:
    """Say which bytes in tiers are not what their copies add up to."""
    prefetches, block_index = state_of(core, Prefetches), state_of(core, BlockIndex)
    lying, stays = Counter[tuple[str, str]](), Counter[str]()
    for block in core.tables.blocks.values():
        is_unread = block.key in prefetches.made or block.key in prefetches.under_way
        for replica in block.replicas:
            mark = f"{replica.node}/{replica.tier}"
            lying[mark, block.dataset] += block.length
            stays[mark] += block.length if block.pins or is_unread else 0
    kept = Counter[tuple[str, str]]()
    for mark, row in block_index.lying.items():
        kept.update({(mark, dataset): length for dataset, length in row.items()})
    if kept != lying:
        return f"lying: {kept}, should be {lying}"
    return (
        ""
        if Counter(block_index.stays) == stays
        else f"stays: {block_index.stays}, should be {stays}"
    )


def _lent(core: FleetState) -> str:
    """Say of which node what can be lent was not looked at anew when it changed."""
    looks = state_of(core, harvestable.Looks).by_node
    for name, look in list(looks.items()):
        node = core.tables.nodes.get(name)
        del looks[name]
        if node is not None and core.read(harvestable.look_at, node) != look:
            return f"{name}: lends {look}, should be {looks[name]}"
    for node in core.tables.nodes.values():
        why = core.read(harvestable.objection, node)
        if core.read(harvestable.is_lendable, node) is bool(why):
            return f"{node.name}: may lend is {bool(why)}, and stands against it: {why!r}"
    return ""


def _homeless(core: FleetState) -> str:
    homeless = state_of(core, Index).homeless
    for executor in core.tables.executors.values():
        is_homeless = executor.state is ExecutorState.PLACED and not executor.node
        is_due = is_homeless and core.tables.jobs[executor.job].state in UNDER_WAY
        if is_due and executor.job not in homeless:
            return f"{executor.key} is without a node and nobody looks for one"
    return ""
