"""Who of a long queue is planned: its head (ours).

A plan holds ``Params.max_planned`` jobs: all with a deadline, for each of these has a promise, and
the first of the others. Those behind are held in their order without a promise of an end, and cost
no planning; one joins the plan as soon as somebody leaves it. Who comes before the last of the head
takes its place there. Owns nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from tenure.core.jobs import start
from tenure.core.state.context import Context
from tenure.core.state.queue_order import queue_key
from tenure.model.job import Job

#: Why a job that is held waits, as people are told.
HELD = "behind_others"


@dataclass(frozen=True, slots=True)
class Line:
    """The jobs that are planned beside one that comes, and its ``position`` among them.

    ``is_whole``: they are all that wait, and none gives up its place in the plan for it.
    """

    jobs: tuple[Job, ...]
    position: int
    is_whole: bool


def planned(ctx: Context) -> list[Job]:
    """Return the jobs that the plan holds, in the order of the queue."""
    head = ctx.index.waiting_jobs.head(ctx.params.max_planned)
    return [ctx.tables.jobs[key] for key in head]


def line_for(ctx: Context, job: Job) -> Line | None:
    """Return the line in which a new job would be planned, None where it would be held."""
    found = planned(ctx)
    is_whole = len(found) == len(ctx.index.waiting_jobs) < ctx.params.max_planned
    if not is_whole:
        last = next((one for one in reversed(found) if one.spec.deadline_us is None), None)
        if job.spec.deadline_us is None and (last is None or queue_key(last) < queue_key(job)):
            return None
        found = [one for one in found if one is not last]
    position = bisect_left(found, queue_key(job), key=queue_key)
    return Line(tuple(found), position, is_whole)


def is_held(ctx: Context, job: Job) -> bool:
    """Whether a job of the line waits behind those who are planned."""
    return job.id not in ctx.index.waiting_jobs.head(ctx.params.max_planned)


def is_full(ctx: Context, beside: int) -> bool:
    """Whether the plan takes no more jobs with a deadline, with ``beside`` accepted before."""
    return len(ctx.index.waiting_jobs.dated) + beside >= ctx.params.max_planned


def hold(ctx: Context) -> None:
    """Have those who are not of the head any more lose their places, and tell newcomers."""
    waiting = ctx.index.waiting_jobs
    if len(waiting) <= ctx.params.max_planned:
        return
    head = set(waiting.head(ctx.params.max_planned))
    for key in [key for key, _ in ctx.tables.reservations.items() if key not in head]:
        ctx.tables.reservations.drop(key)
        if key in waiting:
            start.wait(ctx, ctx.tables.jobs[key], HELD)
    for key in waiting.newcomers():
        if key not in head:
            start.wait(ctx, ctx.tables.jobs[key], HELD)
