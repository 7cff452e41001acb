"""Services: containers submitted to a generation, and their moves (docs/moving-containers.md)."""

import hashlib
import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from tenure.model.job import Constraint
from tenure.model.resources import Resources
from tenure.model.roles import UNOWNED, Owner


class ContainerState(StrEnum):
    """A service's life. ``exited`` is its own doing, ``stopped`` a person's."""

    ACCEPTED = "accepted"
    WAITING = "waiting"
    CREATING = "creating"
    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    EXITED = "exited"
    MOVING = "moving"
    REMOVED = "removed"
    FAILED = "failed"


CONTAINER_TRANSITIONS: dict[ContainerState, tuple[ContainerState, ...]] = {
    ContainerState.ACCEPTED: (
        ContainerState.WAITING,
        ContainerState.CREATING,
        ContainerState.REMOVED,
    ),
    ContainerState.WAITING: (ContainerState.CREATING, ContainerState.REMOVED),
    ContainerState.CREATING: (
        ContainerState.CREATED,
        ContainerState.WAITING,
        ContainerState.FAILED,
        ContainerState.REMOVED,
    ),
    ContainerState.CREATED: (
        ContainerState.STARTING,
        ContainerState.WAITING,
        ContainerState.REMOVED,
    ),
    ContainerState.STARTING: (
        ContainerState.RUNNING,
        ContainerState.EXITED,
        ContainerState.WAITING,
        ContainerState.FAILED,
        ContainerState.REMOVED,
    ),
    ContainerState.RUNNING: (
        ContainerState.EXITED,
        ContainerState.STARTING,
        ContainerState.STOPPING,
        ContainerState.MOVING,
        ContainerState.WAITING,
        ContainerState.REMOVED,
    ),
    ContainerState.STOPPING: (
        ContainerState.STOPPED,
        ContainerState.RUNNING,
        ContainerState.REMOVED,
    ),
    ContainerState.STOPPED: (
        ContainerState.STARTING,
        ContainerState.MOVING,
        ContainerState.RUNNING,
        ContainerState.REMOVED,
    ),
    ContainerState.EXITED: (
        ContainerState.RUNNING,
        ContainerState.STARTING,
        ContainerState.MOVING,
        ContainerState.WAITING,
        ContainerState.REMOVED,
    ),
    ContainerState.MOVING: (
        ContainerState.RUNNING,
        ContainerState.EXITED,
        ContainerState.STOPPED,
        ContainerState.REMOVED,
    ),
    ContainerState.FAILED: (ContainerState.REMOVED,),
    ContainerState.REMOVED: (),
}
#: The health of a service that its engine restarts again and again.
CRASHING = "crash-looping"
#: A service in these has no container that is wanted.
CONTAINER_OVER = frozenset((ContainerState.REMOVED, ContainerState.FAILED))


@dataclass(frozen=True, slots=True)
class Service:
    """A container that cycles may move.

    ``id`` is tenure's own (64 hex digits), valid for ever; ``engine_id`` the engine's, for this
    ``incarnation``. ``body`` is Docker's create body, verbatim; every recreate uses it.
    ``since_us`` is when it entered its ``generation``; ``request`` what it is counted with until
    its use is known (its limits), ``reserved`` what it is counted with at least from then on;
    ``known`` what its app used before, in whose place it counts where that is more.
    ``migrate`` is the kind of move its owner asks for (live, snapshot, restart or never; empty:
    the best that is possible); ``no_live`` says why a live move of it failed the last time, and
    lasts until it has moved, or until ``live_retry_us`` (0: no such time) where it may move live
    alone; ``live_refusals`` counts these failures since it last moved.
    ``turns`` is the highest incarnation ever tried; until ``guard_us`` an exit is taken as the
    late effect of a stop that ended unknown, and undone; until ``late_us`` a start, or a
    restart policy, that ended unknown may still come, and no move begins. ``suspect_us`` is when it
    was seen exited though its policy starts it again (0: it was not): by its engine's end, where
    that goes away soon after. ``health`` is what its engine says of one that runs (none, starting,
    healthy, unhealthy), or ``CRASHING``; ``restarts`` are its engine's since it was started.
    ``constraints`` hold of every node on which it is; over the values of the key ``spread`` (that
    of a constraint; "": none) the containers of its app are shared out where that can be.
    ``is_at_home``: its owner
    named the generation, so it begins in no other; ``is_disarmed``: its copy was made at rest, and
    gets its restart policy once it runs. ``deployment`` names the replicated service that it is of
    ("": it is one by itself).
    """

    id: str
    name: str
    app: str
    body: dict[str, Any]
    generation: str
    request: Resources
    created_us: int
    migrate: str = ""
    overlap: bool = False
    min_age_us: int | None = None
    is_pullable: bool = False
    state: ContainerState = ContainerState.ACCEPTED
    reason: str = ""
    node: str = ""
    engine_id: str = ""
    incarnation: int = 1
    turns: int = 1
    since_us: int = 0
    started_us: int | None = None
    finished_us: int | None = None
    exit_code: int | None = None
    effect: str = ""
    is_unsure: bool = False
    is_removing: bool = False
    changed_us: int = 0
    retry_us: int = 0
    moved_us: int | None = None
    guard_us: int = 0
    late_us: int = 0
    suspect_us: int = 0
    health: str = "none"
    restarts: int = 0
    tries: int = 0
    grace_s: int | None = None
    no_live: str = ""
    live_retry_us: int = 0
    live_refusals: int = 0
    is_at_home: bool = False
    is_disarmed: bool = False
    version: int = 0
    owner: Owner = UNOWNED
    known: Resources | None = None
    constraints: tuple[Constraint, ...] = ()
    spread: str = ""
    deployment: str = ""

    @property
    def key(self) -> str:
        return self.id

    @property
    def attempt(self) -> int:
        return self.incarnation

    @property
    def place(self) -> str:
        """Return the node on which it takes room, "" for none."""
        return "" if self.state in CONTAINER_OVER else self.node

    @property
    def container_name(self) -> str:
        """Return the engine's name for it, which all incarnations have."""
        return self.name

    @property
    def reserved(self) -> Resources:
        """Return what the body reserves for good: Docker's MemoryReservation."""
        host = self.body.get("HostConfig") or {}
        return Resources(memory_bytes=int(host.get("MemoryReservation") or 0))

    def grace(self, usual_s: int) -> int:
        """Return the seconds from SIGTERM to SIGKILL: who removes it says, else its body."""
        own = self.body.get("StopTimeout")
        usual_s = own if isinstance(own, int) and own > 0 else usual_s
        return usual_s if self.grace_s is None else self.grace_s

    def asked(self, grace_s: int | None) -> Self:
        """Return it with a person's word on its grace time; None says nothing."""
        return self if grace_s is None else replace(self, grace_s=grace_s)

    @property
    def restart_policy(self) -> dict[str, Any]:
        """Return the restart policy of the body, as Docker writes it."""
        policy = (self.body.get("HostConfig") or {}).get("RestartPolicy") or {}
        return dict(policy) or {"Name": "no"}

    def is_kept_up(self, exit_code: int | None, restarts: int) -> bool:
        """Whether its restart policy starts it again after an exit (None: of unknown code).

        ``restarts`` are its engine's so far: on-failure may allow so many and no more.
        """
        name, most = self.restart_policy.get("Name"), self.restart_policy.get("MaximumRetryCount")
        is_failed = name == "on-failure" and exit_code != 0 and not 0 < (most or 0) <= restarts
        return name in ("always", "unless-stopped") or is_failed


def digest_of(body: dict[str, Any]) -> str:
    """Return what tells a create body from others."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]


class Step(StrEnum):
    """The steps of a migration; ``core.services.migration.steps`` has their order by method."""

    QUEUED = "queued"
    PREPARE = "prepare"
    CREATE = "create"
    DISARM = "disarm"
    CHECKPOINT = "checkpoint"
    STOP = "stop"
    CARRY = "carry"
    TRANSFER = "transfer"
    START = "start"
    VERIFY = "verify"
    COMMIT = "commit"
    SWEEP = "sweep"
    UNDO_TARGET = "undo_target"
    UNDO_SOURCE = "undo_source"
    UNDO_ARM = "undo_arm"
    DONE = "done"
    ROLLED_BACK = "rolled_back"
    REFUSED = "refused"


STEP_OVER = frozenset((Step.DONE, Step.ROLLED_BACK, Step.REFUSED))


@dataclass(frozen=True, slots=True)
class Migration:
    """One move of one service from ``source`` to ``target``.

    ``incarnation`` is the target's; ``source_id`` and ``target_id`` are engine ids;
    ``is_start_first`` says that both run for the time of the verification. ``request`` is what it
    reserves on the target. ``is_source_touched``: its restart policy may have been changed;
    ``is_source_stopped``: a stop or checkpoint was sent. ``down_us`` and ``up_us`` bound the
    measured downtime. ``kind`` is live, snapshot or restart, ``why`` says why it is none better.
    ``image`` is what the target is created from ("": what the body says), ``checkpoint`` the name
    of the checkpoint, which is kept at the source until the end; ``moved_bytes`` were sent.
    ``rest`` is the state of a container that did not run and will not ("": it runs).
    """

    id: str
    run_id: str
    container: str
    source: str
    target: str
    generation: str
    incarnation: int
    created_us: int
    source_id: str
    source_incarnation: int
    request: Resources = Resources()
    kind: str = "restart"
    is_start_first: bool = False
    step: Step = Step.QUEUED
    reason: str = ""
    target_id: str = ""
    effect: str = ""
    is_unsure: bool = False
    changed_us: int = 0
    retry_us: int = 0
    tries: int = 0
    verify_us: int = 0
    is_source_touched: bool = False
    is_source_stopped: bool = False
    expires_us: int = 0
    started_us: int | None = None
    down_us: int | None = None
    up_us: int | None = None
    finished_us: int | None = None
    why: str = ""
    image: str = ""
    checkpoint: str = ""
    moved_bytes: int = 0
    rest: str = ""

    @property
    def is_over(self) -> bool:
        return self.step in STEP_OVER

    @property
    def method(self) -> str:
        """Return its step plan: live, snapshot, stop-first, start-first or at-rest."""
        if self.rest:
            return "at-rest"
        if self.kind != "restart":
            return self.kind
        return "start-first" if self.is_start_first else "stop-first"

    @property
    def end_state(self) -> ContainerState:
        """Return what the container is in when the move has ended, done or rolled back."""
        return ContainerState(self.rest) if self.rest else ContainerState.RUNNING

    @property
    def downtime_us(self) -> int | None:
        """Return how long no copy ran, None where it was not measured or has not ended."""
        if self.down_us is None or self.up_us is None:
            return None
        return max(0, self.up_us - self.down_us)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A copy on an engine that must never run again, until a listing shows it gone.

    It is found by ``engine_id`` or, where that was never learned, by ``name``, ``owner`` and
    ``turn`` (attempt or incarnation, as its labels say). ``logs_key`` names the log to keep first.
    While it ``may_run`` it still takes ``request`` from its node. ``is_fenced``: its node was off
    since it was condemned, or was at that time. ``reason`` is why its engine cannot remove it
    without help, "" where nothing is known to be in the way.
    """

    id: str
    node: str
    owner: str
    turn: int
    name: str
    engine_id: str
    created_us: int
    may_run: bool = False
    request: Resources = Resources()
    grace_s: int = 10
    logs_key: str = ""
    effect: str = ""
    changed_us: int = 0
    retry_us: int = 0
    tries: int = 0
    reason: str = ""
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """Measured use of one container: the 90th percentile of each dimension over its window.

    ``samples`` counts measurements, ``age_us`` the time they span. ``observed`` names the
    dimensions that were measured at all.
    """

    container: str
    p90: Resources
    samples: int
    age_us: int
    observed: tuple[str, ...] = ("cpu_m", "memory_bytes", "disk_bytes_per_s", "net_bytes_per_s")
    labels: dict[str, str] = field(default_factory=dict)
