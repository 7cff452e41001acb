"""Batches, their stages, tasks and plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from typing_extensions import TypedDict

from tenure.api.views.readings import DatasetInputView, ReadingView
from tenure.api.views.render import Moment, Of, SecondsIfAny, moment, render, seconds, thousandths
from tenure.model.batch import Batch, Chunk, InputFile, StageSpec, Task, TaskState

#: States of the attempts that are on a node.
BUSY = frozenset(
    (
        TaskState.CREATING,
        TaskState.CREATED,
        TaskState.SENDING,
        TaskState.READY,
        TaskState.STARTING,
        TaskState.RUNNING,
        TaskState.EXITED,
        TaskState.ENDED,
        TaskState.COLLECTING,
    )
)


class InputView(TypedDict):
    """A file of the daemon's machine, and the longest of its chunks."""

    file: Annotated[str, Of("path")]
    size_bytes: int
    chunk_bytes: int


class StageView(TypedDict):
    """A stage; ``task_s`` is what a task takes on a node of speed 1, as estimated.

    ``source`` says by whom: given (by the user), learned (from batches and stages of these names)
    or unknown (an assumption).
    A task that runs for more than ``max_runtime_s`` fails (null: it may run for ever). The stage
    should put out ``output_ratio`` bytes for each that it reads, as estimated; those of its tasks
    that are done put out ``output_bytes``, which are ``measured_output_ratio`` for each that these
    read (null: not known, or of data in HDFS).

    ``states`` counts its tasks by state; of one that is tried again the present attempt counts.
    """

    name: str
    image: str
    command: list[str]
    cpus: Annotated[float, Of("request.cpu_m", thousandths)]
    memory_bytes: Annotated[int, Of("request.memory_bytes")]
    tasks: Annotated[int, Of("count")]
    after: list[str]
    shuffle: str
    partitions: int
    input: InputView | None
    dataset: DatasetInputView | None
    task_s: Annotated[float | None, Of("run_us", seconds)]
    source: str
    max_runtime_s: SecondsIfAny
    output_ratio: float
    output_bytes: int
    measured_output_ratio: float | None
    states: dict[str, int]


class BatchView(TypedDict):
    """A batch; ``promised_end_at`` was predicted at submission.

    ``done`` of its ``tasks`` are done, ``active`` are on a node. ``retried`` counts attempts that
    failed, ``reclaimed`` those that gave way to owners, ``resent`` inputs that had to be sent
    again because they did not arrive as they were, ``remote`` attempts that began on another node
    than those where their input lay. Chunks of input files lie on ``replicas`` nodes (1: they are
    sent into containers). ``reads`` counts the tasks that are, or were
    last, on a node by the kind of the copy of their block (``memory``, ``ssd``, ``hdd``), or
    ``brought``.
    """

    id: str
    name: str
    namespace: Annotated[str, Of("owner.namespace")]
    submitter: str
    state: str
    reason: str
    is_cancelling: bool
    tasks: Annotated[int, Of("spec.tasks")]
    done: int
    active: int
    retries: int
    replicas: int
    retried: int
    reclaimed: int
    resent: int
    reads: dict[str, int]
    remote: int
    submitted_at: Annotated[str | None, Of("arrival_us", moment)]
    started_at: Moment
    finished_at: Moment
    promised_end_at: Annotated[str | None, Of("promised_us", moment)]
    version: int


class BatchDetail(BatchView):
    """A batch with its stages."""

    stages: list[StageView]


class StartView(TypedDict):
    """``tasks`` of a stage that are planned to begin together on a node."""

    stage: str
    node: str
    at: Moment
    tasks: Annotated[int, Of("count")]


class ScheduleView(TypedDict):
    """A plan: what had not begun when it was made, in order of time.

    ``solver`` made it; ``is_proven``: no plan of all batches together ends earlier. ``why`` it was
    made.
    """

    planned_at: Moment
    end_at: Moment
    solver: str
    is_proven: bool
    why: str
    starts: list[StartView]


class BatchPlanView(TypedDict):
    """What a submission would be answered; the batch would end at ``end_at`` by ``plan``."""

    is_accepted: bool
    tasks: int
    end_at: Moment
    plan: Annotated[ScheduleView, Of("schedule")]


class StageWaitView(TypedDict):
    """Tasks of a stage that wait for a node, or on one that does not answer: how many, why."""

    stage: str
    waiting: int
    why: str


class BatchExplainView(TypedDict):
    """Where a batch is: its plan (null: it has none), and what its waiting tasks wait for."""

    batch: str
    state: str
    reason: str
    plan: ScheduleView | None
    waiting: list[StageWaitView]


def _length(chunk: Chunk | None) -> int | None:
    return None if chunk is None else chunk.length


class TaskView(TypedDict):
    """A task in its present attempt; ``index`` counts over all stages, ``number`` in its own.

    It is planned to begin at ``planned_at``; ``is_ahead``: its input is sent ahead of that.
    """

    index: int
    stage: str
    number: int
    state: str
    attempt: int
    node: str
    planned_at: Annotated[str | None, Of("start_us", moment)]
    is_ahead: bool
    chunk_bytes: Annotated[int | None, Of("chunk", _length)]
    started_at: Moment
    finished_at: Moment
    exit_code: int | None
    failures: int
    reclaims: int
    output_bytes: int
    note: str
    reading: ReadingView | None


def batch_view(batch: Batch, tasks: Sequence[Task]) -> BatchView:
    """Return a batch; O(tasks)."""
    return render(BatchView, batch, **_counts(tasks))


def _counts(tasks: Iterable[Task]) -> dict[str, object]:
    states: Counter[TaskState] = Counter()
    reads: Counter[str] = Counter()
    for task in tasks:
        states[task.state] += 1
        if task.reading is not None:
            reads[task.reading.word] += 1
    active = sum(states[state] for state in BUSY)
    return {"done": states[TaskState.DONE], "active": active, "reads": dict(sorted(reads.items()))}


def batch_detail(batch: Batch, tasks: Sequence[Task]) -> BatchDetail:
    """Return a batch with its stages."""
    of_stage: dict[str, list[Task]] = {stage.name: [] for stage in batch.spec.stages}
    for task in tasks:
        of_stage[task.stage].append(task)
    stages = [_stage_view(stage, of_stage) for stage in batch.spec.stages]
    return render(BatchDetail, batch, **_counts(tasks), stages=stages)


def _stage_view(stage: StageSpec, tasks: Mapping[str, Sequence[Task]]) -> StageView:
    """Return a stage; ``tasks`` are those of all stages of its batch, by stage."""
    mine = tasks[stage.name]
    return render(
        StageView,
        stage,
        input=_input_view(stage.input, stage.chunk_bytes),
        output_bytes=_put_out(mine),
        measured_output_ratio=_measured_ratio(stage, tasks),
        states=dict(Counter(task.state.value for task in mine)),
    )


def _put_out(tasks: Sequence[Task]) -> int:
    return sum(task.output_bytes for task in tasks if task.state is TaskState.DONE)


def _measured_ratio(stage: StageSpec, tasks: Mapping[str, Sequence[Task]]) -> float | None:
    """Return what the tasks that are done put out for each byte of their input."""
    done = [task for task in tasks[stage.name] if task.state is TaskState.DONE]
    if stage.shuffle:
        read = _put_out(tasks[stage.shuffle]) * len(done) // stage.count
    elif stage.dataset is not None and not (stage.keeps_chunks or stage.dataset.is_external):
        read = stage.dataset.block_bytes * len(done)
    else:
        read = sum(task.chunk.length for task in done if task.chunk is not None)
    return round(_put_out(done) / read, 4) if read else None


def _input_view(source: InputFile | None, chunk_bytes: int) -> InputView | None:
    return None if source is None else render(InputView, source, chunk_bytes=chunk_bytes)
