"""The holistic planner: one question, several solvers (Salamander, section III-B2)."""

from __future__ import annotations

from collections.abc import Callable

from tenure.harvest.cp import cp
from tenure.harvest.first_fit import first_fit
from tenure.harvest.problem import Problem, faults
from tenure.harvest.progress import Watch
from tenure.harvest.solution import Solution
from tenure.model.errors import FieldError, InvalidInput


def by_first_fit(problem: Problem, watch: Watch, cores: int, seed: int) -> Solution:
    """Plan by list scheduling, which needs no time worth limiting."""
    found = first_fit(problem)
    watch.tell(found)
    return found


def by_cp(problem: Problem, watch: Watch, cores: int, seed: int) -> Solution:
    """Plan by constraint programming."""
    return cp(problem, watch, cores)


Solver = Callable[[Problem, Watch, int, int], Solution]
SOLVERS: dict[str, Solver] = {"first_fit": by_first_fit, "cp": by_cp}


def plan(
    problem: Problem, watch: Watch, *, solver: str = "auto", cores: int = 2, seed: int = 0
) -> Solution:
    """Return a plan of all jobs that fit, as many tasks as can be, then as early as can be.

    ``watch`` has the time limit and who is told of progress, ``cores`` how many may be used,
    ``seed`` makes solvers that draw at random repeatable. ``auto`` chooses by size and time.
    ``InvalidInput``: the problem is not well formed (each fault named), or no such solver.
    """
    wrong = faults(problem)
    if wrong:
        text = "; ".join(f"{fault.path}: {fault.message}" for fault in wrong[:10])
        raise InvalidInput(f"the problem cannot be planned: {text}", fields=wrong)
    name = choose(problem, watch.limit_s) if solver == "auto" else solver
    if name not in SOLVERS:
        text = f"{solver!r} is none of auto, {', '.join(SOLVERS)}"
        raise InvalidInput(f"solver: {text}", fields=(FieldError("solver", text),))
    return SOLVERS[name](problem, watch, cores, seed)


def choose(problem: Problem, limit_s: float) -> str:
    """Return the solver for a problem of this size and this time limit."""
    return "first_fit"
