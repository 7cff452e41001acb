"""Solver ``cp``: constraint programming over counts of identical tasks (OR-Tools CP-SAT).

The paper gives each task a start and a node of its own. Tasks of a stage are identical, so here
variables count how many of them have started on a node by a tick (``counts``), and the model does
not grow with the number of tasks. Before it is built, list scheduling gives plans and ``bounds``
says what no plan beats: where the two meet the optimum is proven and nothing is left to search.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

from tenure.harvest.problem import Problem
from tenure.harvest.progress import Watch
from tenure.harvest.solution import Refusal, Solution, solution
from tenure.harvest.solvers.bounds import Relaxation, least_by_area
from tenure.harvest.solvers.counts import Answer, Model
from tenure.harvest.solvers.orders import plans
from tenure.harvest.solvers.two_ended import shortened
from tenure.model.errors import Unavailable

#: Above so many counts CP-SAT takes longer than what it could still win is worth (measured).
MAX_COUNTS = 120_000
#: And more than these for each second that is left would take too much of them to write down.
COUNTS_PER_S = 8_000


def cp(problem: Problem, watch: Watch, cores: int, *, must_search: bool = True) -> Solution:
    """Return the best plan found and what bounds it; ``is_optimal`` says whether it is proven.

    ``Unavailable`` (``no_solver``): a search is needed and OR-Tools is not installed; not raised if
    the best plan without a search will do (``must_search`` False).
    """
    best = best_of(problem, watch)
    if not problem.nodes or watch.is_cancelled:
        return best
    if best.scheduled == problem.tasks:
        best = replace(best, most_scheduled=best.scheduled, least_makespan=least_by_area(problem))
    if best.is_optimal or watch.is_over:
        return best
    relaxed = Relaxation(problem, watch)
    if relaxed.is_cut:
        return best
    if best.scheduled < problem.tasks:
        best = replace(best, most_scheduled=max(best.scheduled, relaxed.most_tasks()))
    best = bounded(relaxed, best)
    watch.tell(best)
    if best.makespan > (best.least_makespan or 0):
        least = best.least_makespan or 0
        best = shortened(problem, best, least, lambda: watch.left_s < watch.limit_s / 4)
        watch.tell(best)
    if best.is_optimal or watch.is_over:
        return best
    if find_spec("ortools") is None and not must_search:
        return best
    if find_spec("ortools") is None:
        raise Unavailable("solver cp needs the package ortools", code="no_solver")
    best = more_tasks(relaxed, best, watch, cores)
    return earlier_end(relaxed, best, watch, cores)


def best_of(problem: Problem, watch: Watch) -> Solution:
    """Return the best plan by list scheduling in several orders, until time is half over.

    The first plan is made whatever time there is; one that is not ready then is given up.
    """
    best: Solution | None = None
    for listed in plans(problem, lambda: watch.is_over or watch.left_s < watch.limit_s / 2):
        found = replace(listed, solver="cp")
        if best is None or found.score < best.score:
            best = found
            watch.tell(best)
        if watch.is_cancelled:
            break
    assert best is not None
    return best


def bounded(relaxed: Relaxation, best: Solution) -> Solution:
    """Return a plan with the bound of its makespan by the linear program."""
    ends = [own.end for own in relaxed.alone if own.end is not None]
    is_all = best.scheduled == relaxed.problem.tasks
    known = max(ends, default=0) if is_all else 0
    low = min(max(known, best.least_makespan or 0), best.makespan)
    least = relaxed.least_makespan(best.scheduled, low, best.makespan)
    return replace(best, least_makespan=least)


def more_tasks(relaxed: Relaxation, best: Solution, watch: Watch, cores: int) -> Solution:
    """Return a plan with as many tasks as can be (Eq. 2), if time and size allow the search."""
    if best.scheduled == best.most_scheduled:
        return best
    model = Model.of(relaxed, best.scheduled + 1, relaxed.problem.ticks, most_counts(watch))
    if model is None:
        return best
    found = model.maximise_tasks(watch, watch.left_s / 2, cores)
    better = taken(relaxed.problem, best, found)
    most = min(best.most_scheduled or 0, max(found.bound, better.scheduled))
    if better is best:
        return replace(best, most_scheduled=most)
    return replace(bounded(relaxed, better), most_scheduled=most)


def earlier_end(relaxed: Relaxation, best: Solution, watch: Watch, cores: int) -> Solution:
    """Return a plan of as many tasks that ends as early as can be (Eq. 3), likewise."""
    least = best.least_makespan or 0
    if watch.is_over or best.makespan <= least:
        return best
    model = Model.of(relaxed, best.scheduled, best.makespan - 1, most_counts(watch))
    if model is None:
        return best
    found = model.minimise_makespan(watch, least, cores)
    better = taken(relaxed.problem, best, found)
    return replace(better, least_makespan=min(better.makespan, max(least, found.bound)))


def most_counts(watch: Watch) -> int:
    """Return how large a model may be for the time that is left."""
    return min(MAX_COUNTS, int(watch.left_s * COUNTS_PER_S))


def taken(problem: Problem, best: Solution, found: Answer) -> Solution:
    """Return the plan that a search found, or the one before where it found none better."""
    if found.starts is None:
        return best
    out = [Refusal(j, "no_room", "the window holds more tasks without it") for j in found.refused]
    known = {refusal.job: refusal for refusal in best.refusals}
    refusals = [known.get(refusal.job, refusal) for refusal in out]
    plan = solution(problem, found.starts, refusals, "cp")
    if plan.score >= best.score:
        return best
    bounds = (best.most_scheduled, best.least_makespan)
    return replace(plan, most_scheduled=bounds[0], least_makespan=bounds[1])
