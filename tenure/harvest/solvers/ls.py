"""Solver ``ls``: the paper's local search (section III-B2), tabu search and late acceptance.

A move may break constraints: the hard score counts what is broken, the medium score is the number
of scheduled tasks, the soft score the makespan. Among equal makespans a plan is better whose stages
end earlier and have fewer tasks in their last tick (ours), for the makespan alone says nothing of
most moves; and it is the latest of three tasks that is given an earlier end (ours), for most tasks
do not matter to it. The parameters are OptaPlanner's defaults, as in the paper.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import accumulate

import numpy as np

from tenure.harvest.grid import Grid, allowed
from tenure.harvest.problem import Problem
from tenure.harvest.progress import Watch
from tenure.harvest.solution import Refusal, Solution, Start, solution
from tenure.harvest.solvers.first_fit import random_first_fit
from tenure.harvest.solvers.genes import Genes, Key, Tasks

TABU_RATIO = 0.2
LATE_ACCEPTANCE = 500
#: Moves between two looks at the clock: a few milliseconds.
LOOK_EVERY = 100

#: (task, node, tick) for each task that a move gives another place.
Move = list[tuple[int, int, int]]
#: Hard (what is broken), medium (tasks not scheduled), soft (makespan), and ours.
Score = tuple[int, int, int, int]


def ls(problem: Problem, watch: Watch, seed: int = 0) -> Solution:
    """Return the best plan that the local search finds in the time that ``watch`` has."""
    rng = np.random.default_rng(seed)
    first = replace(random_first_fit(problem, rng), solver="ls")
    watch.tell(first)
    if not first.starts or watch.is_over:
        return first
    search = Search(problem, first, rng)
    while not watch.is_over:
        for _ in range(LOOK_EVERY):
            search.step()
        watch.tell(search.best)
    return search.tightened(search.best)


class Draws:
    """Random numbers by the thousand, for one by one they cost more than the moves."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.left = rng, [0.0]

    def below(self, limit: int) -> int:
        """Return a whole number from 0 to ``limit`` - 1."""
        if len(self.left) <= 1:
            self.left = self.rng.random(10_000).tolist()
        return int(self.left.pop() * limit)


class Search:
    """The candidate, its score, what was tried lately, and the best feasible plan so far."""

    def __init__(self, problem: Problem, first: Solution, rng: np.random.Generator) -> None:
        self.problem, self.rng, self.draws = problem, rng, Draws(rng)
        self.refusals = first.refusals
        self.board = Board(problem, first)
        self.score = self.board.score()
        self.best_score, self.best = self.score, first
        self.late = [self.score] * LATE_ACCEPTANCE
        self.steps = 0
        self.tabu: deque[int] = deque(maxlen=max(1, round(TABU_RATIO * len(self.board.key))))
        self.is_tabu = [0] * len(self.board.key)

    def step(self) -> None:
        """Try one move by chance, and keep it if tabu list and late acceptance both allow it."""
        move = self.draw()
        if not move:
            return
        before = self.board.apply(move)
        score = self.board.score()
        slot = self.steps % LATE_ACCEPTANCE
        self.steps += 1
        is_best = score < self.best_score and score[0] == 0
        is_fresh = not any(self.is_tabu[i] for i, _, _ in move)
        if is_best or (is_fresh and (score <= self.score or score <= self.late[slot])):
            self.score = score
            self.forbid(move)
            if is_best:
                self.keep(score)
        else:
            self.board.apply(before)
        self.late[slot] = self.score

    def keep(self, score: Score) -> None:
        """Remember the candidate as the best."""
        self.best_score = score
        found = self.board.plan(self.refusals)
        if self.board.is_partial:
            found = self.tightened(found)
        if found.score <= self.best.score:
            self.best = found

    def forbid(self, move: Move) -> None:
        """Put a move's tasks on the tabu list, which forgets the oldest."""
        for i, _, _ in move:
            if len(self.tabu) == self.tabu.maxlen:
                self.is_tabu[self.tabu.popleft()] -= 1
            self.tabu.append(i)
            self.is_tabu[i] += 1

    def draw(self) -> Move:
        """Return a move of one of the paper's three operators."""
        board, draws = self.board, self.draws
        i = draws.below(len(board.key))
        way = draws.below(4)
        if way == 0:  # another start
            return self.at(i, board.node[i], board.ready(i) + draws.below(self.span(i)))
        if way == 1:  # another node, at any start
            nodes = board.nodes[board.key[i]]
            node = nodes[draws.below(len(nodes))]
            return self.at(i, node, board.ready(i) + draws.below(self.span(i)))
        if way == 2:  # swap two tasks' places
            other = draws.below(len(board.key))
            here, there = (board.node[i], board.start[i]), (board.node[other], board.start[other])
            is_open = here[0] in board.nodes[board.key[other]]
            if here == there or not is_open or there[0] not in board.nodes[board.key[i]]:
                return []
            return self.at(i, *there) + self.at(other, *here)
        i = max((i, draws.below(len(board.key)), draws.below(len(board.key))), key=board.end_of)
        node = board.node[i]  # an earlier end, on the same node or another
        if draws.below(2):
            node = board.nodes[board.key[i]][draws.below(len(board.nodes[board.key[i]]))]
        tick = board.earliest(i, node)
        return [] if tick is None else self.at(i, node, tick)

    def span(self, i: int) -> int:
        """Return how many ticks there are for a task's start, the makespan not exceeded."""
        return max(1, self.score[2] - self.board.ready(i))

    def at(self, i: int, node: int, tick: int) -> Move:
        """Return a move of one task, none if it would end outside the window."""
        is_in = tick + self.board.lasts[self.board.key[i]][node] <= self.board.horizon
        return [(i, node, tick)] if is_in and tick >= 0 else []

    def tightened(self, known: Solution) -> Solution:
        """Return a plan with all its tasks as early as they can start on their nodes.

        Where that does not work out, or is no better, the best plan.
        """
        tasks = Tasks.of(self.problem)
        genes: Genes = tasks.genes(known, self.rng)
        empty = Grid.of(self.problem).cut(self.board.horizon)
        refused = {refusal.job for refusal in self.refusals}
        starts = tasks.starts(genes, empty, refused)
        if isinstance(starts, Refusal):
            return self.best
        tight = solution(self.problem, starts, self.refusals, "ls")
        return tight if tight.score < self.best.score else self.best


class Board:
    """A candidate: each task's node and start, and what that uses and breaks, kept up to date."""

    def __init__(self, problem: Problem, plan: Solution) -> None:
        self.problem = problem
        self.horizon = min(problem.ticks, plan.makespan + plan.makespan // 4 + 1)
        grid = Grid.of(problem).cut(self.horizon)
        self.cpu, self.memory = grid.cpu_m.tolist(), grid.memory_bytes.tolist()
        self.rate = [problem.link_bytes(k) for k in range(len(problem.nodes))]
        self.needed = [[0] * (self.horizon + 1) for _ in problem.nodes]
        self.broken_links = [0] * len(problem.nodes)
        self.overload = 0
        out = {refusal.job for refusal in plan.refusals}
        self.keys: list[Key] = [
            (j, s)
            for j, job in enumerate(problem.jobs)
            for s in range(len(job.stages))
            if j not in out
        ]
        place = {key: at for at, key in enumerate(self.keys)}
        stages = [problem.jobs[j].stages[s] for j, s in self.keys]
        self.stages = stages
        self.lasts = [[problem.duration(x, k) for k in range(len(problem.nodes))] for x in stages]
        self.nodes = [allowed(problem, stage) for stage in stages]
        self.after = [[place[j, p] for p in problem.jobs[j].stages[s].after] for j, s in self.keys]
        self.before: list[list[int]] = [[] for _ in self.keys]
        for at, waits in enumerate(self.after):
            for other in waits:
                self.before[other].append(at)
        self.starts = [[0] * (self.horizon + 1) for _ in self.keys]
        self.ends = [[0] * (self.horizon + 1) for _ in self.keys]
        self.floor = [0] * len(self.keys)
        for run in problem.running:
            if (run.job, run.stage) in place:
                at = place[run.job, run.stage]
                self.floor[at] = max(self.floor[at], run.end)
        self.end = list(self.floor)
        self.early = [0] * len(self.keys)
        self.key: list[int] = []
        self.node: list[int] = []
        self.start: list[int] = []
        for start in plan.starts:
            for _ in range(start.count):
                self.key.append(place[start.job, start.stage])
                self.node.append(start.node)
                self.start.append(start.tick)
        for i in range(len(self.key)):
            self.put(i, 1)
        self.settle(range(len(self.keys)), range(len(problem.nodes)))
        self.out = plan.scheduled - problem.tasks

    @property
    def is_partial(self) -> bool:
        """Whether the score leaves out something.

        That is the sending of what earlier stages wrote, or of stages of which chunks are present,
        and the time from the end of a sending until a chunk can be read.
        """
        is_linked = any(rate is not None for rate in self.rate)
        return any(
            self.problem.lag(stage) or (is_linked and (stage.after or stage.present))
            for stage in self.stages
            if stage.chunk_bytes
        )

    def earliest(self, i: int, node: int) -> int | None:
        """Return the first tick at which a task fits a node and ends earlier than now."""
        at = self.key[i]
        stage, lasts = self.stages[at], self.lasts[at][node]
        cpu, memory = self.cpu[node], self.memory[node]
        end = self.start[i] + self.lasts[at][self.node[i]]
        first = self.ready(i)
        for t in range(first, end - 1):
            if cpu[t] < stage.cpu_m or memory[t] < stage.memory_bytes:
                first = t + 1
                if first + lasts >= end:
                    return None
            elif t - first + 1 >= lasts:
                return first
        return None

    def end_of(self, i: int) -> int:
        """Return when a task ends."""
        return self.start[i] + self.lasts[self.key[i]][self.node[i]]

    def ready(self, i: int) -> int:
        """Return when all that a task waits for has ended."""
        ends = (self.end[other] for other in self.after[self.key[i]])
        return max(ends, default=self.problem.begin)

    def put(self, i: int, sign: int) -> None:
        """Add a task (1) where it stands, or take it away (-1)."""
        at, node, start = self.key[i], self.node[i], self.start[i]
        stage, lasts = self.stages[at], self.lasts[at][node]
        for row, need in ((self.cpu[node], stage.cpu_m), (self.memory[node], stage.memory_bytes)):
            if need:
                change = need * sign
                for t in range(start, start + lasts):
                    old = row[t]
                    row[t] = new = old - change
                    self.overload += (new < 0) - (old < 0)
        self.starts[at][start] += sign
        self.ends[at][start + lasts] += sign
        if not (stage.after or stage.present):
            self.needed[node][start] += sign * stage.chunk_bytes

    def settle(self, keys: range | set[int], nodes: range | set[int]) -> None:
        """Work out again what depends on stages and nodes that were touched."""
        touched = set(keys)
        for at in keys:
            row, end = self.ends[at], self.horizon
            while end > 0 and not row[end]:
                end -= 1
            self.end[at] = max(end, self.floor[at])
            touched.update(self.before[at])
        for at in touched:
            ready = max((self.end[other] for other in self.after[at]), default=0)
            self.early[at] = sum(self.starts[at][:ready])
        for node in nodes:
            rate = self.rate[node]
            if rate is not None:
                sums = accumulate(self.needed[node])
                self.broken_links[node] = sum(
                    x > rate * max(0, t - self.problem.begin) for t, x in enumerate(sums)
                )

    def apply(self, move: Move) -> Move:
        """Make a move; return the one that undoes it."""
        undo = [(i, self.node[i], self.start[i]) for i, _, _ in move]
        nodes = {node for _, node, _ in move} | {node for _, node, _ in undo}
        for i, node, tick in move:
            self.put(i, -1)
            self.node[i], self.start[i] = node, tick
            self.put(i, 1)
        self.settle({self.key[i] for i, _, _ in move}, nodes)
        return undo[::-1]

    def score(self) -> Score:
        """Return the score; the smaller the better."""
        hard = self.overload + sum(self.early) + sum(self.broken_links)
        rows = zip(self.ends, self.end, strict=True)  # what runs may end behind all that is planned
        last = sum(row[end] for row, end in rows if end <= self.horizon)
        ours = sum(self.end) * len(self.key) + last
        return (hard, -self.out, max(self.end), ours)

    def plan(self, refusals: tuple[Refusal, ...]) -> Solution:
        """Return the candidate as a plan."""
        starts = (
            Start(*self.keys[self.key[i]], self.node[i], self.start[i], 1)
            for i in range(len(self.key))
        )
        return solution(self.problem, starts, refusals, "ls")
