"""Bounded history: old records that are over are forgotten, oldest first.

Owns nothing: it alone drops records that are over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tenure.core.batches import drafts
from tenure.core.capacity import ledger
from tenure.core.state import idempotency
from tenure.core.state.context import Context
from tenure.core.state.tables import Table
from tenure.model.container import ContainerState, Service
from tenure.model.estimate import AppRuns
from tenure.model.units import US

R = TypeVar("R")
MACHINE = "history"
PERIOD_US = 600 * US
#: Tasks of ended batches are kept for each record of another kind.
TASKS_PER_RECORD = 10
#: Kinds of which an event says how many were forgotten.
TOLD = ("jobs", "batches", "migrations", "runs", "services")


def on_timer(ctx: Context, key: str) -> None:
    """Forget what exceeds ``max_history`` of each kind; called every ten minutes."""
    idempotency.forget(ctx)
    ledger.roll(ctx)
    before = {kind: len(getattr(ctx.tables, kind)) for kind in TOLD}
    _forget(ctx, ctx.params.max_history)
    gone = {kind: was - len(getattr(ctx.tables, kind)) for kind, was in before.items()}
    if any(gone.values()):
        ctx.publish("history.forgotten", "tenured", **gone)
    rearm(ctx)


def _forget(ctx: Context, keep: int) -> None:
    for job in _excess(ctx.tables.jobs, lambda j: j.finished_us if j.is_over else None, keep):
        for executor in sorted(ctx.index.of_job.get(job, ())):
            ctx.tables.executors.drop(executor)
        ctx.tables.jobs.drop(job)
    for batch in _excess_batches(ctx):
        _forget_batch(ctx, batch)
    for move in _excess(ctx.tables.migrations, lambda m: m.finished_us, keep):
        ctx.tables.migrations.drop(move)
    for run in _excess(ctx.tables.runs, lambda r: r.finished_us if r.is_over else None, keep):
        ctx.tables.runs.drop(run)
    for row in _excess(ctx.tables.intervals, lambda row: row.off_us, 10 * keep):
        ctx.tables.intervals.drop(row)
    for is_of_stage in (False, True):
        for app in _excess(ctx.tables.apps, partial(_changed_us, is_of_stage), keep):
            ctx.tables.apps.drop(app)
    for service in _excess(ctx.tables.services, _removed_us, keep):
        ctx.tables.services.drop(service)
        ctx.learned.profiles.pop(service, None)


def _excess_batches(ctx: Context) -> list[str]:
    """Return the longest ended batches: beyond ``max_history``, or ten times as many tasks."""
    table, keep = ctx.tables.batches, ctx.params.max_history
    excess = _excess(table, lambda b: b.finished_us if b.is_over else None, keep)
    gone = set(excess)
    over = [batch for key, batch in table.items() if batch.is_over and key not in gone]
    tasks = sum(batch.spec.tasks for batch in over)
    for batch in sorted(over, key=lambda b: (b.finished_us or 0, b.id)):
        if tasks <= TASKS_PER_RECORD * keep:
            break
        tasks -= batch.spec.tasks
        excess.append(batch.id)
    return excess


def _forget_batch(ctx: Context, key: str) -> None:
    """Drop a batch with its tasks; what it put out goes with it (``daemon.effects.outputs``)."""
    drafts.drop(ctx, key, ctx.tables.batches[key].spec)
    ctx.tables.batches.drop(key)
    ctx.tables.drop_schedule(key)


def _removed_us(service: Service) -> int | None:
    return service.changed_us if service.state is ContainerState.REMOVED else None


def _changed_us(is_of_stage: bool, runs: AppRuns) -> int | None:
    return runs.changed_us if runs.is_of_stage is is_of_stage else None


def _excess(table: Table[R], ended_us: Callable[[R], int | None], keep: int) -> list[str]:
    """Return the keys of the longest ended records beyond ``keep``; None means not ended."""
    ends = [(at_us, key) for key, row in table.items() if (at_us := ended_us(row)) is not None]
    return [key for _, key in sorted(ends)[: max(0, len(ends) - keep)]]


def rearm(ctx: Context) -> None:
    """Set the timer of the next pass."""
    ctx.arm(ctx.now_us + PERIOD_US, MACHINE, "all")
