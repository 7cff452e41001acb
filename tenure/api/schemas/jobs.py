"""A job as people submit it (docs/rest.md) and its translation into a ``JobSpec``."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
)

from tenure.api.schemas.fields import (
    MAX_ITEMS,
    MAX_TIME_S,
    Constraints,
    Cpus,
    Image,
    Key,
    Memory,
    Name,
    Reserved,
    Seconds,
    Strict,
    Text,
    constraints_of,
    env_faults,
    environment,
    examples,
    raise_faults,
)
from tenure.api.schemas.spark import SparkRequest, spark_spec
from tenure.model.batch import INPUT_FOLDER
from tenure.model.errors import FieldError
from tenure.model.job import Constraint, JobSpec, SparkSpec
from tenure.model.resources import Resources
from tenure.model.units import MIB, US, iso, seconds_to_us

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def us_of(at: datetime) -> int:
    """Return microseconds since 1970."""
    return (at - EPOCH) // timedelta(microseconds=1)


MAX_EXECUTORS = 1_000_000
#: The least that holds a master or worker, and a heap that Spark accepts (its own least: 450 MiB).
MIN_SPARK_MEMORY = 1024 * MIB
VOLUME = r"^(/[^:\x00-\x1f\x7f]*|[a-zA-Z0-9][a-zA-Z0-9_.-]*):/[^:\x00-\x1f\x7f]*(:[a-zA-Z,]+)?$"


def words(value: object) -> object:
    """Return the words of a command line as a shell would split it; a list stays as it is."""
    if not isinstance(value, str):
        return value
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from None


def moment(value: object) -> object:
    """Refuse what is no ISO text: pydantic takes 12 and "12" for seconds since 1970."""
    if not isinstance(value, str) or "-" not in value:
        raise ValueError("must be a date and time such as 2030-01-31T12:00:00Z")
    return value


def in_utc(value: datetime) -> datetime:
    """Return a moment in UTC, where years end at 9999 too: the offset may have it lie beyond."""
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie in the years 1 to 9999 of UTC") from None


#: Not strict: after a validator in Python, strict would want a datetime object.
Moment = Annotated[
    AwareDatetime, BeforeValidator(moment), AfterValidator(in_utc), Field(strict=False)
]
Command = Annotated[
    list[Text],
    Field(max_length=MAX_ITEMS),
    BeforeValidator(words),
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
]
Env = Annotated[
    list[Text],
    Field(max_length=MAX_ITEMS),  # first, so that a list ends there: after, all of it is checked
    BeforeValidator(environment),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": {"type": "string"}},
                {"type": "object", "additionalProperties": {"type": "string"}},
            ]
        }
    ),
]
Volume = Annotated[str, StringConstraints(pattern=VOLUME, max_length=1024)]


class Estimate(Strict):
    """Completion estimates in seconds: all executors local, or any of them on cloud nodes."""

    local_s: Seconds | None = None
    hybrid_s: Seconds | None = None


class JobInput(Strict):
    """The dataset that the executors of a job read: each some of its blocks, no block twice."""

    dataset: Name = Field(description="Name or id of a dataset.")


class JobRequest(Strict):
    """A deadline job: ``executors`` identical containers that start together.

    Of ``kind`` spark they are the executors of a Spark application; its driver is one more
    container of the same size.
    """

    model_config = examples(
        {
            "name": "wordcount-7",
            "app": "wordcount",
            "image": "wordcount:2",
            "command": ["wordcount", "--input", "/data"],
            "executors": 4,
            "cpus": 0.5,
            "memory": "256MiB",
            "deadline_s": 120,
            "estimate": {"local_s": 40, "hybrid_s": 52},
        }
    )

    name: Name
    image: Image
    cpus: Cpus
    memory: Memory
    kind: Literal["containers", "spark"] = "containers"
    spark: SparkRequest | None = Field(default=None, description="For kind spark.")
    input: JobInput | None = Field(default=None, description="What the executors read.")
    app: Name | None = Field(default=None, description="Whose run it is; the name by default.")
    command: Command = Field(default=[])
    executors: int = Field(default=1, ge=1, le=MAX_EXECUTORS)
    deadline_s: Seconds | None = Field(default=None, description="Counts from submission.")
    deadline: Moment | None = Field(
        default=None, description="ISO 8601 with a zone; excludes deadline_s."
    )
    estimate: Estimate | None = None
    policy: Name | None = None
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000)
    env: Env = Field(default=[])
    labels: dict[Key, Text] = Field(default={}, max_length=MAX_ITEMS)
    volumes: list[Volume] = Field(default=[], max_length=64)
    constraints: Constraints = Field(default=[])
    max_runtime_s: Seconds | None = None
    retries: int | None = Field(default=None, ge=0, le=1000, description="Per executor.")
    on_unreachable: Literal["wait"] = "wait"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a job's translation depends on beside its body.

    ``is_replay``: the submission was accepted before (same idempotency key), so a deadline that
    has passed since is no fault.
    """

    now_us: int
    policy: str
    policies: tuple[str, ...]
    retries: int
    max_executors: int
    parse_constraint: Callable[[str], Constraint]
    is_replay: bool = False


def job_spec(job: JobRequest, terms: Terms) -> JobSpec:
    """Translate a job; whether its image is pullable nobody has asked yet, nor for its dataset.

    Raises InvalidInput with every fault that the model alone cannot see.
    """
    faults: list[FieldError] = []
    constraints = constraints_of(job.constraints, terms.parse_constraint, faults)
    deadline_us = _deadline_us(job, terms, faults)
    local_us, hybrid_us = _estimates_us(job, faults)
    if job.policy is not None and job.policy not in terms.policies:
        known = f"unknown policy; known are {', '.join(terms.policies)}"
        faults.append(FieldError("policy", known))
    if job.executors > terms.max_executors:
        limit = f"must be at most {terms.max_executors} (limits.executors)"
        faults.append(FieldError("executors", limit))
    taken = f"labels beginning with {Reserved!r} are the daemon's own"
    faults += [FieldError(f"labels.{key}", taken) for key in job.labels if key.startswith(Reserved)]
    faults += env_faults(job.env)
    spark = _spark(job, faults)
    faults += _input_faults(job)
    raise_faults(faults)
    return JobSpec(
        name=job.name,
        app=job.app or job.name,
        image=job.image,
        command=tuple(job.command),
        executors=job.executors,
        request=Resources(cpu_m=round(job.cpus * 1000), memory_bytes=job.memory),
        deadline_us=deadline_us,
        estimate_local_us=local_us,
        estimate_hybrid_us=hybrid_us,
        policy=job.policy or terms.policy,
        priority=job.priority,
        env=tuple(job.env),
        labels=dict(job.labels),
        volumes=tuple(job.volumes),
        constraints=constraints,
        max_runtime_us=None if job.max_runtime_s is None else seconds_to_us(job.max_runtime_s),
        retries=terms.retries if job.retries is None else job.retries,
        on_unreachable=job.on_unreachable,
        spark=spark,
    )


def _input_faults(job: JobRequest) -> list[FieldError]:
    """Return what stands against reading a dataset."""
    if job.input is None:
        return []
    if job.kind == "spark":
        told = "is for plain containers: a Spark application reads its input itself"
        return [FieldError("input", told)]
    told = f"hides the blocks of the input, which lie in {INPUT_FOLDER}: mount it elsewhere"
    return [
        FieldError(f"volumes.{i}", told)
        for i, volume in enumerate(job.volumes)
        if _hides_input(volume.split(":")[1])
    ]


def _hides_input(target: str) -> bool:
    """Whether a volume mounted at ``target`` covers the folder of inputs, or lies in it."""
    words = posixpath.normpath(target).strip("/").split("/")
    folder = INPUT_FOLDER.strip("/").split("/")
    return words == [""] or words[: len(folder)] == folder[: len(words)]


def _spark(job: JobRequest, faults: list[FieldError]) -> SparkSpec | None:
    """Return the Spark application, None for a job of plain containers."""
    if job.kind != "spark":
        if job.spark is not None:
            faults.append(FieldError("kind", "must be spark where a Spark application is given"))
        return None
    if job.command:
        faults.append(FieldError("command", "is for plain containers; use spark.application"))
    if job.memory < MIN_SPARK_MEMORY:
        least = "must be at least 1 GiB: it holds a JVM that serves the cluster, and one that works"
        faults.append(FieldError("memory", least))
    if job.spark is None:
        faults.append(FieldError("spark", "is needed: say which application to run"))
        return None
    return spark_spec(job.spark, faults)


def _deadline_us(job: JobRequest, terms: Terms, faults: list[FieldError]) -> int | None:
    if job.deadline is not None and job.deadline_s is not None:
        faults.append(FieldError("deadline", "excludes deadline_s; give one of them"))
    if job.deadline_s is not None:
        return terms.now_us + seconds_to_us(job.deadline_s)
    if job.deadline is None:
        return None
    at_us = us_of(job.deadline)
    if at_us <= terms.now_us and not terms.is_replay:
        faults.append(FieldError("deadline", f"is in the past; it is {iso(terms.now_us)} now"))
    if at_us > terms.now_us + MAX_TIME_S * US:
        faults.append(FieldError("deadline", "is more than ten years ahead"))
    return at_us


def _estimates_us(job: JobRequest, faults: list[FieldError]) -> tuple[int | None, int | None]:
    given = job.estimate or Estimate()
    if given.local_s is None:
        if given.hybrid_s is not None:
            faults.append(FieldError("estimate.local_s", "is needed where hybrid_s is given"))
        elif job.estimate is not None:
            faults.append(FieldError("estimate.local_s", "is needed; or leave estimate out"))
        return None, None
    if given.hybrid_s is None:
        return seconds_to_us(given.local_s), None
    if given.hybrid_s < given.local_s:
        message = "must be at least local_s: no job ends sooner for running on slower links"
        faults.append(FieldError("estimate.hybrid_s", message))
    return seconds_to_us(given.local_s), seconds_to_us(given.hybrid_s)
