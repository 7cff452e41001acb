"""Plans as the metaheuristics vary them: the node of each task, and the order of stages.

Starts follow from both: each stage's tasks begin on their nodes as early as what is left of them
allows. So every plan made from genes keeps Eq. 4 to 6 and delivery, whatever the genes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tenure.harvest.grid import Grid, Ints, allowed, waves
from tenure.harvest.problem import Problem, Stage
from tenure.harvest.solution import Refusal, Solution, Start, solution
from tenure.harvest.solvers.first_fit import refusal, running_end, take_stage

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Genes:
    """``order`` of the stages (job, stage); ``nodes`` (tasks,) of the tasks in ``Tasks``' order."""

    order: tuple[Key, ...]
    nodes: Ints


@dataclass(frozen=True, slots=True)
class Tasks:
    """All tasks of a problem, one by one: ``stages[i]`` is whose the i-th is."""

    problem: Problem
    stages: tuple[Key, ...]
    spans: dict[Key, slice]

    @classmethod
    def of(cls, problem: Problem) -> Tasks:
        """Number the tasks of a problem, stage by stage."""
        spans: dict[Key, slice] = {}
        rows: list[Key] = []
        for j, job in enumerate(problem.jobs):
            for s, stage in enumerate(job.stages):
                spans[j, s] = slice(len(rows), len(rows) + stage.tasks)
                rows += [(j, s)] * stage.tasks
        return cls(problem, tuple(rows), spans)

    def stage(self, key: Key) -> Stage:
        """Return a stage by its key."""
        return self.problem.jobs[key[0]].stages[key[1]]

    def genes(self, plan: Solution, rng: np.random.Generator) -> Genes:
        """Return the genes of a plan; tasks of refused jobs get nodes by chance."""
        nodes = np.zeros(len(self.stages), dtype=np.int64)
        first: dict[Key, int] = {}
        filled: dict[Key, int] = {}
        for start in plan.starts:
            key = (start.job, start.stage)
            begin = self.spans[key].start + filled.get(key, 0)
            nodes[begin : begin + start.count] = start.node
            filled[key] = filled.get(key, 0) + start.count
            first[key] = min(first.get(key, start.tick), start.tick)
        for key, span in self.spans.items():
            choice = allowed(self.problem, self.stage(key))
            missing = span.stop - span.start - filled.get(key, 0)
            if missing and choice:
                nodes[span.stop - missing : span.stop] = rng.choice(choice, missing)
        far = self.problem.ticks + 1
        order = sorted(self.spans, key=lambda key: (first.get(key, far), key))
        return Genes(tuple(order), nodes)

    def plan(self, genes: Genes, empty: Grid) -> Solution:
        """Return the plan that genes stand for, on a grid with nothing planned yet.

        A job that does not fit is refused, and the others are planned without it.
        """
        out: list[Refusal] = []
        while True:
            refused = {refusal.job for refusal in out}
            found = self.starts(genes, empty.cut(empty.ticks), refused)
            if not isinstance(found, Refusal):
                return solution(self.problem, found, out, "genes")
            out.append(found)

    def starts(self, genes: Genes, grid: Grid, refused: set[int]) -> list[Start] | Refusal:
        """Return the starts that genes stand for, or the first job that does not fit."""
        ends: dict[Key, int] = {}
        starts: list[Start] = []
        for key in in_order(self.problem, genes.order):
            j, s = key
            if j in refused:
                continue
            stage, nodes = self.stage(key), genes.nodes[self.spans[key]]
            ready = max((ends[j, other] for other in stage.after), default=0)
            placed = take_stage(grid, j, s, ready, ByGene(nodes))
            if placed is None:
                return refusal(self.problem, j, s)
            starts += placed[0]
            ends[key] = max(ready, placed[1], running_end(self.problem, j, s))
        return starts


@dataclass(frozen=True, slots=True)
class ByGene:
    """Places a stage's tasks on given nodes (tasks,), each as early as it can start there."""

    nodes: Ints

    def __call__(self, grid: Grid, stage: Stage, ready: int) -> list[tuple[int, int, int]] | None:
        """Return (node, tick, tasks) for all tasks, None where they do not fit."""
        found = []
        for node, count in zip(*np.unique(self.nodes, return_counts=True), strict=True):
            left = int(count)
            for tick, room in waves(grid, stage, int(node), ready):
                found.append((int(node), tick, min(left, room)))
                left -= min(left, room)
                if not left:
                    break
            if left:
                return None
        return found


def in_order(problem: Problem, order: Sequence[Key]) -> Iterator[Key]:
    """Yield stages in ``order``, but each after those that it waits for."""
    done: set[Key] = set()

    def with_before(key: Key) -> Iterator[Key]:
        if key not in done:
            done.add(key)
            for other in problem.jobs[key[0]].stages[key[1]].after:
                yield from with_before((key[0], other))
            yield key

    for key in order:
        yield from with_before(key)
