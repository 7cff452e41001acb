"""A batch as people submit it (docs/batches.md) and its translation into a ``BatchSpec``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic.config import JsonDict

from tenure.api.schemas.datasets import MAX_REPLICAS
from tenure.api.schemas.fields import (
    MAX_MEMORY,
    MAX_TIME_S,
    Cpus,
    Image,
    Memory,
    Name,
    Seconds,
    Strict,
    Text,
    env_faults,
    examples,
    memory_bytes,
    raise_faults,
)
from tenure.api.schemas.jobs import Command, Env
from tenure.model.batch import BatchSpec, Chunk, InputFile, StageSpec
from tenure.model.errors import FieldError
from tenure.model.reading import DatasetInput
from tenure.model.resources import Resources
from tenure.model.units import US, seconds_to_us

MAX_STAGES = 32
MAX_TASKS = 100_000
Cut = tuple[InputFile, tuple[Chunk, ...]]
Size = Annotated[
    int,
    BeforeValidator(memory_bytes),
    Field(ge=1, le=MAX_MEMORY),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MAX_MEMORY},
                {"type": "string", "examples": ["64MiB", "128MB"]},
            ],
            "description": "Bytes, or a text with a unit (KiB, MiB, GiB, KB, MB, GB).",
        }
    ),
]


class Split(Strict):
    """Where an input is cut into chunks: one of the two. A chunk ends at the end of a line."""

    size: Size | None = Field(default=None, description="Of a chunk, up to the end of a line.")
    lines: int | None = Field(default=None, ge=1, le=1 << 40, description="Of a chunk.")


class BatchInput(Strict):
    """The input of a stage: a file of the daemon's machine, or a dataset; a piece for each task."""

    file: Text | None = Field(
        default=None, description="Absolute path, in a folder of batches.input_dirs."
    )
    dataset: Name | None = Field(
        default=None, description="Name or id of a dataset; each task reads one of its blocks."
    )
    split: Split | None = None


class TaskEstimate(Strict):
    """How long a task takes on a node of speed 1, by one of the two, and how much it puts out.

    What is left out is learned.
    """

    task_s: Seconds | None = None
    bytes_per_s: float | None = Field(
        default=None, gt=0, le=1e15, description="Input that a task works through in a second."
    )
    output_ratio: float | None = Field(
        default=None,
        ge=0,
        le=1e6,
        description=(
            "Bytes that the stage puts out for each byte that it reads (null: learned, else 1); "
            "the plan counts the time of a shuffle from it by that."
        ),
    )


class StageRequest(Strict):
    """Identical tasks. Their number is that of the chunks of ``input``, or ``tasks``."""

    name: Name
    command: Command = Field(default=[])
    image: Image | None = Field(default=None, description="The batch's by default.")
    memory: Memory
    cpus: Cpus = Field(default=1.0)
    tasks: int | None = Field(default=None, ge=1, le=MAX_TASKS)
    input: BatchInput | None = None
    after: list[Name] = Field(
        default=[], max_length=MAX_STAGES, description="Stages that must be done before."
    )
    shuffle: Name | None = Field(
        default=None, description="The stage whose partition files its tasks get; implies after."
    )
    estimate: TaskEstimate | None = Field(
        default=None, description="Null: learned from batches and stages of the same names."
    )
    max_runtime_s: Seconds | None = Field(
        default=None, description="A task that runs for longer fails; null: it may."
    )
    env: Env = Field(default=[])


WORDCOUNT: JsonDict = {
    "name": "wordcount",
    "image": "busybox:1",
    "stages": [
        {
            "name": "map",
            "command": ["sh", "-c", "tr -cs a-z '\\n' < $TENURE_INPUT/chunk > ..."],
            "memory": "64MiB",
            "input": {"file": "/srv/inputs/text", "split": {"size": "64MiB"}},
            "estimate": {"bytes_per_s": 5e6, "output_ratio": 0.05},
        },
        {
            "name": "reduce",
            "command": ["sh", "-c", "cat $TENURE_INPUT/from-* | ..."],
            "memory": "64MiB",
            "tasks": 4,
            "shuffle": "map",
            "estimate": {"task_s": 10},
        },
    ],
}


class BatchRequest(Strict):
    """A batch: stages of identical tasks that run on what services and executors leave idle."""

    model_config = examples(WORDCOUNT)

    name: Name
    image: Image | None = Field(default=None, description="Of the stages that name none.")
    stages: list[StageRequest] = Field(min_length=1, max_length=MAX_STAGES)
    retries: int = Field(default=2, ge=0, le=100, description="Per task.")
    replicas: int = Field(
        default=1,
        ge=1,
        le=MAX_REPLICAS,
        description="Above 1: chunks of input files are kept on so many nodes, in their tiers, so "
        "that a task that moves finds its own there. 1: each is sent into the container of its "
        "task.",
    )
    submitter: Name | None = Field(
        default=None,
        description="Whose it is, where room is shared: yours, unless an admin says another's.",
    )


def require_sound(body: BatchRequest) -> None:
    """Raise InvalidInput with every fault of a batch that the model alone cannot see."""
    faults: list[FieldError] = []
    names = [stage.name for stage in body.stages]
    for number, stage in enumerate(body.stages):
        path = f"stages.{number}"
        if stage.name in names[:number]:
            faults.append(FieldError(f"{path}.name", f"the name {stage.name!r} stands twice"))
        if stage.image is None and body.image is None:
            told = "is needed: the batch names no image for all stages"
            faults.append(FieldError(f"{path}.image", told))
        faults += _order_faults(body, stage, path)
        faults += _work_faults(stage, path)
        faults += env_faults(stage.env, f"{path}.env")
    if body.replicas > 1 and not any(s.input and s.input.file for s in body.stages):
        told = "is for batches whose input is a file; a dataset has replicas of its own"
        faults.append(FieldError("replicas", told))
    raise_faults(faults)
    circle = _circle({stage.name: waits_for(stage) for stage in body.stages})
    if circle:
        told = f"the stages wait for each other in a circle: {' -> '.join(circle)}"
        raise_faults([FieldError("stages", told)])


def waits_for(stage: StageRequest) -> tuple[str, ...]:
    """Return the stages that must be done before a stage, each once."""
    shuffled = () if stage.shuffle is None else (stage.shuffle,)
    return tuple(dict.fromkeys((*stage.after, *shuffled)))


def _order_faults(body: BatchRequest, stage: StageRequest, path: str) -> list[FieldError]:
    names = {other.name for other in body.stages}
    faults = [
        FieldError(f"{path}.after.{i}", f"there is no stage {name!r}")
        for i, name in enumerate(stage.after)
        if name not in names
    ]
    if stage.shuffle is None:
        return faults
    if stage.shuffle not in names:
        faults.append(FieldError(f"{path}.shuffle", f"there is no stage {stage.shuffle!r}"))
    rivals = [s.name for s in body.stages if s.shuffle == stage.shuffle and s.tasks != stage.tasks]
    if rivals:
        told = f"stage {stage.shuffle!r} leaves one partition for each task, and {rivals[0]!r} has "
        told += "another number of them: give both the same number of tasks"
        faults.append(FieldError(f"{path}.tasks", told))
    return faults


def _work_faults(stage: StageRequest, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    if stage.input is None:
        if stage.tasks is None:
            told = "is needed where there is no input: how many tasks the stage has"
            faults.append(FieldError(f"{path}.tasks", told))
    else:
        if stage.tasks is not None:
            told = "excludes input: there is one task for each chunk"
            faults.append(FieldError(f"{path}.tasks", told))
        if stage.shuffle is not None:
            told = "excludes input: a task gets a chunk, or partitions"
            faults.append(FieldError(f"{path}.shuffle", told))
        faults += _input_faults(stage.input, f"{path}.input")
    given = stage.estimate
    if given is None:
        return faults
    if given.task_s is not None and given.bytes_per_s is not None:
        told = "must give one of task_s and bytes_per_s, or none to have the time learned"
        faults.append(FieldError(f"{path}.estimate", told))
    elif given.bytes_per_s is not None and stage.input is None:
        told = "is for stages with an input; give task_s"
        faults.append(FieldError(f"{path}.estimate.bytes_per_s", told))
    if given.output_ratio is not None and stage.input is None and stage.shuffle is None:
        told = "is for stages that read an input or shuffle; leave it out"
        faults.append(FieldError(f"{path}.estimate.output_ratio", told))
    return faults


def _input_faults(given: BatchInput, path: str) -> list[FieldError]:
    faults = []
    if given.dataset is not None:
        told = "excludes dataset: its blocks are the pieces"
        rivals = {"file": given.file, "split": given.split}
        return [FieldError(f"{path}.{name}", told) for name, value in rivals.items() if value]
    if given.file is None:
        faults.append(FieldError(f"{path}.file", "is needed"))
    split = given.split or Split()
    if (split.size is None) is (split.lines is None):
        faults.append(FieldError(f"{path}.split", "must give one of size and lines"))
    return faults


def _circle(waits: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the names of stages that wait for each other, the first again at the end; or none."""
    done: set[str] = set()
    for name in waits:
        way: list[str] = []
        if _leads_back(name, waits, way, done):
            return way[way.index(way[-1]) :]
    return []


def _leads_back(
    name: str, waits: Mapping[str, tuple[str, ...]], way: list[str], done: set[str]
) -> bool:
    if name in done:
        return False
    is_met = name in way
    way.append(name)
    if is_met or any(_leads_back(other, waits, way, done) for other in waits[name]):
        return True
    way.pop()
    done.add(name)
    return False


def batch_spec(
    body: BatchRequest,
    submitter: str,
    cuts: Mapping[str, Cut | DatasetInput],
    pullable: Mapping[str, bool],
) -> BatchSpec:
    """Translate a sound batch; stages come behind those that they wait for.

    ``cuts`` are the inputs by stage, ``pullable`` says of each image whether a registry has it.
    """
    stages = [_stage(body, stage, cuts.get(stage.name), pullable) for stage in _ordered(body)]
    return BatchSpec(body.name, tuple(stages), body.retries, submitter, replicas=body.replicas)


def _ordered(body: BatchRequest) -> list[StageRequest]:
    """Return the stages in their order, but each behind those that it waits for."""
    found: list[StageRequest] = []
    left = list(body.stages)
    while left:
        names = {stage.name for stage in found}
        ready = next(stage for stage in left if set(waits_for(stage)) <= names)
        left.remove(ready)
        found.append(ready)
    return found


def _stage(
    body: BatchRequest,
    stage: StageRequest,
    cut: Cut | DatasetInput | None,
    pullable: Mapping[str, bool],
) -> StageSpec:
    image = stage.image or body.image or ""
    dataset = cut if isinstance(cut, DatasetInput) else None
    source, chunks = cut if isinstance(cut, tuple) else (None, ())
    longest = max((chunk.length for chunk in chunks), default=0)
    piece = longest if dataset is None else dataset.block_bytes
    estimate = stage.estimate or TaskEstimate()
    run_us = max(1, seconds_to_us(estimate.task_s)) if estimate.task_s else 0
    if estimate.bytes_per_s:
        run_us = max(1, round(min(piece / estimate.bytes_per_s, MAX_TIME_S) * US))
    behind = [other.tasks or 0 for other in body.stages if other.shuffle == stage.name]
    return StageSpec(
        name=stage.name,
        image=image,
        command=tuple(stage.command),
        count=dataset.blocks if dataset is not None else len(chunks) or stage.tasks or 0,
        request=Resources(cpu_m=round(stage.cpus * 1000), memory_bytes=stage.memory),
        run_us=run_us,
        after=waits_for(stage),
        shuffle=stage.shuffle or "",
        partitions=max(behind, default=0),
        input=source,
        chunk_bytes=longest,
        env=tuple(stage.env),
        is_pullable=pullable.get(image, False),
        dataset=dataset,
        max_runtime_us=seconds_to_us(stage.max_runtime_s or 0),
        output_ratio=-1.0 if estimate.output_ratio is None else estimate.output_ratio,
    )
