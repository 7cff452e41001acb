"""What of the fleet a caller sees: the one place where namespaces bound what is read.

Handlers read through ``Call.backend`` alone. A caller that is bound to a namespace is given a
backend in which only that namespace is, and those that the operator lets it read: the rest is
absent from tables, so it is 404, in no list, and in no sum. What is not known to be safe is empty
or refused. Nodes are everybody's: what they are, and how full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, NoReturn, Protocol, TypeVar, cast

from tenure.api.requests.backend import Backend, Health, Steps
from tenure.api.views.namespaces import NamespaceView
from tenure.core.state.tables import Table, Tables
from tenure.model.accesspolicy import Permits, allows
from tenure.model.container import Profile, Service
from tenure.model.energy import EnergyReport, NodeEnergy
from tenure.model.errors import Forbidden
from tenure.model.job import Executor
from tenure.model.jsons import Json
from tenure.model.node import Node
from tenure.model.roles import Caller, Owner

R = TypeVar("R")
#: What says nothing of others: it is asked about a record that was found, or tells of nodes.
PLAIN = frozenset(
    (
        *("now_us", "ask", "wait_event", "first_seq", "last_seq"),
        *("agent", "cycles", "loads", "offer", "plan_job", "tiers", "uploads"),
        *("cut", "cut_dataset", "dataset_files", "hdfs_files"),
        *("batch_output", "batch_waits", "container_logs", "explain_executor", "explain_task"),
        *("block", "block_count", "dataset_content", "holdings", "places", "shelved"),
    )
)
#: What tells of the whole fleet, and of the containers in it by their names.
WHOLE = frozenset(("snapshot", "forecast", "node_usage", "orphans", "metrics", "events_after"))
#: Of how a node's harvest controller is: what names no container.
_NUMBERS = ("numbers", "quota_m", "fault")


def seen_by(caller: Caller | None, permits: Permits, whole: Backend) -> Backend:
    """Return the backend as a caller sees it; None is asked by open routes, which show nothing."""
    shown = None if caller is None else permits.seen_by(caller)
    return whole if caller is None or shown is None else _bound(whole, caller.namespace, shown)


def _bound(whole: Backend, namespace: str, shown: tuple[str, ...]) -> Backend:
    return cast("Backend", BoundBackend(whole, namespace, shown))


class _Owned(Protocol):
    @property
    def owner(self) -> Owner: ...


class _Shown(Table[R]):
    """The rows of a table that are shown, as they are shown; nothing is stored in it."""

    def __init__(self, whole: Table[R], shows: Callable[[str, R], bool]) -> None:
        self._whole, self._shows = whole, shows

    def __len__(self) -> int:
        return sum(1 for _ in self.items())

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def __getitem__(self, key: str) -> R:
        row = self.get(key)
        if row is None:
            raise KeyError(key)
        return row

    def get(self, key: str) -> R | None:
        """Return the record or None."""
        row = self._whole.get(key)
        return row if row is not None and self._shows(key, row) else None

    def values(self) -> Iterator[R]:
        """Iterate the records in the order of their first insertion."""
        shows = self._shows
        return (row for key, row in self._whole.items() if shows(key, row))

    def items(self) -> Iterator[tuple[str, R]]:
        """Iterate key and record."""
        shows = self._shows
        return ((key, row) for key, row in self._whole.items() if shows(key, row))


class _Seen(dict[str, bool]):
    """Whether each namespace is shown, found out once: it is asked for each row of a listing."""

    def __init__(self, own: str, patterns: tuple[str, ...]) -> None:
        super().__init__({own: True})
        self._patterns = patterns

    def __missing__(self, namespace: str) -> bool:
        found = self[namespace] = allows(self._patterns, namespace)
        return found


class _Nodes(_Shown[Node]):
    """All nodes, without the images that they hold, which have names of whoever uses them."""

    def get(self, key: str) -> Node | None:
        """Return the record or None."""
        row = self._whole.get(key)
        return None if row is None else replace(row, images=())

    def values(self) -> Iterator[Node]:
        """Iterate the records in the order of their first insertion."""
        return (row for _, row in self.items())

    def items(self) -> Iterator[tuple[str, Node]]:
        """Iterate key and record."""
        return ((key, replace(row, images=())) for key, row in self._whole.items())


class BoundBackend:
    """The backend as callers see it who are bound to a namespace.

    ``shown`` are patterns of the other namespaces that they see. Of ``Backend`` it has ``PLAIN`` as
    it is, refuses ``WHOLE``, and narrows the rest.
    """

    def __init__(self, whole: Backend, namespace: str, shown: tuple[str, ...]) -> None:
        self._whole, self._namespace = whole, namespace
        self._sees = _Seen(namespace, shown)

    def __getattr__(self, name: str) -> Any:
        if name in WHOLE:
            return self._refuse
        if name in PLAIN:
            return getattr(self._whole, name)
        raise AttributeError(name)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        told = f"this shows the whole fleet, and you see the namespace {self._namespace}; "
        told += "ask somebody of the role operate"
        raise Forbidden(told, code="not_yours", extra={"namespace_held": self._namespace})

    # records

    @cached_property
    def tables(self) -> Tables:
        """The records that are shown; kinds that are not named here have none."""
        whole = self._whole.tables
        sees = self._sees

        def is_shown(key: str, row: _Owned) -> bool:
            return sees[row.owner.namespace]

        jobs, batches = _Shown(whole.jobs, is_shown), _Shown(whole.batches, is_shown)
        services = _Shown(whole.services, is_shown)
        return Tables(
            nodes=_Nodes(whole.nodes, lambda key, row: True),
            jobs=jobs,
            batches=batches,
            services=services,
            deployments=_Shown(whole.deployments, is_shown),
            datasets=_Shown(whole.datasets, is_shown),
            executors=_Shown(whole.executors, lambda key, row: row.job in jobs),
            tasks=_Shown(whole.tasks, lambda key, row: row.batch in batches),
            migrations=_Shown(whole.migrations, lambda key, row: row.container in services),
            schedules=_Shown(whole.schedules, lambda key, row: key in batches),
            starts=_Shown(whole.starts, lambda key, row: key.partition("/")[0] in batches),
            answers=whole.answers,  # asked by keys alone, which begin with their namespace
        )

    def shows(self, key: str) -> bool:
        """Whether the record of this key, or the one that it is a part of, is shown."""
        first = key.partition("/")[0]
        tables = self.tables
        # not services: people choose their names, which may be those of nodes
        kinds = (tables.jobs, tables.batches, tables.services, tables.datasets)
        return any(first in kind for kind in kinds)

    # answers

    def explain(self, job_id: str) -> Json:
        """Return why a job is where it is; of those ahead of it its own."""
        found = self._whole.explain(job_id)
        if "ahead" in found:
            found["ahead"] = [key for key in found["ahead"] if self.shows(key)]
        return found

    def aboard(self, node: str) -> tuple[list[Executor], list[Service]]:
        """Return the executors and containers on a node that are shown."""
        executors, services = self._whole.aboard(node)
        return (
            [one for one in executors if one.job in self.tables.jobs],
            [one for one in services if self._sees[one.owner.namespace]],
        )

    def drain(self, node: str, *, is_dry: bool = False) -> None:
        """Return nothing: a drain tells of all that is on its node."""

    def harvest(self, node: str) -> Json | None:
        """Return how a node's harvest controller is, in numbers."""
        found = self._whole.harvest(node)
        return None if found is None else {key: found[key] for key in _NUMBERS if key in found}

    def lending(self, node: str) -> tuple[Json, str]:
        """Return why no more tasks may begin on a node; not whose there are."""
        return {}, self._whole.lending(node)[1]

    def usage(self) -> dict[str, Profile]:
        """Return the profiles of containers that are shown."""
        return {key: one for key, one in self._whole.usage().items() if self.shows(key)}

    def cost(self, since_us: int, until_us: int) -> Steps[Json]:
        """Return what jobs that are shown cost, and no more."""
        report = yield from self._whole.cost(since_us, until_us)
        jobs = {key: nano for key, nano in report["by_job"].items() if self.shows(key)}
        return {"total": sum(jobs.values()), "services": 0, "idle": 0, "by_job": jobs}

    async def energy(self, since_us: int, until_us: int) -> EnergyReport:
        """Return what containers that are shown drew, and no more."""
        report = await self._whole.energy(since_us, until_us)
        names = {key: name for key, name in report.names.items() if self.shows(key)}
        return replace(report, nodes=[self._part(node) for node in report.nodes], names=names)

    def _part(self, node: NodeEnergy) -> NodeEnergy:
        shares = {key: share for key, share in node.shares.items() if self.shows(key)}
        rest = replace(node, shares=shares, by_generation={}, measured_uj=0)
        return replace(rest, foreign_uj=0, idle_uj=0, boot_uj=0, off_uj=0)

    def namespaces(self) -> list[NamespaceView]:
        """Return the namespaces that are shown."""
        return [row for row in self._whole.namespaces() if self._sees[row["name"]]]

    def health(self) -> Health:
        """Return whether the daemon serves; not which nodes and records ail."""
        return {**self._whole.health(), "reasons": [], "degraded": {}, "parts": {}}
