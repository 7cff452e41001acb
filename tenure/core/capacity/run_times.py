"""Run times learned from the history of each app (SLA paper; sizes and safety factor are ours).

T_C^L and T_C^H are what jobs of that size and kind took (``run_time_model``; section 3 of the SLA
paper profiles jobs beforehand, here every job is a profile), times a safety factor. The factor is
one plus the root mean square of the relative errors made so far: each run remembers what was
expected of it. Where only one kind is known, the other follows by the app's own hybrid factor, or
by ``Params.hybrid_factor`` (1.3 in the paper) until both are. Owns the records of apps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

from tenure.core.capacity.run_time_model import expected_us, is_alike, with_run
from tenure.core.state.context import Context
from tenure.model.estimate import AppRuns, Estimate, JobSize, RunTime
from tenure.model.job import Job, JobSpec

#: The error assumed of a mean that has not been put to the test ``TESTS`` times yet.
COLD_ERROR = 0.2
TESTS = 3
#: A mean that errs by more tells that the app has no run time of its own; the factor ends here.
MAX_ERROR = 1.0


def estimate_for(ctx: Context, spec: JobSpec) -> Estimate:
    """Return what a job counts with: what its user says, else what its app taught, else unknown."""
    runs, size = ctx.tables.apps.get(spec.app), size_of(spec)
    if spec.estimate_local_us is not None:
        local_us = spec.estimate_local_us
        hybrid_us = spec.estimate_hybrid_us or round(local_us * factor_of(ctx, runs, size))
        return Estimate(local_us, max(local_us, hybrid_us), "given")
    learned = None if runs is None else _learned(ctx, runs, size)
    if learned is not None:
        return learned
    assumed_us = spec.max_runtime_us or ctx.params.runtime_us
    return Estimate(assumed_us, assumed_us, "unknown")


def size_of(spec: JobSpec) -> JobSize:
    """Return what the run time of a job depends on."""
    read = spec.dataset.size_bytes if spec.dataset is not None else 0
    return JobSize(spec.executors, spec.request.cpu_m, read)


def estimate_of(ctx: Context, job: Job) -> Estimate:
    """Return what a job counts with; one stored before estimates were kept has it made anew."""
    return job.estimate if job.estimate.local_us else estimate_for(ctx, job.spec)


def factor_of(ctx: Context, runs: AppRuns | None, size: JobSize) -> float:
    """Return T_C^H / T_C^L of an app, at least 1: its own, or the default until both are known."""
    both = (expected_us(runs.local, size), expected_us(runs.hybrid, size)) if runs else (0.0, 0.0)
    return max(1.0, both[1] / both[0]) if min(both) else ctx.params.hybrid_factor


def safety_of(runs: Sequence[RunTime]) -> float:
    """Return the factor on a mean: one plus its root mean square relative error so far."""
    errors = [run.taken_us / run.mean_us - 1 for run in runs if run.mean_us]
    error = sqrt(sum(e * e for e in errors) / len(errors)) if errors else 0.0
    if len(errors) < TESTS:
        error = max(error, COLD_ERROR)
    return 1 + min(error, MAX_ERROR)


def _learned(ctx: Context, runs: AppRuns, size: JobSize) -> Estimate | None:
    """Return what an app's runs say of a job of a size, None where they say nothing."""
    factor = factor_of(ctx, runs, size)
    local, hybrid = expected_us(runs.local, size), expected_us(runs.hybrid, size)
    if not (local or hybrid):
        return None
    local, hybrid = local or hybrid / factor, hybrid or local * factor
    kinds = [kind for kind in (runs.local, runs.hybrid) if kind]
    alike = [[run for run in kind if is_alike(run, size)] for kind in kinds]
    safety = max(safety_of(like or kind) for like, kind in zip(alike, kinds, strict=True))
    local_us = max(1, round(local * safety))
    return Estimate(
        local_us,
        max(local_us, round(hybrid * safety)),
        "learned",
        sum(map(len, kinds)),
        round(safety * 1000),
        alike=sum(map(len, alike)),
    )


def learn(ctx: Context, job: Job) -> None:
    """Remember a job that succeeded. One whose executors were retried tells nothing of its app."""
    if job.started_us is None or job.finished_us is None or job.mode not in ("local", "hybrid"):
        return
    if any(executor.attempt > 1 for executor in ctx.executors_of(job.id)):
        return
    runs = ctx.tables.apps.get(job.spec.app) or AppRuns(job.spec.app)
    kind, size = runs.local if job.mode == "local" else runs.hybrid, size_of(job.spec)
    taken_us = max(1, job.finished_us - job.started_us)
    kept = with_run(kind, RunTime(taken_us, round(expected_us(kind, size)), size), size)
    runs = replace(runs, local=kept) if job.mode == "local" else replace(runs, hybrid=kept)
    ctx.tables.apps.put(runs.app, replace(runs, changed_us=ctx.now_us))
