"""Planning the rest again when reality departs from the plan (ours).

The paper only shifts a plan when tasks are relaunched, and names re-evaluating part of it as future
work. Here what runs stays where it is, and all that has not started is planned anew from now on:
after a node was lost, forecasts were revised, or tasks were killed. Ticks keep their meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tenure.harvest.problem import Node, Problem, Running, Stage
from tenure.harvest.solution import Solution

#: (job, stage, tasks)
Ended = tuple[int, int, int]
#: (job, stage, node, chunks)
Delivered = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class State:
    """How far work has come at tick ``at``.

    ``ended`` tasks per stage; ``running`` with the ticks at which they are expected to end;
    ``delivered`` chunks on nodes whose tasks have not started; ``lost``: indices of nodes that are
    gone with all that ran or lay there; ``nodes``: revised forecasts, None: as before. A task that
    is in neither ``ended`` nor ``running``, because it was killed or not started, is planned again.
    """

    at: int
    ended: tuple[Ended, ...] = ()
    running: tuple[Running, ...] = ()
    delivered: tuple[Delivered, ...] = ()
    lost: frozenset[int] = frozenset()
    nodes: tuple[Node, ...] | None = None


def rest(problem: Problem, state: State) -> Problem:
    """Return the problem of what is left of ``problem``, jobs, stages and nodes in their order."""
    nodes = tuple(
        replace(node, cpu_m=(0,) * len(node.cpu_m), memory_bytes=(0,) * len(node.memory_bytes))
        if k in state.lost
        else node
        for k, node in enumerate(state.nodes or problem.nodes)
    )
    running = tuple(run for run in state.running if run.node not in state.lost and run.count)
    over = totals([*state.ended, *((run.job, run.stage, run.count) for run in running)])
    jobs = tuple(
        replace(
            job,
            stages=tuple(
                left_of(stage, over.get((j, s), 0), lying(state, j, s))
                for s, stage in enumerate(job.stages)
            ),
        )
        for j, job in enumerate(problem.jobs)
    )
    return replace(problem, nodes=nodes, jobs=jobs, running=running, begin=state.at)


def left_of(stage: Stage, over: int, present: tuple[tuple[int, int], ...]) -> Stage:
    """Return a stage without the tasks that ended or run."""
    return replace(stage, tasks=max(0, stage.tasks - over), present=present)


def lying(state: State, j: int, s: int) -> tuple[tuple[int, int], ...]:
    """Return (node, chunks) of a stage that lie on nodes which are still there."""
    return tuple(
        (node, chunks)
        for job, stage, node, chunks in state.delivered
        if (job, stage) == (j, s) and node not in state.lost
    )


def totals(rows: Iterable[Ended]) -> dict[tuple[int, int], int]:
    """Return tasks summed by stage."""
    found: dict[tuple[int, int], int] = {}
    for j, s, count in rows:
        found[j, s] = found.get((j, s), 0) + count
    return found


def foreseen(problem: Problem, plan: Solution, at: int) -> State:
    """Return how far a plan has come at tick ``at`` if all goes as planned."""
    ended: list[Ended] = []
    running = [run for run in problem.running if run.end > at]
    for start in plan.starts:
        stage = problem.jobs[start.job].stages[start.stage]
        end = start.tick + problem.duration(stage, start.node)
        if end <= at:
            ended.append((start.job, start.stage, start.count))
        elif start.tick < at:
            running.append(Running(start.job, start.stage, start.node, end, start.count))
    summed = totals(ended)
    return State(at, tuple((j, s, n) for (j, s), n in sorted(summed.items())), tuple(running))
