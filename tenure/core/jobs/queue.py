"""The queue of deadline jobs: its order, and the scheduling pass (docs/policies.md).

Owns nothing: the index has the order of the queue.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.attempts.executors import EXECUTORS
from tenure.core.capacity import room, snapshots
from tenure.core.capacity.snapshots import Scene
from tenure.core.jobs import locality_preference, queue_plan, slow_decisions, start
from tenure.core.jobs.slow_decisions import Head
from tenure.core.nodes import capacity_probes, power
from tenure.core.state import reservations
from tenure.core.state.context import UNDER_WAY, Context
from tenure.model.job import Executor, ExecutorState, Job
from tenure.model.placing import Ask, Placed, Unplaceable
from tenure.model.resources import exhausted
from tenure.model.units import US

MACHINE = start.MACHINE
#: Executors that end together are all seen to have ended within this time.
HOLD_US = US


def waiting(ctx: Context) -> list[Job]:
    """Return the jobs that are not placed yet, in queue order."""
    return [ctx.tables.jobs[key] for key in ctx.index.waiting_jobs]


def run(ctx: Context) -> None:
    """Place what can be placed now: first executors that lost their node, then the queue.

    The queue is planned as a whole where a job asks for it (``queue_plan``), else served head of
    line.
    """
    _house(ctx)
    slow_decisions.sweep(ctx)
    if reservations.is_planned(ctx):
        queue_plan.serve(ctx)
        power.review_held(ctx)
    else:
        _serve_head(ctx)
    if power.holds_any(ctx) and not ctx.index.waiting_jobs:
        power.let_go(ctx)


def _serve_head(ctx: Context) -> None:
    """Place the head of the line, and so on, until one has to wait.

    A job that does not fit now blocks those behind it, one that could not fit even on an empty
    fleet does not.
    """
    for key in tuple(ctx.index.waiting_jobs):
        job, here = ctx.tables.jobs[key], snapshots.scene(ctx)
        ask = snapshots.ask_now(ctx, job)
        policy = ctx.placer.stand_in(job.spec.policy)
        answer = ctx.placer.place(policy, here.view, ask, ctx.now_us)
        if isinstance(answer, Placed):
            if _is_room_due(ctx, ask, here):
                start.wait(ctx, job, "room_is_due")
                break
            choice = slow_decisions.choose(ctx, Head(job, ask, here, answer))
            if choice is None:
                start.wait(ctx, job, "being_decided")
                break
            head = Head(job, ask, here, choice.answer)
            choice = locality_preference.choose(ctx, head, by=choice.decision)
            start.place(ctx, job, choice.answer, decision=choice.decision)
            continue
        slow_decisions.forget(ctx, job.id)
        start.wait(ctx, job, answer.reason)
        if not _is_hopeless(ctx, job, here):
            break
        capacity_probes.hear_job(ctx, job)
    for key in ctx.index.waiting_jobs.newcomers():
        start.wait(ctx, ctx.tables.jobs[key], "behind_others")


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
    (queued,) = snapshots.queued(ctx, [job])
    return not ctx.placer.could_hold(job.spec.policy, here.view, queued.ask)


def _may_ever_fit(ctx: Context, job: Job) -> bool:
    """Whether any node that did not prove unable might hold one executor, were it empty."""
    need, allowed = job.spec.request, ctx.params.job_generations()
    return any(
        not node.is_removed
        and not room.never_for(job, node, allowed)
        and not (node.is_sized and exhausted(need, node.capacity, node.capacity))
        for node in ctx.tables.nodes.values()
    )


def _house(ctx: Context) -> None:
    """Find nodes for executors whose new attempt has none."""
    for key in sorted(ctx.index.homeless):
        job = ctx.tables.jobs.get(key)
        if ctx.is_quarantined("job", key):
            continue
        is_lodger = job is not None and job.state in UNDER_WAY
        if job is not None and is_lodger and not job.is_ending:
            for executor in _homeless(ctx, key):
                _house_one(ctx, job, executor)
        if not is_lodger or not _homeless(ctx, key):
            ctx.index.homeless.discard(key)


def _homeless(ctx: Context, job: str) -> list[Executor]:
    crew = ctx.executors_of(job)
    return [e for e in crew if e.state is ExecutorState.PLACED and not e.node]


def _house_one(ctx: Context, job: Job, executor: Executor) -> None:
    ask = replace(snapshots.ask_now(ctx, job, 1), deadline_us=None)
    policy = ctx.placer.stand_in(job.spec.policy)
    answer = ctx.placer.place(policy, snapshots.scene(ctx).view, ask, ctx.now_us)
    if isinstance(answer, Unplaceable):
        ctx.own(start.Reasons).by_job[job.id] = f"executor {executor.index}: {answer.reason}"
        capacity_probes.hear_job(ctx, job)
        if job.avoid and not _may_ever_fit(ctx, job):
            to = EXECUTORS.to(ctx, executor, ExecutorState.ABANDONED, finished_us=ctx.now_us)
            ctx.publish("executor.lost", to.key, node="", note=to.note)
        return
    head = Head(job, ask, snapshots.scene(ctx), answer)
    node = locality_preference.choose(ctx, head, executor.blocks).answer.counts[0][0]
    EXECUTORS.place(ctx, executor, node)
    power.want_on(ctx, node, f"executor {executor.index} of {job.spec.name}")
