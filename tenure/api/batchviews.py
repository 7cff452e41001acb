"""How batches are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from typing_extensions import TypedDict

from tenure.api.readingviews import (
    DatasetInputView,
    ReadingView,
    dataset_input_view,
    reading_view,
)
from tenure.api.views import moment, seconds
from tenure.model.batch import (
    Batch,
    Forecasted,
    InputFile,
    StageSpec,
    Task,
    TaskState,
)
from tenure.model.planning import Schedule

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

    file: str
    size_bytes: int
    chunk_bytes: int


class StageView(TypedDict):
    """A stage; ``task_s`` is what a task takes on a node of speed 1, as estimated.

    A task that runs for more than ``max_runtime_s`` fails (null: it may run for ever). The stage
    should put out ``output_ratio`` bytes for each that it reads, as estimated; those of its tasks
    that are done put out ``output_bytes``, which are ``measured_output_ratio`` for each that these
    read (null: not known, or of data in HDFS).

    ``states`` counts its tasks by state; of one that is tried again the present attempt counts.
    """

    name: str
    image: str
    command: list[str]
    cpus: float
    memory_bytes: int
    tasks: int
    after: list[str]
    shuffle: str
    partitions: int
    input: InputView | None
    dataset: DatasetInputView | None
    task_s: float | None
    max_runtime_s: float | None
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
    submitter: str
    state: str
    reason: str
    is_cancelling: bool
    tasks: int
    done: int
    active: int
    retries: int
    replicas: int
    retried: int
    reclaimed: int
    resent: int
    reads: dict[str, int]
    remote: int
    submitted_at: str | None
    started_at: str | None
    finished_at: str | None
    promised_end_at: str | None
    version: int


class BatchDetail(BatchView):
    """A batch with its stages."""

    stages: list[StageView]


class StartView(TypedDict):
    """``tasks`` of a stage that are planned to begin together on a node."""

    stage: str
    node: str
    at: str | None
    tasks: int


class ScheduleView(TypedDict):
    """A plan: what had not begun when it was made, in order of time.

    ``solver`` made it; ``is_proven``: no plan of all batches together ends earlier. ``why`` it was
    made.
    """

    planned_at: str | None
    end_at: str | None
    solver: str
    is_proven: bool
    why: str
    starts: list[StartView]


class BatchPlanView(TypedDict):
    """What a submission would be answered; the batch would end at ``end_at`` by ``plan``."""

    is_accepted: bool
    tasks: int
    end_at: str | None
    plan: ScheduleView


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
    planned_at: str | None
    is_ahead: bool
    chunk_bytes: int | None
    started_at: str | None
    finished_at: str | None
    exit_code: int | None
    failures: int
    reclaims: int
    output_bytes: int
    note: str
    reading: ReadingView | None


def batch_view(batch: Batch, tasks: Iterable[Task]) -> BatchView:
    """Return a batch; O(tasks)."""
    rows = list(tasks)
    states = Counter(task.state for task in rows)
    reads = Counter(task.reading.word for task in rows if task.reading is not None)
    return BatchView(
        id=batch.id,
        name=batch.spec.name,
        submitter=batch.spec.submitter,
        state=batch.state.value,
        reason=batch.reason,
        is_cancelling=batch.is_cancelling,
        tasks=batch.spec.tasks,
        done=states[TaskState.DONE],
        active=sum(states[state] for state in BUSY),
        retries=batch.spec.retries,
        replicas=batch.spec.replicas,
        retried=batch.retried,
        reclaimed=batch.reclaimed,
        resent=batch.resent,
        reads=dict(sorted(reads.items())),
        remote=batch.remote,
        submitted_at=moment(batch.arrival_us),
        started_at=moment(batch.started_us),
        finished_at=moment(batch.finished_us),
        promised_end_at=moment(batch.promised_us),
        version=batch.version,
    )


def batch_detail(batch: Batch, tasks: Sequence[Task]) -> BatchDetail:
    """Return a batch with its stages."""
    of_stage: dict[str, list[Task]] = {stage.name: [] for stage in batch.spec.stages}
    for task in tasks:
        of_stage[task.stage].append(task)
    stages = [stage_view(stage, of_stage) for stage in batch.spec.stages]
    return BatchDetail(**batch_view(batch, tasks), stages=stages)


def stage_view(stage: StageSpec, tasks: Mapping[str, Sequence[Task]]) -> StageView:
    """Return a stage; ``tasks`` are those of all stages of its batch, by stage."""
    mine = tasks[stage.name]
    return StageView(
        name=stage.name,
        image=stage.image,
        command=list(stage.command),
        cpus=stage.request.cpu_m / 1000,
        memory_bytes=stage.request.memory_bytes,
        tasks=stage.count,
        after=list(stage.after),
        shuffle=stage.shuffle,
        partitions=stage.partitions,
        input=_input_view(stage.input, stage.chunk_bytes),
        dataset=dataset_input_view(stage.dataset),
        task_s=seconds(stage.run_us),
        max_runtime_s=seconds(stage.max_runtime_us or None),
        output_ratio=stage.output_ratio,
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
    if source is None:
        return None
    return InputView(file=source.path, size_bytes=source.size_bytes, chunk_bytes=chunk_bytes)


def task_view(task: Task) -> TaskView:
    """Return a task."""
    return TaskView(
        index=task.index,
        stage=task.stage,
        number=task.number,
        state=task.state.value,
        attempt=task.attempt,
        node=task.node,
        planned_at=moment(task.start_us or None),
        is_ahead=task.is_ahead,
        chunk_bytes=None if task.chunk is None else task.chunk.length,
        started_at=moment(task.started_us),
        finished_at=moment(task.finished_us),
        exit_code=task.exit_code,
        failures=task.failures,
        reclaims=task.reclaims,
        output_bytes=task.output_bytes,
        note=task.note,
        reading=reading_view(task.reading),
    )


def plan_view(tasks: int, answer: Forecasted) -> BatchPlanView:
    """Return what a submission would be answered."""
    plan = schedule_view(answer.schedule)
    return BatchPlanView(is_accepted=True, tasks=tasks, end_at=moment(answer.end_us), plan=plan)


def schedule_view(schedule: Schedule) -> ScheduleView:
    """Return a plan."""
    return ScheduleView(
        planned_at=moment(schedule.planned_us),
        end_at=moment(schedule.end_us),
        solver=schedule.solver,
        is_proven=schedule.is_proven,
        why=schedule.why,
        starts=[
            StartView(stage=s.stage, node=s.node, at=moment(s.at_us), tasks=s.count)
            for s in schedule.starts
        ],
    )
