"""How long a simulation of 10,000 jobs takes, once the event loop is compiled.

The paper's light load on its large cluster, pricing 1: the whole call, from the workload in memory
to the result with all its placements.
"""

from __future__ import annotations

import time

from benchmarks.figures import Goal, Report, figure
from reproductions.sla.matrix import LARGE
from tenure.simulation.sla.cluster import Cluster, read_cluster
from tenure.simulation.sla.loops import QUICK, compiled_loop
from tenure.simulation.sla.run import simulate
from tenure.simulation.sla.sources import Source
from tenure.simulation.sla.workload import Workload

JOBS = 10_000
ROUNDS = 5
#: The goal is for one policy; this is the product's plain choice.
JUDGED = "gio"
GOAL_S = 0.5


def measure(*, is_quick: bool = False) -> Report:
    """Return a figure for each policy, and one for all of them in a row."""
    for policy in QUICK:
        compiled_loop(policy)
    cluster = read_cluster(LARGE, "1")
    workload = Source("paper:light", jobs=100 if is_quick else JOBS).load(1)
    rounds = [_round(cluster, workload) for _ in range(1 if is_quick else ROUNDS)]
    figures = [
        figure(
            f"{policy}_s",
            f"`{policy}`, {len(workload):,} jobs",
            "s",
            [spent[policy] for spent in rounds],
            Goal("below", GOAL_S) if policy == JUDGED else None,
        )
        for policy in QUICK
    ]
    every = [sum(spent.values()) for spent in rounds]
    figures.append(figure("all_s", "all of them, one after another", "s", every))
    note = "The paper's light load on its 180 nodes, pricing 1; compiled and warm, one process."
    return Report("simulations", tuple(figures), (note,))


def _round(cluster: Cluster, workload: Workload) -> dict[str, float]:
    """Return the seconds that each policy takes."""
    spent = {}
    for policy in QUICK:
        begun_s = time.perf_counter()
        simulate(cluster, workload, policy)
        spent[policy] = time.perf_counter() - begun_s
    return spent
