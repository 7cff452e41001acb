"""Metrics in Prometheus' text format, computed when asked for (prefix ``tenure_``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest

from tenure.core.context import Context
from tenure.core.ledger import report
from tenure.daemon.loop import LoopStats
from tenure.model.node import Power, Reach
from tenure.profiling.io.influx_drain import DrainHealth
from tenure.profiling.io.spool import REASONS


@dataclass(slots=True)
class Parts:
    """State of what surrounds the core, for the metrics."""

    redis_up: bool
    workers: int
    inbox: int
    open_effects: int
    effect_counts: Mapping[tuple[str, str], int]
    store_failing: bool
    influx: DrainHealth | None = None


class Collector:
    """Builds every family from the present state."""

    def __init__(self, ctx: Context, loop: LoopStats, parts: Parts) -> None:
        self._ctx, self._loop, self._parts = ctx, loop, parts

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        yield from self._fleet()
        yield from self._work()
        yield from self._daemon()

    def _fleet(self) -> Iterator[Metric]:
        nodes = [n for n in self._ctx.tables.nodes.values() if not n.is_removed]
        up = GaugeMetricFamily("tenure_node_up", "1 when the engine answers", labels=["node"])
        on = GaugeMetricFamily("tenure_node_on", "1 when the node costs", labels=["node"])
        for node in nodes:
            up.add_metric([node.name], float(node.reach is Reach.OK))
            on.add_metric([node.name], float(node.power not in (Power.OFF, Power.UNKNOWN)))
        yield up
        yield on
        cost = CounterMetricFamily("tenure_cost_usd", "Cost by site since ever", labels=["site"])
        for site, nano in report(self._ctx, 0, self._ctx.now_us)["by_site"].items():
            cost.add_metric([site], nano / 1e9)
        yield cost

    def _work(self) -> Iterator[Metric]:
        tables = self._ctx.tables
        yield _states("tenure_jobs", "Jobs by state", (j.state for j in tables.jobs.values()))
        yield _states(
            "tenure_containers", "Containers by state", (s.state for s in tables.services.values())
        )
        yield _states(
            "tenure_runs", "Runs of cycles by state", (r.state for r in tables.runs.values())
        )
        yield _states(
            "tenure_migrations", "Migrations by step", (m.step for m in tables.migrations.values())
        )
        late = sum(
            job.finished_us is not None
            and job.spec.deadline_us is not None
            and job.finished_us >= job.spec.deadline_us
            for job in tables.jobs.values()
        )
        yield GaugeMetricFamily("tenure_jobs_late", "Kept jobs that ended late", value=late)
        yield GaugeMetricFamily("tenure_graves", "Copies still to be removed", len(tables.graves))

    def _daemon(self) -> Iterator[Metric]:
        parts, loop = self._parts, self._loop
        yield GaugeMetricFamily("tenure_redis_up", "1 when Redis answers", float(parts.redis_up))
        yield GaugeMetricFamily("tenure_workers", "Workers alive", parts.workers)
        yield GaugeMetricFamily("tenure_inbox_events", "Events waiting", parts.inbox)
        yield GaugeMetricFamily("tenure_effects_open", "Effects under way", parts.open_effects)
        yield GaugeMetricFamily(
            "tenure_store_failing", "1 while a commit is tried again", float(parts.store_failing)
        )
        yield CounterMetricFamily("tenure_events_handled", "Events handled", loop.events)
        yield CounterMetricFamily("tenure_commits", "Batches handled", loop.batches)
        yield CounterMetricFamily("tenure_commit_seconds", "Time in commits", loop.commit_s)
        yield CounterMetricFamily("tenure_handle_seconds", "Time in the core", loop.handle_s)
        ends = CounterMetricFamily("tenure_effects", "Effects ended", labels=["kind", "outcome"])
        for (kind, outcome), count in sorted(parts.effect_counts.items()):
            ends.add_metric([kind, outcome], count)
        yield ends
        if parts.influx is not None:
            yield from _influx(parts.influx)


def _influx(health: DrainHealth) -> Iterator[Metric]:
    up, waiting = float(not health.error), health.spooled_samples
    yield GaugeMetricFamily("tenure_stats_up", "1 while InfluxDB takes samples", up)
    yield GaugeMetricFamily("tenure_stats_spooled_samples", "Samples that wait", waiting)
    yield GaugeMetricFamily("tenure_stats_spooled_bytes", "Their size", health.spooled_bytes)
    lost = CounterMetricFamily("tenure_stats_dropped", "Samples lost", labels=["reason"])
    for reason in REASONS:
        lost.add_metric([reason], health.dropped.get(reason, 0))
    yield lost


def _states(name: str, text: str, states: Iterable[str]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["state"])
    for state, count in sorted(Counter(str(s) for s in states).items()):
        family.add_metric([state], count)
    return family


def text_of(ctx: Context, loop: LoopStats, parts: Parts) -> str:
    """Return the exposition of all metrics."""
    registry = CollectorRegistry()
    registry.register(Collector(ctx, loop, parts))
    return generate_latest(registry).decode()
