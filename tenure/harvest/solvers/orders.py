"""Plans by list scheduling in several orders of jobs and stages; the best of them counts (ours)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tenure.harvest.grid import Grid, earliest
from tenure.harvest.problem import Problem
from tenure.harvest.solution import Refusal, Solution, Start, solution
from tenure.harvest.solvers.first_fit import decreasing, list_plan_until, running_end, take_stage


def plans(problem: Problem, is_over: Callable[[], bool] = lambda: False) -> Iterator[Solution]:
    """Yield plans by several orders, none of them always best.

    Job by job: longest first (Algorithm 1), most tasks for their work first (more tasks fit where
    not all do), and longest end phase first, which leaves little to wait for at the end. Then with
    all first stages before all second ones, whose tasks fill the end of the plan together. Once
    ``is_over`` the plan that is being made is given up, unless it is the first.
    """
    tried: set[tuple[int, ...]] = set()
    fullest: Solution | None = None
    for order in (decreasing(problem), by_tasks(problem), by_last_stages(problem)):
        if tuple(order) not in tried:
            tried.add(tuple(order))
            asked = is_over if fullest else lambda: False
            found = list_plan_until(problem, order, earliest, "list", is_over=asked)
            if found is None:
                return
            fullest = found if fullest is None or found.score < fullest.score else fullest
            yield found
    if fullest is None or len(problem.jobs) < 2:
        return
    out = {refusal.job for refusal in fullest.refusals}
    for known in tried:
        left = [j for j in known if j not in out]
        staged = stage_by_stage(problem, left, fullest.refusals, is_over=is_over)
        if staged is not None:
            yield staged


def by_tasks(problem: Problem) -> list[int]:
    """Return the jobs with the most tasks for their area (core- and byte-seconds) first."""
    cores = max((max(node.cpu_m, default=0) for node in problem.nodes), default=1) or 1
    memory = max((max(node.memory_bytes, default=0) for node in problem.nodes), default=1) or 1

    def area(j: int) -> float:
        stages = problem.jobs[j].stages
        tasks = sum(stage.tasks for stage in stages) or 1
        need = sum(
            stage.tasks * stage.work_s * max(stage.cpu_m / cores, stage.memory_bytes / memory)
            for stage in stages
        )
        return need / tasks

    return sorted(range(len(problem.jobs)), key=lambda j: (area(j), j))


def by_last_stages(problem: Problem) -> list[int]:
    """Return the jobs with the most work after their first stages first (as Jackson's rule)."""

    def rest(j: int) -> float:
        return sum(stage.work_s for stage in problem.jobs[j].stages if stage.after)

    return sorted(range(len(problem.jobs)), key=lambda j: (-rest(j), j))


def stage_by_stage(
    problem: Problem,
    order: Sequence[int],
    refusals: Sequence[Refusal],
    *,
    is_over: Callable[[], bool],
) -> Solution | None:
    """Return a plan that takes stages of all jobs by depth, jobs in ``order``.

    None: no room, or ``is_over``, asked before each stage.
    """
    grid = Grid.of(problem)
    starts: list[Start] = []
    ends = {
        (j, s): running_end(problem, j, s)
        for j in order
        for s in range(len(problem.jobs[j].stages))
    }
    depths = {j: depths_of(problem, j) for j in order}
    for j, s in sorted(
        ends, key=lambda key: depths[key[0]][key[1]]
    ):  # stable: order within a depth
        if is_over():
            return None
        stage = problem.jobs[j].stages[s]
        ready = max((ends[j, other] for other in stage.after), default=0)
        taken = take_stage(grid, j, s, ready, earliest)
        if taken is None:
            return None
        starts += taken[0]
        ends[j, s] = max(ends[j, s], taken[1])
    return solution(problem, starts, refusals, "list")


def depths_of(problem: Problem, j: int) -> list[int]:
    """Return for each stage of a job how many come before it one after the other."""
    found: list[int] = []
    for stage in problem.jobs[j].stages:
        found.append(max((found[other] + 1 for other in stage.after), default=0))
    return found
