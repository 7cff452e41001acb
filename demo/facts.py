"""What happened, as plain data: all that the checks, the report and the page are made from.

Times are seconds since the first submission (negative before it), money is dollars, sizes bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter


@dataclass(frozen=True)
class Span:
    """A time from ``begin_s`` to ``end_s``; what has not ended ends with the run."""

    begin_s: float
    end_s: float


@dataclass(frozen=True)
class NodeFact:
    """A node. ``on`` are the times when it cost; ``boots`` the part of them before it was up."""

    name: str
    generation: str
    site: str
    price_usd_per_h: float
    cpus: float
    memory_bytes: int
    can_switch: bool
    power: str
    on: list[Span] = field(default_factory=list)
    boots: list[Span] = field(default_factory=list)


@dataclass(frozen=True)
class Stretch:
    """One attempt of one executor on one node; ``exit_code`` None where tenure ended it."""

    node: str
    executor: int
    begin_s: float
    end_s: float
    exit_code: int | None = None


@dataclass(frozen=True)
class JobFact:
    """A job. ``expects`` and ``shows`` are the demo's; ``promised_end_s`` the daemon's promise."""

    name: str
    shows: str
    expects: str
    executors: int
    cpus: float
    priority: int
    promise: str
    state: str
    reason: str
    mode: str
    cost_usd: float
    submitted_s: float
    placed_s: float | None
    finished_s: float | None
    deadline_s: float | None
    promised_end_s: float | None
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def nodes(self) -> list[str]:
        """Return the nodes it used, by name."""
        return sorted({stretch.node for stretch in self.stretches})

    @property
    def is_met(self) -> bool:
        """Return whether it succeeded before its deadline (true without one)."""
        if self.state != "succeeded" or self.finished_s is None:
            return False
        return self.deadline_s is None or self.finished_s < self.deadline_s


@dataclass(frozen=True)
class RefusalFact:
    """A submission that was answered with a refusal; ``earliest`` is what was offered instead."""

    name: str
    shows: str
    expects: str
    code: str
    reason: str
    detail: str
    earliest: str = ""


@dataclass(frozen=True)
class Stay:
    """A container on a node, in a generation."""

    node: str
    generation: str
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class ContainerFact:
    """A container. ``used_*`` is the measured 90th percentile, ``asked_*`` its reservation.

    ``copies`` is how many of it run, counted on the engines at the end (None: not counted);
    ``why_not`` what the last run said when it did not get where it should.
    """

    name: str
    kind: str
    generation: str
    state: str
    node: str
    asked_cpus: float
    asked_memory_bytes: int
    used_cpus: float
    used_memory_bytes: int
    used_disk_bytes_per_s: int
    used_net_bytes_per_s: int
    samples: int
    copies: int | None
    why_not: str = ""
    stays: list[Stay] = field(default_factory=list)


@dataclass(frozen=True)
class MoveFact:
    """One move of a container between two generations. ``step`` is its last one."""

    container: str
    source: str
    target: str
    generation: str
    begin_s: float
    end_s: float
    step: str
    downtime_s: float | None
    reason: str


@dataclass(frozen=True)
class RunFact:
    """One run of a cycle."""

    cycle: str
    trigger: str
    """The cron line, or the interval."""
    state: str
    is_manual: bool
    due_s: float
    end_s: float | None
    moves: int
    accepted: int
    kept: list[str]
    reason: str


@dataclass(frozen=True)
class OnTime:
    """How long a node was on, by the ledger and by the node's own record; ``switches`` of it."""

    node: str
    ledger_s: float
    record_s: float
    switches: int


@dataclass(frozen=True)
class CostFact:
    """What the fleet cost in dollars from its start to the end of the run."""

    total_usd: float
    services_usd: float
    idle_usd: float
    by_site: dict[str, float]
    by_node: dict[str, float]


@dataclass(frozen=True)
class Goals:
    """Whose outcome the checks look at."""

    last: str
    explained: str
    urgent: str
    retried: str
    least_cloud: int
    refused: list[str] = field(default_factory=list)
    """Expected refusals, by name of the job."""


@dataclass(frozen=True)
class Facts:
    """The whole run. ``goals`` are what the checks ask for; ``explained`` why a job waited."""

    begun_at: str
    setup_s: float
    took_s: float
    is_own: bool
    goals: Goals
    nodes: list[NodeFact]
    jobs: list[JobFact]
    refusals: list[RefusalFact]
    containers: list[ContainerFact]
    moves: list[MoveFact]
    runs: list[RunFact]
    cost: CostFact
    on_times: list[OnTime]
    explained: list[str]
    children: dict[str, int]


_FACTS: TypeAdapter[Facts] = TypeAdapter(Facts)


def save(facts: Facts, path: Path) -> None:
    """Write the facts as JSON."""
    path.write_bytes(_FACTS.dump_json(facts, indent=1) + b"\n")


def load(path: Path) -> Facts:
    """Read facts from JSON; raises ValueError for something else."""
    return _FACTS.validate_json(path.read_bytes())
