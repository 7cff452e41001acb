"""What is still free, tick by tick, while a plan is made; and the earliest starts in it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tenure.harvest.problem import Problem, Stage

Ints = NDArray[np.int64]
#: Stands for "no bound" where only a count is wanted.
MANY = 1 << 62


@dataclass(slots=True)
class Grid:
    """Free capacity (nodes, ticks) of each kind; ``link`` in bytes a tick, None: not modelled."""

    problem: Problem
    cpu_m: Ints
    memory_bytes: Ints
    link: list[Ints | None]

    @classmethod
    def of(cls, problem: Problem) -> Grid:
        """Return what the nodes have free beside the tasks that run."""
        cpu_m = np.array([node.cpu_m for node in problem.nodes], dtype=np.int64)
        memory = np.array([node.memory_bytes for node in problem.nodes], dtype=np.int64)
        grid = cls(
            problem,
            np.repeat(cpu_m, problem.step_ticks, axis=1),
            np.repeat(memory, problem.step_ticks, axis=1),
            [link_row(problem, k) for k in range(len(problem.nodes))],
        )
        for run in problem.running:
            stage = problem.jobs[run.job].stages[run.stage]
            grid.cpu_m[run.node, : run.end] -= run.count * stage.cpu_m
            grid.memory_bytes[run.node, : run.end] -= run.count * stage.memory_bytes
        grid.cpu_m[:, : problem.begin] = 0
        grid.memory_bytes[:, : problem.begin] = 0
        np.maximum(grid.cpu_m, 0, out=grid.cpu_m)
        np.maximum(grid.memory_bytes, 0, out=grid.memory_bytes)
        return grid

    @property
    def ticks(self) -> int:
        """How many ticks the grid has."""
        return int(self.cpu_m.shape[1])

    def cut(self, ticks: int) -> Grid:
        """Return a copy of the first ticks."""
        rows = [None if row is None else row[:ticks].copy() for row in self.link]
        return Grid(
            self.problem, self.cpu_m[:, :ticks].copy(), self.memory_bytes[:, :ticks].copy(), rows
        )

    def room(self, stage: Stage, node: int, ready: int) -> Ints:
        """Return how many tasks of a stage could run at once at each tick from ``ready`` on."""
        room = np.full(self.cpu_m.shape[1] - ready, MANY, dtype=np.int64)
        if stage.cpu_m:
            np.minimum(room, self.cpu_m[node, ready:] // stage.cpu_m, out=room)
        if stage.memory_bytes:
            np.minimum(room, self.memory_bytes[node, ready:] // stage.memory_bytes, out=room)
        return room

    def brought(self, stage: Stage, node: int, ready: int) -> Ints | None:
        """Return how many chunks of a stage are there at each tick from ``ready`` on.

        None where chunks need not be waited for.
        """
        row, lag = self.link[node], self.problem.lag(stage)
        if not self.problem.must_bring(stage, node):
            return None
        there = np.full(self.ticks - ready, stage.here(node), dtype=np.int64)
        if row is None:
            there[max(ready, self.problem.begin) + lag - ready :] = MANY
            return there
        total = np.zeros(there.shape[0], dtype=np.int64)
        np.cumsum(row[ready:-1], out=total[1:])
        there[lag:] += total[: max(0, there.shape[0] - lag)] // stage.chunk_bytes
        return there

    def take(self, stage: Stage, node: int, tick: int, count: int) -> None:
        """Take what ``count`` tasks need that start at ``tick``; a negative count gives it back."""
        span = slice(tick, tick + self.problem.duration(stage, node))
        self.cpu_m[node, span] -= count * stage.cpu_m
        self.memory_bytes[node, span] -= count * stage.memory_bytes

    def send(self, stage: Stage, node: int, ready: int, count: int) -> None:
        """Take the link's next free time from ``ready`` on for ``count`` chunks of a stage."""
        row = self.link[node]
        amount = max(0, count - stage.here(node)) * stage.chunk_bytes
        if row is None or not amount:
            return
        before = np.minimum(np.cumsum(row[ready:]), amount)
        row[ready:] -= np.diff(before, prepend=0)


def link_row(problem: Problem, node: int) -> Ints | None:
    """Return the bytes that a node's link brings in each tick (ticks,), None: not modelled."""
    rate = problem.link_bytes(node)
    if rate is None:
        return None
    row = np.full(problem.ticks, rate, dtype=np.int64)
    row[: problem.begin] = 0
    return row


def allowed(problem: Problem, stage: Stage) -> list[int]:
    """Return the nodes that may run a stage, in order."""
    return sorted(set(stage.nodes)) if stage.nodes is not None else list(range(len(problem.nodes)))


def waves(grid: Grid, stage: Stage, node: int, ready: int) -> Iterator[tuple[int, int]]:
    """Yield (tick, tasks) of a stage on one node, each as early as what is free allows.

    No other choice has more of the stage's tasks started, and so ended, by any tick: the i-th of
    identical tasks can always start as early as it would in any other schedule (proof by
    exchange in docs/harvest-planner.md). O(ticks + waves x duration).
    """
    lasts = grid.problem.duration(stage, node)
    room = grid.room(stage, node, ready)
    there = grid.brought(stage, node, ready)
    begins, ends = stretches(room, lasts)
    at, started = 0, 0
    while (k := int(np.searchsorted(ends, at + lasts))) < ends.shape[0]:
        at = max(at, int(begins[k]))  # what a wave fills lies behind it: the others stay empty
        window = room[at : at + lasts]
        count = int(window.min())
        if there is not None:
            count = min(count, int(there[at]) - started)
        if count > 0:
            yield ready + at, count
            window -= count
            started += count
        full = np.flatnonzero(window == 0)
        if full.size:
            at += int(full[-1]) + 1
        elif there is not None:  # room, but no chunk yet
            at = max(at + 1, int(np.searchsorted(there, started + 1)))
        else:
            return


def stretches(room: Ints, lasts: int) -> tuple[Ints, Ints]:
    """Return where stretches of at least ``lasts`` ticks with room begin, and end (exclusive)."""
    edges = np.concatenate(([-1], np.flatnonzero(room <= 0), [room.shape[0]]))
    is_long = np.diff(edges) > lasts
    return edges[:-1][is_long] + 1, edges[1:][is_long]


def earliest(grid: Grid, stage: Stage, ready: int) -> list[tuple[int, int, int]] | None:
    """Return (node, tick, tasks) for all tasks of a stage, those that end first; None: no room.

    The stage ends as early as what is free allows.
    """
    heap: list[tuple[int, int, int, int]] = []
    sources = {k: waves(grid, stage, k, ready) for k in allowed(grid.problem, stage)}

    def push(node: int) -> None:
        wave = next(sources[node], None)
        if wave is not None:
            tick, count = wave
            heapq.heappush(heap, (tick + grid.problem.duration(stage, node), node, tick, count))

    for node in sources:
        push(node)
    found, left = [], stage.tasks
    while left and heap:
        _, node, tick, count = heapq.heappop(heap)
        found.append((node, tick, min(left, count)))
        left -= min(left, count)
        push(node)
    return None if left else found
