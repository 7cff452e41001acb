"""What became of a workload: figures, jobs, and when each node was on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import US, cost_nano, nano_to_usd
from tenure.placement.decisions.decide import MODES, NO_NODE, NO_ROOM
from tenure.placement.names import TENURE
from tenure.placement.queue.course import (
    ASKED,
    DROPPED,
    REFUSED,
    ROWS,
    SPANS,
    SPENT_NS,
    Course,
    History,
)
from tenure.simulation.sla.cluster import Cluster
from tenure.simulation.sla.options import Options
from tenure.simulation.sla.workload import Workload

#: What becomes a JSON object.
Json = dict[str, Any]

#: What a job's verdict means in words; modes mean that it finished.
FATES = {
    NO_NODE: "never_fits",
    DROPPED: "dropped",
    REFUSED: "refused",
    NO_ROOM: "never_started",
}


@dataclass(frozen=True, slots=True)
class Span:
    """A node was on from ``on_us`` until ``off_us`` and cost so much."""

    node: str
    site: str
    on_us: int
    off_us: int
    cost_nano: int


@dataclass(frozen=True)
class Result:
    """One simulation. Columns (n,) follow the workload's order; times in microseconds.

    ``verdict`` > 0: it finished, by that mode; else see FATES. ``start_us`` and ``end_us`` are 0
    where it did not run. ``mean_*`` and ratios are None where there is nothing to take them of.
    """

    cluster: Cluster = field(repr=False)
    workload: Workload = field(repr=False)
    policy: str
    options: Options
    verdict: Ints = field(repr=False)
    placed_us: Ints = field(repr=False)
    start_us: Ints = field(repr=False)
    end_us: Ints = field(repr=False)
    cost_nano: Ints = field(repr=False)
    placements: tuple[tuple[tuple[str, int], ...], ...] = field(repr=False)
    spans: tuple[Span, ...] = field(repr=False)
    asked: int
    decision_ns: int
    wall_ns: int

    @property
    def has_run(self) -> Bools:
        return self.verdict > 0

    @cached_property
    def is_met(self) -> Bools:
        """Return which jobs finished strictly before deadline plus tolerance."""
        due_us = self.workload.deadline_us + self.options.tolerance_us
        met: Bools = self.has_run & (self.end_us < due_us)
        return met

    @property
    def finished(self) -> int:
        return int(np.sum(self.has_run))

    @property
    def rejected(self) -> int:
        return len(self.workload) - self.finished

    @property
    def met(self) -> int:
        return int(np.sum(self.is_met))

    @property
    def deadline_met_ratio(self) -> float | None:
        """Return met / (finished + rejected)."""
        return self.met / len(self.workload) if len(self.workload) else None

    @property
    def total_nano(self) -> int:
        """Return the cost of every node-second, in nano-dollars."""
        return sum(span.cost_nano for span in self.spans)

    def site_nano(self, site: str) -> int:
        """Return the cost of the nodes at a site."""
        return sum(span.cost_nano for span in self.spans if span.site == site)

    def mean_s(self, values_us: Ints) -> float | None:
        """Return the mean of a column over finished jobs, in seconds."""
        chosen = values_us[self.has_run]
        return float(np.mean(chosen)) / US if chosen.shape[0] else None

    @property
    def mean_duration_s(self) -> float | None:
        """Return the mean of finish - arrival."""
        return self.mean_s(self.end_us - self.workload.arrival_us)

    @property
    def mean_wait_s(self) -> float | None:
        """Return the mean of start - arrival, boot included."""
        return self.mean_s(self.start_us - self.workload.arrival_us)

    @property
    def decision_us_mean(self) -> float | None:
        """Return the time spent on decisions, failed attempts included, by finished job."""
        return self.decision_ns / 1000 / self.finished if self.finished else None

    @property
    def hybrid_jobs(self) -> int:
        """Return how many jobs had an executor on a cloud node."""
        return sum(MODES.get(verdict) == "hybrid" for verdict in self.verdict.tolist())

    def summary(self) -> Json:
        """Return the figures as ``tenure simulate --json`` prints them."""
        end_us = max((span.off_us for span in self.spans), default=0)
        return {
            "policy": self.policy,
            "cluster": self.cluster.name,
            "nodes": len(self.cluster.nodes),
            "workload": self.workload.name,
            "pricing": self.cluster.pricing or None,
            "queue": self.options.queue,
            "deadlines": self.options.deadlines,
            "tolerance_s": self.options.tolerance_s,
            "hybrid_factor": self.options.hybrid_factor,
            "grace_s": self.options.grace_s,
            "patience": self.options.patience if self.policy == TENURE else None,
            "cost_usd": nano_to_usd(self.total_nano),
            "cost_local_usd": nano_to_usd(self.site_nano("local")),
            "cost_cloud_usd": nano_to_usd(self.site_nano("cloud")),
            "deadline_met_ratio": self.deadline_met_ratio,
            "jobs": len(self.workload),
            "finished": self.finished,
            "rejected": self.rejected,
            "met": self.met,
            "hybrid_jobs": self.hybrid_jobs,
            "mean_duration_s": self.mean_duration_s,
            "mean_wait_s": self.mean_wait_s,
            "makespan_s": end_us / US,
            "node_on_s": sum(span.off_us - span.on_us for span in self.spans) / US,
            "decisions": self.asked,
            "decision_us_mean": self.decision_us_mean,
            "wall_s": self.wall_ns / 1e9,
        }

    def fate(self, k: int) -> str:
        """Return what became of job ``k`` in one word."""
        verdict = int(self.verdict[k])
        return "finished" if verdict > 0 else FATES.get(verdict, "never_started")


def result_of(
    asked_for: tuple[Cluster, Workload, str, Options],
    order: Ints,
    course: Course,
    history: History,
    wall_ns: int,
) -> Result:
    """Return the result of a simulation that ended; ``order`` (n,) are the jobs in queue order."""
    cluster, workload, policy, options = asked_for
    back = np.empty_like(order)
    back[order] = np.arange(order.shape[0])
    marks = course.marks
    return Result(
        cluster,
        workload,
        policy,
        options,
        verdict=history.verdict[back],
        placed_us=history.placed_us[back],
        start_us=history.start_us[back],
        end_us=history.end_us[back],
        cost_nano=history.cost_nano[back],
        placements=tuple(_placements(cluster, history, back, int(marks[ROWS]))),
        spans=tuple(_spans(cluster, history, int(marks[SPANS]))),
        asked=int(marks[ASKED]),
        decision_ns=int(marks[SPENT_NS]),
        wall_ns=wall_ns,
    )


def _placements(
    cluster: Cluster, history: History, back: Ints, rows: int
) -> Iterator[tuple[tuple[str, int], ...]]:
    """Yield the (node, executors) pairs of each job, in the workload's order."""
    names = [cluster.nodes[j].name for j in history.on[:rows].tolist()]
    pairs = list(zip(names, history.executors[:rows].tolist(), strict=True))
    firsts, useds = history.first[back].tolist(), history.used[back].tolist()
    for first, used in zip(firsts, useds, strict=True):
        yield tuple(pairs[first : first + used])


def _spans(cluster: Cluster, history: History, count: int) -> Iterator[Span]:
    """Yield the spans in the order of their begin; nodes that stay on end with the last job."""
    last_us = int(np.max(history.end_us, initial=0))
    columns = (history.span_node, history.span_on_us, history.span_off_us)
    for j, on_us, off_us in zip(*(column[:count].tolist() for column in columns), strict=True):
        node = cluster.nodes[j]
        until_us = max(on_us, last_us) if node.is_always_on else off_us
        cost = cost_nano(node.price_nano_per_h, until_us - on_us)
        yield Span(node.name, node.site.value, on_us, until_us, cost)
