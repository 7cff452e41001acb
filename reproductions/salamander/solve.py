"""A plan by one solver in the time that it has; a module of few imports, for its memory is told."""

from __future__ import annotations

import os
import time
from typing import Any

from tenure.harvest.io.solve import plan
from tenure.harvest.problem import Problem
from tenure.harvest.progress import Progress
from tenure.harvest.solution import Solution
from testbed.host import memory_mib

Json = dict[str, Any]
#: The paper's limit, and after so long without a better plan a solver ends (ours).
LIMIT_S, PATIENCE_S, CORES = 30.0, 3.0, 2


def why_not(found: Solution) -> str:
    """Return why a plan has no job, "" where it has."""
    return found.refusals[0].code if found.refusals else ""


def solved(problem: Problem, solver: str) -> tuple[Solution, float]:
    """Return a plan and the seconds until it was found.

    A solver ends at its limit, or after ``PATIENCE_S`` without a better plan.
    """
    best: tuple[int, int] | None = None
    better_s = 0.0

    def told(progress: Progress) -> bool:
        nonlocal best, better_s
        if best is None or progress.best.score < best:
            best, better_s = progress.best.score, progress.elapsed_s
        return solver.startswith("cp") or progress.elapsed_s - better_s < PATIENCE_S

    begun_s = time.monotonic()
    name = solver.partition(",")[0]
    found = plan(problem, name, time_limit_s=LIMIT_S, cores=CORES, told=told)
    took_s = time.monotonic() - begun_s
    return found, (took_s if solver.startswith("cp") else better_s)


def measured(problem: Problem, solver: str) -> Json:
    """Return what a plan took and what it is, with the most memory that this process had."""
    found, took_s = solved(problem, solver)
    return {
        "tasks": problem.tasks,
        "solver": solver,
        "solved_s": took_s,
        "makespan_s": found.makespan * problem.tick_s,
        "refused": why_not(found),
        "is_proven": found.is_optimal,
        "peak_mib": memory_mib(os.getpid())["hwm"],
    }
