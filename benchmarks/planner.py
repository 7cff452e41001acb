"""How long the holistic planner takes, how good its plans are, and what memory they need.

Each plan is made in a process of its own, whose peak memory counts with all its libraries. Every
plan is judged by ``reproductions.salamander.check`` before its figures count.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure
from benchmarks.planner_problems import (
    LINK_BYTES_PER_S,
    at_nearest,
    data_centre,
    with_copies,
    with_nearest,
)
from testbed.host import memory_mib

#: The paper's PC-2 and its window.
NODES = 27
SIZES = (500, 1000, 1500, 2000, 2500)
LIMIT_S = 30.0
SEEDS = (1, 2)
NOTES = (
    "Nodes are drawn: 16 to 64 cores of six speeds, of which 30 to 90 % are free in a random walk "
    "over 480 steps of 3 minutes; 16 map tasks to each reduce task, at the paper's work a byte, "
    "one core and 3 GB each. Two drawings each, one for the growth.",
    "cp may use two cores, ga and ls use one. A process' peak memory has Python, numpy and the "
    "solver's libraries in it. ga and ls always take the time they are given, so the time that "
    "counts is when their best plan was found.",
)


def solve(ask: dict[str, Any]) -> dict[str, float]:
    """Make a plan; return its seconds, ticks, bound and this process' peak memory."""
    from reproductions.salamander.check import violations
    from tenure.harvest.io.solve import plan
    from tenure.harvest.progress import Progress

    problem = data_centre(ask["nodes"], ask["tasks"], **ask["more"])
    if "nowhere" in ask["more"]:
        problem = with_copies(problem, ask["more"]["nowhere"], seed=ask["more"]["seed"])
    found_at: dict[tuple[int, int], float] = {}

    def told(progress: Progress) -> bool:
        found_at.setdefault(progress.best.score, progress.elapsed_s)
        return True

    begun = time.perf_counter()
    found = plan(problem, ask["solver"], time_limit_s=ask["limit_s"], cores=2, told=told)
    took_s = time.perf_counter() - begun
    peak_mib = memory_mib(os.getpid())["hwm"]
    faults = violations(problem, found)
    if faults or found.scheduled != problem.tasks:
        raise BenchError(f"{ask}: {found.scheduled} tasks planned, faults: {faults[:3]}")
    return {
        "took_s": took_s,
        "found_s": found_at.get(found.score, took_s),
        "makespan_s": found.makespan * problem.tick_s,
        "gap_percent": 100 * (found.gap_ratio or 0.0),
        "is_proven": float(found.is_optimal),
        "peak_mib": peak_mib,
    }


def draw_near(ask: dict[str, Any]) -> dict[str, float]:
    """Make a plan and choose one that ends alike by where input is read fastest; say what it won.

    ``took_s`` is that of the choice alone, the others are shares of the tasks over input.
    """
    from reproductions.salamander.check import violations
    from tenure.harvest.io.solve import plan
    from tenure.harvest.nearness import nearer

    more = ask["more"]
    problem = with_copies(data_centre(ask["nodes"], ask["tasks"], **more), 0.0, seed=more["seed"])
    problem = with_nearest(problem, seed=more["seed"])
    first = plan(problem, ask["solver"], time_limit_s=ask["limit_s"], cores=2)
    begun = time.perf_counter()
    found = nearer(problem, first)
    took_s = time.perf_counter() - begun
    if (faults := violations(problem, found)) or found.score != first.score:
        raise BenchError(f"{ask}: the plan that was chosen is worse: {faults[:3]}")
    percent = 100 / sum(job.stages[0].tasks for job in problem.jobs)
    return {
        "took_s": took_s,
        "before": percent * at_nearest(problem, first),
        "after": percent * at_nearest(problem, found),
    }


def each(
    asks: Sequence[dict[str, Any]], work: Callable[[dict[str, Any]], dict[str, float]] = solve
) -> list[dict[str, float]]:
    """Return the answers to some questions, each from a fresh process, one after the other."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        return list(pool.map(work, asks))


def asked(solver: str, tasks: int, limit_s: float, **more: float) -> list[dict[str, Any]]:
    """Return the questions of one figure: the same for two drawings of nodes."""
    nodes = int(more.pop("nodes", NODES))
    fixed = {"solver": solver, "tasks": tasks, "limit_s": limit_s, "nodes": nodes}
    return [fixed | {"more": more | {"seed": seed}} for seed in SEEDS]


def column(rows: Sequence[dict[str, float]], name: str) -> list[float]:
    """Return one column of the answers."""
    return [row[name] for row in rows]


def proofs(*, is_quick: bool) -> Iterator[Figure]:
    """Yield what the proof of 2,500 tasks takes, at starts of 3 minutes and of 10 seconds."""
    for jobs in (1,) if is_quick else (1, 4):
        for tick_s, link in ((180.0, 0), (10.0, 0), (10.0, LINK_BYTES_PER_S)):
            more = {"jobs": jobs, "tick_s": tick_s} | ({"link": link} if link else {})
            rows = each(asked("cp", 2500, LIMIT_S, **more))
            what = f"2,500 tasks in {jobs} jobs, starts every {tick_s:g} s"
            what += ", links" if link else ""
            key = f"proof_{jobs}_{tick_s:g}_{int(link > 0)}"
            goal = Goal("below", 5.0) if jobs == 1 else None
            yield figure(f"{key}_s", f"{what}: `cp`", "s", column(rows, "took_s"), goal)
            proven = [100 * value for value in column(rows, "is_proven")]
            sure = Goal("least", 100.0) if jobs == 1 else None
            yield figure(f"{key}_proven", f"{what}: proven optimal", "%", proven, sure)


def lying(*, is_quick: bool) -> Iterator[Figure]:
    """Yield what plans take whose input lies in three copies on nodes, a part of it nowhere."""
    for percent in (10,) if is_quick else (0, 10, 50):
        more = {"link": LINK_BYTES_PER_S, "nowhere": percent / 100}
        rows = each(asked("cp", 170 if is_quick else 2500, LIMIT_S, **more))
        what = f"2,500 tasks, links, three copies of the input, {percent} % of it nowhere"
        key = f"lying_{percent}"
        yield figure(f"{key}_s", f"{what}: `cp`", "s", column(rows, "took_s"))
        gaps = column(rows, "gap_percent")
        yield figure(f"{key}_gap", f"{what}: above its bound", "%", gaps, Goal("most", 1.0))


def near(*, is_quick: bool) -> Iterator[Figure]:
    """Yield what choosing a plan by where input is read fastest takes, and how much it wins."""
    asks = asked("cp", 170 if is_quick else 2500, LIMIT_S, link=LINK_BYTES_PER_S)
    rows = each(asks, draw_near)
    what = "2,500 tasks, three copies, one of them the fastest to read"
    took_s = column(rows, "took_s")
    yield figure("near_s", f"{what}: to choose among plans that end alike", "s", took_s)
    before, after = column(rows, "before"), column(rows, "after")
    yield figure("near_before", f"{what}: tasks that can begin beside it before", "%", before)
    yield figure("near_after", f"{what}: and after", "%", after)


def large(*, is_quick: bool) -> Iterator[Figure]:
    """Yield what 100,000 tasks take, and how far the plan is above its bound."""
    for jobs in (1,) if is_quick else (1, 20, 150):
        rows = each(asked("cp", 100_000, 60.0, jobs=jobs))
        what = f"100,000 tasks in {jobs} jobs, starts every 10 s"
        yield figure(
            f"large_{jobs}_s", f"{what}: `cp`", "s", column(rows, "took_s"), Goal("below", 60.0)
        )
        gaps = column(rows, "gap_percent")
        yield figure(f"large_{jobs}_gap", f"{what}: above its bound", "%", gaps, Goal("most", 1.0))


def rivals(*, is_quick: bool) -> Iterator[Figure]:
    """Yield how far ``ga`` and ``ls`` are above ``cp`` for 680 tasks in the paper's 30 s."""
    limit_s = 3.0 if is_quick else LIMIT_S
    for nodes in (9, 27):
        exact = column(each(asked("cp", 680, limit_s, nodes=nodes)), "makespan_s")
        for solver in ("ga", "ls"):
            found = column(each(asked(solver, 680, limit_s, nodes=nodes)), "makespan_s")
            over = [100 * (mine / best - 1) for mine, best in zip(found, exact, strict=True)]
            what = f"680 tasks on {nodes} nodes, {limit_s:g} s: `{solver}` above `cp`"
            yield figure(f"rival_{solver}_{nodes}", what, "%", over, Goal("most", 10.0))


def growth(*, is_quick: bool) -> Iterator[Figure]:
    """Yield time, quality and memory from 500 to 2,500 tasks on PC-1's 9 nodes (Fig. 4)."""
    limit_s = 3.0 if is_quick else 8.0
    for tasks in SIZES[:1] if is_quick else SIZES:
        for solver in ("cp", "ga", "ls"):
            (row,) = each(asked(solver, tasks, limit_s, nodes=9)[:1])
            what = f"{tasks:,} tasks on 9 nodes, `{solver}`"
            key = f"growth_{solver}_{tasks}"
            yield figure(f"{key}_s", f"{what}: found after", "s", row["found_s"])
            yield figure(f"{key}_makespan_s", f"{what}: makespan", "s", row["makespan_s"])
            yield figure(f"{key}_mib", f"{what}: peak memory", "MiB", row["peak_mib"])


def measure(*, is_quick: bool = False) -> Report:
    """Return the judged figures and the growth of Fig. 4."""
    figures = [
        one
        for part in (proofs, lying, near, large, rivals, growth)
        for one in part(is_quick=is_quick)
    ]
    return Report("planner", tuple(figures), NOTES)
