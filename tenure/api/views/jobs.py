"""Deadline jobs and their executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Annotated

from typing_extensions import TypedDict

from tenure.api.views.readings import DatasetInputView, ReadingView
from tenure.api.views.render import (
    Moment,
    NanoUsd,
    Of,
    Seconds,
    SecondsIfAny,
    Usd,
    made,
    moment,
    render,
    seconds,
    texts,
    thousandths,
)
from tenure.model.estimate import Estimate
from tenure.model.job import Executor, Job, SparkSpec
from tenure.model.units import nano_to_usd


def _deadline_met(job: Job) -> bool | None:
    """Return whether a finished job ended before its deadline; None where that is no question."""
    deadline = job.spec.deadline_us
    if deadline is None or not job.is_over:
        return None
    return job.state.value == "succeeded" and (job.finished_us or 0) < deadline


def _kind(spark: SparkSpec | None) -> str:
    return "containers" if spark is None else "spark"


def _usd(nano: int | None) -> float | None:
    return None if nano is None else nano_to_usd(nano)


def _known(name: str) -> Callable[[Estimate], float | None]:
    """Return a time that a job counts with; nothing where that is an assumption."""
    time_us = attrgetter(name)
    return lambda found: None if found.source == "unknown" else seconds(time_us(found))


class EstimateView(TypedDict):
    """T_C^L and T_C^H; ``source`` is given, learned (from ``runs`` runs) or unknown.

    ``alike`` of the runs were of this size (executors, cores, input); where none was, it is worked
    out of the others. ``safety`` is the factor on what was learned, already in the times.
    ``read_s`` is what reading its part of a dataset takes an executor at least, as of the
    submission; the times are no less.
    """

    local_s: Annotated[float | None, made(_known("local_us"))]
    hybrid_s: Annotated[float | None, made(_known("hybrid_us"))]
    source: str
    runs: int
    alike: int
    safety: Annotated[float, Of("safety_milli", thousandths)]
    read_s: SecondsIfAny


class AdmissionView(TypedDict):
    """What was promised; ``class`` (in JSON) is admitted, best_effort or unknown."""

    promise: Annotated[str, Of("class_")]
    start_at: Moment
    end_at: Moment
    cost_usd: Annotated[float | None, Of("cost_nano", _usd)]
    cost_nano_usd: Annotated[int | None, Of("cost_nano")]


class SparkView(TypedDict):
    """A Spark application; ``program`` is the Python source where no ``application`` is named."""

    application: str
    program: str
    args: list[str]
    conf: dict[str, str]


class JobView(TypedDict):
    """A job; ``deadline_met`` is None while it is open or has no deadline.

    ``kind`` is containers or spark, ``spark`` null for the first. ``decision`` says of a job of
    policy ``milp`` who chose its place: the policy, or ``exact`` and why; of one over a dataset
    that it is nearer its blocks than where its policy had it.
    """

    id: str
    name: str
    namespace: Annotated[str, Of("owner.namespace")]
    submitter: Annotated[str, Of("owner.submitter")]
    app: str
    kind: Annotated[str, Of("spec.spark", _kind)]
    image: str
    command: list[str]
    spark: SparkView | None
    input: Annotated[DatasetInputView | None, Of("dataset")]
    executors: int
    cpus: Annotated[float, Of("request.cpu_m", thousandths)]
    memory_bytes: Annotated[int, Of("request.memory_bytes")]
    deadline: Moment
    estimate: EstimateView
    policy: str
    priority: int
    env: list[str]
    labels: dict[str, str]
    volumes: list[str]
    constraints: Annotated[list[str], Of("constraints", texts)]
    max_runtime_s: Seconds
    retries: int
    on_unreachable: str
    state: str
    reason: str
    mode: str
    decision: str
    is_cancelling: bool
    admission: AdmissionView
    submitted_at: Annotated[str | None, Of("arrival_us", moment)]
    placed_at: Moment
    started_at: Moment
    finished_at: Moment
    end_estimate_at: Moment
    deadline_met: Annotated[bool | None, made(_deadline_met)]
    exit_code: int | None
    cost_usd: Usd
    cost_nano_usd: NanoUsd
    version: int


class ExecutorView(TypedDict):
    """One executor in its current attempt; ``is_unsure``: only a listing can tell how it is.

    ``role`` is executor, or driver for number 0 of a Spark job. Of jobs over a dataset ``blocks``
    are those that it reads, ``readings`` the copies of them, in their order.
    """

    index: int
    role: str
    attempt: int
    state: str
    node: str
    container_name: str
    engine_id: str
    placed_at: Moment
    started_at: Moment
    finished_at: Moment
    exit_code: int | None
    failures: int
    mishaps: int
    is_unsure: bool
    note: str
    blocks: list[int]
    readings: list[ReadingView]


class JobDetail(JobView):
    """A job with its executors."""

    executor_states: list[ExecutorView]


def job_detail(job: Job, executors: Iterable[Executor]) -> JobDetail:
    """Return a job with its executors in the order of their index."""
    ordered = sorted(executors, key=lambda executor: executor.index)
    shown = [render(ExecutorView, e, role=job.spec.role_of(e.index)) for e in ordered]
    return render(JobDetail, job, executor_states=shown)
