"""The queue of deadline jobs: its order, and the scheduling pass (DESIGN.md section 6)."""

from __future__ import annotations

from dataclasses import replace

from tenure.core import board, executors, power, room
from tenure.core.board import Scene
from tenure.core.context import UNDER_WAY, Context
from tenure.model.job import Executor, ExecutorState, Job, JobState
from tenure.model.placing import Ask, Placed, Unplaceable
from tenure.model.resources import exhausted
from tenure.model.units import US

MACHINE = "queue"
#: Executors that end together are all seen to have ended within this time.
HOLD_US = US


def waiting(ctx: Context) -> list[Job]:
    """Return the jobs that are not placed yet, in queue order."""
    return [ctx.tables.jobs[key] for key in ctx.index.line]


def run(ctx: Context) -> None:
    """Place what can be placed now: first executors that lost their node, then the queue.

    The queue is served head of line: a job that does not fit now blocks those behind it, one that
    could not fit even on an empty fleet does not.
    """
    _house(ctx)
    for job in waiting(ctx):
        here = board.scene(ctx)
        ask = board.ask_now(ctx, job)
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
    if ctx.held and not waiting(ctx):
        power.let_go(ctx)


def _is_room_due(ctx: Context, ask: Ask, here: Scene) -> bool:
    """Whether to wait a moment with a placement: executors should have ended just now.

    Executors that end together are seen to end one after the other. A placement in between would
    pay for a boot for nothing, or take other nodes than the schedule on which promises were made.
    """
    ends_us = here.running.end_us[ask.eligible[here.running.node]]
    due = ends_us[(ends_us <= ctx.now_us) & (ctx.now_us < ends_us + HOLD_US)]
    if not due.size:
        return False
    ctx.arm(int(due.max()) + HOLD_US, MACHINE, ask.id)
    return True


def _is_hopeless(ctx: Context, job: Job, here: Scene) -> bool:
    """Whether the job would not fit even if no other job were there."""
    (queued,) = board.queued(ctx, [job])
    return not ctx.placer.could_hold(job.spec.policy, here.view, queued.ask)


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
    for key in sorted(ctx.index.homeless):
        job = ctx.tables.jobs.get(key)
        is_lodger = job is not None and job.state in UNDER_WAY
        if job is not None and is_lodger and not (job.is_failing or job.is_cancelling):
            for executor in _homeless(ctx, key):
                _house_one(ctx, job, executor)
        if not is_lodger or not _homeless(ctx, key):
            ctx.index.homeless.discard(key)


def _homeless(ctx: Context, job: str) -> list[Executor]:
    crew = ctx.executors_of(job)
    return [e for e in crew if e.state is ExecutorState.PLACED and not e.node]


def _house_one(ctx: Context, job: Job, executor: Executor) -> None:
    ask = replace(board.ask_now(ctx, job, 1), deadline_us=None)
    answer = ctx.placer.place(job.spec.policy, board.scene(ctx).view, ask, ctx.now_us)
    if isinstance(answer, Unplaceable):
        ctx.why[job.id] = f"executor {executor.index}: {answer.reason}"
        if job.avoid and not _may_ever_fit(ctx, job):
            to = executors.to(ctx, executor, ExecutorState.ABANDONED, finished_us=ctx.now_us)
            ctx.publish("executor.lost", to.key, node="", note=to.note)
        return
    node = answer.counts[0][0]
    executors.place(ctx, executor, node)
    power.want_on(ctx, node, f"executor {executor.index} of {job.spec.name}")
