"""Plans within a limit: last stages as late as they can be, all before them as early (ours).

List scheduling begins each task as early as it can, so the end of a plan is ragged: nodes have run
out of tasks one after the other, each by up to the length of its last one, and last stages are
often the long ones. Here they are packed against the limit, from its end backwards, so that what is
ragged lies where stages meet, and shorter tasks fill it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tenure.harvest.grid import Grid, earliest
from tenure.harvest.problem import Problem, Stage
from tenure.harvest.solution import Solution, Start, solution
from tenure.harvest.solvers.bounds import likeness
from tenure.harvest.solvers.first_fit import decreasing, running_end, take_stage
from tenure.harvest.solvers.orders import by_last_stages, depths_of

Key = tuple[int, int]
#: Limits that are tried: each costs as much as a list plan.
MAX_TRIES = 12


def shortened(
    problem: Problem, best: Solution, least: int, is_over: Callable[[], bool]
) -> Solution:
    """Return ``best``, or a plan of the same jobs that ends earlier, by trying limits.

    ``least`` is a makespan that no plan beats: limits between it and the best plan's are halved.
    Ends once ``is_over``, asked before each stage. Does nothing where chunks must be brought to
    last stages, whose sending cannot be packed backwards.
    """
    out = {refusal.job for refusal in best.refusals}
    known = [[j for j in order(problem) if j not in out] for order in (by_last_stages, decreasing)]
    orders = known[:1] if known[0] == known[1] else known
    if not lasts_of(problem, orders[0]) or waits_for_links(problem, orders[0]):
        return best
    low, tries = least, 0
    while low < best.makespan and tries < MAX_TRIES and not is_over():
        limit = (low + best.makespan - 1) // 2
        tries += 1
        found = next((f for o in orders if (f := two_ended(problem, limit, o, is_over))), None)
        if found is None:
            low = limit + 1
        else:
            best = replace(
                solution(problem, found, best.refusals, best.solver),
                most_scheduled=best.most_scheduled,
                least_makespan=best.least_makespan,
            )
    return best


def two_ended(
    problem: Problem, limit: int, order: Sequence[int], is_over: Callable[[], bool]
) -> list[Start] | None:
    """Return the starts of a plan of the jobs in ``order`` within ``limit`` ticks.

    Last stages of later jobs come last. None where it does not come out so, which proves nothing.
    """
    if limit > problem.ticks:
        return None
    lasts = lasts_of(problem, order)
    grid = Grid.of(problem).cut(limit)
    late = backwards(grid, [key for j in reversed(order) for key in lasts if key[0] == j], is_over)
    if late is None:
        return None
    early = forwards(grid, order, set(lasts), is_over)
    if early is None:
        return None
    starts, ends = early
    for j, s in lasts:
        ready = max(ends[j, other] for other in problem.jobs[j].stages[s].after)
        if min(start.tick for start in late[j, s]) < ready:
            return None
    return starts + [start for placed in late.values() for start in placed]


def lasts_of(problem: Problem, order: Sequence[int]) -> list[Key]:
    """Return the stages with tasks that wait for others and that none waits for."""
    found = []
    for j in order:
        stages = problem.jobs[j].stages
        waited_for = {other for stage in stages for other in stage.after}
        found += [
            (j, s)
            for s, stage in enumerate(stages)
            if stage.tasks and stage.after and s not in waited_for
        ]
    return found


def waits_for_links(problem: Problem, order: Sequence[int]) -> bool:
    """Whether chunks of a last stage have to be brought to any node."""
    return any(
        waits_for_chunks(problem, problem.jobs[j].stages[s]) for j, s in lasts_of(problem, order)
    )


def backwards(
    grid: Grid, keys: Sequence[Key], is_over: Callable[[], bool]
) -> dict[Key, list[Start]] | None:
    """Place stages one after the other, each as late as it fits; takes what they need of ``grid``.

    In a mirror of time the latest start is the earliest end. Like stages are placed together, those
    named first have the latest starts.
    """
    problem, limit = grid.problem, grid.ticks
    mirror = Grid(
        problem,
        np.ascontiguousarray(grid.cpu_m[:, ::-1]),
        np.ascontiguousarray(grid.memory_bytes[:, ::-1]),
        [None] * len(problem.nodes),
    )
    found: dict[Key, list[Start]] = {}
    for group in alike(problem, keys, lambda _: True):
        stage = together(problem, group)
        placed = None if is_over() else earliest(mirror, stage, 0)
        if placed is None:
            return None
        for node, tick, count in placed:
            mirror.take(stage, node, tick, count)
        found |= dealt(
            problem,
            group,
            [
                (node, limit - tick - problem.duration(stage, node), count)
                for node, tick, count in placed
            ],
        )
    grid.cpu_m, grid.memory_bytes = (
        mirror.cpu_m[:, ::-1].copy(),
        mirror.memory_bytes[:, ::-1].copy(),
    )
    return found


def forwards(
    grid: Grid, order: Sequence[int], placed: set[Key], is_over: Callable[[], bool]
) -> tuple[list[Start], dict[Key, int]] | None:
    """Place all other stages by depth, jobs in ``order``; return their starts and all ends."""
    problem = grid.problem
    ends = {
        (j, s): running_end(problem, j, s)
        for j in order
        for s in range(len(problem.jobs[j].stages))
    }
    depths = {j: depths_of(problem, j) for j in order}
    starts: list[Start] = []
    # stable: the order of jobs at each depth
    keys = sorted(ends.keys() - placed, key=lambda key: (order.index(key[0]), key[1]))
    keys.sort(key=lambda key: depths[key[0]][key[1]])
    for group in alike(problem, keys, lambda stage: is_free(problem, stage)):
        taken = None if is_over() else take_together(grid, group, ends)
        if taken is None:
            return None
        for (j, s), mine in taken.items():
            starts += mine
            stage = problem.jobs[j].stages[s]
            lasts = [start.tick + problem.duration(stage, start.node) for start in mine]
            ends[j, s] = max([ends[j, s], *lasts])
    return starts, ends


def take_together(
    grid: Grid, group: Sequence[Key], ends: Mapping[Key, int]
) -> dict[Key, list[Start]] | None:
    """Place like stages that wait for nothing together, others one by one; None: no room."""
    problem = grid.problem
    if len(group) > 1:
        stage = together(problem, group)
        placed = earliest(grid, stage, 0)
        if placed is None:
            return None
        for node, tick, count in placed:
            grid.take(stage, node, tick, count)
        return dealt(problem, group, placed)
    ((j, s),) = group
    ready = max((ends[j, other] for other in problem.jobs[j].stages[s].after), default=0)
    taken = take_stage(grid, j, s, ready, earliest)
    return None if taken is None else {(j, s): taken[0]}


def alike(
    problem: Problem, keys: Sequence[Key], may_join: Callable[[Stage], bool]
) -> list[list[Key]]:
    """Return stages in groups that may be placed as one: in a row, of like tasks, if they may."""
    found: list[list[Key]] = []
    for j, s in keys:
        stage = problem.jobs[j].stages[s]
        before = problem.jobs[found[-1][0][0]].stages[found[-1][0][1]] if found else stage
        if found and may_join(stage) and may_join(before) and likeness(stage) == likeness(before):
            found[-1].append((j, s))
        else:
            found.append([(j, s)])
    return found


def is_free(problem: Problem, stage: Stage) -> bool:
    """Whether a stage waits for nothing, neither stages nor chunks."""
    return not stage.after and not waits_for_chunks(problem, stage) and stage.tasks > 0


def waits_for_chunks(problem: Problem, stage: Stage) -> bool:
    """Whether chunks of a stage have to be waited for on any node."""
    return any(problem.must_bring(stage, k) for k in range(len(problem.nodes)))


def together(problem: Problem, group: Sequence[Key]) -> Stage:
    """Return one stage of all tasks of some like ones."""
    stages = [problem.jobs[j].stages[s] for j, s in group]
    return replace(stages[0], tasks=sum(stage.tasks for stage in stages))


def dealt(
    problem: Problem, group: Sequence[Key], placed: Sequence[tuple[int, int, int]]
) -> dict[Key, list[Start]]:
    """Return the starts of like stages from (node, tick, tasks) of all, the first ones' first."""
    found: dict[Key, list[Start]] = {key: [] for key in group}
    source = iter(placed)
    node = tick = count = 0
    for j, s in group:
        left = problem.jobs[j].stages[s].tasks
        while left:
            if not count:
                node, tick, count = next(source)
            part = min(left, count)
            found[j, s].append(Start(j, s, node, tick, part))
            left, count = left - part, count - part
    return found
