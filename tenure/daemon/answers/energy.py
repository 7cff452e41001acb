"""Energy reports: the ledger's intervals, the record of CPU use, and the power model over both."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tenure.core.state.context import Context
from tenure.model.energy import TASKS, EnergyReport, NodeEnergy, NodePast
from tenure.model.ledger import Interval
from tenure.profiling import energy
from tenure.profiling.io.uses import Record, UseStore

#: With 20 containers on each, a day of so many nodes is 45 MB in memory, a year 380. Each time all
#: of the window's record is looked through.
NODES_AT_ONCE = 125


async def report(
    ctx: Context, uses: UseStore, window: tuple[int, int], price_nano_per_kwh: int | None
) -> EnergyReport:
    """Return the energy of a window, its end bounded by now. Raises StatsUnavailable."""
    until_us = min(window[1], ctx.now_us)
    since_us = min(window[0], until_us)
    pasts, found = pasts_of(ctx), list[NodeEnergy]()
    for begin in range(0, len(pasts), NODES_AT_ONCE):
        some = pasts[begin : begin + NODES_AT_ONCE]
        record = await uses.read(since_us, until_us, [past.name for past in some])
        found += await asyncio.to_thread(_account, some, record, (since_us, until_us))
    names = _names(ctx, found)
    return EnergyReport(since_us, window[1], found, names, price_nano_per_kwh)


def pasts_of(ctx: Context) -> list[NodePast]:
    """Return every node that is or was in the ledger, as the ledger knows it now."""
    rows: dict[str, list[Interval]] = {node.name: [] for node in ctx.tables.nodes.values()}
    for row in ctx.tables.intervals.values():
        rows.setdefault(row.node, []).append(row)
    return [_past(ctx, name, rows[name]) for name in sorted(rows)]


def _past(ctx: Context, name: str, rows: list[Interval]) -> NodePast:
    node = ctx.tables.nodes.get(name)
    if node is None:
        return NodePast(name, rows[-1].generation, rows, is_known=False)
    return NodePast(name, node.spec.generation, rows, node.known_us, node.spec.power.off_w)


def _account(
    pasts: Sequence[NodePast], record: Record, window: tuple[int, int]
) -> list[NodeEnergy]:
    made = (
        energy.account(
            past, record.uses.get(past.name, ()), record.metered.get(past.name, ()), window
        )
        for past in pasts
    )
    return [node for node in made if node.on_us or node.off_us]


def _names(ctx: Context, found: Sequence[NodeEnergy]) -> Mapping[str, tuple[str, str]]:
    """Return kind and name of the containers that the core still knows."""
    names = {TASKS: ("tasks", "tasks that were not sampled")}
    for key in {key for node in found for key in node.shares}:
        service = ctx.tables.services.get(key)
        job_id, _, index = key.rpartition("/")
        job, batch = ctx.tables.jobs.get(job_id), ctx.tables.batches.get(job_id)
        if service is not None:
            names[key] = ("container", service.name)
        elif job is not None:
            names[key] = ("executor", f"{job.spec.name or job.id}/{index}")
        elif batch is not None:
            names[key] = ("task", f"{batch.spec.name or batch.id}/{index}")
    return names
