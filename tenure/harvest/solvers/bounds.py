"""Bounds that no plan can beat: how many tasks the window holds, and the least makespan (ours).

A stage alone on empty nodes ends no earlier than ``grid.earliest`` has it end; so a chain of stages
bounds its job, and is exact for one job whose stages form a chain. Over all jobs together a linear
program shares each node's area (cores and bytes times ticks) and link among classes of like tasks,
each of which also has no more tasks on a node than it would have alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tenure.harvest.grid import Grid, Ints, allowed, earliest, waves
from tenure.harvest.problem import Problem, Stage
from tenure.harvest.progress import Watch
from tenure.harvest.solvers.first_fit import running_end

Floats = NDArray[np.float64]
#: Of the linear program's rows: how far a plan may seem to break one by rounding.
TOLERANCE = 1e-6
#: Distinct heads or tails for which a node's area is bounded apart; more add little.
MAX_LEVELS = 6
#: Seconds for one linear program, which takes milliseconds where jobs are alike.
LIMIT_S = 10.0
#: Of ``scipy.optimize.milp``: there is no solution at all.
INFEASIBLE = 2


@dataclass(frozen=True, slots=True)
class Alone:
    """What a job could do by itself: per stage the first tick it can begin and end (stages,).

    ``ends`` has None where the stage does not fit the window even alone, and for what follows.
    """

    heads: tuple[int | None, ...]
    ends: tuple[int | None, ...]
    tails: tuple[int, ...]

    @property
    def end(self) -> int | None:
        """No plan ends the job earlier; None: no plan has it."""
        known = [end for end in self.ends if end is not None]
        return max(known, default=0) if len(known) == len(self.ends) else None


def alone(grid: Grid, j: int) -> Alone:
    """Return what job ``j`` could do by itself on ``grid``, which is left as it is."""
    problem, job = grid.problem, grid.problem.jobs[j]
    heads: list[int | None] = []
    ends: list[int | None] = []
    for s, stage in enumerate(job.stages):
        before = [ends[other] for other in stage.after]
        heads.append(
            None if None in before else max((e for e in before if e is not None), default=0)
        )
        ends.append(stage_end(grid, stage, heads[s], running_end(problem, j, s)))
    tails = [0] * len(job.stages)
    for s in range(len(job.stages) - 1, -1, -1):
        for other in job.stages[s].after:
            tails[other] = max(tails[other], tails[s] + shortest(problem, job.stages[s]))
    return Alone(tuple(heads), tuple(ends), tuple(tails))


def stage_end(grid: Grid, stage: Stage, head: int | None, running: int) -> int | None:
    """Return the least end of a stage that may begin at ``head``; None if it does not fit."""
    if head is None or (stage.tasks and head >= grid.problem.ticks):
        return None
    found = earliest(grid, stage, head) if stage.tasks else []
    if found is None:
        return None
    ends = [tick + grid.problem.duration(stage, node) for node, tick, _ in found]
    return max([head, running, *ends])


def shortest(problem: Problem, stage: Stage) -> int:
    """Return the least ticks between what a stage waits for and its own end, 0 without tasks."""
    return (
        min((problem.duration(stage, k) for k in allowed(problem, stage)), default=0)
        if stage.tasks
        else 0
    )


@dataclass(slots=True)
class Class:
    """Stages of any jobs whose tasks are alike and may run at the same times.

    ``parts``: (job, tasks). ``ends[k]``: ends of its tasks on node k, were it alone there, with
    the number of tasks ended by then.
    """

    stage: Stage
    head: int
    tail: int
    parts: list[tuple[int, int]] = field(default_factory=list)
    ends: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

    def most(self, node: int, limit: int) -> int:
        """Return how many tasks can end on a node by ``limit`` less what must follow them."""
        ends, counts = self.ends[node]
        at = bisect_right(ends, limit - self.tail)
        return counts[at - 1] if at else 0


def least_by_area(problem: Problem) -> int:
    """Return a makespan that no plan of all tasks beats, by their work alone; no search.

    All work of the tasks must fit what the nodes do until then: core- and byte-seconds times speed,
    and their links must have brought what does not lie on nodes. The window's length if it does not
    fit at all.
    """
    if not problem.nodes:
        return 0
    return max(least_by_work(problem), least_by_links(problem))


def least_by_links(problem: Problem) -> int:
    """Return when all links together have brought what tasks read, and one task has read it."""
    rates = [problem.link_bytes(k) for k in range(len(problem.nodes))]
    stages = [stage for job in problem.jobs for stage in job.stages]
    wanted = sum(missing(stage) * stage.chunk_bytes for stage in stages)
    known = [rate for rate in rates if rate is not None]
    if not wanted or len(known) < len(rates):
        return 0
    brought = -(-wanted // max(1, sum(known)))
    last = min(shortest(problem, stage) for stage in stages if missing(stage) and stage.chunk_bytes)
    return min(problem.ticks, problem.begin + brought + last)


def missing(stage: Stage) -> int:
    """Return of how many tasks at least the chunk lies on no node."""
    there = sum(count for _, count in (*stage.present, *stage.copies))
    return max(0, stage.tasks - there)


def least_by_work(problem: Problem) -> int:
    """Return when all nodes together have done the work of all tasks."""
    grid = Grid.of(problem)
    speed = np.array([node.speed for node in problem.nodes]) * problem.tick_s
    stages = [stage for job in problem.jobs for stage in job.stages]
    least = 0
    for free, need in ((grid.cpu_m, cores), (grid.memory_bytes, memory)):
        wanted = sum(stage.tasks * stage.work_s * need(stage) for stage in stages)
        done = np.cumsum(speed @ free)
        at = int(np.searchsorted(done, wanted * (1 - TOLERANCE)))
        least = max(least, min(at + 1, grid.ticks) if wanted else 0)
    return least


class Relaxation:
    """The linear program over classes and nodes for a limit of the makespan."""

    def __init__(self, problem: Problem, watch: Watch | None = None) -> None:
        """Gather the classes of all jobs' tasks; ``watch`` bounds the time of the programs.

        ``is_cut``: time was over before all were gathered, so nothing can be asked of this.
        """
        self.problem, self.watch, self.is_cut = problem, watch, False
        self.grid = Grid.of(problem)
        self.jobs = range(len(problem.jobs))
        self.alone = [alone(self.grid, j) for j in self.jobs if not self.is_late()]
        if self.is_cut:
            return
        self.classes = list(self.gather(problem.ticks))
        self.areas = [np.pad(np.cumsum(row, axis=1), ((0, 0), (1, 0))) for row in self.kinds()]

    def is_late(self) -> bool:
        """Whether time is over; then this is cut."""
        self.is_cut = self.is_cut or (self.watch is not None and self.watch.is_over)
        return self.is_cut

    def gather(self, horizon: int) -> Iterator[Class]:
        """Yield the classes of tasks, jobs that cannot be planned left out."""
        found: dict[object, Class] = {}
        for j in self.jobs:
            own = self.alone[j]
            if own.end is None:
                continue
            rows = zip(self.problem.jobs[j].stages, own.heads, own.tails, strict=True)
            for s, (stage, head, tail) in enumerate(rows):
                if stage.tasks:
                    key = (likeness(stage), head, tail, (j, s) if stage.present else None)
                    kind = found.setdefault(key, Class(stage, head or 0, tail))
                    kind.parts.append((j, stage.tasks))
        for kind in found.values():
            if self.is_late():
                return
            total = sum(tasks for _, tasks in kind.parts)
            for k in allowed(self.problem, kind.stage):
                kind.ends[k] = counted(self.grid, kind, k, total, horizon)
            yield kind

    def kinds(self) -> list[Ints]:
        """Return the resources whose area is shared: cores, bytes, and places for tasks."""
        stages = [kind.stage for kind in self.classes]
        places = np.full(self.grid.cpu_m.shape, 1 << 40, dtype=np.int64)
        for need, free in (
            (min((s.cpu_m for s in stages), default=0), self.grid.cpu_m),
            (min((s.memory_bytes for s in stages), default=0), self.grid.memory_bytes),
        ):
            if need:
                places = np.minimum(places, free // need)
        return [self.grid.cpu_m, self.grid.memory_bytes, places]

    def most_tasks(self) -> int:
        """Return a number of tasks that no plan exceeds within the window."""
        gain = np.array([self.tasks_of(j) for j in self.jobs], dtype=np.float64)
        far = max([self.problem.ticks, *(run.end for run in self.problem.running)])
        found = self.solve(far, gain, at_least=0, is_whole=True)
        return sum(self.tasks_of(j) for j in self.jobs) if found is None else int(found + 0.5)

    def tasks_of(self, j: int) -> int:
        """Return how many tasks a job has."""
        return sum(stage.tasks for stage in self.problem.jobs[j].stages)

    def least_makespan(self, tasks: int, low: int, high: int) -> int:
        """Return a makespan that no plan of ``tasks`` tasks beats, between ``low`` and ``high``.

        ``high`` is the makespan of a known plan. One linear program for each halving; when time is
        over what is proven until then.
        """
        while low < high and not (self.watch and self.watch.is_over):
            middle = (low + high) // 2
            if self.solve(middle, np.zeros(len(self.jobs)), at_least=tasks) is None:
                low = middle + 1
            else:
                high = middle
        return low

    def solve(
        self, limit: int, gain: Floats, *, at_least: int, is_whole: bool = False
    ) -> float | None:
        """Return the greatest gain of jobs planned by ``limit``, None if too few tasks fit.

        Columns: per job whether it is planned (in part, unless ``is_whole``), then per class and
        node how many of its tasks the node takes.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array

        fits = [float(own.end is not None and own.end <= limit) for own in self.alone]
        limit = min(limit, self.problem.ticks)  # only what runs already may end after the window
        pairs = [(kind, k) for kind in self.classes for k in kind.ends]
        rows = Rows(len(self.jobs), pairs)
        self.add_totals(rows, at_least)
        self.add_areas(rows, limit)
        tops = np.array(fits + [float(kind.most(k, limit)) for kind, k in pairs])
        shape = (len(rows.high), len(tops))
        matrix = coo_array((rows.value, (rows.row, rows.column)), shape=shape).tocsr()
        answer = milp(
            np.concatenate([-gain, np.zeros(len(pairs))]),
            integrality=np.concatenate([np.full(len(gain), int(is_whole)), np.zeros(len(pairs))]),
            bounds=Bounds(0, tops),
            constraints=LinearConstraint(matrix, np.array(rows.low), np.array(rows.high)),
            options={"time_limit": min(LIMIT_S, self.watch.left_s) if self.watch else LIMIT_S},
        )
        if answer.status == INFEASIBLE:
            return None
        bound = answer.mip_dual_bound if is_whole or answer.status else answer.fun
        return float(gain.sum()) if bound is None else -float(bound)

    def add_totals(self, rows: Rows, at_least: int) -> None:
        """Add: each class has its jobs' tasks on some nodes; ``at_least`` tasks are planned."""
        for kind in self.classes:
            cells = [(rows.columns[id(kind), k], 1.0) for k in kind.ends]
            cells += [(j, -float(tasks)) for j, tasks in kind.parts]
            rows.add(cells, -TOLERANCE, TOLERANCE)
        rows.add([(j, float(self.tasks_of(j))) for j in self.jobs], at_least - 0.5, np.inf)

    def add_areas(self, rows: Rows, limit: int) -> None:
        """Add: each node's area holds its tasks, also between what precedes and what follows."""
        tails = levels(kind.tail for kind in self.classes)
        heads = levels(kind.head for kind in self.classes)
        spans = [(0, max(0, limit - tail), 0, tail) for tail in tails]
        spans += [(head, limit, head, 0) for head in heads if 0 < head < limit]
        for area, need in zip(self.areas, (cores, memory, one), strict=True):
            scale = max((need(kind.stage) for kind in self.classes), default=1) or 1
            for begin, end, head, tail in spans:
                within = [kind for kind in self.classes if kind.head >= head and kind.tail >= tail]
                for k in range(len(self.problem.nodes)):
                    cells = [
                        (
                            rows.columns[id(kind), k],
                            need(kind.stage) / scale * self.problem.duration(kind.stage, k),
                        )
                        for kind in within
                        if k in kind.ends
                    ]
                    room = float(area[k, end] - area[k, begin]) / scale
                    rows.add(cells, -np.inf, room * (1 + TOLERANCE) + TOLERANCE)
        for begin, end, head, tail in spans:
            within = [kind for kind in self.classes if kind.head >= head and kind.tail >= tail]
            for k in range(len(self.problem.nodes)):
                self.add_link(rows, k, [kind for kind in within if k in kind.ends], (begin, end))

    def add_link(self, rows: Rows, k: int, kinds: Sequence[Class], span: tuple[int, int]) -> None:
        """Add: a node's link brings in a span what tasks read that end in it, but what is there.

        The last of it is there before the shortest of these tasks begins.
        """
        rate = self.problem.link_bytes(k)
        read = [kind for kind in kinds if kind.stage.chunk_bytes]
        if rate is None or not read:
            return
        stages = [kind.stage for kind in read]
        unit = max(stage.chunk_bytes for stage in stages)
        last = min(self.problem.duration(stage, k) + self.problem.lag(stage) for stage in stages)
        sends = max(0, span[1] - last - max(span[0], self.problem.begin))
        room = rate * sends + sum(stage.here(k) * stage.chunk_bytes for stage in stages)
        cells = [(rows.columns[id(kind), k], kind.stage.chunk_bytes / unit) for kind in read]
        rows.add(cells, -np.inf, room / unit * (1 + TOLERANCE) + TOLERANCE)


class Rows:
    """The rows of a linear program as they are gathered."""

    def __init__(self, jobs: int, pairs: Sequence[tuple[Class, int]]) -> None:
        self.columns = {(id(kind), k): jobs + i for i, (kind, k) in enumerate(pairs)}
        self.row: list[int] = []
        self.column: list[int] = []
        self.value: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def add(self, cells: Sequence[tuple[int, float]], low: float, high: float) -> None:
        """Add one row of (column, factor)."""
        for column, value in cells:
            self.row.append(len(self.low))
            self.column.append(column)
            self.value.append(value)
        self.low.append(low)
        self.high.append(high)


def likeness(stage: Stage) -> tuple[object, ...]:
    """Return what makes tasks of two stages alike."""
    needs = (stage.work_s, stage.cpu_m, stage.memory_bytes)
    return (*needs, stage.nodes, stage.chunk_bytes, stage.bring_s)


def cores(stage: Stage) -> int:
    """Return the CPU of one task."""
    return stage.cpu_m


def memory(stage: Stage) -> int:
    """Return the memory of one task."""
    return stage.memory_bytes


def one(stage: Stage) -> int:
    """Return 1: each task takes one place."""
    return 1


def levels(values: Iterable[int]) -> list[int]:
    """Return distinct values in order, at most ``MAX_LEVELS`` of them spread over all."""
    found = sorted(set(values))
    if len(found) <= MAX_LEVELS:
        return found
    return [found[i * (len(found) - 1) // (MAX_LEVELS - 1)] for i in range(MAX_LEVELS)]


def counted(
    grid: Grid, kind: Class, node: int, most: int, horizon: int
) -> tuple[list[int], list[int]]:
    """Return ends of a class alone on a node, ascending, and how many tasks have ended by each."""
    lasts = grid.problem.duration(kind.stage, node)
    ends, counts, total = [], [], 0
    for tick, count in waves(grid, kind.stage, node, kind.head):
        if total >= most or tick + lasts > horizon:
            break
        total += count
        ends.append(tick + lasts)
        counts.append(min(total, most))
    return ends, counts
