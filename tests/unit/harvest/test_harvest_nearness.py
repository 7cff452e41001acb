"""Plans that end alike: as many tasks as possible where their input is read fastest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reproductions.salamander.check import violations
from tenure.harvest.grid import Grid, allowed, waves
from tenure.harvest.nearness import nearer, shared
from tenure.harvest.problem import Problem, Stage, faults
from tenure.harvest.solution import Solution
from tenure.harvest.solvers import copies
from tenure.harvest.solvers.first_fit import first_fit
from tests.unit.harvest.problems import with_copies

Row = tuple[tuple[int, ...], tuple[int, ...], int]


def read(*nearest: Row) -> Stage:
    lies = Counter[tuple[int, ...]]()
    for where, _, count in nearest:
        lies[where] += count
    told = tuple(sorted(lies.items()))
    return Stage("read", lies.total(), 1.0, 1, 1, copies=told, nearest=nearest)


def test_tasks_go_to_memory_as_far_as_a_node_has_room() -> None:
    stage = read(((0, 1), (0,), 5), ((0, 1), (1,), 1))
    found = shared(stage, Counter({0: 3, 1: 3}), {0: 4, 1: 4})
    assert found == {(0, 0): 4, (0, 1): 1, (1, 1): 1}


def test_nothing_moves_that_wins_nothing() -> None:
    stage = read(((0, 1, 2), (1,), 2), ((0, 1, 2), (0, 2), 4))
    found = shared(stage, Counter({0: 1, 1: 4, 2: 1}), {0: 9, 1: 9, 2: 9})
    assert found is not None
    on = Counter[int]()
    for (_, node), count in found.items():
        on[node] += count
    assert on[1] == 2
    same = shared(stage, Counter({0: 3, 1: 2, 2: 1}), {0: 9, 1: 9, 2: 9})
    assert same is not None
    assert sum(count for (_, node), count in same.items() if node == 0) == 3


def ways(rows: Sequence[Row], room: Sequence[int]) -> Iterator[int]:
    """Yield how many tasks are at their fastest copy, for each way of giving all a node."""
    if not rows:
        yield 0
        return
    (where, near, count), *rest = rows
    if not count:
        yield from ways(rest, room)
        return
    for node in set(where):
        if node < len(room) and room[node]:
            left = [free - (k == node) for k, free in enumerate(room)]
            others = [(where, near, count - 1), *rest]
            yield from (one + (node in near) for one in ways(others, left))


def by_node(plan: Solution, nodes: int) -> list[int]:
    on = copies.begun(plan, (0, 0))
    return [on[k] for k in range(nodes)]


def end_of(problem: Problem, plan: Solution, j: int, s: int) -> int:
    stage = problem.jobs[j].stages[s]
    ends = (
        start.tick + problem.duration(stage, start.node)
        for start in plan.starts
        if (start.job, start.stage) == (j, s)
    )
    return max(ends, default=0)


@st.composite
def with_nearest(draw: st.DrawFn) -> Problem:
    """Problems that say of the classes of all stages on which nodes they are fastest."""
    problem = draw(with_copies())

    def told(stage: Stage) -> Stage:
        lies = Counter[tuple[int, ...]]()
        for where, count in stage.copies:
            lies[where] += count
        rows = Counter[tuple[tuple[int, ...], tuple[int, ...]]]()
        for where, count in lies.items():
            for _ in range(count):
                near = draw(st.sampled_from([where, where[:1], where[1:]]))
                rows[where, near] += 1
        lying = {where: count for where, count in lies.items() if count}
        nearest = tuple((*key, count) for key, count in rows.items())
        return replace(stage, copies=tuple(lying.items()), nearest=nearest)

    jobs = (replace(job, stages=tuple(map(told, job.stages))) for job in problem.jobs)
    return replace(problem, jobs=tuple(jobs))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(with_nearest())
def test_a_plan_with_more_tasks_at_their_fastest_copy_is_as_good(problem: Problem) -> None:
    assert not faults(problem)
    plan = copies.planned(problem, first_fit)
    found = nearer(problem, plan)
    assert not violations(problem, found)
    assert found.score <= plan.score
    assert found.refusals == plan.refusals
    for j, job in enumerate(problem.jobs):
        for s in range(len(job.stages)):
            assert end_of(problem, found, j, s) <= end_of(problem, plan, j, s)
            was, now = (copies.begun(one, (j, s)).total() for one in (plan, found))
            assert was == now


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(with_nearest())
def test_no_way_that_ends_in_time_has_more_tasks_at_their_fastest_copy(problem: Problem) -> None:
    job = replace(problem.jobs[0], stages=problem.jobs[0].stages[:1])
    problem = replace(problem, jobs=(job,), running=())
    stage = job.stages[0]
    plan = copies.planned(problem, first_fit)
    beside = sum(one.count for one in plan.beside)
    if not plan.starts or beside < plan.scheduled or beside < sum(n for *_, n in stage.nearest):
        return  # what is brought is left as it is, as is a class of which some are
    nodes = len(problem.nodes)
    grid = Grid.of(problem).cut(end_of(problem, plan, 0, 0))
    ready = min(start.tick for start in plan.starts)
    there = replace(stage, chunk_bytes=0)
    room = [0] * nodes
    for k in allowed(problem, stage):
        room[k] = sum(count for _, count in waves(grid, there, k, ready))
    best = max(ways(stage.nearest, room))
    ours = max(ways(stage.nearest, by_node(nearer(problem, plan), nodes)))
    assert ours == best
