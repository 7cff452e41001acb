"""Deadline jobs and their executors (docs/policies.md)."""

from dataclasses import dataclass, field
from enum import StrEnum

from tenure.model.estimate import NO_ESTIMATE, Estimate
from tenure.model.reading import DatasetInput, Reading
from tenure.model.resources import Resources
from tenure.model.roles import UNOWNED, Owner


class JobState(StrEnum):
    ACCEPTED = "accepted"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


JOB_TRANSITIONS: dict[JobState, tuple[JobState, ...]] = {
    JobState.ACCEPTED: (JobState.WAITING, JobState.STARTING, JobState.CANCELLED, JobState.FAILED),
    JobState.WAITING: (JobState.STARTING, JobState.CANCELLED, JobState.FAILED),
    JobState.STARTING: (JobState.RUNNING, JobState.FAILED, JobState.CANCELLED),
    JobState.RUNNING: (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED),
    JobState.SUCCEEDED: (),
    JobState.FAILED: (),
    JobState.CANCELLED: (),
}
JOB_TERMINAL = frozenset(s for s, following in JOB_TRANSITIONS.items() if not following)


class ExecutorState(StrEnum):
    """One attempt of one executor; a new attempt begins again at ``placed``."""

    PLACED = "placed"
    CREATING = "creating"
    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    ABANDONED = "abandoned"


EXECUTOR_TRANSITIONS: dict[ExecutorState, tuple[ExecutorState, ...]] = {
    ExecutorState.PLACED: (ExecutorState.CREATING, ExecutorState.ABANDONED),
    ExecutorState.CREATING: (ExecutorState.CREATED, ExecutorState.EXITED, ExecutorState.ABANDONED),
    ExecutorState.CREATED: (ExecutorState.STARTING, ExecutorState.EXITED, ExecutorState.ABANDONED),
    ExecutorState.STARTING: (
        ExecutorState.RUNNING,
        ExecutorState.EXITED,
        ExecutorState.ABANDONED,
    ),
    ExecutorState.RUNNING: (ExecutorState.EXITED, ExecutorState.ABANDONED),
    ExecutorState.EXITED: (),
    ExecutorState.ABANDONED: (),
}
EXECUTOR_OVER = frozenset((ExecutorState.EXITED, ExecutorState.ABANDONED))


@dataclass(frozen=True, slots=True)
class Constraint:
    """``key op values``: ``==`` and ``in`` need membership, ``!=`` its absence.

    ``key`` is one of generation, site, rack, name, label.*.
    """

    key: str
    op: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as it is written."""
        if self.op == "in":
            return f"{self.key} in ({', '.join(self.values)})"
        return f"{self.key}{self.op}{','.join(self.values)}"


@dataclass(frozen=True, slots=True)
class SparkSpec:
    """A Spark application (docs/spark.md).

    ``application`` is its file in the image or a volume, or a URL; or else ``program`` its Python
    source. ``conf`` are Spark's own properties beside those that tenure sets. By ``secret`` the
    application's processes know each other: nodes share their network with others.
    """

    application: str = ""
    program: str = ""
    args: tuple[str, ...] = ()
    conf: dict[str, str] = field(default_factory=dict)
    secret: str = ""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job as submitted, after validation. Times in microseconds, 0 or None where unstated.

    ``estimate_local_us`` is T_C^L, ``estimate_hybrid_us`` T_C^H (never below T_C^L), as the user
    states them; what the job counts with is ``Job.estimate``.
    ``is_pullable`` says that a registry offers the image; otherwise only nodes that hold it serve.
    ``spark`` None: the executors are plain containers of ``command``. ``dataset`` None: they read
    no blocks of one.
    """

    name: str
    app: str
    image: str
    command: tuple[str, ...]
    executors: int
    request: Resources
    deadline_us: int | None = None
    estimate_local_us: int | None = None
    estimate_hybrid_us: int | None = None
    policy: str = "tenure"
    priority: int = 0
    env: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    max_runtime_us: int | None = None
    retries: int = 0
    on_unreachable: str = "wait"
    is_pullable: bool = False
    spark: SparkSpec | None = None
    dataset: DatasetInput | None = None

    @property
    def containers(self) -> int:
        """How many containers of ``request`` it takes: a Spark driver is one more of them."""
        return self.executors + (self.spark is not None)

    def role_of(self, index: int) -> str:
        """Return what people call a container of the job: driver or executor."""
        return "driver" if self.spark is not None and index == 0 else "executor"


@dataclass(frozen=True, slots=True)
class Admission:
    """What was promised at submission; ``class_`` is admitted, best_effort or unknown.

    admitted: the deadline will be met if the estimates hold; best_effort: jobs ahead have no
    estimate, so nothing is certain; unknown: the job itself has none.
    ``cost_nano`` is the predicted marginal cost (Eq. 1 and 8).
    """

    class_: str
    start_us: int | None = None
    end_us: int | None = None
    cost_nano: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job's record. ``seq`` is the order of arrival; ``started_us`` when all were running.

    ``mode`` is local or hybrid once placed; ``end_estimate_us`` start plus estimate;
    ``launched_us`` when all executors were created and told to start; ``avoid`` nodes that turned
    out unable to run it. ``is_cancelling`` and ``is_failing`` are set at once, the state follows
    when no executor can be running any more. ``decision`` says who chose the place where the policy
    is slow: the policy, or another in its stead and why; or that it is nearer the job's blocks than
    where its policy had it.
    """

    id: str
    seq: int
    spec: JobSpec
    arrival_us: int
    state: JobState = JobState.ACCEPTED
    reason: str = ""
    admission: Admission = Admission("unknown")
    estimate: Estimate = NO_ESTIMATE
    mode: str = ""
    placed_us: int | None = None
    launched_us: int | None = None
    started_us: int | None = None
    finished_us: int | None = None
    end_estimate_us: int | None = None
    exit_code: int | None = None
    is_cancelling: bool = False
    is_failing: bool = False
    cost_nano: int = 0
    avoid: tuple[str, ...] = ()
    decision: str = ""
    version: int = 0
    owner: Owner = UNOWNED

    @property
    def is_over(self) -> bool:
        return self.state in JOB_TERMINAL

    @property
    def is_ending(self) -> bool:
        """Whether what is left of it is to be stopped."""
        return self.is_cancelling or self.is_failing

    @property
    def is_estimated(self) -> bool:
        """Whether anybody knows how long it takes; jobs stored before know it by their spec."""
        if self.estimate.local_us:
            return self.estimate.source != "unknown"
        return self.spec.estimate_local_us is not None


@dataclass(frozen=True, slots=True)
class Executor:
    """One executor in its current attempt.

    ``effect`` is the id of the effect under way; ``is_unsure`` means that the last effect ended
    unknown and only a listing newer than ``changed_us`` can tell. ``failures`` counts exits that
    cost a retry, ``mishaps`` those that were the fleet's fault, ``tries`` creates of this attempt
    that did not happen; since ``suspect_us`` (0: never) it is seen exited with a code that may be
    its engine's doing, and not judged yet.
    Of Spark jobs number 0 is the driver: ``port`` is its master's, ``driver_attempt`` of the others
    the driver's attempt that they were made for (0: not made yet).
    Of jobs over a dataset ``blocks`` are the numbers of those that it reads, the same in all of its
    attempts, and ``readings`` the copies that this attempt reads, in their order; empty until they
    are chosen.
    """

    job: str
    index: int
    attempt: int = 1
    node: str = ""
    state: ExecutorState = ExecutorState.PLACED
    engine_id: str = ""
    effect: str = ""
    is_unsure: bool = False
    changed_us: int = 0
    placed_us: int = 0
    started_us: int | None = None
    finished_us: int | None = None
    exit_code: int | None = None
    failures: int = 0
    mishaps: int = 0
    retry_us: int = 0
    suspect_us: int = 0
    note: str = ""
    port: int = 0
    driver_attempt: int = 0
    blocks: tuple[int, ...] = ()
    readings: tuple[Reading, ...] = ()
    tries: int = 0

    @property
    def key(self) -> str:
        return f"{self.job}/{self.index}"

    @property
    def container_name(self) -> str:
        """Return the engine's name for this attempt: the same after any restart."""
        return f"tenure-{self.job}-{self.index}-{self.attempt}"

    @property
    def is_over(self) -> bool:
        return self.state in EXECUTOR_OVER

    @property
    def place(self) -> str:
        """Return the node on which it takes room, "" for none."""
        return "" if self.is_over else self.node
