"""Batches: stages of identical tasks that run on what owners leave idle (docs/batches.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from tenure.model.planning import Schedule
from tenure.model.reading import DatasetInput, Reading
from tenure.model.resources import Resources
from tenure.model.roles import UNOWNED, Owner
from tenure.model.units import HOUR_US


class BatchState(StrEnum):
    ACCEPTED = "accepted"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


BATCH_TRANSITIONS: dict[BatchState, tuple[BatchState, ...]] = {
    BatchState.ACCEPTED: (BatchState.RUNNING, BatchState.FAILED, BatchState.CANCELLED),
    BatchState.RUNNING: (BatchState.SUCCEEDED, BatchState.FAILED, BatchState.CANCELLED),
    BatchState.SUCCEEDED: (),
    BatchState.FAILED: (),
    BatchState.CANCELLED: (),
}


class TaskState(StrEnum):
    """One attempt of one task; a new attempt begins again at ``pending``.

    pending: has no node. sending: its input is on its way into its container, which was created
    and not started. exited: it ended badly, and what its node's agent did is being asked.
    collecting: it ended well, and its output is on its way to the daemon.
    done: the output is on the daemon's disk. failed: it ended badly. abandoned: it was the
    fleet's doing, or nobody wants it any more.
    """

    PENDING = "pending"
    CREATING = "creating"
    CREATED = "created"
    SENDING = "sending"
    READY = "ready"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    ENDED = "ended"
    COLLECTING = "collecting"
    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"


_T = TaskState
_BAD = (_T.FAILED, _T.ABANDONED)
TASK_TRANSITIONS: dict[TaskState, tuple[TaskState, ...]] = {
    _T.PENDING: (_T.CREATING, _T.ABANDONED),
    _T.CREATING: (_T.CREATED, *_BAD),
    _T.CREATED: (_T.SENDING, *_BAD),
    _T.SENDING: (_T.READY, *_BAD),
    _T.READY: (_T.STARTING, *_BAD),
    _T.STARTING: (_T.RUNNING, _T.EXITED, _T.ENDED, *_BAD),
    _T.RUNNING: (_T.EXITED, _T.ENDED, *_BAD),
    _T.EXITED: _BAD,
    _T.ENDED: (_T.COLLECTING, *_BAD),
    _T.COLLECTING: (_T.DONE, *_BAD),
    _T.DONE: (),
    _T.FAILED: (),
    _T.ABANDONED: (),
}
#: Attempts that take no room any more; the tombstone of one may.
TASK_OVER = frozenset((_T.DONE, _T.FAILED, _T.ABANDONED))
#: Attempts that have not begun to run: what they occupy on a node is a container and a link.
PREPARING = frozenset((_T.CREATING, _T.CREATED, _T.SENDING, _T.READY, _T.STARTING))

#: Attempts whose process has ended: they hold no memory any more.
EXITED = frozenset((_T.EXITED, _T.ENDED, _T.COLLECTING))

#: Where a task finds its input and leaves its output, in its container.
INPUT_FOLDER = "/tenure/in"
OUTPUT_FOLDER = "/tenure/out"
#: The output of a batch is kept for so long after its end.
OUTPUT_KEPT_US = 7 * 24 * HOUR_US
#: The name of the chunk of a task whose stage splits a file.
CHUNK_NAME = "chunk"


#: What stages put out before any has told.
NOTHING_KNOWN: Mapping[str, int] = MappingProxyType({})


def partition_name(number: int) -> str:
    """Return the name of the file in which a task leaves what is for task ``number`` behind it."""
    return f"part-{number:05d}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the input: ``length`` bytes from ``offset``."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of the daemon's machine as it was at submission; changed since, the batch fails."""

    path: str
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class StageSpec:
    """Identical tasks: ``count`` of them, each with ``request``.

    ``after`` are stages that end before; ``shuffle`` is the one of them whose partition files its
    tasks get ("": none), ``partitions`` how many such files its own tasks leave (0: its output is
    the batch's, or nobody's). ``run_us`` is what one task takes on a node of speed 1. ``input``
    None: its tasks get no chunks of a file; else ``chunk_bytes`` is the longest. ``dataset`` None:
    they read no blocks of one. With both the chunks are the blocks of a dataset of the stage's own.
    ``output_ratio``: what its tasks put out for each byte that they read, as estimated; it is
    planned with where another stage shuffles from it. ``run_us`` 0 and an ``output_ratio`` below 0
    are not stated; at submission they are filled in, and ``source`` says of the time from where:
    given, learned or unknown.
    ``max_runtime_us``: a task that runs for longer fails (0: it may run for ever).
    """

    name: str
    image: str
    command: tuple[str, ...]
    count: int
    request: Resources
    run_us: int
    after: tuple[str, ...] = ()
    shuffle: str = ""
    partitions: int = 0
    input: InputFile | None = None
    chunk_bytes: int = 0
    env: tuple[str, ...] = ()
    is_pullable: bool = False
    dataset: DatasetInput | None = None
    max_runtime_us: int = 0
    output_ratio: float = 1.0
    source: str = "given"

    @property
    def keeps_chunks(self) -> bool:
        """Whether its chunks are kept as replicas in tiers, as long as it runs."""
        return self.input is not None and self.dataset is not None


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """A batch as submitted, after validation; stages stand behind those that they wait for.

    ``submitter`` is whose it is, where room is shared between submitters. ``replicas`` above 1:
    each chunk of an input file lies on so many nodes before its task begins; 1: it is sent into the
    container of its task.
    """

    name: str
    stages: tuple[StageSpec, ...]
    retries: int = 2
    submitter: str = ""
    replicas: int = 1

    def stage(self, name: str) -> StageSpec:
        """Return a stage; raises KeyError."""
        found = next((stage for stage in self.stages if stage.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def first_of(self, name: str) -> int:
        """Return the index of a stage's first task among those of all stages."""
        names = [stage.name for stage in self.stages]
        return sum(stage.count for stage in self.stages[: names.index(name)])

    def sent_bytes(self, stage: StageSpec, known: Mapping[str, int] = NOTHING_KNOWN) -> int:
        """Return what is sent to a task of a stage: its chunk, or its partitions.

        Those are ``known`` (bytes that all tasks of a stage put out, by its name), else as
        estimated. Blocks of a dataset lie on its node.
        """
        if not stage.shuffle:
            return stage.chunk_bytes
        before = self.stage(stage.shuffle)
        found = known.get(before.name)
        whole = self._output_bytes(before, known) if found is None else found
        return whole // max(1, stage.count)

    def _output_bytes(self, stage: StageSpec, known: Mapping[str, int]) -> int:
        """Return what the tasks of a stage should put out together."""
        each = stage.chunk_bytes if stage.dataset is None else stage.dataset.block_bytes
        read = self.sent_bytes(stage, known) if stage.shuffle else each
        return round(read * stage.count * stage.output_ratio)

    @property
    def tasks(self) -> int:
        """How many tasks it has in all."""
        return sum(stage.count for stage in self.stages)

    @property
    def last(self) -> tuple[str, ...]:
        """Return the stages whose output is the batch's: no other waits for them."""
        awaited = {name for stage in self.stages for name in stage.after}
        return tuple(stage.name for stage in self.stages if stage.name not in awaited)


@dataclass(frozen=True, slots=True)
class Forecasted:
    """What a dry run is answered: when the batch should end by its plan, if nothing changes."""

    end_us: int
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch's record. ``seq`` is the order of arrival.

    ``promised_us`` is the end that was predicted at submission. ``is_cancelling`` and
    ``is_failing`` are set at once, the state follows when no task can be running any more.
    ``retried`` counts attempts that failed, ``reclaimed`` those that gave way to owners,
    ``resent`` inputs that did not arrive as they were sent, ``remote`` attempts that began on
    another node than those where their input lay: it had to be sent, or brought, there first.
    """

    id: str
    seq: int
    spec: BatchSpec
    arrival_us: int
    promised_us: int
    state: BatchState = BatchState.ACCEPTED
    reason: str = ""
    started_us: int | None = None
    finished_us: int | None = None
    is_cancelling: bool = False
    is_failing: bool = False
    retried: int = 0
    reclaimed: int = 0
    resent: int = 0
    remote: int = 0
    version: int = 0
    owner: Owner = UNOWNED

    @property
    def is_over(self) -> bool:
        return not BATCH_TRANSITIONS[self.state]

    @property
    def is_ending(self) -> bool:
        """Whether what is left of it is to be stopped."""
        return self.is_cancelling or self.is_failing

    def keeps_output(self, now_us: int) -> bool:
        """Whether what its tasks put out is kept; of one that is over that of its last stages."""
        is_new = now_us <= (self.finished_us or 0) + OUTPUT_KEPT_US
        return not self.is_over or (self.state is BatchState.SUCCEEDED and is_new)


@dataclass(frozen=True, slots=True)
class Task:
    """One task in its current attempt: number ``index`` of the batch, ``number`` of its stage.

    ``effect`` is the effect under way; ``is_unsure``: only a listing newer than ``changed_us`` can
    tell what became of the last. ``failures`` cost a retry; ``mishaps`` were the fleet's fault,
    ``reclaims`` its owners' gain, ``unproven`` of them by its exit code alone. No new attempt
    before ``retry_us``, and rather not on ``shunned``. ``killed`` is why its node's agent or kernel
    ended it, "" if they did not; ``is_guess``: unless it met its own limit, which its engine says.
    ``reading`` is the copy that it reads, of a stage over a dataset. ``start_us`` is when it is
    planned to begin (0: it is not). ``is_ahead``: its input is sent ahead of that, and it takes no
    room of its node yet. ``tries`` of its create did not happen, and ``fetches`` of its output were
    in vain. ``sent_to`` is where an input of it was last sent whole.
    """

    batch: str
    index: int
    stage: str
    number: int
    chunk: Chunk | None = None
    attempt: int = 1
    node: str = ""
    state: TaskState = TaskState.PENDING
    engine_id: str = ""
    effect: str = ""
    is_unsure: bool = False
    changed_us: int = 0
    started_us: int | None = None
    finished_us: int | None = None
    exit_code: int | None = None
    failures: int = 0
    mishaps: int = 0
    reclaims: int = 0
    retry_us: int = 0
    shunned: str = ""
    output_bytes: int = 0
    note: str = ""
    killed: str = ""
    reading: Reading | None = None
    start_us: int = 0
    is_ahead: bool = False
    fetches: int = 0
    sent_to: str = ""
    unproven: int = 0
    is_guess: bool = False
    tries: int = 0

    @property
    def key(self) -> str:
        return f"{self.batch}/{self.index}"

    @property
    def place(self) -> str:
        """Return the node on which it takes room, "" for none."""
        return "" if self.state in TASK_OVER else self.node

    @property
    def container_name(self) -> str:
        """Return the engine's name for this attempt: the same after any restart."""
        return f"tenure-{self.batch}-{self.index}-{self.attempt}"


@dataclass(frozen=True, slots=True)
class Part:
    """A file that a task gets: ``name`` in its input folder, ``length`` bytes from ``offset``.

    ``file`` is an absolute path, or one in the daemon's folder of outputs; there ``length`` -1
    means all of it, and nothing where there is no such file.
    """

    name: str
    file: str
    offset: int = 0
    length: int = -1
