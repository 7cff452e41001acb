"""Metrics in Prometheus' text format, computed when asked for (prefix ``tenure_``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import generate_latest

from tenure.core.capacity import forecasts
from tenure.core.capacity.ledger import reporting
from tenure.core.state.context import Context
from tenure.daemon.events.held import HeldTimes
from tenure.daemon.events.loop import LoopStats
from tenure.daemon.metrics import tiermetrics
from tenure.daemon.metrics.families import counter, gauge
from tenure.daemon.metrics.readmetrics import ReadFacts, facts_of, families
from tenure.daemon.metrics.tiermetrics import TierFacts
from tenure.model.container import Migration, Step
from tenure.model.forecast import ForecastReport
from tenure.model.job import Job
from tenure.model.node import Node, Power, Reach
from tenure.model.units import US
from tenure.profiling.io.influx.spool import REASONS

if TYPE_CHECKING:
    from tenure.daemon.effects.agents import AgentState
    from tenure.daemon.effects.lending import Lent
    from tenure.profiling.io.influx.drain import DrainHealth

#: Records looked at between two yields: some 0.2 ms.
STRIDE = 500
HELP = {
    "jobs": "Jobs by state",
    "containers": "Containers by state",
    "runs": "Runs of cycles by state",
    "migrations": "Migrations by step",
    "batches": "Batches by state",
    "batch_tasks": "Tasks of batches by the state of their present attempt",
    "datasets": "Datasets by state",
}


#: What may have become of an attempt, in a batch's record.
ATTEMPTS = ("retried", "reclaimed", "resent")


@dataclass(slots=True)
class Parts:
    """State of what surrounds the core, for the metrics."""

    redis_up: bool
    workers: int
    inbox: int
    open_effects: int
    effect_counts: Mapping[tuple[str, str], int]
    store_failing: bool
    free_bytes: int = 0
    influx: DrainHealth | None = None
    agents: Mapping[str, AgentState] = field(default_factory=dict)
    lent: Mapping[str, Lent] = field(default_factory=dict)
    held: HeldTimes = field(default_factory=HeldTimes)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the records say, of one moment each: nodes, cost by site, records by state.

    ``attempts`` counts those of the kept batches' tasks that ended before they were done, by why,
    ``remote`` those that began where their input did not lie.
    ``downtimes`` holds number and seconds of the kept moves that are done, by method.
    """

    nodes: tuple[Node, ...]
    cost_nano: Mapping[str, int]
    states: Mapping[str, Mapping[str, int]]
    late_jobs: int
    tombstones: int
    downtimes: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    forecasts: tuple[ForecastReport, ...] = ()
    now_us: int = 0
    reading: ReadFacts = field(default_factory=ReadFacts)
    tiers: tuple[TierFacts, ...] = ()
    remote: int = 0
    quarantined: int = 0


def gather(ctx: Context) -> Generator[None, None, Facts]:
    """Gather the facts; yields often, for callers who must not work for long at a stretch."""
    tables = ctx.tables
    cost = yield from reporting(ctx, 0, ctx.now_us)
    jobs, batches = list(tables.jobs.values()), list(tables.batches.values())
    migrations = list(tables.migrations.values())
    kinds: dict[str, tuple[Sequence[object], str]] = {
        "jobs": (jobs, "state"),
        "containers": (list(tables.services.values()), "state"),
        "runs": (list(tables.runs.values()), "state"),
        "migrations": (migrations, "step"),
        "batches": (batches, "state"),
        "batch_tasks": (list(tables.tasks.values()), "state"),
        "datasets": (list(tables.datasets.values()), "state"),
    }
    states = {}
    late = 0
    for kind, (rows, word) in kinds.items():
        counts: Counter[str] = Counter()
        for start in range(0, len(rows), STRIDE):
            span = slice(start, start + STRIDE)
            counts.update(getattr(row, word).value for row in rows[span])
            late += sum(map(_is_late, jobs[span])) if kind == "jobs" else 0
            yield
        states[kind] = counts
    nodes = tuple(node for node in tables.nodes.values() if not node.is_removed)
    downtimes = _downtimes(migrations)
    attempts = {name: sum(getattr(batch, name) for batch in batches) for name in ATTEMPTS}
    remote = sum(batch.remote for batch in batches)
    told = []
    kept: list[TierFacts] = []
    for start in range(0, len(nodes), STRIDE):
        told += [forecasts.report(ctx, node) for node in nodes[start : start + STRIDE]]
        kept += [
            tier
            for node in nodes[start : start + STRIDE]
            for tier in tiermetrics.facts_of(ctx, node)
        ]
        yield
    return Facts(
        nodes,
        cost["by_site"],
        states,
        late,
        len(tables.tombstones),
        downtimes,
        attempts,
        tuple(told),
        ctx.now_us,
        facts_of(ctx),
        tuple(kept),
        remote,
        len(ctx.quarantined),
    )


def _downtimes(moves: list[Migration]) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    for move in moves:
        if move.step is Step.DONE:
            count, total_s = found.get(move.method, (0, 0.0))
            found[move.method] = (count + 1, total_s + (move.downtime_us or 0) / US)
    return found


def _is_late(job: Job) -> bool:
    ended, deadline = job.finished_us, job.spec.deadline_us
    return ended is not None and deadline is not None and ended >= deadline


class Collector:
    """Builds every family from gathered facts."""

    def __init__(self, facts: Facts, loop: LoopStats, parts: Parts) -> None:
        self._facts, self._loop, self._parts = facts, loop, parts

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        yield from self._fleet()
        yield from self._work()
        yield from self._daemon()

    def _fleet(self) -> Iterator[Metric]:
        facts = self._facts
        up = {node.name: float(node.reach is Reach.OK) for node in facts.nodes}
        on = {node.name: float(_costs(node)) for node in facts.nodes}
        cost = {site: nano / 1e9 for site, nano in facts.cost_nano.items()}
        yield gauge("node_up", "1 when the engine answers", up, "node")
        yield gauge("node_on", "1 when the node costs", on, "node")
        yield counter("cost_usd", "Cost by site since ever", cost, "site")
        yield from _forecasts(facts.forecasts, facts.now_us)
        yield from tiermetrics.families(facts.tiers)

    def _work(self) -> Iterator[Metric]:
        facts = self._facts
        for kind, text in HELP.items():
            yield gauge(kind, text, dict(sorted(facts.states[kind].items())), "state")
        down = SummaryMetricFamily(
            "tenure_migration_downtime_seconds", "Downtime of kept moves", labels=["method"]
        )
        for method, (count, total_s) in sorted(facts.downtimes.items()):
            down.add_metric([method], count_value=count, sum_value=total_s)
        yield down
        # of kept batches, so it may fall when old ones are forgotten
        again = "Attempts of kept batches by why again"
        yield gauge("batch_attempts", again, facts.attempts, "why")
        yield from families(facts.reading)
        yield GaugeMetricFamily(
            "tenure_batch_remote_tasks",
            "Attempts of kept batches that began where their input did not lie",
            facts.remote,
        )
        late = facts.late_jobs
        yield GaugeMetricFamily("tenure_jobs_late", "Kept jobs that ended late", value=late)
        yield GaugeMetricFamily("tenure_graves", "Copies still to be removed", facts.tombstones)
        yield GaugeMetricFamily(
            "tenure_quarantined_records", "Records left as they are: a defect", facts.quarantined
        )

    def _daemon(self) -> Iterator[Metric]:
        parts, loop = self._parts, self._loop
        yield GaugeMetricFamily("tenure_redis_up", "1 when Redis answers", float(parts.redis_up))
        yield GaugeMetricFamily("tenure_workers", "Workers alive", parts.workers)
        yield GaugeMetricFamily("tenure_inbox_events", "Events waiting", parts.inbox)
        yield GaugeMetricFamily("tenure_effects_open", "Effects under way", parts.open_effects)
        yield GaugeMetricFamily(
            "tenure_store_failing", "1 while a commit is tried again", float(parts.store_failing)
        )
        yield GaugeMetricFamily(
            "tenure_state_free_bytes", "Room on the disk of state_dir", parts.free_bytes
        )
        yield CounterMetricFamily("tenure_events_handled", "Events handled", loop.events)
        yield CounterMetricFamily("tenure_commits", "Batches handled", loop.batches)
        yield CounterMetricFamily("tenure_commit_seconds", "Time in commits", loop.commit_s)
        yield CounterMetricFamily("tenure_handle_seconds", "Time in the core", loop.handle_s)
        yield HistogramMetricFamily(
            "tenure_loop_held_seconds",
            "Rounds of the event loop, in each of which nobody else is heard",
            buckets=parts.held.buckets(),
            sum_value=parts.held.total_s,
        )
        ends = dict(sorted(parts.effect_counts.items()))
        yield counter("effects", "Effects ended", ends, "kind", "outcome")
        if parts.influx is not None:
            yield from _influx(parts.influx)
        if parts.agents:
            yield from _agents(parts.agents)
        if parts.lent:
            yield from _lent(parts.lent)


def _costs(node: Node) -> bool:
    return node.power not in (Power.OFF, Power.UNKNOWN)


def _agents(agents: Mapping[str, AgentState]) -> Iterator[Metric]:
    up = {name: float(state.is_up) for name, state in agents.items() if state.is_up is not None}
    failures = {name: state.failures for name, state in agents.items()}
    joules = {
        name: state.energy.energy_uj / 1e6
        for name, state in agents.items()
        if state.energy is not None
    }
    answers = "1 when the node's agent answers, 0 when not; none until it is asked"
    yield gauge("agent_up", answers, up, "node")
    yield counter("agent_failures", "Sweeps that the agent gave nothing for", failures, "node")
    yield counter("node_energy_joules", "Energy that meters counted (RAPL)", joules, "node")


#: What controllers tell, by key: the metric, its meaning, and how many of theirs are one of it.
HARVEST = {
    "quota_m": ("quota_cores", "Cores that all of harvest is held to", 1000),
    "harvest_cpu_m": ("use_cores", "Cores that harvest uses", 1000),
    "regular_cpu_m": ("regular_cores", "Cores that owners use", 1000),
    "harvest_memory_bytes": ("use_bytes", "Memory that harvest holds", 1),
    "regular_memory_bytes": ("regular_bytes", "Memory that owners hold", 1),
    "p99_us": ("lateness_p99_seconds", "99 % of looks were no later", 1e6),
}


def _lent(lent: Mapping[str, Lent]) -> Iterator[Metric]:
    """Yield what controllers told last; nodes whose controller told nothing yet are left out."""
    up = {node: float(not state.fault) for node, state in lent.items()}
    kills = {node: state.status.get("kills") for node, state in lent.items()}
    counted = {node: count for node, count in kills.items() if isinstance(count, int)}
    yield gauge("harvest_up", "1 while a controller is sound", up, "node")
    yield counter("harvest_kills", "Tasks ended for owners", counted, "node")
    for key, (name, text, unit) in HARVEST.items():
        told = {node: state.numbers.get(key) for node, state in lent.items()}
        values = {n: value / unit for n, value in told.items() if isinstance(value, int | float)}
        yield gauge(f"harvest_{name}", text, values, "node")


def _forecasts(reports: Sequence[ForecastReport], now_us: int) -> Iterator[Metric]:
    """Yield what is forecast and how good that was; nodes no cycle looked at yet are left out."""
    up: dict[str, float] = {}
    age: dict[str, float] = {}
    steps: dict[str, float] = {}
    use: dict[tuple[str, ...], float] = {}
    covered: dict[tuple[str, ...], float] = {}
    loss: dict[tuple[str, ...], float] = {}
    for one in reports:
        if one.forecast is None:
            continue
        up[one.node] = float(one.state == "ready")
        age[one.node] = max(0, now_us - one.forecast.made_us) / US
        if one.state == "ready" and min(one.capacity.cpu_m, one.capacity.memory_bytes) > 0:
            said = one.forecast.most(now_us, now_us + 1)
            use[one.node, "cpu"] = said.cpu_m / one.capacity.cpu_m
            use[one.node, "memory"] = said.memory_bytes / one.capacity.memory_bytes
        found = None if one.score is None else one.score.accuracy()
        if found is not None:
            steps[one.node] = found[0].steps
            for resource, accuracy in zip(("cpu", "memory"), found, strict=True):
                covered[one.node, resource] = accuracy.coverage
                loss[one.node, resource] = accuracy.loss
    both = ("node", "resource")
    share = "Share of the capacity that owners are to use now"
    yield gauge("forecast_ready", "1 while a forecast is in force", up, "node")
    yield gauge("forecast_age_seconds", "Time since it was made", age, "node")
    yield gauge("forecast_use_ratio", share, use, *both)
    yield gauge("forecast_steps", "Steps judged in the last week", steps, "node")
    under = "Share of them at or under their forecast"
    yield gauge("forecast_coverage_ratio", under, covered, *both)
    pinball = "Their mean pinball loss, of the capacity"
    yield gauge("forecast_pinball_ratio", pinball, loss, *both)


def _influx(health: DrainHealth) -> Iterator[Metric]:
    up, waiting = float(not health.error), health.spooled_samples
    lost = {reason: health.dropped.get(reason, 0) for reason in REASONS}
    yield GaugeMetricFamily("tenure_stats_up", "1 while InfluxDB takes samples", up)
    yield GaugeMetricFamily("tenure_stats_spooled_samples", "Samples that wait", waiting)
    yield GaugeMetricFamily("tenure_stats_spooled_bytes", "Their size", health.spooled_bytes)
    yield counter("stats_dropped", "Samples lost", lost, "reason")


def text_of(facts: Facts, loop: LoopStats, parts: Parts) -> str:
    """Return the exposition of all metrics; reads nothing that changes, so any thread may."""
    registry = CollectorRegistry()
    registry.register(Collector(facts, loop, parts))
    return generate_latest(registry).decode()
