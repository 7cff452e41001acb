"""Salamander as a whole, in virtual time: forecasts, a plan, its chunks, its controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from reproductions.salamander.dispatch import Planned, placing_s
from reproductions.salamander.moved import Moved
from reproductions.salamander.replay import TASK_CPU_M, Batch, Course, Host, Replayed, replay
from tenure.harvest.problem import STEP_S, STEPS, Job, Node, Problem, Stage, unused
from tenure.harvest.solution import Solution
from tenure.model.qos import QosParams

#: Seconds of a tick: finer than forecasts, for a map of 128 MB lasts some 35 s.
TICK_S = 10.0


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A host's forecast: shares of its CPU and memory by step of the window (steps,)."""

    cpu: Sequence[float]
    memory: Sequence[float]

    @property
    def free_cpu(self) -> float:
        """Return the mean share of its CPU that is free."""
        return 1.0 - sum(min(1.0, share) for share in self.cpu) / len(self.cpu)


def problem_of(
    hosts: Sequence[Host],
    ahead: Sequence[Foreseen],
    batch: Batch,
    margin: float,
    *,
    is_streamed: bool = False,
) -> Problem:
    """Return what the planner is asked: hosts with what forecasts and margin leave (Eq. 1).

    ``is_streamed``: chunks of maps are sent from the begin on; else they lie where the plan will
    have their tasks, as in the paper, whose plans know no links.
    """
    nodes = [
        Node(
            f"h{k:02}",
            unused(host.capacity.cpu_m, told.cpu[:STEPS], margin),
            unused(host.capacity.memory_bytes, told.memory[:STEPS], margin),
            host.speed,
            None if host.link_bytes_per_s is None else int(host.link_bytes_per_s),
        )
        for k, (host, told) in enumerate(zip(hosts, ahead, strict=True))
    ]
    need = (TASK_CPU_M, batch.task_memory_bytes)
    sent = batch.chunk_bytes if is_streamed else 0
    stages = (
        Stage("map", batch.maps, batch.map_core_s, *need, sent),
        Stage("reduce", batch.reduces, batch.reduce_core_s, *need, batch.chunk_bytes, (0,)),
    )
    return Problem(tuple(nodes), (Job("batch", stages),), TICK_S, round(STEP_S / TICK_S))


def salamander(
    hosts: Sequence[Host],
    batch: Batch,
    params: QosParams,
    planned: tuple[Problem, Solution],
    course: Course | None = None,
) -> Replayed:
    """Run a plan on hosts as they really were; a job that the plan refused is not done.

    ``planned`` is the problem, which says whether chunks are streamed, and its plan.
    """
    problem, plan = planned
    if plan.refusals:
        return Replayed(None, batch.maps + batch.reduces, 0, 0)
    is_streamed = problem.jobs[0].stages[0].chunk_bytes > 0
    dispatcher = Planned(hosts, batch, plan, problem.tick_s, is_streamed)
    before_s = 0.0 if is_streamed else placing_s(hosts, batch, dispatcher.counts)
    ruled = replace(params, controller="salamander")
    found = replay(hosts, batch, ruled, dispatcher, course)
    return replace(found, placing_s=before_s)


@dataclass(frozen=True, slots=True)
class Again:
    """A problem and its plan, and how what is left of it is planned anew.

    ``whole`` is the problem with the chunks of maps, of whose rest ``solve`` makes a plan.
    """

    problem: Problem
    plan: Solution
    whole: Problem
    solve: Callable[[Problem], Solution]


def moved(
    hosts: Sequence[Host],
    batch: Batch,
    params: QosParams,
    again: Again,
    course: Course | None = None,
) -> Replayed:
    """Run a plan as the daemon does where hosts have no CPU: the rest is planned anew."""
    if again.plan.refusals:
        return Replayed(None, batch.maps + batch.reduces, 0, 0)
    dispatcher = Moved(
        hosts, batch, again.plan, again.problem.tick_s, problem=again.whole, solve=again.solve
    )
    before_s = placing_s(hosts, batch, dispatcher.counts)
    found = replay(hosts, batch, replace(params, controller="salamander"), dispatcher, course)
    return replace(found, placing_s=before_s, moved=dispatcher.moved)
