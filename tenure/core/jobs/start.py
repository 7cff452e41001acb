"""What becomes of a job of the queue in a pass: it starts, or it waits and is told why.

Owns ``Reasons``.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.attempts.executors import EXECUTORS
from tenure.core.capacity import room
from tenure.core.nodes import power
from tenure.core.state.context import Context
from tenure.core.state.owned import Owned
from tenure.model.job import Job, JobState
from tenure.model.placing import Placed

#: Whose timers have the queue served again.
MACHINE = "queue"


class Reasons(Owned):
    """Why each job waits, by job: a code that people are shown."""

    def __init__(self) -> None:
        self.by_job: dict[str, str] = {}


def reason_of(ctx: Context, job: str) -> str:
    """Return why a job waits, "" where none was told."""
    return ctx.own(Reasons).by_job.get(job, "")


def forget_reason(ctx: Context, job: str) -> None:
    """Forget why a job waited: it is over."""
    ctx.own(Reasons).by_job.pop(job, None)


def wait(ctx: Context, job: Job, reason: str) -> None:
    """Note why a job waits; from now on it is waiting if it was only accepted before.

    That it was told so changes nothing for others: it calls for no other pass over the queue.
    """
    if job.state is JobState.ACCEPTED:
        job = ctx.put_job(replace(job, state=JobState.WAITING))
        ctx.publish("job.waiting", job.id, name=job.spec.name, reason=reason)
    ctx.own(Reasons).by_job[job.id] = reason
    if reason == "too_late" and job.spec.deadline_us is not None:
        # from then on no start can be in time, so it is placed although it will be late
        last_us = job.spec.deadline_us - room.estimates_us(ctx, job)[0]
        ctx.arm(max(last_us, ctx.now_us + 1), MACHINE, job.id)


def place(ctx: Context, job: Job, answer: Placed, *, decision: str = "") -> None:
    """Put the executors of a job on their nodes, and switch on those that are off.

    ``decision`` as ``Job.decision``.
    """
    spread = [name for name, count in answer.counts for _ in range(count)]
    for executor, node in zip(ctx.executors_of(job.id), spread, strict=True):
        EXECUTORS.place(ctx, executor, node)
    end = ctx.now_us + answer.delay_us + answer.run_us
    job = replace(job, mode=answer.mode, placed_us=ctx.now_us, end_estimate_us=end)
    job = replace(job, decision=decision)
    ctx.put_job(replace(job, state=JobState.STARTING))
    ctx.publish(
        "job.starting",
        job.id,
        name=job.spec.name,
        mode=answer.mode,
        nodes=dict(answer.counts),
        cost_nano_usd=answer.cost_nano,
        **({"decision": decision} if decision else {}),
    )
    for node, _ in answer.counts:
        power.want_on(ctx, node, f"job {job.spec.name}")
