"""Deadline jobs: submission with its answer, progress, ends (docs/policies.md).

A job's state only moves forward along ``JOB_TRANSITIONS``. ``review`` is called whenever one of its
executors or tombstones changed; it is idempotent, so calling it once too often is harmless. Owns
the records of jobs.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.attempts import tombstones
from tenure.core.attempts.executors import EXECUTORS
from tenure.core.blocks import pins
from tenure.core.capacity import room, run_times, snapshots
from tenure.core.jobs import (
    executor_inputs,
    joint_admission,
    plan_head,
    queue_plan,
    spark_application,
    start,
)
from tenure.core.jobs.queue import waiting
from tenure.core.jobs.refusals import is_planned, objection
from tenure.core.nodes import capacity_probes
from tenure.core.state import quotas
from tenure.core.state.context import UNDER_WAY, Context
from tenure.core.state.indexes import held_by_job
from tenure.core.state.queue_order import queue_key
from tenure.core.state.transitions import may_go
from tenure.model.errors import FieldError, Problem
from tenure.model.events import CancelJob, SubmitJob
from tenure.model.job import (
    Admission,
    Executor,
    ExecutorState,
    Job,
    JobSpec,
    JobState,
)
from tenure.model.node import Node
from tenure.model.placing import Admitted, QueuePlan, RefusedJob
from tenure.model.roles import UNOWNED, Owner
from tenure.model.units import US, iso, size_text

MACHINE = "job"
#: Refusals that say nothing of what the fleet can do are no public event: a caller who tries again
#: and again would push everything else out of the kept events.
UNTOLD = frozenset(("name_taken", "unknown_policy", "queue_full"))
#: The refusal where one of the nodes that are not known yet may do; some of them are named.
NOT_KNOWN, MOST_TOLD = "nodes_not_known", 8
S = ExecutorState
UNLAUNCHED = frozenset((S.PLACED, S.CREATING))
#: Exit code shown when tenure itself ended a job for its run time, as coreutils' timeout does.
TIMEOUT_CODE = 124


def to(ctx: Context, job: Job, state: JobState, reason: str = "") -> Job:
    """Move a job forward; an illegal step quarantines it."""
    if not may_go(ctx, "job", job.id, job.state, state):
        return job
    job = ctx.put_job(replace(job, state=state, reason=reason or job.reason))
    ctx.publish(f"job.{state.value}", job.id, name=job.spec.name, reason=job.reason)
    if job.is_over:
        pins.leave_all(ctx, job)
        start.forget_reason(ctx, job.id)
    return job


def submit(ctx: Context, command: SubmitJob) -> None:
    """Accept or refuse a job at once, with the prediction or the earliest deadline possible."""
    if command.job in ctx.tables.jobs:
        ctx.refuse(command, "duplicate_id", f"job {command.job} exists", status=409)
        return
    job = new_job(ctx, command.job, command.spec, command.owner)
    answer, plan = _consider(ctx, job)
    if isinstance(answer, Problem):
        if answer.code == NOT_KNOWN:
            capacity_probes.hear_refused(ctx, job)
        if answer.code not in UNTOLD:
            ctx.publish("job.refused", job.id, name=job.spec.name, code=answer.code)
        ctx.reply(command, answer)
        return
    is_due = ctx.notices.is_pass_due
    _accept(ctx, command, replace(job, admission=answer))
    if plan is not None:
        queue_plan.accept(ctx, plan)
    elif is_planned(ctx, job.spec.policy) and plan_head.is_held(ctx, job):
        start.wait(ctx, ctx.tables.jobs[job.id], plan_head.HELD)
        ctx.notices.is_pass_due = is_due  # who is held changes nothing for others


def appraise(ctx: Context, job: Job) -> Admission | Problem:
    """Return what a submission is answered: the promise, or why it is refused. Changes nothing.

    The dry run asks this too, so that the two can never differ.
    """
    problem = quotas.objection(ctx, job.owner, held_by_job(job.spec))
    return problem or _consider(ctx, job)[0]


def _consider(ctx: Context, job: Job) -> tuple[Admission | Problem, QueuePlan | None]:
    """Return the answer to a submission, and the plan of the queue that holds its promise."""
    problem = objection(ctx, job.spec)
    return (problem, None) if problem is not None else judge(ctx, job)


def _accept(ctx: Context, command: SubmitJob, job: Job) -> None:
    ctx.set_meta(next_seq=job.seq + 1)
    ctx.put_job(job)
    for index in range(job.spec.containers):
        ctx.put_executor(Executor(job.id, index, changed_us=ctx.now_us))
    ctx.publish("job.accepted", job.id, name=job.spec.name, admission=job.admission.class_)
    ctx.reply(command, ctx.tables.jobs[job.id])


def new_job(ctx: Context, key: str, spec: JobSpec, owner: Owner = UNOWNED) -> Job:
    """Return a job as it would be accepted now; its estimate is fixed from here on."""
    estimate = run_times.estimate_for(ctx, spec)
    job = Job(key, ctx.meta.next_seq, spec, ctx.now_us, estimate=estimate, owner=owner)
    return executor_inputs.counted(ctx, job)


def judge(ctx: Context, job: Job) -> tuple[Admission | Problem, QueuePlan | None]:
    """Return the promise for a new job, or why it is refused (Eq. 15 on a simulated schedule).

    Where the queue is planned, the plan with it comes along.
    """
    if is_planned(ctx, job.spec.policy):
        planned = queue_plan.admit(ctx, job)
        if planned is None:
            return Admission("best_effort" if job.is_estimated else "unknown"), None
        # in a plan who is unknown may stand anywhere
        is_unsure = bool(ctx.index.unknown) and job.is_estimated
        class_ = "best_effort" if is_unsure else _class_of(ctx, job)
        plan = planned.queue_plan if isinstance(planned, Admitted) else None
        return _answer(ctx, job, planned, class_), plan
    foreseen = joint_admission.promised(ctx, job.id)
    answer = _admit(ctx, job) if foreseen is None else Admitted(foreseen)
    return _answer(ctx, job, answer, _class_of(ctx, job)), None


def _answer(
    ctx: Context, job: Job, answer: Admitted | RefusedJob, class_: str
) -> Admission | Problem:
    if isinstance(answer, Admitted):
        cast = answer.forecast
        return Admission(class_, cast.start_us, cast.end_us, cast.cost_nano)
    nodes = snapshots.scene(ctx).nodes
    away = room.missing_for(ctx, job, nodes) if answer.reason == "never_fits" else []
    if away:
        text = f"too little room without the nodes that do not answer: {', '.join(away)}"
        return Problem("nodes_unreachable", f"{text}; try again when they do", 503)
    if answer.reason == "never_fits" and (unknown := capacity_probes.may_do(ctx, job)):
        return _not_known(unknown)
    is_by_time = answer.reason != "never_fits" and not answer.victims
    if is_by_time and class_ != "admitted":
        return Admission(class_)
    return refusal(job, answer)


def _not_known(nodes: list[Node]) -> Problem:
    """Return the refusal of a job that only nodes which nobody knows yet could hold."""
    names = ", ".join(node.name for node in nodes[:MOST_TOLD])
    more = f" and {len(nodes) - MOST_TOLD} more" if nodes[MOST_TOLD:] else ""
    text = f"too little room on the nodes that are known; what {names}{more} has its engine tells "
    text += "once it was on, or nodes[].capacity: one is switched on for that; try again"
    soon_s = min(node.spec.power.boot_us for node in nodes) / US
    return Problem(NOT_KNOWN, text, 503, extra={"retry_after_s": max(1.0, soon_s)})


def _admit(ctx: Context, job: Job) -> Admitted | RefusedJob:
    here = snapshots.scene(ctx)
    *queued, new = snapshots.queued(ctx, [*waiting(ctx), job])
    position, peers = ctx.index.waiting_jobs.position(job), ctx.index.waiting_jobs.peers(job)
    return ctx.placer.admit(here.view, here.running, queued, new, position, ctx.now_us, peers=peers)


def _class_of(ctx: Context, job: Job) -> str:
    """Return what can be promised: nothing certain where the job or what is ahead is unknown.

    Nor where it is to read blocks of which no copy can be read now.
    """
    if not job.is_estimated:
        return "unknown"
    if executor_inputs.is_unsure(ctx, job):
        return "best_effort"
    mine = queue_key(job)
    is_firm = not ctx.index.unestimated and all(mine < key for key in ctx.index.unknown.values())
    return "admitted" if is_firm else "best_effort"


def refusal(job: Job, answer: RefusedJob) -> Problem:
    """Return the refusal with its reason, the earliest possible deadline and its price."""
    if answer.reason == "never_fits":
        spec = job.spec
        need = f"{spec.containers} x {spec.request.cpu_m / 1000:g} cpus, "
        need += size_text(spec.request.memory_bytes)
        text = f"no set of nodes could ever hold it ({need}); ask for less or add nodes"
        return Problem("never_fits", text, 422, (FieldError("executors", text),))
    if answer.reason == "would_delay_others":
        who = f"{len(answer.victims)} admitted job(s)" if answer.victims else "admitted jobs"
        text = f"it would make {who} late"
    else:
        text = "no placement ends before the deadline"
    if answer.earliest is not None:
        text += f"; the earliest deadline that can be met is {iso(answer.earliest_deadline_us)}"
    extra: dict[str, object] = {"reason": answer.reason, "earliest": _offer(answer)}
    return Problem("deadline_unmeetable", text, 422, (FieldError("deadline", text),), extra)


def _offer(answer: RefusedJob) -> dict[str, object] | None:
    cast = answer.earliest
    if cast is None:
        return None
    return {
        "deadline": iso(answer.earliest_deadline_us),
        "end": iso(cast.end_us),
        "start": iso(cast.start_us),
        "cost_nano_usd": cast.cost_nano,
        "mode": cast.mode,
    }


def cancel(ctx: Context, command: CancelJob) -> None:
    """Begin to cancel a job; one that is over, or whose Spark application is, stays as it is."""
    job = ctx.find(command, ctx.tables.jobs, "job", command.job)
    if job is None:
        return
    if job.is_over:
        if job.state is not JobState.CANCELLED:
            detail = f"job {job.id} is already {job.state.value}"
            ctx.refuse(command, "job_over", detail, status=409)
            return
    elif not job.is_cancelling and not spark_application.has_ended(ctx, job):
        ctx.put_job(replace(job, is_cancelling=True, reason="cancelled"))
        ctx.publish("job.cancelling", job.id, name=job.spec.name)
        review(ctx, job.id)
    ctx.reply(command, ctx.tables.jobs[job.id])


def fail(ctx: Context, job: Job, exit_code: int | None, reason: str) -> None:
    """Begin to end a job as failed; its other executors are stopped first."""
    if job.is_over or job.is_ending or spark_application.has_ended(ctx, job):
        return
    ctx.put_job(replace(job, is_failing=True, exit_code=exit_code, reason=reason))
    ctx.publish("job.failing", job.id, name=job.spec.name, reason=reason)


def review(ctx: Context, key: str) -> None:
    """Bring a job forward as far as its executors allow."""
    job = ctx.tables.jobs.get(key)
    if job is None or job.is_over or ctx.is_quarantined("job", key):
        return
    if spark_application.has_ended(ctx, job):
        if spark_application.dismiss(ctx, job):
            _succeed(ctx, job)
        return
    lost = executor_inputs.loss(ctx, job)
    if lost:
        fail(ctx, job, None, lost)
        job = ctx.tables.jobs[key]
    if not job.is_ending:
        _retry(ctx, job)
        spark_application.regroup(ctx, ctx.tables.jobs[key])
        _progress(ctx, ctx.tables.jobs[key])
    job = ctx.tables.jobs[key]
    if job.is_ending:
        _wind_down(ctx, job)
        return
    for executor in ctx.executors_of(key):
        EXECUTORS.advance(ctx, executor, job)


def _retry(ctx: Context, job: Job) -> None:
    """Begin a new attempt for each failed executor, or fail the job."""
    for one in ctx.executors_of(job.id):
        executor = spark_application.judged(one, job)
        if executor.state is S.ABANDONED:
            fail(ctx, job, executor.exit_code, f"executor {executor.index}: {executor.note}")
            return
        if executor.state is not S.EXITED or executor.exit_code == 0:
            continue
        if executor.failures > job.spec.retries:
            why = executor.note or f"exit code {executor.exit_code}"
            fail(ctx, job, executor.exit_code, f"executor {executor.index}: {why}")
            return
        EXECUTORS.renew(ctx, executor)


def _progress(ctx: Context, job: Job) -> None:
    if job.is_failing or job.state not in UNDER_WAY:
        return
    crew = ctx.executors_of(job.id)
    if job.launched_us is None and not any(e.state in UNLAUNCHED for e in crew):
        end = ctx.now_us + room.run_estimate_us(ctx, job)
        job = ctx.put_job(replace(job, launched_us=ctx.now_us, end_estimate_us=end))
    starts = [e.started_us for e in crew]
    if job.state is JobState.STARTING and all(at is not None for at in starts):
        started = max(at for at in starts if at is not None)
        job = to(ctx, replace(job, started_us=started), JobState.RUNNING)
        _arm_runtime(ctx, job)
    if all(e.state is S.EXITED and e.exit_code == 0 for e in crew):
        _succeed(ctx, job)


def _succeed(ctx: Context, job: Job) -> None:
    """End a job all of whose executors exited 0; of a Spark job that is the driver."""
    ended = [e for e in ctx.executors_of(job.id) if e.state is S.EXITED and e.exit_code == 0]
    finished = max(e.finished_us or ctx.now_us for e in ended)
    if job.state is JobState.STARTING:
        started = max(e.started_us or finished for e in ended)
        job = to(ctx, replace(job, started_us=started), JobState.RUNNING)
    job = to(ctx, replace(job, finished_us=finished, exit_code=0), JobState.SUCCEEDED)
    run_times.learn(ctx, job)


def _wind_down(ctx: Context, job: Job) -> None:
    for executor in ctx.executors_of(job.id):
        if not executor.is_over:
            EXECUTORS.abandon(ctx, executor, job.reason)
    for executor in ctx.executors_of(job.id):
        if tombstones.may_run(ctx, executor.key):
            return
    state = JobState.CANCELLED if job.is_cancelling else JobState.FAILED
    to(ctx, replace(ctx.tables.jobs[job.id], finished_us=ctx.now_us), state)


def _arm_runtime(ctx: Context, job: Job) -> None:
    if job.spec.max_runtime_us is not None and job.started_us is not None:
        ctx.arm(_runtime_end_us(ctx, job), MACHINE, job.id)


def _runtime_end_us(ctx: Context, job: Job) -> int:
    """Return when the maximum run time ends, counted from the last start of an executor."""
    starts = [e.started_us or 0 for e in ctx.executors_of(job.id)]
    return max([job.started_us or 0, *starts]) + (job.spec.max_runtime_us or 0)


def on_timer(ctx: Context, key: str) -> None:
    """End a job that ran for longer than it may."""
    job = ctx.tables.jobs.get(key)
    if job is None or job.state is not JobState.RUNNING or job.spec.max_runtime_us is None:
        return
    if ctx.is_quarantined("job", key):
        return
    if ctx.now_us < _runtime_end_us(ctx, job):
        _arm_runtime(ctx, job)
        return
    fail(ctx, job, TIMEOUT_CODE, "max_runtime_s exceeded")
    ctx.notices.jobs.add(key)


def rearm(ctx: Context) -> None:
    """Set the timers of loaded jobs and have all open ones reviewed."""
    for key in sorted(ctx.index.open_jobs):
        job = ctx.tables.jobs[key]
        ctx.notices.jobs.add(key)
        if job.state is JobState.RUNNING:
            _arm_runtime(ctx, job)
