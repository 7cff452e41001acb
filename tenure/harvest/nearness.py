"""Plans that end no later and have more tasks begin where their input is read fastest (ours).

Theory of operation. Solvers count where input lies, not how fast it is read there: ticks are too
coarse for that, and a time for each way in which copies may lie would multiply classes. So of plans
that end at the same ticks one is chosen afterwards: each stage all of whose tasks begin beside a
copy is taken off the plan and put back so that none of its tasks ends behind the stage's end, with
as many as possible on a node with their fastest copy, and no more than that needs on other nodes
than before. Nothing else moves, so every bound and proof holds on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tenure.harvest.grid import Grid, allowed, waves
from tenure.harvest.problem import Problem, Stage
from tenure.harvest.solution import Beside, Solution, Start, solution

#: Tasks by (place of what they were told by in ``Stage.nearest``, node).
Shares = Counter[tuple[int, int]]
#: Of a stage on a node: (tick, tasks) that may begin then and end in time.
Waves = dict[int, list[tuple[int, int]]]


def nearer(problem: Problem, plan: Solution) -> Solution:
    """Return a plan with the same end of each stage at most, and more tasks at their fastest copy.

    The same plan where nothing is known of that, or nothing can be won.
    """
    keys = [
        (j, s)
        for j, job in enumerate(problem.jobs)
        for s, stage in enumerate(job.stages)
        if any(set(near) < set(where) for where, near, _ in stage.nearest)
    ]
    whole = _Whole.of(problem, plan) if keys else None
    if whole is None or not any([whole.is_moved(*key) for key in keys]):
        return plan
    rows = (start for starts in whole.starts.values() for start in starts)
    found = solution(problem, rows, plan.refusals, plan.solver)
    beside = tuple(one for key in sorted(whole.beside) for one in whole.beside[key])
    bounds = plan.most_scheduled, plan.least_makespan
    return replace(found, beside=beside, most_scheduled=bounds[0], least_makespan=bounds[1])


@dataclass(slots=True)
class _Whole:
    """A plan by stages, and what is free beside it."""

    problem: Problem
    grid: Grid
    starts: dict[tuple[int, int], list[Start]]
    beside: dict[tuple[int, int], list[Beside]]

    @classmethod
    def of(cls, problem: Problem, plan: Solution) -> _Whole:
        found = cls(problem, Grid.of(problem), {}, {})
        for start in plan.starts:
            found.starts.setdefault((start.job, start.stage), []).append(start)
        for one in plan.beside:
            found.beside.setdefault((one.job, one.stage), []).append(one)
        for key in found.starts:
            found.take(key, 1)
        return found

    def take(self, key: tuple[int, int], sign: int) -> None:
        """Take what a stage's starts need from what is free, or give it back (-1)."""
        for start in self.starts[key]:
            stage = self.problem.jobs[start.job].stages[start.stage]
            self.grid.take(stage, start.node, start.tick, sign * start.count)

    def is_moved(self, j: int, s: int) -> bool:
        """Have more tasks of a stage begin at their fastest copy; return whether any could."""
        key, stage = (j, s), self.problem.jobs[j].stages[s]
        starts = self.starts.get(key, ())
        on = Counter[int]()
        for start in starts:
            on[start.node] += start.count
        if not starts or sum(one.count for one in self.beside.get(key, ())) != on.total():
            return False  # some are brought: what is sent when would have to be planned anew
        self.take(key, -1)
        room = self._waves(stage, starts)
        share = shared(stage, on, {k: sum(n for _, n in row) for k, row in room.items()})
        if share is not None:
            self.beside[key] = list(_beside(key, stage, share))
            self.starts[key] = list(_starts(key, room, share))
        self.take(key, 1)
        return share is not None

    def _waves(self, stage: Stage, starts: Sequence[Start]) -> Waves:
        """Return when tasks may begin on each node, from the stage's first start to its end."""
        ends = (start.tick + self.problem.duration(stage, start.node) for start in starts)
        ready, grid = min(start.tick for start in starts), self.grid.cut(max(ends))
        there = replace(stage, chunk_bytes=0)  # all begin beside a copy
        return {k: list(waves(grid, there, k, ready)) for k in allowed(self.problem, stage)}


def _starts(key: tuple[int, int], room: Waves, share: Shares) -> Iterable[Start]:
    """Yield the first starts of each node, as many as it has tasks."""
    on = Counter[int]()
    for (_, node), count in share.items():
        on[node] += count
    for node, count in on.items():
        left = count
        for tick, most in room[node]:
            if left:
                yield Start(*key, node, tick, min(left, most))
                left -= min(left, most)


def _beside(key: tuple[int, int], stage: Stage, share: Shares) -> Iterable[Beside]:
    """Yield which classes begin where."""
    place = {where: at for at, (where, _) in enumerate(stage.copies)}
    found = Counter[tuple[int, int]]()
    for (row, node), count in share.items():
        found[place[stage.nearest[row][0]], node] += count
    for (at, node), count in sorted(found.items()):
        yield Beside(*key, at, node, count)


def shared(stage: Stage, on: Counter[int], room: dict[int, int]) -> Shares | None:
    """Return how tasks are shared between nodes with their copies, ``room`` tasks at most on each.

    As many as possible at their fastest copy, then as few as possible beyond those that nodes have
    ``on`` them. None where there is no such way. A linear program of whole numbers, for it
    is a flow: tasks go to a node, and through it to what it had or to what it has more.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    cells = [
        (c, k, float(k not in near))
        for c, (where, near, count) in enumerate(stage.nearest)
        for k in sorted(set(where))
        if count and room.get(k)
    ]
    nodes = sorted({k for _, k, _ in cells})
    if not cells:
        return None
    column = {k: len(cells) + i for i, k in enumerate(nodes)}
    row = {k: len(stage.nearest) + i for i, k in enumerate(nodes)}
    entries = [(c, x, 1.0) for x, (c, _, _) in enumerate(cells)]
    entries += [(row[k], x, 1.0) for x, (_, k, _) in enumerate(cells)]
    entries += [(row[k], column[k], -1.0) for k in nodes]
    rows, columns, values = zip(*entries, strict=True)
    shape = len(stage.nearest) + len(nodes), len(cells) + len(nodes)
    total = on.total()
    answer = linprog(
        [cost for _, _, cost in cells] + [1.0 / (1 + total)] * len(nodes),
        A_ub=coo_array((values, (rows, columns)), shape=shape).tocsr(),
        b_ub=[float(n) for _, _, n in stage.nearest] + [float(on[k]) for k in nodes],
        A_eq=np.array([[1.0] * len(cells) + [0.0] * len(nodes)]),
        b_eq=[float(total)],
        bounds=[(0, None)] * len(cells) + [(0, max(0, room[k] - on[k])) for k in nodes],
        method="highs-ds",
    )
    if answer.status != 0:
        return None
    found = zip(cells, np.rint(answer.x).astype(int).tolist(), strict=False)
    return Counter({(c, k): count for (c, k, _), count in found if count})
