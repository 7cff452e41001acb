"""What the genetic algorithm breeds with: makes, crosses, mutates and judges plans as genes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tenure.harvest.grid import Grid, Ints, allowed, earliest, waves
from tenure.harvest.problem import Problem, Stage
from tenure.harvest.solution import Solution
from tenure.harvest.solvers.bounds import shortest
from tenure.harvest.solvers.first_fit import random_first_fit
from tenure.harvest.solvers.genes import Genes, Key, Tasks, in_order

#: The paper does not say how many tasks a mutation moves; a twentieth is what worked best.
MOVED_RATIO = 0.05


class Breeder:
    """Makes, crosses and mutates plans, and keeps the best that was ever seen."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng
        self.tasks = Tasks.of(problem)
        self.first = random_first_fit(problem, rng)
        self.best = self.first
        is_whole = self.first.scheduled == problem.tasks
        # ends after twice the first plan's are never wanted; but where jobs were refused they are
        horizon = min(problem.ticks, 2 * self.first.makespan) if is_whole else problem.ticks
        self.empty = Grid.of(problem).cut(horizon) if problem.nodes else None
        self.tails = tails_of(problem)

    def draw(self) -> Genes:
        """Return genes of a plan by Algorithm 1."""
        return self.tasks.genes(random_first_fit(self.problem, self.rng), self.rng)

    def judge(self, genes: Genes) -> Solution:
        """Return the plan of genes; the best is kept."""
        assert self.empty is not None
        found = self.tasks.plan(genes, self.empty)
        if found.score < self.best.score:
            self.best = found
        return found

    def cross(self, first: Genes, second: Genes) -> Genes:
        """Return a child by OX2: some of the first's genes, in the second's order and places."""
        of_second = self.rng.random(len(first.nodes)) < 0.5
        nodes = np.where(of_second, second.nodes, first.nodes)
        chosen = {key for key in first.order if self.rng.random() < 0.5}
        turned = iter([key for key in second.order if key in chosen])
        order = [next(turned) if key in chosen else key for key in first.order]
        return Genes(tuple(in_order(self.problem, order)), nodes)

    def mutate(self, genes: Genes, plan: Solution) -> tuple[Genes, Solution]:
        """Return genes after Algorithm 2: some tasks elsewhere, none later than the makespan.

        By chance either any tasks go to nodes by chance, or the last tasks of a stage to where they
        end first (the paper's balancing of nodes). A plan that is worse is dropped.
        """
        if not plan.starts:
            return genes, plan
        is_balancing = bool(self.rng.integers(2))
        picked = self.last_tasks(genes, plan) if is_balancing else self.any_tasks()
        moved = Genes(genes.order, genes.nodes.copy())
        grid = self.without(genes, plan, picked)
        ends = stage_ends(self.problem, plan)
        for key, mine in by_stage(self.tasks, picked).items():
            stage = self.tasks.stage(key)
            ready = max((ends.get((key[0], p), 0) for p in stage.after), default=0)
            if is_balancing:
                moved.nodes[mine] = self.soonest(grid, stage, ready, genes.nodes[mine])
                continue
            for i in mine:
                span = (ready, plan.makespan - self.tails[key])
                moved.nodes[i] = self.anywhere(grid, stage, span, int(genes.nodes[i]))
        after = self.judge(moved)
        return (moved, after) if after.score <= plan.score else (genes, plan)

    def any_tasks(self) -> list[int]:
        """Return some tasks by chance."""
        total = len(self.tasks.stages)
        picked = self.rng.choice(total, max(1, round(total * MOVED_RATIO)), replace=False)
        return [int(i) for i in picked]

    def last_tasks(self, genes: Genes, plan: Solution) -> list[int]:
        """Return the tasks of a stage that end last: within a task's time of its end, by chance."""
        keys = sorted({(start.job, start.stage) for start in plan.starts})
        key = keys[int(self.rng.integers(len(keys)))]
        stage, span = self.tasks.stage(key), self.tasks.spans[key]
        ends = [
            (start.tick + self.problem.duration(stage, start.node), start)
            for start in plan.starts
            if (start.job, start.stage) == key
        ]
        last, first = max(end for end, _ in ends), min(start.tick for _, start in ends)
        after = last - int(self.rng.integers(1, max(2, last - first)))
        picked: list[int] = []
        for node in sorted({start.node for end, start in ends if end > after}):
            count = sum(x.count for end, x in ends if x.node == node and end > after)
            there = np.flatnonzero(genes.nodes[span] == node) + span.start
            picked += [int(i) for i in there[:count]]
        return picked

    def without(self, genes: Genes, plan: Solution, picked: list[int]) -> Grid:
        """Return what is free beside a plan once some of its tasks are taken out, latest first."""
        assert self.empty is not None
        grid = self.empty.cut(self.empty.ticks)
        gone: dict[tuple[Key, int], int] = {}
        for i in picked:
            place = (self.tasks.stages[i], int(genes.nodes[i]))
            gone[place] = gone.get(place, 0) + 1
        for start in sorted(plan.starts, key=lambda start: -start.tick):
            place = ((start.job, start.stage), start.node)
            out = min(start.count, gone.get(place, 0))
            if out:
                gone[place] -= out
            if start.count > out:
                grid.take(self.tasks.stage(place[0]), start.node, start.tick, start.count - out)
        return grid

    def soonest(self, grid: Grid, stage: Stage, ready: int, known: Ints) -> Ints:
        """Return nodes where tasks of a stage end first, taking their room; else ``known``."""
        found = earliest(grid, replace(stage, tasks=len(known)), ready)
        if found is None:
            return known
        for node, tick, count in found:
            grid.take(stage, node, tick, count)
        nodes = [node for node, _, count in found for _ in range(count)]
        return np.array(nodes, dtype=np.int64)

    def anywhere(self, grid: Grid, stage: Stage, span: tuple[int, int], known: int) -> int:
        """Return a node by chance where a task ends within ``span``, taking its room."""
        ready, limit = span
        for node in self.rng.permutation(allowed(self.problem, stage)).tolist():
            wave = next(waves(grid, stage, node, ready), None) if ready < grid.ticks else None
            if wave and wave[0] + self.problem.duration(stage, node) <= limit:
                grid.take(stage, node, wave[0], 1)
                return int(node)
        return known


def by_stage(tasks: Tasks, picked: list[int]) -> dict[Key, list[int]]:
    """Return tasks by their stage."""
    found: dict[Key, list[int]] = {}
    for i in picked:
        found.setdefault(tasks.stages[i], []).append(i)
    return found


def tails_of(problem: Problem) -> dict[Key, int]:
    """Return for each stage what must at least follow its end."""
    found: dict[Key, int] = {}
    for j, job in enumerate(problem.jobs):
        for s in range(len(job.stages) - 1, -1, -1):
            found.setdefault((j, s), 0)
            for p in job.stages[s].after:
                least = found[j, s] + shortest(problem, job.stages[s])
                found[j, p] = max(found.get((j, p), 0), least)
    return found


def stage_ends(problem: Problem, plan: Solution) -> dict[Key, int]:
    """Return when each planned stage ends."""
    found: dict[Key, int] = {(run.job, run.stage): run.end for run in problem.running}
    for start in plan.starts:
        key = (start.job, start.stage)
        stage = problem.jobs[start.job].stages[start.stage]
        end = start.tick + problem.duration(stage, start.node)
        found[key] = max(found.get(key, 0), end)
    return found
