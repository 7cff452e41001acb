"""Small clusters and workloads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tenure.model.node import Site
from tenure.model.placing import Ints
from tenure.model.units import US, usd_to_nano
from tenure.simulation import Cluster, SimNode, Workload, read_cluster

EXAMPLES = Path(__file__).parents[2] / "examples" / "sla"
GIB = 1 << 30


def small(pricing: str = "1") -> Cluster:
    """Return Table 2's small cluster."""
    return read_cluster(EXAMPLES / "small.yml", pricing)


def node(name: str, site: str = "local", *, cores: int = 4, usd_per_s: float = 0.001) -> SimNode:
    return SimNode(name, Site(site), 1000 * cores, 16 * GIB, usd_to_nano(3600 * usd_per_s))


def workload(*rows: tuple[float, int, int, float, float], name: str = "w") -> Workload:
    """Return jobs of (arrival s, executors, cores, run s, deadline s), 1 GiB each."""

    def column(index: int, unit: int) -> Ints:
        return np.array([round(row[index] * unit) for row in rows], dtype=np.int64)

    ids: Sequence[str] = [str(k) for k in range(len(rows))]
    return Workload(
        name,
        tuple(ids),
        executors=column(1, 1),
        cpu_m=column(2, 1000),
        memory_bytes=np.full(len(rows), GIB, dtype=np.int64),
        arrival_us=column(0, US),
        run_us=column(3, US),
        deadline_us=column(4, US),
    )
