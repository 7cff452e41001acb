"""The planner on the machine's clock."""

from __future__ import annotations

import time

from tenure.harvest import planner
from tenure.harvest.problem import Problem
from tenure.harvest.progress import Told, Watch
from tenure.harvest.solution import Solution

#: The paper gave its solvers 30 seconds and two cores.
TIME_LIMIT_S = 30.0
CORES = 2


def plan(
    problem: Problem,
    solver: str = "auto",
    *,
    time_limit_s: float = TIME_LIMIT_S,
    cores: int = CORES,
    told: Told | None = None,
) -> Solution:
    """Return a plan within ``time_limit_s`` seconds on ``cores`` cores (``planner.plan``).

    Takes the calling thread for that long. ``told`` hears of each better plan and answers whether
    to go on; after a no the best plan so far is returned. To end a search from another
    thread call ``planner.plan`` with a ``watch_for``, and its ``cancel``.
    """
    watch = watch_for(time_limit_s, told)
    return planner.plan(problem, watch, solver=solver, cores=cores)


def watch_for(time_limit_s: float = TIME_LIMIT_S, told: Told | None = None) -> Watch:
    """Return the time a solver has, counted from now by the machine's clock."""
    return Watch(time.monotonic, time_limit_s, told)
