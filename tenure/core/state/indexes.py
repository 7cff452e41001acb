"""Keys of records by node, job and batch, so that no event costs a walk over the fleet.

``INDEXED`` says what each index goes by; ``Context`` has the tables followed, so that nobody keeps
one by hand. Owned by ``Context``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from tenure.core.state.queue_order import Key, WaitingJobs
from tenure.model.batch import TASK_OVER, Batch, BatchSpec, Task, TaskState
from tenure.model.container import ContainerState, Migration, Service, Step, Tombstone
from tenure.model.dataset import Dataset, DatasetSpec
from tenure.model.deployment import Deployment
from tenure.model.drain import Drain
from tenure.model.job import Executor, Job, JobSpec
from tenure.model.ledger import Interval, Stay
from tenure.model.node import Node
from tenure.model.plan import Run
from tenure.model.quota import NOTHING, Amounts
from tenure.model.resources import Resources

UNPLACED_SERVICE = frozenset((ContainerState.ACCEPTED, ContainerState.WAITING))


@dataclass(slots=True)
class Index:
    """Keys by node and by job, so that no event costs a walk over the fleet.

    ``moves`` are those that are not over, ``begun`` those of them that are under way;
    ``waiting_jobs`` are those that wait for a place, ``homeless`` those that run or start and may
    have executors without a node; ``unestimated`` of these are without an estimate, ``unknown``
    says where those that wait without one are in the line; ``removed`` are nodes that the
    configuration does not name any more, ``orphaned`` those with ``Node.orphans``; ``tasks`` those
    of batches by node, ``tasks_by_stage`` by batch and stage; ``tombstoned`` the tombstones that
    may run, by the job, batch or container that owns them; ``unsized`` are nodes of which nobody
    knows yet what they have; ``remains`` is how many tasks are left to be dropped of batches that
    are forgotten; ``usage`` is what each namespace holds.
    """

    executors: dict[str, set[str]] = field(default_factory=dict)
    of_job: dict[str, set[str]] = field(default_factory=dict)
    services: dict[str, set[str]] = field(default_factory=dict)
    moves: set[str] = field(default_factory=set)
    begun: set[str] = field(default_factory=set)
    move_of: dict[str, str] = field(default_factory=dict)
    tombstones: dict[str, set[str]] = field(default_factory=dict)
    tombstones_of: dict[str, set[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    moves_at: dict[str, set[str]] = field(default_factory=dict)
    open_jobs: set[str] = field(default_factory=set)
    job_names: dict[str, str] = field(default_factory=dict)
    waiting_jobs: WaitingJobs = field(default_factory=WaitingJobs)
    homeless: set[str] = field(default_factory=set)
    unestimated: set[str] = field(default_factory=set)
    unknown: dict[str, Key] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    orphaned: set[str] = field(default_factory=set)
    open_runs: set[str] = field(default_factory=set)
    open_drains: set[str] = field(default_factory=set)
    unplaced: set[str] = field(default_factory=set)
    interval: dict[str, str] = field(default_factory=dict)
    stays: dict[str, set[str]] = field(default_factory=dict)
    tasks: dict[str, set[str]] = field(default_factory=dict)
    tasks_by_stage: dict[tuple[str, str], StageTasks] = field(default_factory=dict)
    open_batches: set[str] = field(default_factory=set)
    tombstoned: dict[str, set[str]] = field(default_factory=dict)
    unsized: set[str] = field(default_factory=set)
    remains: dict[str, int] = field(default_factory=dict)
    usage: dict[str, Amounts] = field(default_factory=dict)


@dataclass(slots=True)
class StageTasks:
    """The tasks of one stage: those that wait for a node, and how many are not done, or are.

    ``put_out`` are the bytes that those which are done put out.

    ``again`` are those of ``pending`` that were tried before, and ``tried`` their order: those that
    had to leave a node first, then by index. ``held`` are those that may not begin yet, with their
    places in that order, as far as somebody found them so: they are left out of it until they are
    released. ``shunned`` are those of ``again`` by the node that they had to leave. ``open`` are
    those that are not over. What was never tried is taken in the order of its index, and never
    comes back as such: none stands before ``first``, nor from ``end`` on.
    """

    pending: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    tried: list[tuple[bool, int]] = field(default_factory=list)
    held: dict[int, tuple[bool, int]] = field(default_factory=dict)
    shunned: dict[str, set[int]] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)
    undone: int = 0
    done: int = 0
    put_out: int = 0
    first: int = 1 << 62
    end: int = 0

    def take(self, old: Task | None, task: Task) -> None:
        """Count a task anew (None: it was not counted before)."""
        was_undone = old is not None and old.state is not TaskState.DONE
        self.undone += (task.state is not TaskState.DONE) - was_undone
        for one, sign in ((old, -1), (task, 1)):
            if one is not None and one.state is TaskState.DONE:
                self.done += sign
                self.put_out += sign * one.output_bytes
        if old is None:
            self.first, self.end = min(self.first, task.index), max(self.end, task.index + 1)
        if old is not None and old.index in self.again:
            self._leave(old)
        if task.state is TaskState.PENDING and task.attempt > 1:
            insort(self.tried, _turn(task))
            if task.shunned:
                self.shunned.setdefault(task.shunned, set()).add(task.index)
        for among, is_in in (
            (self.pending, task.state is TaskState.PENDING),
            (self.again, task.state is TaskState.PENDING and task.attempt > 1),
            (self.open, task.state not in TASK_OVER),
        ):
            if is_in:
                among.add(task.index)
            else:
                among.discard(task.index)

    def _leave(self, old: Task) -> None:
        """Take out one that was tried before."""
        if self.held.pop(old.index, None) is None:
            del self.tried[bisect_left(self.tried, _turn(old))]
        if old.shunned:
            self.shunned[old.shunned].discard(old.index)
            if not self.shunned[old.shunned]:
                del self.shunned[old.shunned]

    def hold(self, task: Task) -> None:
        """Leave one that was tried before out of those that wait until it is released."""
        if task.index in self.again and task.index not in self.held:
            del self.tried[bisect_left(self.tried, _turn(task))]
            self.held[task.index] = _turn(task)

    def release(self, index: int) -> None:
        """Count one among those that wait again, if it was held back."""
        turn = self.held.pop(index, None)
        if turn is not None:
            insort(self.tried, turn)

    def waiting(self) -> Iterator[int]:
        """Yield those that wait for a node: those that were tried before, then others by index.

        So that a few of ten thousand cost no walk over all. It may be left at any point.
        """
        yield from self.retried()
        yield from self.fresh()

    def retried(self) -> Iterator[int]:
        """Yield those that were tried before, in their order; what is placed is left out.

        It is kept, so that the first of ten thousand cost no sorting of all.
        """
        last = (False, -1)
        while (place := bisect_right(self.tried, last)) < len(self.tried):
            last = self.tried[place]
            yield last[1]

    def fresh(self) -> Iterator[int]:
        """Yield those that were never tried, by index; what is placed meanwhile is left out."""
        index = self.first
        while index < self.end:
            if index in self.pending and index not in self.again:
                yield index
            elif index == self.first:
                self.first += 1
            index += 1


def _turn(task: Task) -> tuple[bool, int]:
    """Return the place of a task among those that were tried before."""
    return not task.shunned, task.index


R = TypeVar("R")


class Derived(Protocol):
    """One index of one kind of record."""

    def note(self, index: Index, key: str, old: Any, new: Any) -> None:
        """Bring the index from what a record was to what it is, None where there is none."""


@dataclass(frozen=True)
class Grouped(Generic[R]):
    """Sets of keys, under each value that ``of`` returns but ""."""

    name: str
    of: Callable[[R], tuple[str, ...]]

    def note(self, index: Index, key: str, old: R | None, new: R | None) -> None:
        """Move a key from where it stood to where it stands now."""
        was = () if old is None else self.of(old)
        now = () if new is None else self.of(new)
        if was == now:
            return
        groups: dict[str, set[str]] = getattr(index, self.name)
        for one in was:
            groups.get(one, set()).discard(key)
            if one in groups and not groups[one]:
                del groups[one]
        for one in filter(None, now):
            groups.setdefault(one, set()).add(key)


@dataclass(frozen=True)
class Held(Generic[R]):
    """The keys of which something is true."""

    name: str
    of: Callable[[R], bool]

    def note(self, index: Index, key: str, old: R | None, new: R | None) -> None:
        """Hold a key or let go of it."""
        keys: set[str] = getattr(index, self.name)
        if new is not None and self.of(new):
            keys.add(key)
        else:
            keys.discard(key)


@dataclass(frozen=True)
class Named(Generic[R]):
    """Maps a name to the key that took it last; "" is none."""

    name: str
    of: Callable[[R], str]

    def note(self, index: Index, key: str, old: R | None, new: R | None) -> None:
        """Give a key its name, or take its name from it."""
        keys: dict[str, str] = getattr(index, self.name)
        now = "" if new is None else self.of(new)
        was = "" if old is None else self.of(old)
        if was and was != now and keys.get(was) == key:
            del keys[was]
        if now:
            keys[now] = key


@dataclass(frozen=True)
class PerNamespace(Generic[R]):
    """What each namespace holds in sum; of what is over nothing.

    ``is_fixed``: neither owner nor amounts of a record change as long as there is one.
    """

    of: Callable[[R], Amounts]
    is_fixed: bool = False

    def note(self, index: Index, key: str, old: R | None, new: R | None) -> None:
        """Count what a record holds anew."""
        if old is not None and new is not None and (self.is_fixed or self._is_alike(old, new)):
            return
        for record, sign in ((old, -1), (new, 1)):
            if record is not None:
                _add(index.usage, record, self.of(record), sign)

    def _is_alike(self, old: Any, new: Any) -> bool:
        return old.owner == new.owner and self.of(old) == self.of(new)


def _add(usage: dict[str, Amounts], record: Any, amounts: Amounts, sign: int) -> None:
    namespace = record.owner.namespace
    held = usage.pop(namespace, NOTHING).plus(amounts, sign)
    if held != NOTHING:
        usage[namespace] = held


def held_by_job(spec: JobSpec) -> Amounts:
    """Return what a job holds until it is over."""
    count, each = spec.containers, spec.request
    return Amounts(jobs=1, cpu_m=count * each.cpu_m, memory_bytes=count * each.memory_bytes)


def held_by_container(request: Resources) -> Amounts:
    """Return what a container holds until it is removed."""
    return Amounts(containers=1, cpu_m=request.cpu_m, memory_bytes=request.memory_bytes)


def held_by_batch(spec: BatchSpec) -> Amounts:
    """Return what a batch holds until it is over: its tasks run on what is idle."""
    return Amounts(batches=1, tasks=spec.tasks)


def wanted_by_batch(spec: BatchSpec) -> Amounts:
    """Return what a batch comes to hold: the datasets that its inputs will be, too."""
    inputs = [stage.input for stage in spec.stages if stage.input is not None]
    size = sum(given.size_bytes for given in inputs) if spec.replicas > 1 else 0
    return held_by_batch(spec)._replace(dataset_bytes=size * spec.replicas)


def held_by_dataset(spec: DatasetSpec) -> Amounts:
    """Return what a dataset holds until it is removed: nothing where its blocks lie in HDFS."""
    return Amounts(dataset_bytes=0 if spec.is_external else spec.size_bytes * spec.replicas)


class Staged:
    """The tasks of each stage. Whoever drops tasks drops the whole stage."""

    def note(self, index: Index, key: str, old: Task | None, new: Task | None) -> None:
        """Count a task anew."""
        if new is not None:
            stage = index.tasks_by_stage.setdefault((new.batch, new.stage), StageTasks())
            stage.take(old, new)


def _ends_of(move: Migration) -> tuple[str, ...]:
    return () if move.is_over else (move.source, move.target)


def _begun(move: Migration) -> bool:
    return not move.is_over and move.step is not Step.QUEUED


def _owner_of(tombstone: Tombstone) -> tuple[str, ...]:
    return (tombstone.owner.partition("/")[0],) if tombstone.may_run else ()


#: By kind of record, what each index goes by.
INDEXED: dict[str, tuple[Derived, ...]] = {
    "nodes": (
        Held[Node]("removed", lambda node: node.is_removed),
        Held[Node]("orphaned", lambda node: bool(node.orphans) and not node.is_fenced),
        Held[Node]("unsized", lambda node: not node.is_sized),
    ),
    "jobs": (
        Held[Job]("open_jobs", lambda job: not job.is_over),
        Named[Job]("job_names", lambda job: "" if job.is_over else job.spec.name),
        PerNamespace[Job](lambda job: NOTHING if job.is_over else held_by_job(job.spec)),
    ),
    "executors": (
        Grouped[Executor]("executors", lambda one: (one.place,)),
        Grouped[Executor]("of_job", lambda executor: (executor.job,)),
    ),
    "services": (
        Grouped[Service]("services", lambda one: (one.place,)),
        Held[Service]("unplaced", lambda one: one.state in UNPLACED_SERVICE),
        Named[Service](
            "names", lambda one: "" if one.state is ContainerState.REMOVED else one.name
        ),
        PerNamespace[Service](
            lambda one: (
                NOTHING if one.state is ContainerState.REMOVED else held_by_container(one.request)
            )
        ),
    ),
    "deployments": (PerNamespace[Deployment](lambda one: Amounts(services=1), is_fixed=True),),
    "migrations": (
        Held[Migration]("moves", lambda move: not move.is_over),
        Held[Migration]("begun", _begun),
        Named[Migration]("move_of", lambda move: "" if move.is_over else move.container),
        Grouped[Migration]("moves_at", _ends_of),
    ),
    "tombstones": (
        Grouped[Tombstone]("tombstones", lambda one: (one.node,)),
        Grouped[Tombstone]("tombstones_of", lambda one: (one.owner,)),
        Grouped[Tombstone]("tombstoned", _owner_of),
    ),
    "tasks": (Grouped[Task]("tasks", lambda task: (task.place,)), Staged()),
    "batches": (
        Held[Batch]("open_batches", lambda batch: not batch.is_over),
        PerNamespace[Batch](lambda batch: NOTHING if batch.is_over else held_by_batch(batch.spec)),
    ),
    # to add up ten thousand files takes too long for each of its blocks
    "datasets": (
        PerNamespace[Dataset](lambda dataset: held_by_dataset(dataset.spec), is_fixed=True),
    ),
    "runs": (Held[Run]("open_runs", lambda run: not run.is_over),),
    "drains": (Held[Drain]("open_drains", lambda drain: not drain.is_over),),
    "intervals": (Named[Interval]("interval", lambda row: row.node if row.off_us is None else ""),),
    "stays": (Grouped[Stay]("stays", lambda stay: (stay.node,)),),
}
