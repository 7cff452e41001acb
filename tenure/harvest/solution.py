"""What the holistic planner answers: one type for all solvers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tenure.harvest.problem import Problem

#: Why a job was not accepted.
REFUSALS = (
    "no_nodes",  # there is no node at all, or none that the stage may use
    "never_fits",  # one task of it fits no node at any time
    "no_room",  # not all its tasks fit the window beside those of the accepted jobs
    "cancelled",  # the solver was told to stop before it came to this job
)


@dataclass(frozen=True, slots=True, order=True)
class Start:
    """``count`` tasks of a stage that start together on a node at ``tick``: n(i) and ts(i)."""

    job: int
    stage: int
    node: int
    tick: int
    count: int


@dataclass(frozen=True, slots=True)
class Beside:
    """``count`` tasks of a stage's class ``copies[place]`` begin on a node beside their input."""

    job: int
    stage: int
    place: int
    node: int
    count: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a job is not in the plan: ``code`` is one of ``REFUSALS``, ``detail`` for people."""

    job: int
    code: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Solution:
    """A plan. Jobs without a refusal are scheduled whole.

    ``scheduled`` tasks (Eq. 2) and ``makespan`` in ticks (Eq. 3; 0 if nothing is scheduled).
    ``most_scheduled`` and ``least_makespan`` are proven bounds, None where the solver has none;
    the second holds for plans with as many tasks as this one or more. ``solver``: who made it.
    ``beside``: which classes of tasks begin where copies of their input lie; of a stage on a node
    those begin first, chunks of the others are sent.
    """

    starts: tuple[Start, ...]
    refusals: tuple[Refusal, ...]
    scheduled: int
    makespan: int
    solver: str
    most_scheduled: int | None = None
    least_makespan: int | None = None
    beside: tuple[Beside, ...] = ()

    @property
    def is_optimal(self) -> bool:
        """Whether the solver proved that no plan is better."""
        return self.scheduled == self.most_scheduled and self.makespan == self.least_makespan

    @property
    def gap_ratio(self) -> float | None:
        """How far the makespan is above its bound, as a ratio of the bound; None without one."""
        if self.least_makespan is None:
            return None
        return self.makespan / self.least_makespan - 1.0 if self.least_makespan else 0.0

    @property
    def score(self) -> tuple[int, int]:
        """The lexicographic objective (Eq. 2, then 3): the smaller the better."""
        return (-self.scheduled, self.makespan)


def solution(
    problem: Problem, starts: Iterable[Start], refusals: Iterable[Refusal], solver: str
) -> Solution:
    """Return a solution of these starts, equal ones summed, with its score and no bounds."""
    counts: dict[tuple[int, int, int, int], int] = {}
    for start in starts:
        key = (start.job, start.stage, start.node, start.tick)
        counts[key] = counts.get(key, 0) + start.count
    merged = tuple(Start(*key, count) for key, count in sorted(counts.items()) if count)
    refused = tuple(sorted(refusals, key=lambda refusal: refusal.job))
    out = {refusal.job for refusal in refused}
    ends = [run.end for run in problem.running if run.job not in out]
    for start in merged:
        stage = problem.jobs[start.job].stages[start.stage]
        ends.append(start.tick + problem.duration(stage, start.node))
    scheduled = sum(start.count for start in merged)
    return Solution(merged, refused, scheduled, max(ends, default=0), solver)


def tasks_of(plan: Solution, job: int, stage: int) -> Iterator[tuple[int, int]]:
    """Yield (node, tick) for each task of a stage, in order of start, then node.

    Tasks of a stage are identical, so which of them is the i-th is the caller's choice.
    """
    mine = [start for start in plan.starts if (start.job, start.stage) == (job, stage)]
    for start in sorted(mine, key=lambda start: (start.tick, start.node)):
        for _ in range(start.count):
            yield start.node, start.tick
