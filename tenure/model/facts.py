"""What engines report, translated once (engines -> core)."""

from dataclasses import dataclass, field

from tenure.model.resources import Resources

LABEL_FLEET = "tenure.fleet"
LABEL_JOB = "tenure.job"
LABEL_EXECUTOR = "tenure.executor"
LABEL_ATTEMPT = "tenure.attempt"
LABEL_ROLE = "tenure.role"
LABEL_PORT = "tenure.port"
LABEL_DRIVER = "tenure.driver"
#: Of an executor over a dataset: the numbers of the blocks that it reads.
LABEL_BLOCKS = "tenure.blocks"
LABEL_CONTAINER = "tenure.container"
LABEL_INCARNATION = "tenure.incarnation"
LABEL_GENERATION = "tenure.generation"
#: Of a container of a replicated service: namespace/name, and its create body's digest.
LABEL_SERVICE = "tenure.service"
LABEL_BODY = "tenure.body"
#: Of a container that works for tenure on a node and is no work of anybody.
LABEL_HELPER = "tenure.helper"
#: Of a task of a batch, beside the labels of an executor: its batch and its stage.
LABEL_BATCH = "tenure.batch"
LABEL_STAGE = "tenure.stage"
#: Of the container that `tenure node agent install` makes: whose node it is the agent of.
LABEL_AGENT = "tenure.agent"
AGENT_NAME = "tenured-agent"

#: A number of so many digits fits 64 bits.
MAX_DIGITS = 18
RUNNING_STATES = frozenset(("running", "paused", "restarting"))


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """One container as its engine shows it.

    ``state`` is Docker's word (created, running, paused, restarting, removing, exited, dead);
    ``exit_code`` and ``finished_us`` are set once it has exited, and while it waits to be restarted
    those of its last run; ``health`` is none, starting, healthy or unhealthy; ``restarts`` are
    those by its engine since somebody started it.
    ``is_torn``: its first start was cut by the death of its engine, which may hold a process of it
    that it neither shows nor ends; only the engine, started again, can say that there is none.
    """

    engine_id: str
    name: str
    image: str
    state: str
    labels: dict[str, str] = field(default_factory=dict)
    exit_code: int | None = None
    started_us: int | None = None
    finished_us: int | None = None
    is_oom_killed: bool = False
    health: str = "none"
    error: str = ""
    is_torn: bool = False
    restarts: int = 0

    @property
    def is_running(self) -> bool:
        """Whether a process of it may exist."""
        return self.state in RUNNING_STATES

    def began_us(self, since_us: int, now_us: int, *, apart_us: int = 0) -> int:
        """Return when it was started by its engine if that was then, else now.

        Engines have clocks of their own, ``apart_us`` behind ours when they were last asked: one
        that tells a moment before there was a container, or one that is still to come, was stepped.
        """
        if self.started_us is None:
            return now_us
        told_us = self.started_us + apart_us
        return told_us if since_us <= told_us <= now_us else now_us

    def ended_us(self, started_us: int, now_us: int) -> int:
        """Return when it ended, by how long it ran: both by its engine's clock, whatever that says.

        ``started_us`` is when it began by our time; at the latest it ended now.
        """
        if self.started_us is None or self.finished_us is None:
            return now_us
        return min(started_us + max(0, self.finished_us - self.started_us), now_us)


def number_of(label: str) -> int:
    """Return the whole number that a label says, 0 where it says none that a record can hold."""
    is_number = label.isascii() and label.isdigit() and len(label) <= MAX_DIGITS
    return int(label) if is_number else 0


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """An engine's identity and size; ``capacity`` is the whole machine as it sees it.

    ``cgroup_driver`` is cgroupfs or systemd, ``clock_us`` what its clock said (UTC; None: nothing).
    """

    engine_id: str
    capacity: Resources
    api_version: str = ""
    images: tuple[str, ...] = ()
    cgroup_driver: str = "cgroupfs"
    clock_us: int | None = None
