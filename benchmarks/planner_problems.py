"""Problems of the planner's benchmark and tests, of the Salamander paper's sizes and shapes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from tenure.harvest.problem import Job, Node, Problem, Stage
from tenure.harvest.solution import Solution

GIB = 1 << 30
GB = 10**9
MB = 10**6
#: The paper's dedicated links of 50 Mbit/s.
LINK_BYTES_PER_S = 6_250_000


def data_centre(nodes: int, tasks: int, *, jobs: int = 1, seed: int = 0, **more: float) -> Problem:
    """Map and reduce tasks in the paper's ratio (16 to 1) on nodes of six kinds, a day ahead.

    Free CPU and memory wander between 30 and 90 % of nodes with 16 to 64 cores; chunks of 128 MB
    at 3100 and 6300 FLOP a byte, 3 GB a task, links of 50 Mbit/s.
    """
    rng = np.random.default_rng(seed)
    tick_s = more.get("tick_s", 10.0)
    rows = []
    for k in range(nodes):
        cores = int(rng.choice([16, 24, 32, 40, 48, 64]))
        walk = np.clip(0.6 + np.cumsum(rng.normal(0, 0.02, 480)), 0.3, 0.9)
        rows.append(
            Node(
                f"n{k}",
                tuple(int(cores * 1000 * free) for free in walk),
                tuple(int(cores * 4 * GIB * free) for free in walk),
                float(rng.choice([3.0, 3.6, 4.1, 5.5, 7.0, 8.2])),
                int(more["link"]) if "link" in more else None,
            )
        )
    works = []
    for j in range(jobs):
        mine = tasks // jobs + (j < tasks % jobs)
        reduces = max(1, mine // 17)
        maps = Stage("map", mine - reduces, 0.128 * 3100, 1000, 3 * GB, 128 * MB)
        reduce = Stage("reduce", reduces, 0.128 * 6300, 1000, 3 * GB, 0, (0,))
        works.append(Job(f"j{j}", (maps, reduce)))
    return Problem(tuple(rows), tuple(works), tick_s, int(180 / tick_s))


def with_copies(problem: Problem, nowhere_ratio: float, *, seed: int = 0) -> Problem:
    """Return a problem whose first stages have their input on nodes, three copies of each chunk.

    Drawn for each chunk, so there are nearly as many classes as tasks. ``nowhere_ratio`` of the
    chunks lie nowhere yet.
    """
    rng = np.random.default_rng(seed)
    jobs = []
    for job in problem.jobs:
        first = job.stages[0]
        lying = first.tasks - round(nowhere_ratio * first.tasks)
        drawn = (rng.choice(len(problem.nodes), 3, replace=False) for _ in range(lying))
        classes = Counter(tuple(sorted(int(k) for k in where)) for where in drawn)
        first = replace(first, copies=tuple(sorted(classes.items())))
        jobs.append(replace(job, stages=(first, *job.stages[1:])))
    return replace(problem, jobs=tuple(jobs))


def with_nearest(problem: Problem, *, seed: int = 0) -> Problem:
    """Return a problem with copies, one of each chunk, as drawn, the fastest to read."""
    rng = np.random.default_rng(seed)
    jobs = []
    for job in problem.jobs:
        first = job.stages[0]
        rows = []
        for where, count in first.copies:
            parts = rng.multinomial(count, [1 / len(where)] * len(where))
            rows += [
                (where, (node,), int(part)) for node, part in zip(where, parts, strict=True) if part
            ]
        first = replace(first, nearest=tuple(sorted(rows)))
        jobs.append(replace(job, stages=(first, *job.stages[1:])))
    return replace(problem, jobs=tuple(jobs))


def at_nearest(problem: Problem, plan: Solution) -> int:
    """Return how many tasks of a plan can begin where their input is read fastest.

    Of chunks with one such copy each, as ``with_nearest`` draws them.
    """
    found = 0
    for one in plan.beside:
        stage = problem.jobs[one.job].stages[one.stage]
        rows = [row for row in stage.nearest if row[0] == stage.copies[one.place][0]]
        found += min(one.count, sum(count for _, near, count in rows if near == (one.node,)))
    return found
