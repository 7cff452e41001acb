"""How it is shown what nodes and containers use now: the busiest of them, in one short answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest

from typing_extensions import TypedDict

from tenure.api.handlers.occupancy import Occupancy, occupancy
from tenure.api.requests.backend import Backend, Steps
from tenure.api.schemas.queries import TopQuery
from tenure.api.views.nodes import ResourcesView
from tenure.api.views.render import moment, render
from tenure.core.state.tables import Tables
from tenure.model.batch import Task
from tenure.model.container import Service
from tenure.model.job import Executor
from tenure.model.load import Load, Loads, NodeLoad
from tenure.model.node import Node, Power, Reach
from tenure.model.resources import Resources
from tenure.model.units import US, iso

#: So many containers are gathered before the busiest of them are chosen.
STRIDE = 500
DIMENSION = {
    "cpu": "cpu_m",
    "memory": "memory_bytes",
    "disk": "disk_bytes_per_s",
    "net": "net_bytes_per_s",
}


class LentView(TypedDict):
    """What tasks of batches use of a node, and may at most, as its agent told last.

    null: not told, or no limit. ``tasks`` counts those on the node that are not over.
    """

    cpus: float | None
    limit_cpus: float | None
    tasks: int
    fault: str


class NodeTopView(TypedDict):
    """A node; ``used`` null: it is off, does not answer, or was not measured yet.

    ``is_stale``: ``used`` is older than three samples. ``unsampled`` containers run and have no
    sample yet. ``lent`` null: it lends nothing. ``watts_source`` is measured, modelled, or unknown
    (no watts stated, or its use is not known).
    """

    name: str
    generation: str
    site: str
    state: str
    capacity: ResourcesView
    requested: ResourcesView
    used: ResourcesView | None
    sampled_at: str | None
    is_stale: bool
    executors: int
    containers: int
    unsampled: int
    lent: LentView | None
    watts: float | None
    watts_source: str


class ContainerTopView(TypedDict):
    """A container, executor or task (``kind``) with its last sample.

    Dimensions outside ``observed`` were not measured.
    """

    id: str
    name: str
    kind: str
    app: str
    node: str
    used: ResourcesView
    observed: list[str]
    requested: ResourcesView
    sampled_at: str | None
    is_stale: bool


class FleetTopView(TypedDict):
    """Sums over all nodes asked for, shown or not: those that are on, and of use those measured.

    ``sampled`` containers have a sample. ``watts`` null: known of no node; else of ``watts_nodes``.
    """

    nodes: int
    by_state: dict[str, int]
    capacity: ResourcesView
    requested: ResourcesView
    used: ResourcesView
    measured_nodes: int
    stale_nodes: int
    sampled: int
    unsampled: int
    lent_cpus: float
    watts: float | None
    watts_nodes: int


class TopView(TypedDict):
    """What is used at ``at``; a sample comes every ``interval_s``."""

    at: str | None
    interval_s: float
    fleet: FleetTopView
    nodes: list[NodeTopView]
    containers: list[ContainerTopView]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A node with what is known of its use; ``load`` None: nothing is."""

    node: Node
    here: Occupancy
    load: NodeLoad | None
    is_stale: bool

    @property
    def used(self) -> Resources | None:
        return None if self.load is None else self.load.used

    @property
    def watts(self) -> tuple[float | None, str]:
        """Return what it draws, and whether that is measured, modelled or unknown."""
        if self.load is not None and self.load.measured_w is not None and not self.is_stale:
            return self.load.measured_w, "measured"
        spec, power = self.node.spec.power, self.node.power
        peak_w = max(spec.idle_w, spec.peak_w)
        if not peak_w:
            return None, "unknown"
        if power is Power.OFF:
            return spec.off_w, "modelled"
        if power is Power.BOOTING:
            return peak_w, "modelled"
        if self.used is None or not self.node.capacity.cpu_m:
            return None, "unknown"
        busy_ratio = min(1.0, self.used.cpu_m / self.node.capacity.cpu_m)
        return spec.idle_w + busy_ratio * (peak_w - spec.idle_w), "modelled"


@dataclass(frozen=True, slots=True)
class _Row:
    """A container that was sampled on a node."""

    key: str
    node: str
    load: Load


def top(backend: Backend, query: TopQuery) -> Steps[TopView]:
    """Return the busiest nodes and containers; each step is one node's."""
    loads, now_us, tables = backend.loads(), backend.now_us(), backend.tables
    seen: list[_Seen] = []
    rows: list[_Row] = []
    total, order = _Total(), partial(_container_order, tables, query.sort)
    for node in list(tables.nodes.values()):
        if query.generation not in (None, node.spec.generation) or query.node not in (
            None,
            node.name,
        ):
            continue
        one = _seen(backend, node, loads, now_us)
        seen.append(one)
        total.add(one, _lent_m(backend.harvest(node.name)))
        rows += _rows(tables, one)
        if len(rows) > STRIDE + query.containers:
            rows = nsmallest(query.containers, rows, key=order)
        yield
    shown: list[NodeTopView] = []
    for one in nsmallest(query.nodes, seen, key=partial(_node_order, query.sort)):
        shown.append(_node_view(backend, one))
        yield
    busiest: list[ContainerTopView] = []
    for row in nsmallest(query.containers, rows, key=order):
        busiest.append(_container_view(tables, row, loads, now_us))
        yield
    return TopView(
        at=iso(now_us),
        interval_s=loads.interval_us / US,
        fleet=total.view(),
        nodes=shown,
        containers=busiest,
    )


def _seen(backend: Backend, node: Node, loads: Loads, now_us: int) -> _Seen:
    is_there = node.power is Power.ON and node.reach is Reach.OK
    load = loads.nodes.get(node.name) if is_there else None
    is_stale = load is not None and loads.is_stale(load.taken_us, now_us)
    return _Seen(node, occupancy(backend, node.name), load, is_stale)


def _rows(tables: Tables, one: _Seen) -> Iterator[_Row]:
    """Yield the sampled containers that are on their node still."""
    node = one.node.name
    for key, load in one.load.containers.items() if one.load is not None else ():
        found = _record(tables, key)
        if found is not None and found.node == node:
            yield _Row(key, node, load)


def _record(tables: Tables, key: str) -> Service | Executor | Task | None:
    return tables.services.get(key) or tables.executors.get(key) or tables.tasks.get(key)


def _container_order(tables: Tables, sort: str, row: _Row) -> tuple[int | str, str]:
    """Return where a container comes: most first, and what is not observed last."""
    if sort == "name":
        return _name(tables, row.key), row.key
    name = DIMENSION[sort]
    is_known = name in row.load.observed
    return -getattr(row.load.use, name) if is_known else 1, row.key


def _node_order(sort: str, one: _Seen) -> tuple[float, str]:
    """Return where a node comes: most first, of cpu and memory by share, unknown ones last."""
    if sort == "name":
        return 0, one.node.name
    if one.used is None:
        return 1, one.node.name
    name = DIMENSION[sort]
    whole = getattr(one.node.capacity, name) if sort in ("cpu", "memory") else 1
    return -getattr(one.used, name) / max(1, whole), one.node.name


def _number(status: Mapping[str, object], name: str) -> int | None:
    """Return a number of an agent's status, which may hold anything."""
    found = status.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _lent_m(status: Mapping[str, object] | None) -> int | None:
    """Return what tasks use of a node, thousandths of a core, None where that is not told."""
    numbers = {} if status is None or status.get("fault") else status.get("numbers")
    return _number(numbers, "harvest_cpu_m") if isinstance(numbers, Mapping) else None


def _lent_view(backend: Backend, node: str) -> LentView | None:
    status = backend.harvest(node)
    if status is None:
        return None
    used_m, quota_m = _lent_m(status), _number(status, "quota_m")
    return LentView(
        cpus=None if used_m is None else used_m / 1000,
        limit_cpus=None if quota_m is None or status.get("fault") else quota_m / 1000,
        tasks=sum(backend.lending(node)[0].values()),
        fault=str(status.get("fault") or ""),
    )


def _node_view(backend: Backend, one: _Seen) -> NodeTopView:
    node, (watts, source) = one.node, one.watts
    return NodeTopView(
        name=node.name,
        generation=node.spec.generation,
        site=node.spec.site.value,
        state=node.word,
        capacity=render(ResourcesView, node.capacity),
        requested=render(ResourcesView, one.here.requested),
        used=None if one.used is None else render(ResourcesView, one.used),
        sampled_at=None if one.load is None else moment(one.load.taken_us),
        is_stale=one.is_stale,
        executors=one.here.executors,
        containers=one.here.containers,
        unsampled=0 if one.load is None else one.load.unsampled,
        lent=_lent_view(backend, node.name),
        watts=watts,
        watts_source=source,
    )


def _container_view(tables: Tables, row: _Row, loads: Loads, now_us: int) -> ContainerTopView:
    kind, app, request = _facts(tables, row.key)
    return ContainerTopView(
        id=row.key,
        name=_name(tables, row.key),
        kind=kind,
        app=app,
        node=row.node,
        used=render(ResourcesView, row.load.use),
        observed=list(row.load.observed),
        requested=render(ResourcesView, request),
        sampled_at=moment(row.load.taken_us),
        is_stale=loads.is_stale(row.load.taken_us, now_us),
    )


def _name(tables: Tables, key: str) -> str:
    """Return what people call a container: its name, or ``job/index``."""
    service = tables.services.get(key)
    if service is not None:
        return service.name
    work, _, index = key.rpartition("/")
    owner = tables.jobs.get(work) or tables.batches.get(work)
    return f"{(owner.spec.name if owner else '') or work}/{index}"


def _facts(tables: Tables, key: str) -> tuple[str, str, Resources]:
    """Return kind, app and request of a container."""
    service, task = tables.services.get(key), tables.tasks.get(key)
    if service is not None:
        return "container", service.app, service.request
    batch = tables.batches.get(key.rpartition("/")[0])
    if task is not None and batch is not None:
        return "task", batch.spec.name, batch.spec.stage(task.stage).request
    job = tables.jobs.get(key.rpartition("/")[0])
    return ("executor", job.spec.app, job.spec.request) if job else ("executor", "", Resources())


class _Total:
    """Sums over nodes."""

    def __init__(self) -> None:
        self._states: Counter[str] = Counter()
        self._capacity = self._requested = self._used = Resources()
        self._measured = self._stale = self._sampled = self._unsampled = self._lent_m = 0
        self._watts: list[float] = []

    def add(self, one: _Seen, lent_m: int | None) -> None:
        """Count a node."""
        self._states[one.node.word] += 1
        self._requested += one.here.requested
        if one.node.power is Power.ON:
            self._capacity += one.node.capacity
        if one.load is not None:
            self._sampled += len(one.load.containers)
            self._unsampled += one.load.unsampled
            self._stale += one.is_stale
        if one.used is not None:
            self._used += one.used
            self._measured += 1
        self._lent_m += lent_m or 0
        watts, _ = one.watts
        if watts is not None:
            self._watts.append(watts)

    def view(self) -> FleetTopView:
        """Return the sums."""
        return FleetTopView(
            nodes=sum(self._states.values()),
            by_state=dict(sorted(self._states.items())),
            capacity=render(ResourcesView, self._capacity),
            requested=render(ResourcesView, self._requested),
            used=render(ResourcesView, self._used),
            measured_nodes=self._measured,
            stale_nodes=self._stale,
            sampled=self._sampled,
            unsampled=self._unsampled,
            lent_cpus=self._lent_m / 1000,
            watts=sum(self._watts) if self._watts else None,
            watts_nodes=len(self._watts),
        )
