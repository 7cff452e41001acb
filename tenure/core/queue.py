"""The queue of deadline jobs: its order, and the scheduling pass (DESIGN.md section 6)."""

from __future__ import annotations

from dataclasses import replace

from tenure.core import executors, power, room
from tenure.core.context import Context
from tenure.model.job import Executor, ExecutorState, Job, JobState
from tenure.model.placing import Ask, Placed, Unplaceable, queue_deadline_us
from tenure.model.resources import exhausted
from tenure.model.units import US

MACHINE = "queue"
#: Executors that end together are all seen to have ended within this time.
HOLD_US = US
QUEUED = frozenset((JobState.ACCEPTED, JobState.WAITING))


def queue_key(job: Job) -> tuple[int, int, int]:
    """Return the order of the queue: priority, then deadline (none is last), then arrival.

    Jobs of the paper's ``fifo`` and ``fifo_c`` count as having none (``queue_deadline_us``).
    """
    deadline_us = queue_deadline_us(job.spec.policy, job.spec.deadline_us)
    return (-job.spec.priority, deadline_us, job.seq)


def waiting(ctx: Context) -> list[Job]:
    """Return the jobs that are not placed yet, in queue order."""
    found = [ctx.tables.jobs[key] for key in ctx.index.open_jobs]
    return sorted((j for j in found if j.state in QUEUED and not j.is_cancelling), key=queue_key)


def run(ctx: Context) -> None:
    """Place what can be placed now: first executors that lost their node, then the queue.

    The queue is served head of line: a job that does not fit now blocks those behind it, one that
    could not fit even on an empty fleet does not.
    """
    _house(ctx)
    for job in waiting(ctx):
        here = room.scene(ctx)
        ask = room.ask_for(ctx, job, here.nodes)
        answer = ctx.placer.place(job.spec.policy, here.view, ask, ctx.now_us)
        if isinstance(answer, Placed):
            if _is_room_due(ctx, ask, here):
                _wait(ctx, job, "room_is_due")
                break
            _place(ctx, job, answer)
            continue
        _wait(ctx, job, answer.reason)
        if not _is_hopeless(ctx, job, here):
            break
    for job in waiting(ctx):
        if job.state is JobState.ACCEPTED:
            _wait(ctx, job, "behind_others")


def _is_room_due(ctx: Context, ask: Ask, here: room.Scene) -> bool:
    """Whether to wait a moment with a placement: executors should have ended just now.

    Executors that end together are seen to end one after the other. A placement in between would
    pay for a boot for nothing, or take other nodes than the schedule on which promises were made.
    """
    for node, is_eligible in zip(here.nodes, ask.eligible, strict=True):
        for executor in ctx.executors_on(node.name) if is_eligible else ():
            end_us = room.end_estimate_us(ctx, executor)
            if end_us <= ctx.now_us < end_us + HOLD_US:
                ctx.arm(end_us + HOLD_US, MACHINE, ask.id)
                return True
    return False


def _is_hopeless(ctx: Context, job: Job, here: room.Scene) -> bool:
    """Whether the job would not fit even if no other job were there."""
    ask = room.future_ask(ctx, job, here.nodes)
    return not ctx.placer.could_hold(job.spec.policy, here.view, ask)


def _may_ever_fit(ctx: Context, job: Job) -> bool:
    """Whether any node that did not prove unable could hold one executor, were it empty."""
    need, allowed = job.spec.request, ctx.params.job_generations()
    return any(
        not node.is_removed
        and not room.never_for(job, node, allowed)
        and not exhausted(need, node.capacity, node.capacity)
        for node in ctx.tables.nodes.values()
    )


def _wait(ctx: Context, job: Job, reason: str) -> None:
    if job.state is JobState.ACCEPTED:
        job = ctx.put_job(replace(job, state=JobState.WAITING))
        ctx.publish("job.waiting", job.id, name=job.spec.name, reason=reason)
    ctx.why[job.id] = reason
    if reason == "too_late" and job.spec.deadline_us is not None:
        # from then on no start can be in time, so it is placed although it will be late
        last_us = job.spec.deadline_us - room.estimates_us(ctx, job)[0]
        ctx.arm(max(last_us, ctx.now_us + 1), MACHINE, job.id)


def on_timer(ctx: Context, key: str) -> None:
    """Serve the queue again: time alone has changed what a policy answers."""
    ctx.is_room_changed = True


def _place(ctx: Context, job: Job, answer: Placed) -> None:
    spread = [name for name, count in answer.counts for _ in range(count)]
    for executor, node in zip(ctx.executors_of(job.id), spread, strict=True):
        executors.place(ctx, executor, node)
    end = ctx.now_us + answer.delay_us + answer.run_us
    job = replace(job, mode=answer.mode, placed_us=ctx.now_us, end_estimate_us=end)
    ctx.put_job(replace(job, state=JobState.STARTING))
    ctx.publish(
        "job.starting",
        job.id,
        name=job.spec.name,
        mode=answer.mode,
        nodes=dict(answer.counts),
        cost_nano_usd=answer.cost_nano,
    )
    for node, _ in answer.counts:
        power.want_on(ctx, node, f"job {job.spec.name}")


def _house(ctx: Context) -> None:
    """Find nodes for executors whose new attempt has none."""
    for key in sorted(ctx.index.open_jobs):
        job = ctx.tables.jobs[key]
        if job.state not in (JobState.STARTING, JobState.RUNNING):
            continue
        if job.is_failing or job.is_cancelling:
            continue
        for executor in ctx.executors_of(key):
            if executor.state is ExecutorState.PLACED and not executor.node:
                _house_one(ctx, job, executor)


def _house_one(ctx: Context, job: Job, executor: Executor) -> None:
    here = room.scene(ctx)
    ask = replace(room.ask_for(ctx, job, here.nodes, 1), deadline_us=None)
    answer = ctx.placer.place(job.spec.policy, here.view, ask, ctx.now_us)
    if isinstance(answer, Unplaceable):
        ctx.why[job.id] = f"executor {executor.index}: {answer.reason}"
        if job.avoid and not _may_ever_fit(ctx, job):
            to = executors.to(ctx, executor, ExecutorState.ABANDONED, finished_us=ctx.now_us)
            ctx.publish("executor.lost", to.key, node="", note=to.note)
        return
    node = answer.counts[0][0]
    executors.place(ctx, executor, node)
    power.want_on(ctx, node, f"executor {executor.index} of {job.spec.name}")
