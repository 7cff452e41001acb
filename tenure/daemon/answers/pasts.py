"""What owners of a node used in the past: what forecasts are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure.api.views.lazy import Pairs, Rows
from tenure.core.capacity.room import IDLE_SERVICE
from tenure.core.state.context import Context
from tenure.model.container import Service
from tenure.model.resources import Resources
from tenure.model.units import US, iso
from tenure.profiling.io.store import HISTORY_US, StatsStore
from tenure.profiling.readings.sample import UseSeries

#: A container that lacks more buckets than these (an hour) has the past of its app beside its own.
LACKING = 12
#: Pasts of apps that are kept, some 100 KiB each.
MAX_APPS = 200


@dataclass(frozen=True, slots=True)
class _Use:
    service: Service
    series: UseSeries


class Pasts:
    """Reads what was used where. A worker asks node after node for one span of time, so the pasts
    of apps, which have containers on many nodes, are kept until another span is asked for.
    """

    def __init__(self, ctx: Context, stats: StatsStore) -> None:
        self._ctx, self._stats = ctx, stats
        self._span_us = (0, 0)
        self._apps: dict[str, UseSeries] = {}

    async def usage_of(self, node: str, span_us: tuple[int, int]) -> dict[str, object]:
        """Return a ``NodeUsageView`` of a known node, whose long parts are made when they are sent.

        Raises StatsUnavailable. What is on the node is of the moment of the call.
        """
        ctx, history = self._ctx, self._stats.history
        capacity = ctx.tables.nodes[node].capacity
        here = [s for s in ctx.services_on(node) if s.state not in IDLE_SERVICE]
        remainder = await history("rest", node, *span_us)
        uses, lacking = [], set()
        for service in here:
            use = _Use(service, await history("container", service.id, *span_us))
            uses.append(use)
            if service.app and _lacks(use.series):  # one by one: the loop is held for each alone
                lacking.add(service.app)
        apps = [(app, await self._app(app, span_us)) for app in sorted(lacking)]
        return {
            "node": node,
            "since": iso(remainder.start_us),
            "step_s": HISTORY_US // US,
            "capacity": _amounts(capacity),
            "remainder": _series(remainder),
            "containers": Rows(_container(use) for use in uses),
            "apps": Pairs((app, _series(series)) for app, series in apps),
        }

    async def _app(self, app: str, span_us: tuple[int, int]) -> UseSeries:
        if span_us != self._span_us or len(self._apps) >= MAX_APPS:
            self._span_us, self._apps = span_us, {}
        if app not in self._apps:
            self._apps[app] = await self._stats.history("app", app, *span_us)
        return self._apps[app]


def _lacks(series: UseSeries) -> bool:
    return _unknown(series.cpu_m) > LACKING or _unknown(series.memory_bytes) > LACKING


def _unknown(values: Sequence[int | None]) -> int:
    return values.count(None)


def _container(use: _Use) -> dict[str, object]:
    return {
        "id": use.service.id,
        "app": use.service.app,
        "request": _amounts(use.service.request),
        **_series(use.series),
    }


def _amounts(amount: Resources) -> dict[str, int]:
    return {"cpu_m": amount.cpu_m, "memory_bytes": amount.memory_bytes}


def _series(series: UseSeries) -> dict[str, object]:
    return {"cpu_m": series.cpu_m, "memory_bytes": series.memory_bytes}
