"""Admission of submissions that arrive together: one simulated schedule for all of them.

Each submission by itself would simulate the queue behind it. Those of one batch are put into the
queue together instead, and if every deadline that can be met is met with all of them, all are
promised what that schedule says. If not, each is judged by itself as if it had come alone. Owns
``Foreseen``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tenure.core.capacity import run_times, snapshots
from tenure.core.jobs import executor_inputs
from tenure.core.jobs.queue import waiting
from tenure.core.jobs.refusals import is_planned, objection
from tenure.core.state import quotas
from tenure.core.state.context import Context
from tenure.core.state.indexes import held_by_job
from tenure.core.state.owned import Owned
from tenure.core.state.queue_order import queue_key
from tenure.model.events import Event, SubmitJob
from tenure.model.job import Job
from tenure.model.placing import ClusterView, Forecast
from tenure.model.quota import NOTHING, Amounts


@dataclass(frozen=True, slots=True)
class Expected:
    """What the jobs of a batch are promised, by id, as long as the fleet looks like ``view``."""

    view: ClusterView
    forecasts: dict[str, Forecast]


class Foreseen(Owned):
    """What the submissions of the events that are being taken in were foreseen to get."""

    def __init__(self) -> None:
        self.found: Expected | None = None


def groups(events: Iterable[Event]) -> Iterator[Sequence[Event]]:
    """Split a batch, keeping its order: submissions in a row are together, others alone."""
    row: list[Event] = []
    for event in events:
        if isinstance(event, SubmitJob):
            row.append(event)
            continue
        if row:
            yield row
            row = []
        yield (event,)
    if row:
        yield row


def expect(ctx: Context, events: Sequence[Event]) -> None:
    """Foresee the submissions of ``events``, one of ``groups``, for ``promised`` to find."""
    ctx.put_own(Foreseen())
    if len(events) < 2 or ctx.meta.is_restoring or _are_planned(ctx, events):
        return
    ctx.now_us = max(ctx.now_us, *(event.at_us for event in events))
    jobs = _newcomers(ctx, [event for event in events if isinstance(event, SubmitJob)])
    here = snapshots.scene(ctx)
    queue, jobs = waiting(ctx), sorted(jobs, key=queue_key)
    positions = [ctx.index.waiting_jobs.position(job) + ahead for ahead, job in enumerate(jobs)]
    for position, job in zip(positions, jobs, strict=True):
        queue.insert(position, job)
    queued = snapshots.queued(ctx, queue)
    found = ctx.placer.admit_all(here.view, here.running, queued, positions, ctx.now_us)
    if found is not None:
        forecasts = {job.id: forecast for job, forecast in zip(jobs, found, strict=True)}
        ctx.own(Foreseen).found = Expected(here.view, forecasts)


def forget(ctx: Context) -> None:
    """Forget what was foreseen: its events are taken in."""
    ctx.put_own(Foreseen())


def _are_planned(ctx: Context, events: Sequence[Event]) -> bool:
    """Whether the queue is planned, or will be by one of the submissions: each gets its place."""
    policies = {event.spec.policy for event in events if isinstance(event, SubmitJob)}
    return any(is_planned(ctx, policy) for policy in policies)


def _newcomers(ctx: Context, commands: Sequence[SubmitJob]) -> list[Job]:
    """Return the jobs that would be judged: those refused or answered before leave no trace."""
    jobs: list[Job] = []
    names, keys, seq = set[str](), set[str](), ctx.meta.next_seq
    wants: dict[str, Amounts] = {}
    for command in commands:
        spec, key = command.spec, command.idempotency_key
        is_told = key != "" and (key in keys or key in ctx.tables.answers)
        if is_told or command.job in ctx.tables.jobs or command.expect_version is not None:
            continue
        namespace = command.owner.namespace
        wanted = wants.get(namespace, NOTHING).plus(held_by_job(spec))
        if quotas.objection(ctx, command.owner, wanted) or objection(ctx, spec, names):
            continue
        wants[namespace] = wanted
        names.add(spec.name)
        keys.add(key)
        estimate = run_times.estimate_for(ctx, spec)
        job = Job(command.job, seq + len(jobs), spec, ctx.now_us, estimate=estimate)
        jobs.append(executor_inputs.counted(ctx, job))
    return jobs


def promised(ctx: Context, job: str) -> Forecast | None:
    """Return what a job was foreseen to get, None where it is to be judged by itself."""
    expected = ctx.own(Foreseen).found
    if expected is None or expected.view is not snapshots.scene(ctx).view:
        return None
    return expected.forecasts.get(job)
