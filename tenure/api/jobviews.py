"""Deadline jobs and their executors as JSON, in the shapes of ``shapes``."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.api.readingviews import dataset_input_view, reading_view
from tenure.api.shapes import (
    AdmissionView,
    EstimateView,
    ExecutorView,
    JobDetail,
    JobView,
    SparkView,
)
from tenure.api.views import moment, seconds
from tenure.model.estimate import Estimate
from tenure.model.job import Admission, Constraint, Executor, Job, SparkSpec
from tenure.model.units import nano_to_usd


def constraint_text(constraint: Constraint) -> str:
    """Return a constraint as it is written."""
    if constraint.op == "in":
        return f"{constraint.key} in ({', '.join(constraint.values)})"
    return f"{constraint.key}{constraint.op}{','.join(constraint.values)}"


def admission_view(admission: Admission) -> AdmissionView:
    """Return the promise made at submission."""
    cost = admission.cost_nano
    return AdmissionView(
        promise=admission.class_,
        start_at=moment(admission.start_us),
        end_at=moment(admission.end_us),
        cost_usd=None if cost is None else nano_to_usd(cost),
        cost_nano_usd=cost,
    )


def deadline_met(job: Job) -> bool | None:
    """Return whether a finished job ended before its deadline; None where that is no question."""
    deadline = job.spec.deadline_us
    if deadline is None or not job.is_over:
        return None
    return job.state.value == "succeeded" and (job.finished_us or 0) < deadline


def estimate_view(estimate: Estimate) -> EstimateView:
    """Return what a job counts with; nothing where that is an assumption."""
    is_known = estimate.source != "unknown"
    return EstimateView(
        local_s=seconds(estimate.local_us) if is_known else None,
        hybrid_s=seconds(estimate.hybrid_us) if is_known else None,
        source=estimate.source,
        runs=estimate.runs,
        safety=estimate.safety_milli / 1000,
        read_s=seconds(estimate.read_us or None),
    )


def _spark_view(spark: SparkSpec | None) -> SparkView | None:
    """Return an application without its secret."""
    if spark is None:
        return None
    return SparkView(
        application=spark.application,
        program=spark.program,
        args=list(spark.args),
        conf=dict(spark.conf),
    )


def job_view(job: Job) -> JobView:
    """Return a job."""
    spec = job.spec
    return JobView(
        id=job.id,
        name=spec.name,
        app=spec.app,
        kind="containers" if spec.spark is None else "spark",
        image=spec.image,
        command=list(spec.command),
        spark=_spark_view(spec.spark),
        input=dataset_input_view(spec.dataset),
        executors=spec.executors,
        cpus=spec.request.cpu_m / 1000,
        memory_bytes=spec.request.memory_bytes,
        deadline=moment(spec.deadline_us),
        estimate=estimate_view(job.estimate),
        policy=spec.policy,
        priority=spec.priority,
        env=list(spec.env),
        labels=dict(spec.labels),
        volumes=list(spec.volumes),
        constraints=[constraint_text(c) for c in spec.constraints],
        max_runtime_s=seconds(spec.max_runtime_us),
        retries=spec.retries,
        on_unreachable=spec.on_unreachable,
        state=job.state.value,
        reason=job.reason,
        mode=job.mode,
        decision=job.decision,
        is_cancelling=job.is_cancelling,
        admission=admission_view(job.admission),
        submitted_at=moment(job.arrival_us),
        placed_at=moment(job.placed_us),
        started_at=moment(job.started_us),
        finished_at=moment(job.finished_us),
        end_estimate_at=moment(job.end_estimate_us),
        deadline_met=deadline_met(job),
        exit_code=job.exit_code,
        cost_usd=nano_to_usd(job.cost_nano),
        cost_nano_usd=job.cost_nano,
        version=job.version,
    )


def executor_view(executor: Executor, role: str) -> ExecutorView:
    """Return an executor."""
    return ExecutorView(
        index=executor.index,
        role=role,
        attempt=executor.attempt,
        state=executor.state.value,
        node=executor.node,
        container_name=executor.container_name,
        engine_id=executor.engine_id,
        placed_at=moment(executor.placed_us),
        started_at=moment(executor.started_us),
        finished_at=moment(executor.finished_us),
        exit_code=executor.exit_code,
        failures=executor.failures,
        mishaps=executor.mishaps,
        is_unsure=executor.is_unsure,
        note=executor.note,
        blocks=list(executor.blocks),
        readings=[view for one in executor.readings if (view := reading_view(one))],
    )


def job_detail(job: Job, executors: Iterable[Executor]) -> JobDetail:
    """Return a job with its executors in the order of their index."""
    ordered = sorted(executors, key=lambda executor: executor.index)
    shown = [executor_view(e, job.spec.role_of(e.index)) for e in ordered]
    return JobDetail(**job_view(job), executor_states=shown)
