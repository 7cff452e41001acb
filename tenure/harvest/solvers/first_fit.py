"""First fit decreasing (Salamander, Algorithm 1) and the list scheduling that all solvers build on.

Jobs with the longest execution time first; each stage's tasks as early as they fit. The paper draws
one node at random among those where a task can start first; ``first_fit`` is the same without
chance, by earliest end, so that fast nodes are preferred; ``random_first_fit`` is the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tenure.harvest.grid import Grid, Ints, allowed, earliest, waves
from tenure.harvest.problem import Problem, Stage
from tenure.harvest.solution import Refusal, Solution, Start, solution
from tenure.model.units import size_text

#: Gives (node, tick, tasks) for all tasks of a stage from a tick on, None where they do not fit.
Placer = Callable[[Grid, Stage, int], list[tuple[int, int, int]] | None]


def first_fit(problem: Problem) -> Solution:
    """Return a plan by list scheduling: jobs by decreasing work, tasks by earliest end."""
    return list_plan(problem, decreasing(problem), earliest, "first_fit")


def random_first_fit(problem: Problem, rng: np.random.Generator) -> Solution:
    """Return a plan by Algorithm 1: each task starts as early as it can, on a node by chance."""

    def by_start(grid: Grid, stage: Stage, ready: int) -> list[tuple[int, int, int]] | None:
        return scattered(grid, stage, ready, rng)

    return list_plan(problem, decreasing(problem), by_start, "random_first_fit")


def decreasing(problem: Problem) -> list[int]:
    """Return the jobs' indices, the one with the longest execution time (all its work) first."""
    work = [sum(stage.tasks * stage.work_s for stage in job.stages) for job in problem.jobs]
    return sorted(range(len(work)), key=lambda j: (-work[j], j))


def list_plan(problem: Problem, order: Sequence[int], place: Placer, solver: str) -> Solution:
    """Return a plan that takes jobs in ``order`` (indices) and refuses those that do not fit."""
    plan = list_plan_until(problem, order, place, solver, is_over=lambda: False)
    assert plan is not None
    return plan


def list_plan_until(
    problem: Problem,
    order: Sequence[int],
    place: Placer,
    solver: str,
    *,
    is_over: Callable[[], bool],
) -> Solution | None:
    """Return the same, or None if ``is_over``, asked before each job, says so first."""
    if not problem.nodes:
        gone = [Refusal(j, "no_nodes", "there is no node to harvest") for j in order]
        return solution(problem, (), gone, solver)
    grid = Grid.of(problem)
    starts: list[Start] = []
    refusals = []
    for j in order:
        if is_over():
            return None
        placed = place_job(grid, j, place)
        if isinstance(placed, Refusal):
            refusals.append(placed)
        else:
            starts += placed
    return solution(problem, starts, refusals, solver)


def place_job(grid: Grid, j: int, place: Placer = earliest) -> list[Start] | Refusal:
    """Place a whole job, taking what it needs from ``grid``; or refuse it and take nothing."""
    job = grid.problem.jobs[j]
    saved = (grid.cpu_m.copy(), grid.memory_bytes.copy(), [copied(row) for row in grid.link])
    starts: list[Start] = []
    ends = [running_end(grid.problem, j, s) for s in range(len(job.stages))]
    for s, stage in enumerate(job.stages):
        ready = max((ends[other] for other in stage.after), default=0)
        taken = take_stage(grid, j, s, ready, place)
        if taken is None:
            grid.cpu_m, grid.memory_bytes, grid.link = saved
            return refusal(grid.problem, j, s)
        starts += taken[0]
        ends[s] = max(ends[s], taken[1])
    return starts


def take_stage(
    grid: Grid, j: int, s: int, ready: int, place: Placer
) -> tuple[list[Start], int] | None:
    """Place a stage from tick ``ready`` on; return its starts and end, None if it does not fit."""
    problem, stage = grid.problem, grid.problem.jobs[j].stages[s]
    if not stage.tasks:
        return [], ready
    found = place(grid, stage, ready) if ready < grid.ticks else None
    if found is None:
        return None
    for node, tick, count in found:
        grid.take(stage, node, tick, count)
    for node, count in per_node(found):
        grid.send(stage, node, ready, count)
    end = max(tick + problem.duration(stage, node) for node, tick, _ in found)
    return [Start(j, s, node, tick, count) for node, tick, count in found], end


def copied(row: Ints | None) -> Ints | None:
    """Return a copy of a link's row, None for None."""
    return None if row is None else row.copy()


def running_end(problem: Problem, job: int, stage: int) -> int:
    """Return when the last task of a stage that runs already ends, 0 if none runs."""
    mine = (r.end for r in problem.running if (r.job, r.stage) == (job, stage))
    return max(mine, default=0)


def per_node(found: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Return (node, tasks) of (node, tick, tasks)."""
    counts: dict[int, int] = {}
    for node, _, count in found:
        counts[node] = counts.get(node, 0) + count
    return sorted(counts.items())


def scattered(
    grid: Grid, stage: Stage, ready: int, rng: np.random.Generator
) -> list[tuple[int, int, int]] | None:
    """Return (node, tick, 1) for all tasks of a stage, by earliest start, among nodes by chance."""
    sources = {k: waves(grid, stage, k, ready) for k in allowed(grid.problem, stage)}
    offers = {k: wave for k, source in sources.items() if (wave := next(source, None))}
    found: list[tuple[int, int, int]] = []
    while len(found) < stage.tasks and offers:
        first = min(tick for tick, _ in offers.values())
        open_now = [k for k, (tick, _) in offers.items() if tick == first]
        node = open_now[int(rng.integers(len(open_now)))]
        tick, count = offers.pop(node)
        found.append((node, tick, 1))
        wave = (tick, count - 1) if count > 1 else next(sources[node], None)
        if wave:
            offers[node] = wave
    return found if len(found) == stage.tasks else None


def refusal(problem: Problem, j: int, s: int) -> Refusal:
    """Return why a job cannot be placed whose stage ``s`` found no room."""
    job, stage = problem.jobs[j], problem.jobs[j].stages[s]
    nodes = allowed(problem, stage)
    name = f"stage {stage.name!r} of {job.name!r}"
    if not nodes:
        return Refusal(j, "no_nodes", f"{name} may run on no node")
    empty = Grid.of(problem)
    if not any(next(waves(empty, one(stage), k, 0), None) for k in nodes):
        need = f"{stage.cpu_m / 1000:g} cores and {size_text(stage.memory_bytes)}"
        text = f"no node ever has {need} free for as long as one task of {name} takes"
        return Refusal(j, "never_fits", text)
    return Refusal(j, "no_room", f"{name}: not all {stage.tasks} tasks fit the window")


def one(stage: Stage) -> Stage:
    """Return a stage of one task that waits for no chunk."""
    return Stage(stage.name, 1, stage.work_s, stage.cpu_m, stage.memory_bytes)
