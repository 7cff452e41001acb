"""The life of a Spark application: it is its driver's life (docs/spark.md).

The driver's exit is the job's. Its executors serve one attempt of it: when the driver begins again,
they begin again with it, which costs them no retry. An executor that ends while its driver runs,
with whatever code, has failed: it is begun anew as often as ``retries`` allows, and joins the
application that goes on meanwhile. Owns nothing: ``jobs`` and ``executors`` have the records.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.attempts import spark_bodies, tombstones
from tenure.core.attempts.executors import EXECUTORS
from tenure.core.state.context import Context
from tenure.model.job import Executor, ExecutorState, Job

ENDED = "the application ended"
BEGAN_AGAIN = "its driver began again"


def has_ended(ctx: Context, job: Job) -> bool:
    """Whether the application of a Spark job that is not over has succeeded."""
    return job.spec.spark is not None and spark_bodies.is_ended(spark_bodies.driver_of(ctx, job))


def dismiss(ctx: Context, job: Job) -> bool:
    """Stop the executors of an application that ended; return whether none can be running."""
    for executor in ctx.executors_of(job.id):
        if not executor.is_over:
            EXECUTORS.abandon(ctx, executor, ENDED)
    crew = ctx.executors_of(job.id)
    return not any(tombstones.may_run(ctx, executor.key) for executor in crew)


def judged(executor: Executor, job: Job) -> Executor:
    """Return an executor whose end counts as a failure where it is one: before its driver's."""
    if not spark_bodies.is_worker(executor, job) or not spark_bodies.is_ended(executor):
        return executor
    return replace(executor, exit_code=1, failures=executor.failures + 1)


def regroup(ctx: Context, job: Job) -> None:
    """Have executors that served an earlier attempt of the driver begin again."""
    if job.spec.spark is None:
        return
    for executor in ctx.executors_of(job.id):
        if spark_bodies.is_outdated(ctx, executor, job):
            _again(ctx, executor)


def _again(ctx: Context, executor: Executor) -> None:
    if not executor.is_over:
        EXECUTORS.abandon(ctx, executor, BEGAN_AGAIN)
    elif executor.state is ExecutorState.ABANDONED:
        return  # it has no next attempt: its job fails
    EXECUTORS.renew(ctx, ctx.tables.executors[executor.key])
