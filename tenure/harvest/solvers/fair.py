"""Solver ``fair``: room shared between submitters (ours; the paper's future work).

Dominant resource fairness over whole jobs: the next job is always one of the submitter whose
accepted jobs hold the smallest share of what the window offers, of cores or of memory, whichever
share is larger, divided by the submitter's weight; of one submitter's jobs the first in the list.
What runs already counts until its end, so that who has all of it waits for who has nothing.
So nobody's many jobs keep out another's few, at the price of fewer tasks in all where not
everything fits.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenure.harvest.grid import Grid
from tenure.harvest.problem import Job, Problem
from tenure.harvest.solution import Refusal, Solution, Start, solution
from tenure.harvest.solvers.first_fit import place_job


def fair(problem: Problem) -> Solution:
    """Return a plan that takes jobs in the order of their submitters' dominant shares."""
    if not problem.nodes:
        gone = [Refusal(j, "no_nodes", "there is no node to harvest") for j in each(problem)]
        return solution(problem, (), gone, "fair")
    grid = Grid.of(problem)
    offer = (float(grid.cpu_m.sum()), float(grid.memory_bytes.sum()))
    held = {job.submitter: (0.0, 0.0) for job in problem.jobs}
    for run in problem.running:
        stage = problem.jobs[run.job].stages[run.stage]
        ticks = run.count * max(0, run.end - problem.begin)
        _hold(held, problem.jobs[run.job], ticks * stage.cpu_m, ticks * stage.memory_bytes)
    waiting = list(each(problem))
    starts: list[Start] = []
    refusals = []
    while waiting:
        j = min(waiting, key=lambda j: (weighted(problem.jobs[j], held, offer), j))
        waiting.remove(j)
        placed = place_job(grid, j)
        if isinstance(placed, Refusal):
            refusals.append(placed)
            continue
        starts += placed
        _hold(held, problem.jobs[j], *area(problem, problem.jobs[j], placed))
    return solution(problem, starts, refusals, "fair")


def _hold(held: dict[str, tuple[float, float]], job: Job, cores: float, memory: float) -> None:
    """Add to what the submitter of a job holds."""
    old = held[job.submitter]
    held[job.submitter] = (old[0] + cores, old[1] + memory)


def each(problem: Problem) -> range:
    """Return the jobs' indices."""
    return range(len(problem.jobs))


def share(held: tuple[float, float], offer: tuple[float, float]) -> float:
    """Return the dominant share: the larger of two ratios of what the window offers."""
    return max(mine / all_ if all_ else 0.0 for mine, all_ in zip(held, offer, strict=True))


def weighted(
    job: Job, held: Mapping[str, tuple[float, float]], offer: tuple[float, float]
) -> float:
    """Return the dominant share of a job's submitter by its weight."""
    return share(held[job.submitter], offer) / job.weight


def area(problem: Problem, job: Job, starts: list[Start]) -> tuple[float, float]:
    """Return core-ticks (thousandths) and byte-ticks that starts of a job take."""
    cores = memory = 0.0
    for start in starts:
        stage = job.stages[start.stage]
        ticks = start.count * problem.duration(stage, start.node)
        cores += ticks * stage.cpu_m
        memory += ticks * stage.memory_bytes
    return cores, memory
