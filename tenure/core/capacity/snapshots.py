"""The snapshot: what policies see of the nodes, kept between events.

An event touches a few nodes, a scheduling pass looks at all. So each node has a place in arrays,
and only nodes on which something changed (``NodeSnapshot.stale``) are read again. What depends on
the time is worked out of the arrays whenever the snapshot is looked at. ``problem`` compares a
snapshot with one that was just made; the simulated fleet asks it after every batch. Owns
``NodeSnapshot``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tenure.core.capacity import ledger, room
from tenure.core.capacity.releases import Occupants, settled
from tenure.core.state.context import Context
from tenure.core.state.owned import Change, Owned
from tenure.model.arrays import np
from tenure.model.job import Constraint, Job, JobSpec
from tenure.model.node import Node, Power
from tenure.model.placing import NEVER, Ask, Bools, ClusterView, Ints, Queued, Running
from tenure.model.units import FOREVER_US

#: Kinds of jobs (constraints, image, nodes avoided) whose nodes are remembered.
MAX_KINDS = 256
#: Jobs that wait no more are forgotten when so many more are remembered than wait.
SPARE_ASKS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """All nodes at this moment, as records and as arrays, in the order of their names.

    ``usable`` marks nodes that take new work now, ``serving`` those that would once they are on,
    ``welcome`` those that operators and configuration let new work go to; ``running`` is what gives
    back room.
    """

    nodes: tuple[Node, ...]
    view: ClusterView
    position: dict[str, int]
    usable: Bools
    serving: Bools
    welcome: Bools
    running: Running


@dataclass(slots=True)
class Columns:
    """One entry a node. ``ready_us`` is when a booting node is up, ``retry_us`` when it may.

    ``billed_us`` is when its minimum billing period ends. What is free is negative where more was
    given out than a node has.
    """

    free_cpu_m: Ints
    free_memory: Ints
    capacity_cpu_m: Ints
    capacity_memory: Ints
    price: Ints
    boot_us: Ints
    reboot_us: Ints
    min_billing_us: Ints
    billed_us: Ints
    ready_us: Ints
    retry_us: Ints
    is_on: Bools
    is_cloud: Bools
    is_booting: Bools
    is_kept_on: Bools
    is_usable: Bools
    is_serving: Bools
    is_welcome: Bools


@dataclass(slots=True)
class Kind:
    """Jobs to which filters say the same: ``job`` is one of them, ``passes`` (n,) the answer.

    ``serving`` is the nodes among these that would serve it, as of the snapshot's ``turn``.
    """

    job: Job
    passes: Bools
    serving: Bools
    turn: int


@dataclass(slots=True)
class Row:
    """A waiting job as policies see it, true while ``spec`` and ``serving`` are the same."""

    spec: JobSpec
    serving: Bools
    queued: Queued
    turn: int


KindKey = tuple[tuple[Constraint, ...], tuple[str, ...], str, bool, bool]


class NodeSnapshot(Owned):
    """Arrays over the nodes, and what was worked out from them.

    ``stale`` nodes are to be read anew, and those of the executors of changed jobs.
    """

    hears = frozenset((Change.NODE, Change.LOAD, Change.COST, Change.GONE, Change.JOB))
    is_derived = True

    def __init__(self) -> None:
        self.stale: set[str] = set()
        self._stale_jobs: set[str] = set()
        self._is_made = False
        self._names: list[str] = []
        self._nodes: list[Node] = []
        self._position: dict[str, int] = {}
        self._columns = _blank(0)
        self._occupants = Occupants()
        self._kinds: dict[KindKey, Kind] = {}
        self._asks: dict[str, Row] = {}
        self._turn = 0
        self._filter_turn = 0
        self._scene: tuple[int, Scene] | None = None

    def scene(self, ctx: Context) -> Scene:
        """Return all nodes as they are now; the same object until an event changes them."""
        self._refresh(ctx)
        if self._scene is None or self._scene[0] != ctx.now_us:
            self._scene = ctx.now_us, self._look(ctx)
        return self._scene[1]

    def hear(self, change: Change, key: str) -> None:
        """Have a node, or the nodes of a job, read anew."""
        if change is Change.JOB:
            self._stale_jobs.add(key)
        else:
            self.stale.add(key)

    def _refresh(self, ctx: Context) -> None:
        if not self._is_made:
            self._is_made = True
            self.stale = {node.name for node in ctx.tables.nodes.values()}
        for key in self._stale_jobs:
            for one in ctx.index.of_job.get(key, ()):
                executor = ctx.tables.executors[one]
                if executor.node:
                    self.stale.add(executor.node)
        self._stale_jobs.clear()
        if not self.stale:
            return
        stale, self.stale = self.stale, set()
        is_known = all((name in self._position) == (name in ctx.tables.nodes) for name in stale)
        if not is_known:
            self._rebuild(ctx)
            stale = set(self._names)
        for name in stale:
            if name in self._position:
                self._read(ctx, name)
        self._turn += 1
        self._scene = None

    def _rebuild(self, ctx: Context) -> None:
        self._names = sorted(node.name for node in ctx.tables.nodes.values())
        self._position = {name: i for i, name in enumerate(self._names)}
        self._nodes = [ctx.tables.nodes[name] for name in self._names]
        self._columns = _blank(len(self._names))
        self._occupants = Occupants()
        self._kinds, self._asks = {}, {}
        self._filter_turn += 1

    def _read(self, ctx: Context, name: str) -> None:
        """Read one node from the records: O(what is on it)."""
        i, node, at = self._position[name], ctx.tables.nodes[name], self._columns
        load = room.load_on(ctx, name)
        whole = node.capacity - load.rest
        free, most = whole - load.executors, whole + load.leaving
        at.free_cpu_m[i], at.free_memory[i] = free.cpu_m, free.memory_bytes
        at.capacity_cpu_m[i], at.capacity_memory[i] = (
            max(0, most.cpu_m),
            max(0, most.memory_bytes),
        )
        boot_us = node.spec.power.boot_us
        at.price[i] = node.spec.price_nano_per_h
        at.reboot_us[i] = boot_us if node.is_switchable else NEVER
        at.min_billing_us[i] = node.spec.power.min_billing_us
        at.billed_us[i] = ledger.billed_us(ctx, name)
        at.is_booting[i] = node.power is Power.BOOTING
        at.is_on[i] = node.power in (Power.ON, Power.BOOTING)
        at.boot_us[i] = 0 if at.is_on[i] else boot_us
        at.ready_us[i] = node.power_since_us + boot_us
        at.retry_us[i] = room.retry_us(node)
        at.is_cloud[i] = node.spec.site == "cloud"
        at.is_kept_on[i] = not node.is_switchable or load.has_services
        at.is_usable[i] = room.is_usable(node, room.retry_us(node)) == ""
        is_welcome = room.is_welcome(node)
        at.is_serving[i] = is_welcome and not room.is_away(node)
        self._filter_turn += int(at.is_welcome[i] != is_welcome or self._nodes[i] is not node)
        at.is_welcome[i] = is_welcome
        self._nodes[i] = node
        self._occupants.read(ctx, name, i)
        allowed = ctx.params.job_generations()
        for kind in self._kinds.values():
            kind.passes[i] = not room.never_for(kind.job, node, allowed)

    def _look(self, ctx: Context) -> Scene:
        at, now_us = self._columns, ctx.now_us
        boot_us = np.where(at.is_booting, np.maximum(at.ready_us - now_us, 0), at.boot_us)
        running = settled(self._occupants.running(boot_us, now_us), at.free_cpu_m, at.free_memory)
        off_us = at.billed_us.copy()
        np.maximum.at(off_us, running.node, running.end_us)
        remaining_us = np.where(at.is_kept_on, FOREVER_US, np.maximum(off_us - now_us, 0))
        view = ClusterView(
            names=tuple(self._names),
            free_cpu_m=np.maximum(at.free_cpu_m, 0),
            free_memory=np.maximum(at.free_memory, 0),
            capacity_cpu_m=at.capacity_cpu_m.copy(),
            capacity_memory=at.capacity_memory.copy(),
            price=at.price.copy(),
            remaining_us=remaining_us,
            is_on=at.is_on.copy(),
            is_cloud=at.is_cloud.copy(),
            boot_us=boot_us,
            reboot_us=at.reboot_us.copy(),
            min_billing_us=at.min_billing_us.copy(),
        )
        usable = at.is_usable & (at.retry_us <= now_us)
        serving = at.is_serving.copy()
        welcome = at.is_welcome.copy()
        return Scene(tuple(self._nodes), view, self._position, usable, serving, welcome, running)

    def filter_turn(self, ctx: Context) -> int:
        """Return a number that is the same as long as filters say the same of all nodes."""
        self._refresh(ctx)
        return self._filter_turn

    # jobs

    def passes(self, ctx: Context, job: Job) -> Bools:
        """Return the nodes (n,) that no filter keeps from the job for good; do not change it."""
        return self._kind(ctx, job).passes

    def _kind(self, ctx: Context, job: Job) -> Kind:
        spec = job.spec
        image = "" if spec.is_pullable else spec.image
        is_spark, is_reader = spec.spark is not None, spec.dataset is not None
        key = spec.constraints, job.avoid, image, is_spark, is_reader
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= MAX_KINDS:
                self._kinds.clear()
            allowed = ctx.params.job_generations()
            passes = np.array(
                [not room.never_for(job, n, allowed) for n in self._nodes], dtype=np.bool_
            )
            serving = passes & self._columns.is_serving
            kind = self._kinds[key] = Kind(job, passes, serving, self._turn)
        elif kind.turn != self._turn:
            serving = kind.passes & self._columns.is_serving
            if not np.array_equal(serving, kind.serving):
                kind.serving = serving
            kind.turn = self._turn
        return kind

    def queued(self, ctx: Context, jobs: Sequence[Job]) -> list[Queued]:
        """Return jobs as the admission test sees them; the same objects until nodes change."""
        if len(self._asks) > 2 * len(ctx.index.waiting_jobs) + SPARE_ASKS:
            self._asks = {
                key: row for key, row in self._asks.items() if key in ctx.index.waiting_jobs
            }
        asks, turn, found = self._asks, self._turn, []
        for job in jobs:
            row = asks.get(job.id)
            if row is None or row.turn != turn or row.spec is not job.spec:
                row = asks[job.id] = self._row(ctx, job, row)
            found.append(row.queued)
        return found

    def _row(self, ctx: Context, job: Job, kept: Row | None) -> Row:
        serving = self._kind(ctx, job).serving
        if kept is not None and kept.spec is job.spec and kept.serving is serving:
            kept.turn = self._turn
            return kept
        ask = room.ask_of(ctx, job, serving)
        return Row(job.spec, serving, Queued(ask, job.spec.policy), self._turn)

    # the check

    def problem(self, ctx: Context) -> str:
        """Return in what the snapshot differs from one made from the records now, or ""."""
        mine, fresh = self.scene(ctx), _fresh(ctx)
        for field in fields(ClusterView):
            name = field.name
            if not _is_same(getattr(mine.view, name), getattr(fresh.view, name)):
                return f"{name}: {getattr(mine.view, name)}, should be {getattr(fresh.view, name)}"
        for name in ("nodes", "position", "usable", "serving", "welcome"):
            if not _is_same(getattr(mine, name), getattr(fresh, name)):
                return f"{name}: {getattr(mine, name)}, should be {getattr(fresh, name)}"
        mismatch = self._ends_problem(ctx, mine)
        return mismatch or self._asks_problem(ctx, mine)

    def _ends_problem(self, ctx: Context, mine: Scene) -> str:
        due, free = [], []
        for i, node in enumerate(mine.nodes):
            for executor in ctx.executors_on(node.name):
                need = ctx.tables.jobs[executor.job].spec.request
                end_us = room.end_estimate_us(ctx, executor)
                due.append((i, need.cpu_m, need.memory_bytes, end_us))
            going = [
                tombstone.request for tombstone in ctx.tombstones_on(node.name) if tombstone.may_run
            ]
            due += [(i, need.cpu_m, need.memory_bytes, 0) for need in going]
            left = room.free_on(ctx, node)
            free.append((left.cpu_m, left.memory_bytes))
        columns = np.array(due, dtype=np.int64).reshape(-1, 4).T
        rooms = np.array(free, dtype=np.int64).reshape(-1, 2).T
        wanted = _rows(settled(Running(*columns), *rooms))
        found = _rows(mine.running)
        return "" if found == wanted else f"running: {found}, should be {wanted}"

    def _asks_problem(self, ctx: Context, mine: Scene) -> str:
        allowed = ctx.params.job_generations()
        for key in ctx.index.waiting_jobs:
            job = ctx.tables.jobs[key]
            passes = [not room.never_for(job, node, allowed) for node in mine.nodes]
            if self.passes(ctx, job).tolist() != passes:
                return f"filters of {key}: should be {passes}"
            serving = np.array(passes, dtype=np.bool_) & mine.serving
            (queued,) = self.queued(ctx, [job])
            ask, due = queued.ask, room.ask_of(ctx, job, serving)
            if replace(ask, eligible=serving) != due or ask.eligible.tolist() != serving.tolist():
                return f"ask: {ask}, should be {due}"
        return ""


def _is_same(one: Any, other: Any) -> bool:
    """Whether two parts of scenes are the same; lists of few numbers are compared far sooner."""
    return bool(one.tolist() == other.tolist() if isinstance(one, np.ndarray) else one == other)


def _rows(running: Running) -> list[tuple[int, ...]]:
    columns = (getattr(running, field.name).tolist() for field in fields(Running))
    return sorted(zip(*columns, strict=True))


def snapshot_of(ctx: Context) -> NodeSnapshot:
    """Return the snapshot of a fleet, made when first asked for."""
    return ctx.own(NodeSnapshot)


def scene(ctx: Context) -> Scene:
    """Return all nodes as policies see them now."""
    return snapshot_of(ctx).scene(ctx)


def filter_turn(ctx: Context) -> int:
    """Return a number that is the same as long as filters say the same of all nodes."""
    return snapshot_of(ctx).filter_turn(ctx)


def ask_now(ctx: Context, job: Job, executors: int = 0) -> Ask:
    """Return a job as a policy sees it now; ``executors`` 0 means all of them."""
    usable = scene(ctx).usable
    return room.ask_of(ctx, job, usable & snapshot_of(ctx).passes(ctx, job), executors)


def queued(ctx: Context, jobs: Sequence[Job]) -> list[Queued]:
    """Return jobs as the admission test sees them: nodes that are busy switching count."""
    scene(ctx)
    return snapshot_of(ctx).queued(ctx, jobs)


def _fresh(ctx: Context) -> Scene:
    """Return the scene as nobody remembered anything."""
    kept = ctx.own(room.Loads)
    ctx.put_own(room.Loads())
    try:
        return NodeSnapshot().scene(ctx)
    finally:
        ctx.put_own(kept)


def _blank(nodes: int) -> Columns:
    ints: list[Ints] = [np.zeros(nodes, dtype=np.int64) for _ in range(11)]
    bools: list[Bools] = [np.zeros(nodes, dtype=np.bool_) for _ in range(7)]
    columns: list[Any] = [*ints, *bools]
    return Columns(*columns)
