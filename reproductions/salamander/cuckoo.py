"""Solver ``cuckoo``: the baseline that the paper compares with (section II-C).

Chunks are dealt to nodes by weighted round-robin, the weight a node's free CPU over the window, in
three replicas; then Hadoop's scheduler runs jobs in their order: 20 slots on each node whatever is
free there, a task whose chunk lies on the node first, else any task, whose chunk is then fetched
over the link. Memory and Eq. 6 do not count, so its plans may break them: that is its point.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tenure.harvest.grid import allowed
from tenure.harvest.problem import Problem, Stage
from tenure.harvest.solution import Refusal, Solution, Start, solution

REPLICAS = 3
SLOTS = 20


@dataclass(slots=True)
class Rounds:
    """Smooth weighted round-robin: every node its weight's share of each stretch of turns."""

    weights: list[float]
    credit: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.credit = [0.0] * len(self.weights)

    def next(self, nodes: list[int]) -> int:
        """Return the node whose turn it is among ``nodes``."""
        total = sum(self.weights[k] for k in nodes) or 1.0
        for k in nodes:
            self.credit[k] += self.weights[k]
        best = max(nodes, key=lambda k: (self.credit[k], -k))
        self.credit[best] -= total
        return best


def replicas(problem: Problem, stage: Stage, rounds: Rounds) -> list[tuple[int, ...]]:
    """Return for each task of a stage the nodes that get its chunk, each another one."""
    found = []
    for _ in range(stage.tasks):
        nodes = allowed(problem, stage)
        mine: list[int] = []
        while nodes and len(mine) < REPLICAS:
            mine.append(rounds.next(nodes))
            nodes.remove(mine[-1])
        found.append(tuple(mine))
    return found


def cuckoo(problem: Problem) -> tuple[Solution, int]:
    """Return what Cuckoo would run if forecasts held and nothing was killed, and remote tasks."""
    refusals: list[Refusal] = []
    starts: list[Start] = []
    remote = 0
    if not problem.nodes:
        gone = [Refusal(j, "no_nodes") for j in range(len(problem.jobs))]
        return solution(problem, (), gone, "cuckoo"), 0
    weights = [float(sum(node.cpu_m)) for node in problem.nodes]
    slots = Slots(problem, Rounds(weights))
    for j, job in enumerate(problem.jobs):
        ends: list[int] = []
        mine: list[Start] = []
        far = 0
        for s, stage in enumerate(job.stages):
            ready = max((ends[p] for p in stage.after), default=problem.begin)
            found, end, away = slots.run(j, s, ready)
            mine, far = mine + found, far + away
            ends.append(max(ready, end))
        if max(ends, default=0) > problem.ticks or len(job.stages) > len(ends):
            refusals.append(Refusal(j, "no_room", f"{job.name!r} would not end in the window"))
        else:
            starts, remote = starts + mine, remote + far
    return solution(problem, starts, refusals, "cuckoo"), remote


class Slots:
    """When each slot of each node is free, and when each node's link is."""

    def __init__(self, problem: Problem, rounds: Rounds) -> None:
        self.problem, self.rounds = problem, rounds
        self.free = [[problem.begin] * SLOTS for _ in problem.nodes]
        self.sent = [0] * len(problem.nodes)

    def run(self, j: int, s: int, ready: int) -> tuple[list[Start], int, int]:
        """Run a stage from ``ready`` on; return its starts, its end, and how many were remote."""
        stage = self.problem.jobs[j].stages[s]
        nodes = allowed(self.problem, stage)
        arrivals = self.deal(stage, ready)
        local: dict[int, deque[int]] = {k: deque() for k in nodes}
        for i, where in enumerate(arrivals):
            for k in where:
                local[k].append(i)
        left = set(range(stage.tasks))
        found: list[Start] = []
        end, remote = ready, 0
        while left and nodes:
            # the slot that is free first asks for work, as a heartbeat would
            k = min(nodes, key=lambda k: (min(self.free[k]), k))
            now = max(ready, min(self.free[k]))
            i, is_local = self.pick(local[k], arrivals, left, (k, now))
            left.discard(i)
            begin = max(now, arrivals[i].get(k, 0) if is_local else min(arrivals[i].values()))
            begin += 0 if is_local else self.fetch(stage, k)
            remote += not is_local
            done = begin + self.problem.duration(stage, k)
            self.free[k][self.free[k].index(min(self.free[k]))] = done
            found.append(Start(j, s, k, begin, 1))
            end = max(end, done)
        return found, (end if nodes else self.problem.ticks + 1), remote

    def pick(
        self,
        mine: deque[int],
        arrivals: list[dict[int, int]],
        left: set[int],
        at: tuple[int, int],
    ) -> tuple[int, bool]:
        """Return the next task for a node: a local one that has arrived, else any."""
        node, now = at
        while mine and mine[0] not in left:
            mine.popleft()
        if mine and arrivals[mine[0]][node] <= now:
            return mine[0], True
        there = next((i for i in sorted(left) if min(arrivals[i].values()) <= now), None)
        if there is None:
            there = mine[0] if mine else min(left)
        return there, node in arrivals[there]

    def deal(self, stage: Stage, ready: int) -> list[dict[int, int]]:
        """Return for each task the nodes that get its chunk and when it is there."""
        found = []
        for where in replicas(self.problem, stage, self.rounds):
            times = {}
            for k in where:
                rate, lag = self.problem.link_bytes(k), self.problem.lag(stage)
                times[k] = ready + lag
                if rate is not None and stage.chunk_bytes and not stage.after:
                    self.sent[k] += stage.chunk_bytes
                    times[k] = self.problem.begin - (-self.sent[k] // rate) + lag
            found.append(times)
        return found

    def fetch(self, stage: Stage, node: int) -> int:
        """Return the ticks that a chunk takes from another node."""
        rate, lag = self.problem.link_bytes(node), self.problem.lag(stage)
        return lag if rate is None else -(-stage.chunk_bytes // rate) + lag
