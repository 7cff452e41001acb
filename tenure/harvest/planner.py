"""The holistic planner: one question, several solvers (Salamander, section III-B2)."""

from __future__ import annotations

from collections.abc import Callable

from tenure.harvest.problem import Problem, faults
from tenure.harvest.progress import Watch
from tenure.harvest.solution import Solution
from tenure.harvest.solvers import copies
from tenure.harvest.solvers.cp import cp
from tenure.harvest.solvers.fair import fair
from tenure.harvest.solvers.first_fit import first_fit
from tenure.harvest.solvers.ga import ga
from tenure.harvest.solvers.ls import ls
from tenure.model.errors import FieldError, InvalidInput


def by_first_fit(problem: Problem, watch: Watch, cores: int, seed: int) -> Solution:
    """Plan by list scheduling, which needs no time worth limiting."""
    return first_fit(problem)


def by_cp(problem: Problem, watch: Watch, cores: int, seed: int) -> Solution:
    """Plan by constraint programming."""
    return cp(problem, watch, cores)


def by_ga(problem: Problem, watch: Watch, cores: int, seed: int) -> Solution:
    """Plan by the genetic algorithm, which uses one core."""
    return ga(problem, watch, seed)


def by_ls(problem: Problem, watch: Watch, cores: int, seed: int) -> Solution:
    """Plan by local search, which uses one core."""
    return ls(problem, watch, seed)


def by_fair(problem: Problem, watch: Watch, cores: int, seed: int) -> Solution:
    """Plan with room shared between submitters."""
    return fair(problem)


def by_auto(problem: Problem, watch: Watch, cores: int, seed: int) -> Solution:
    """Plan by what is best for the size and time: ``cp``, in no time list scheduling alone.

    Never ``ga`` or ``ls``: at no size measured do they beat ``cp``, in any time
    (docs/benchmarks.md). Without OR-Tools the search is left out.
    """
    if watch.limit_s < LEAST_S:
        return first_fit(problem)
    return cp(problem, watch, cores, must_search=False)


Solver = Callable[[Problem, Watch, int, int], Solution]
SOLVERS: dict[str, Solver] = {
    "auto": by_auto,
    "cp": by_cp,
    "ga": by_ga,
    "ls": by_ls,
    "first_fit": by_first_fit,
    "fair": by_fair,
}
#: With less time than this ``cp`` would not come to its bounds.
LEAST_S = 0.25
#: Solvers that can prove optima.
EXACT = ("auto", "cp")


def plan(
    problem: Problem, watch: Watch, *, solver: str = "auto", cores: int = 2, seed: int = 0
) -> Solution:
    """Return a plan of all jobs that fit, as many tasks as can be, then as early as can be.

    ``watch`` has the time limit and who is told of progress, ``cores`` how many may be used,
    ``seed`` makes solvers that draw at random repeatable. ``auto`` chooses by time. Where tasks
    have copies of their input on nodes, plans that ``watch`` is told of count all of them.
    ``Unavailable``: the solver's library is not installed.
    ``InvalidInput``: the problem is not well formed (each fault named), or no such solver.
    """
    wrong = faults(problem)
    if wrong:
        text = "; ".join(f"{fault.path}: {fault.message}" for fault in wrong[:10])
        raise InvalidInput(f"the problem cannot be planned: {text}", fields=wrong)
    if solver not in SOLVERS:
        text = f"{solver!r} is none of {', '.join(SOLVERS)}"
        raise InvalidInput(f"solver: {text}", fields=(FieldError("solver", text),))

    def solve(asked: Problem) -> Solution:
        return SOLVERS[solver](asked, watch, cores, seed)

    found = copies.planned(problem, solve, is_exact=solver in EXACT)
    watch.tell(found)
    return found
