"""Events: all that the core ever learns. Each carries its time, integer UTC microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from tenure.model.batch import BatchSpec, Chunk
from tenure.model.container import Profile
from tenure.model.dataset import DatasetSpec
from tenure.model.deployment import Rollout, Template
from tenure.model.external import Layout
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.forecast import NodeForecast
from tenure.model.harvest import Guard, HarvestAction
from tenure.model.job import Constraint, JobSpec
from tenure.model.node import NodeSpec
from tenure.model.ourtime import Anchor
from tenure.model.outcome import Outcome
from tenure.model.plan import CycleSpec, Plan
from tenure.model.quota import Quota
from tenure.model.resources import Resources
from tenure.model.roles import UNOWNED, Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Anything that happens; ``at_us`` never decreases from one event to the next."""

    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """The daemon has loaded its records; open effects are now unknown.

    Time goes on at ``at_us`` + ``step_us``: the wall was stepped forward while no daemon ran, by
    our time ``clock``. ``is_same_boot`` False: the machine was started anew, and nobody knows
    whether that time passed.
    """

    step_us: int = 0
    is_same_boot: bool = True
    clock: Anchor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Event):
    """A timer that the core armed is due, or the shell's slow heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStepped(Event):
    """The wall clock was stepped. Forward, time goes on at ``at_us`` + ``step_us`` from the next
    event on; back (negative), it goes on from ``at_us``, for it never decreases. ``clock`` is our
    time from then on; with a step of 0 nothing else has changed.
    """

    step_us: int
    clock: Anchor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing(Event):
    """The daemon is about to end: moves under way may end, no more may begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured(Event):
    """The configuration was read: at start and on every reload. ``quotas`` are by namespace."""

    nodes: tuple[NodeSpec, ...]
    cycles: tuple[CycleSpec, ...] = ()
    quotas: dict[str, Quota] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent(Event):
    """What happened on a node, or to it."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConnected(NodeEvent):
    """The engine answers (again)."""

    facts: EngineFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(NodeEvent):
    """The engine does not answer any more."""

    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeListed(NodeEvent):
    """A full listing of a node, asked for at ``started_us``; the truth as of some moment since."""

    started_us: int
    containers: tuple[ContainerFacts, ...]
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSeen(NodeEvent):
    """One container was inspected after a hint; asked for at ``started_us``."""

    started_us: int
    facts: ContainerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectEnded(Event):
    """The effect ``effect`` has ended. A second end of the same effect is ignored."""

    effect: str
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageObserved(Event):
    """Measured use: profiles per service and the use of foreign containers per node.

    ``regular`` is what owners used of each node a moment ago: its services and its remainder.
    """

    profiles: tuple[Profile, ...] = ()
    foreign: dict[str, Resources] = field(default_factory=dict)
    regular: dict[str, Resources] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HarvestReported(NodeEvent):
    """What the controller of a node did, as its agent tells, by rising numbers.

    ``oldest_seq`` is the first that the agent still has: what lies between is lost.
    """

    actions: tuple[HarvestAction, ...]
    oldest_seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSeen(NodeEvent):
    """A node's agent began or ceased to protect its owners; told when that changes."""

    guard: Guard


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleDue(Event):
    """A cycle fell due at ``due_us``."""

    cycle: str
    due_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Event):
    """Something a person or program asks; answered by one ``Reply`` to ``request``.

    With ``idempotency_key`` the same key and ``fingerprint`` give the first answer again for 24 h;
    another fingerprint is a conflict. ``expect_version`` makes the command conditional: it is
    refused unless the record that it changes has this version (None: whatever its version).
    ``record`` names that record: the kind, and the field of the command that holds its key; empty
    for commands that change none that exists. ``owner`` is whose that which it makes will be.
    """

    record: ClassVar[tuple[str, str]] = ("", "")

    request: str
    idempotency_key: str = ""
    fingerprint: str = ""
    expect_version: int | None = None
    owner: Owner = UNOWNED


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJob(Command):
    """Replies the ``Job`` or a Problem (refused: code ``deadline_unmeetable``)."""

    job: str
    spec: JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob(Command):
    record: ClassVar[tuple[str, str]] = ("jobs", "job")

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitBatch(Command):
    """Replies the ``Batch``, for a dry run ``Forecasted``, or a Problem.

    ``chunks`` are those of the stages that split a file, by stage, one for each task.
    """

    batch: str
    spec: BatchSpec
    chunks: dict[str, tuple[Chunk, ...]] = field(default_factory=dict)
    is_dry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelBatch(Command):
    record: ClassVar[tuple[str, str]] = ("batches", "batch")

    batch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutDataset(Command):
    """Replies the ``Dataset``: a new one, or that of the same name and files, which goes on.

    ``layout`` is where the blocks of one in HDFS were found a moment ago. ``is_dry``: nothing is
    put, and what a put would be answered is replied.
    """

    dataset: str
    spec: DatasetSpec
    is_dry: bool = False
    layout: Layout | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeDataset(Command):
    """``verb`` is pin, unpin, prefetch, verify, locate or remove. Replies the ``Dataset``.

    To ``locate`` it replies once it is known where the blocks of one in HDFS lie now.
    """

    record: ClassVar[tuple[str, str]] = ("datasets", "dataset")

    dataset: str
    verb: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptTier(Command):
    """Take an operator's word that the disk of a tier was replaced. Replies the ``TierMark``.

    ``gives_up``: also where blocks are lost that can be read nowhere else now.
    """

    node: str
    tier: str
    gives_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardOrphans(Command):
    """Have blocks of a dataset that no record knows removed. Replies an ``Orphan``: their sum."""

    dataset: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDoubted(Event):
    """Somebody read a block there and found another checksum; it is checked on its node."""

    block: str
    node: str
    tier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateService(Command):
    """Replies the ``Service``. ``generation`` empty means the first; ``app`` "" is derived.

    ``known`` is the 90th percentile of what its app used, None where nobody knows it: it skips the
    first generation if there is room now, and counts for that much until it is measured itself.
    ``deployment`` names the replicated service that it is of.
    """

    container: str
    name: str
    app: str
    body: dict[str, Any]
    request_resources: Resources
    generation: str = ""
    known: Resources | None = None
    migrate: str = ""
    overlap: bool = False
    min_age_us: int | None = None
    is_pullable: bool = False
    constraints: tuple[Constraint, ...] = ()
    spread: str = ""
    deployment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeService(Command):
    """``verb`` is start, stop or remove. Replies the ``Service``.

    ``grace_s`` None: the container's own StopTimeout, else the configured default.
    """

    record: ClassVar[tuple[str, str]] = ("services", "container")

    container: str
    verb: str
    grace_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveService(Command):
    """Have a container go to a node, or if dry say how it would. Replies the ``Verdict``."""

    record: ClassVar[tuple[str, str]] = ("services", "container")

    container: str
    node: str
    is_dry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyDeployment(Command):
    """Have so many containers of a template. Replies the ``Deployment``, or its plan if dry."""

    record: ClassVar[tuple[str, str]] = ("deployments", "name")

    name: str
    replicas: int
    template: Template
    rollout: Rollout
    is_dry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeDeployment(Command):
    """``verb`` is scale, pause, resume, rollback or remove. Replies the ``Deployment``."""

    record: ClassVar[tuple[str, str]] = ("deployments", "name")

    name: str
    verb: str
    replicas: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCommand(Command):
    """What is asked of one node."""

    record: ClassVar[tuple[str, str]] = ("nodes", "node")

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleNode(NodeCommand):
    """Cordon, uncordon, begin or end maintenance. Replies the ``Node``.

    ``to`` is yes, cordoned or "" (unchanged); ``is_in_maintenance`` None means unchanged.
    ``reason`` is kept with the node until it takes new work again.
    """

    to: str = ""
    is_in_maintenance: bool | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainNode(NodeCommand):
    """Empty a node. Replies the ``Drain``, or for a dry run the ``DrainPlan``.

    ``timeout_us`` from now, None for no limit. Asked again while one is under way, it takes over
    reason and time limit.
    """

    is_dry: bool = False
    reason: str = ""
    timeout_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelDrain(NodeCommand):
    """End a drain: moves that have begun end, the others do not begin. Replies the ``Drain``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerNode(NodeCommand):
    """``to`` is on or off (off: refused unless empty). Replies the ``Node``."""

    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceNode(NodeCommand):
    """An operator declares that nothing runs on this node any more. Replies the ``Node``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRun(Command):
    """A person asks for a run of a cycle now. Replies the ``Run``."""

    cycle: str
    is_dry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRun(Command):
    """A worker takes the cycle's latest due run (or ``run_id``). Replies the ``Run`` or Problem."""

    cycle: str
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitPlan(Command):
    """Replies the ``Run`` with a verdict for each move."""

    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitForecasts(Command):
    """Some of the forecasts of a claimed run; ``is_last``: no more will come. Replies the ``Run``.

    Of ``forecasts`` the run and the time are filled in when they are taken.
    """

    run_id: str
    forecasts: tuple[NodeForecast, ...]
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FailRun(Command):
    """A worker gave up. Replies the ``Run``."""

    run_id: str
    reason: str
