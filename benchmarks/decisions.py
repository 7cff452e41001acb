"""How long one decision takes.

Fleets are made of Table 2's types, a third of the nodes local, a share of them in use. A decision
is the whole answer: room, verdict, nodes, cost. "In the kernel" is one turn of a compiled loop,
"through the interface" one call of ``Policies.place``; the best of several rounds counts, for what
disturbs a round only adds to it. The view is the same from call to call, as it is between events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any

import numpy as np

from benchmarks.figures import Goal, Report, figure
from tenure.model.placing import NEVER, Ask, ClusterView
from tenure.model.units import FOREVER_US, US
from tenure.placement.arrays import pack
from tenure.placement.decisions.decide import question_of
from tenure.placement.names import POLICIES
from tenure.simulation.sla.loops import admission_policies

GIB = 1 << 30
#: Cores of Table 2's types; $0.001 a second for four local cores, four times that in the cloud.
TYPES = (4, 8, 12)
PRICES = (225_000_000 * 4, 225_000_000 * 16)
#: Nodes and executors: the paper's clusters, and growth.
SIZES = ((9, 6), (60, 6), (60, 60), (1_000, 6), (10_000, 6), (10_000, 1_000))
LOADS = (0.1, 0.5, 0.9)
#: Microseconds: the goals, at the sizes of the paper's clusters.
GOALS_US = {"kernel": 1.5, "interface": 10.0}
JUDGED = ("gio", "exact")
WHERE = {"kernel": "in the kernel", "interface": "through the interface"}
NOTE = (
    "A decision is the whole answer: room, verdict, nodes, times, cost. Median and span are of "
    "three fleets, of whose nodes 10, 50 and 90 % are in use; each is the best of 7 rounds."
)
ROUNDS = 7
ROUND_S = 0.02


def fleet(nodes: int, load: float, seed: int = 1) -> ClusterView:
    """Return nodes of which a share of ``load`` is in use, with random room and t_j."""
    random = Random(seed)
    rows = []
    for j in range(nodes):
        cores, is_busy = TYPES[j % 3], random.random() < load
        rows.append(
            (
                1000 * random.randint(0, cores) if is_busy else 1000 * cores,
                GIB * random.randint(0, 4 * cores) if is_busy else GIB * 4 * cores,
                1000 * cores,
                GIB * 4 * cores,
                cores * PRICES[3 * j >= nodes],
                random.randint(1, 200) * US if is_busy else 0,
            )
        )
    columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    blank = np.zeros(nodes, dtype=np.int64)
    return ClusterView(
        tuple(f"n{j:05}" for j in range(nodes)),
        free_cpu_m=columns[0],
        free_memory=columns[1],
        capacity_cpu_m=columns[2],
        capacity_memory=columns[3],
        price=columns[4],
        remaining_us=columns[5],
        is_on=columns[5] > 0,
        is_cloud=3 * np.arange(nodes) >= nodes,
        boot_us=blank,
        reboot_us=np.full(nodes, NEVER, dtype=np.int64),
        min_billing_us=blank,
    )


def ask(nodes: int, executors: int) -> Ask:
    """Return a job of executors of two cores and 4 GiB."""
    eligible = np.ones(nodes, dtype=np.bool_)
    return Ask("j", executors, 2000, 4 * GIB, 100 * US, 130 * US, FOREVER_US // 2, eligible)


def best_us(run: Callable[[int], object]) -> float:
    """Return the microseconds of one turn of ``run(turns)``, the best of several rounds."""
    turns, best = 1, float("inf")
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        run(turns)
        took = time.perf_counter() - begun
        best = min(best, took / turns)
        turns = max(1, min(100_000, int(ROUND_S / best)))
    return best * 1e6


def rows(sizes: Sequence[tuple[int, int]] = SIZES) -> list[dict[str, Any]]:
    """Return a row a policy, size and load."""
    import numba

    policies = admission_policies("exact", compiled=True)
    answer = policies._kernels.answer

    @numba.njit  # type: ignore[untyped-decorator, unused-ignore]
    def loop(turns, question, table, flags, eligible):  # type: ignore[no-untyped-def]
        total = 0
        for _ in range(turns):
            total += answer(question, table, flags, eligible)[0]
        return total

    found: list[dict[str, Any]] = []
    for (nodes, executors), load in product(sizes, LOADS):
        view, job = fleet(nodes, load), ask(nodes, executors)
        packed = pack(view)
        for code, name in enumerate(POLICIES):
            question = question_of(code, job, 0)
            kernel = best_us(
                lambda n, q=question, p=packed, e=job.eligible: loop(n, q, *p, e)  # type: ignore[misc]
            )
            door = best_us(
                lambda n, p=name, v=view, j=job: [policies.place(p, v, j, 0) for _ in range(n)]  # type: ignore[misc]
            )
            row = {"policy": name, "nodes": nodes, "executors": executors, "load": load}
            found.append({**row, "kernel_us": kernel, "interface_us": door})
    return found


def measure(*, is_quick: bool = False) -> Report:
    """Return a figure for each policy and size, in the kernel and through the interface."""
    found = rows(SIZES[:1] if is_quick else SIZES)
    figures = []
    for nodes, executors in dict.fromkeys((row["nodes"], row["executors"]) for row in found):
        of_size = [r for r in found if (r["nodes"], r["executors"]) == (nodes, executors)]
        for policy, (part, most_us) in product(POLICIES, GOALS_US.items()):
            values = [row[f"{part}_us"] for row in of_size if row["policy"] == policy]
            is_judged = policy in JUDGED and (nodes, executors) in SIZES[:2]
            goal = Goal("below", most_us) if is_judged else None
            what = f"`{policy}`, {nodes:,} nodes, {executors:,} executors, {WHERE[part]}"
            key = f"{policy}_{nodes}_{executors}_{part}_us"
            figures.append(figure(key, what, "µs", values, goal))
    return Report("decisions", tuple(figures), (NOTE,))
