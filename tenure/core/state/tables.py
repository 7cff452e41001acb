"""Tables of records with the changes since the last commit remembered.

Owns what changed since the last commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from tenure.model.batch import Batch, Task
from tenure.model.container import Migration, Service, Tombstone
from tenure.model.dataset import Block, Dataset, TierMark
from tenure.model.deployment import Deployment
from tenure.model.drain import Drain
from tenure.model.effects import DurableEffect
from tenure.model.estimate import AppRuns
from tenure.model.forecast import LiveScore, NodeForecast
from tenure.model.harvest import HarvestMark
from tenure.model.job import Executor, Job
from tenure.model.ledger import Interval, Stay
from tenure.model.node import Node
from tenure.model.ourtime import Anchor
from tenure.model.plan import Run
from tenure.model.planning import PlannedStart, PlannedStarts, Schedule
from tenure.model.reservation import Reservation

R = TypeVar("R")
#: Starts in one record: encoded in less than a millisecond.
PART = 500


def _nobody(key: str, old: object, new: object) -> None:
    """Follow no table."""


class Table(Generic[R]):
    """A dictionary of frozen records that knows which keys changed since ``take``.

    ``follow`` is called at each change with the key, the record before and the one since, None
    where there is none; ``load`` does not call it.
    """

    def __init__(self) -> None:
        self._rows: dict[str, R] = {}
        self._dirty: set[str] = set()
        self.follow: Callable[[str, R | None, R | None], None] = _nobody

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> R:
        return self._rows[key]

    def get(self, key: str) -> R | None:
        """Return the record or None."""
        return self._rows.get(key)

    def values(self) -> Iterator[R]:
        """Iterate the records in the order of their first insertion."""
        return iter(self._rows.values())

    def items(self) -> Iterator[tuple[str, R]]:
        """Iterate key and record."""
        return iter(self._rows.items())

    def put(self, key: str, row: R) -> R:
        """Insert or replace a record and return it."""
        old = self._rows.get(key)
        self._rows[key] = row
        self._dirty.add(key)
        self.follow(key, old, row)
        return row

    def drop(self, key: str) -> None:
        """Remove a record; absent is fine."""
        old = self._rows.pop(key, None)
        if old is not None:
            self._dirty.add(key)
            self.follow(key, old, None)

    def load(self, rows: dict[str, R]) -> None:
        """Replace everything with rows from the store; nothing becomes dirty."""
        self._rows = dict(rows)
        self._dirty.clear()

    def take(self) -> dict[str, R | None]:
        """Return the changed records (None: removed) and forget that they changed."""
        if not self._dirty:
            return {}
        changed = {key: self._rows.get(key) for key in sorted(self._dirty)}
        self._dirty.clear()
        return changed


@dataclass(frozen=True, slots=True)
class Answer:
    """The stored answer to an idempotency key: what to say again, and until when."""

    key: str
    fingerprint: str
    kind: str
    value: str
    at_us: int


@dataclass(frozen=True, slots=True)
class Meta:
    """Single values that live as long as the fleet: ids and counters.

    ``is_restoring``: the state was put back from a backup at ``restored_us`` and not every node was
    looked at since (``lifecycle.restore``); ``given_up`` names the nodes that an operator declared
    dead meanwhile. ``clock_us`` is when something was stored last, ``clock`` how our time went on
    then.
    """

    fleet: str = ""
    next_seq: int = 1
    next_effect: int = 1
    next_event: int = 1
    revision: int = 0
    clock_us: int = 0
    restored_us: int = 0
    is_restoring: bool = False
    given_up: tuple[str, ...] = ()
    clock: Anchor | None = None


@dataclass(slots=True)
class Tables:
    """Every durable record, by kind. The field names are the kinds in the store.

    Keys: node name (nodes, drains, harvests, forecasts, scores), job id (jobs, reservations),
    ``job/index``, batch id (also schedules), ``batch/index``, ``batch/part`` (starts), dataset id,
    ``dataset/number``, ``node/tier``, container id, name of a deployment, migration id, tombstone
    id, run id, interval id, stay id, effect id, app, idempotency key, ``meta``.
    """

    nodes: Table[Node] = field(default_factory=Table)
    jobs: Table[Job] = field(default_factory=Table)
    executors: Table[Executor] = field(default_factory=Table)
    services: Table[Service] = field(default_factory=Table)
    deployments: Table[Deployment] = field(default_factory=Table)
    migrations: Table[Migration] = field(default_factory=Table)
    tombstones: Table[Tombstone] = field(default_factory=Table)
    runs: Table[Run] = field(default_factory=Table)
    intervals: Table[Interval] = field(default_factory=Table)
    stays: Table[Stay] = field(default_factory=Table)
    drains: Table[Drain] = field(default_factory=Table)
    reservations: Table[Reservation] = field(default_factory=Table)
    batches: Table[Batch] = field(default_factory=Table)
    tasks: Table[Task] = field(default_factory=Table)
    datasets: Table[Dataset] = field(default_factory=Table)
    blocks: Table[Block] = field(default_factory=Table)
    tiers: Table[TierMark] = field(default_factory=Table)
    schedules: Table[Schedule] = field(default_factory=Table)
    starts: Table[PlannedStarts] = field(default_factory=Table)
    effects: Table[DurableEffect] = field(default_factory=Table)
    apps: Table[AppRuns] = field(default_factory=Table)
    answers: Table[Answer] = field(default_factory=Table)
    harvests: Table[HarvestMark] = field(default_factory=Table)
    forecasts: Table[NodeForecast] = field(default_factory=Table)
    scores: Table[LiveScore] = field(default_factory=Table)
    meta: Table[Meta] = field(default_factory=Table)

    def starts_of(self, batch: str) -> Iterator[PlannedStart]:
        """Yield all starts of a batch's schedule in order of time, none where it has none."""
        schedule = self.schedules.get(batch)
        if schedule is not None:
            yield from schedule.starts
            for number in range(schedule.parts):
                yield from self.starts[f"{batch}/{number}"].starts

    def schedule(self, batch: str) -> Schedule | None:
        """Return the schedule of a batch with all of its starts, None where it has none."""
        schedule = self.schedules.get(batch)
        if schedule is None or not schedule.parts:
            return schedule
        return replace(schedule, starts=tuple(self.starts_of(batch)), parts=0)

    def put_schedule(self, batch: str, schedule: Schedule) -> None:
        """Keep the schedule of a batch in place of the one before, a long one in parts.

        A record is encoded at one go by the thread that commits, for which it does not let the
        daemon's loop go: ten thousand starts took some 15 ms.
        """
        before, starts = self.schedules.get(batch), schedule.starts
        rests = [starts[at : at + PART] for at in range(PART, len(starts), PART)]
        self.schedules.put(batch, replace(schedule, starts=starts[:PART], parts=len(rests)))
        for number, rest in enumerate(rests):
            self.starts.put(f"{batch}/{number}", PlannedStarts(rest))
        for number in range(len(rests), 0 if before is None else before.parts):
            self.starts.drop(f"{batch}/{number}")

    def drop_schedule(self, batch: str) -> None:
        """Forget the schedule of a batch; it may have none."""
        schedule = self.schedules.get(batch)
        if schedule is not None:
            self.schedules.drop(batch)
            for number in range(schedule.parts):
                self.starts.drop(f"{batch}/{number}")


#: The record type of each kind, for the store's codec.
KINDS: dict[str, Any] = {name: get_args(table)[0] for name, table in get_type_hints(Tables).items()}


@dataclass(frozen=True, slots=True)
class PublicEvent:
    """An event as people and programs see it, numbered without gaps."""

    seq: int
    at_us: int
    type: str
    subject: str
    data: dict[str, Any]


@dataclass(slots=True)
class Changes:
    """What one transaction must hold: changed records by kind, and new public events."""

    records: dict[str, dict[str, Any]]
    events: tuple[PublicEvent, ...]

    @property
    def is_empty(self) -> bool:
        return not self.records and not self.events
