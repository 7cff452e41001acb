"""How a cluster was used over time, in equal steps: for plots and the CSV of time lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tenure.model.units import US
from tenure.simulation.sla.result import Json, Result

Floats = NDArray[np.float64]
#: Steps of a plot: finer than its pixels would be noise.
STEPS = 240
SITES = ("local", "cloud")


@dataclass(frozen=True, slots=True)
class Series:
    """Means over each step (k,): cores on and in use by site, jobs waiting; ``at_s`` its begin."""

    at_s: Floats
    cores_on: dict[str, Floats]
    cores_used: dict[str, Floats]
    waiting: Floats

    def plain(self) -> Json:
        """Return the series as JSON has it."""
        on = {site: values.round(3).tolist() for site, values in self.cores_on.items()}
        used = {site: values.round(3).tolist() for site, values in self.cores_used.items()}
        waiting = self.waiting.round(3).tolist()
        return {"at_s": self.at_s.tolist(), "on": on, "used": used, "waiting": waiting}


def series_of(result: Result, steps: int = STEPS) -> Series:
    """Return how the cluster was used from the first arrival until all was over."""
    arrival_us = result.workload.arrival_us
    first_us = int(np.min(arrival_us, initial=0 if not len(arrival_us) else int(arrival_us[0])))
    last_us = max((span.off_us for span in result.spans), default=first_us + US)
    edges = np.linspace(first_us, max(last_us, first_us + US), steps + 1)
    cores = {node.name: node.cpu_m / 1000 for node in result.cluster.nodes}
    sites = {node.name: node.site.value for node in result.cluster.nodes}
    on: dict[str, list[tuple[int, int, float]]] = {site: [] for site in SITES}
    used: dict[str, list[tuple[int, int, float]]] = {site: [] for site in SITES}
    for span in result.spans:
        on[span.site].append((span.on_us, span.off_us, cores[span.node]))
    each = (result.workload.cpu_m / 1000).tolist()
    ran = zip(result.placements, result.start_us.tolist(), result.end_us.tolist(), strict=True)
    for k, (placement, start_us, end_us) in enumerate(ran):
        for node, count in placement:
            used[sites[node]].append((start_us, end_us, count * each[k]))
    has_run = result.has_run
    waits = [
        (arrived_us, start_us, 1.0)
        for arrived_us, start_us in zip(
            arrival_us[has_run].tolist(), result.start_us[has_run].tolist(), strict=True
        )
    ]
    return Series(
        (edges[:-1] - first_us) / US,
        {site: mean_level(rows, edges) for site, rows in on.items()},
        {site: mean_level(rows, edges) for site, rows in used.items()},
        mean_level(waits, edges),
    )


def mean_level(rows: list[tuple[int, int, float]], edges: Floats) -> Floats:
    """Return the mean level in each step (k,) of rows (from, until, level); edges are (k + 1,)."""
    if not rows:
        return np.zeros(edges.shape[0] - 1)
    table = np.array(rows, dtype=np.float64)
    # the area until t is the sum of level x (time since its begin), less that since its end
    area = _area(table[:, 0], table[:, 2], edges) - _area(table[:, 1], table[:, 2], edges)
    mean: Floats = np.diff(area) / np.diff(edges)
    return np.maximum(mean, 0.0)


def _area(begins: Floats, levels: Floats, edges: Floats) -> Floats:
    order = np.argsort(begins)
    begins, levels = begins[order], levels[order]
    level = np.concatenate(([0.0], np.cumsum(levels)))
    moment = np.concatenate(([0.0], np.cumsum(levels * begins)))
    before = np.searchsorted(begins, edges, side="right")
    area: Floats = level[before] * edges - moment[before]
    return area
