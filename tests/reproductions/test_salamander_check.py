"""The checker finds each kind of fault, one at a time, and nothing in a right plan."""

from dataclasses import replace

import pytest

from reproductions.salamander.check import violations
from tenure.harvest.io.solve import plan
from tenure.harvest.problem import Job, Node, Problem, Running, Stage, faults, unused
from tenure.harvest.solution import Beside, Refusal, Solution, Start, solution, tasks_of
from tenure.harvest.solvers.first_fit import first_fit
from tests.unit.harvest.problems import GIB, data_centre, flat, map_reduce, stage

#: One node with two cores for 4 steps of 2 ticks of 10 s; two maps of 1 tick, a reduce of 2.
PROBLEM = Problem((flat("n0", 2, 2),), (map_reduce("j", 2, 1),), 10.0, 2)
RIGHT = solution(PROBLEM, [Start(0, 0, 0, 0, 2), Start(0, 1, 0, 1, 1)], (), "hand")


def test_a_right_plan_has_no_faults() -> None:
    assert violations(PROBLEM, RIGHT) == []
    assert (RIGHT.scheduled, RIGHT.makespan) == (3, 3)
    assert list(tasks_of(RIGHT, 0, 0)) == [(0, 0), (0, 0)]


def with_stage(**more: object) -> Problem:
    """The same problem, of a job of one stage."""
    return replace(PROBLEM, jobs=(Job("j", (stage("a", 1, 1, **more),)),))


def altered(*starts: Start) -> Solution:
    """A plan of these starts for the same problem."""
    return solution(PROBLEM, starts, (), "hand")


@pytest.mark.parametrize(
    ("plan", "fault"),
    [
        (altered(Start(0, 0, 0, 0, 2), Start(0, 1, 0, 7, 1)), "Eq. 4"),
        (altered(Start(0, 0, 0, 0, 2)), "0 tasks planned, 1 expected"),
        (altered(Start(0, 0, 0, 1, 2), Start(0, 1, 0, 1, 1)), "Eq. 5"),
        (replace(RIGHT, starts=(Start(0, 0, 1, 0, 2),)), "not there"),
        (replace(RIGHT, makespan=2), "Eq. 3"),
        (replace(RIGHT, scheduled=2), "Eq. 2"),
        (replace(RIGHT, most_scheduled=2), "bound"),
        (replace(RIGHT, least_makespan=4), "bound"),
        (replace(RIGHT, refusals=(Refusal(0, "no_room"),)), "2 tasks planned, 0 expected"),
    ],
)
def test_each_fault_is_found(plan: Solution, fault: str) -> None:
    assert any(fault in text for text in violations(PROBLEM, plan))


@pytest.mark.parametrize("name", ["cpu_m", "memory_bytes"])
def test_overload_is_found_at_a_single_tick(name: str) -> None:
    if name == "cpu_m":
        node = replace(PROBLEM.nodes[0], cpu_m=(2000, 1000, 2000, 2000))
    else:
        node = replace(PROBLEM.nodes[0], memory_bytes=(2 * GIB, GIB - 1, 2 * GIB, 2 * GIB))
    tight = replace(PROBLEM, nodes=(node,), jobs=(map_reduce("j", 2, 1, map_s=10),))
    late = solution(tight, [Start(0, 0, 0, 2, 2), Start(0, 1, 0, 4, 1)], (), "hand")
    assert any("Eq. 6" in text for text in violations(tight, late))
    assert not any("Eq. 6" in text for text in violations(PROBLEM, late))


def test_the_end_of_a_task_is_not_part_of_it() -> None:
    """Eq. 6 counts ts <= t < ts + Te: the next task may start at the tick where one ends."""
    problem = replace(PROBLEM, jobs=(Job("j", (stage("map", 4, 10),)),))
    plan = solution(problem, [Start(0, 0, 0, 0, 2), Start(0, 0, 0, 1, 2)], (), "hand")
    assert violations(problem, plan) == []


LINKED = Problem(
    (Node("n0", (8000,) * 10, (8 * GIB,) * 10, 1.0, 10),),
    (Job("j", (Stage("map", 2, 1.0, 1000, 0, 30), Stage("red", 1, 1.0, 1000, 0, 20, (0,)))),),
    1.0,
    1,
)


def test_chunks_must_have_arrived() -> None:
    in_time = [Start(0, 0, 0, 3, 1), Start(0, 0, 0, 6, 1), Start(0, 1, 0, 9, 1)]
    assert violations(LINKED, solution(LINKED, in_time, (), "hand")) == []
    early = [Start(0, 0, 0, 3, 1), Start(0, 0, 0, 5, 1), Start(0, 1, 0, 9, 1)]
    assert any("delivery" in x for x in violations(LINKED, solution(LINKED, early, (), "hand")))


def test_what_maps_write_is_sent_after_they_ended() -> None:
    """The link is free from 6 on, but the reduce's input exists only from 7."""
    early = [Start(0, 0, 0, 3, 1), Start(0, 0, 0, 6, 1), Start(0, 1, 0, 8, 1)]
    assert any("delivery" in x for x in violations(LINKED, solution(LINKED, early, (), "hand")))


def test_chunks_that_are_there_are_not_sent() -> None:
    job = LINKED.jobs[0]
    there = replace(job.stages[0], present=((0, 1),))
    problem = replace(LINKED, jobs=(replace(job, stages=(there, job.stages[1])),))
    plan = [Start(0, 0, 0, 0, 1), Start(0, 0, 0, 3, 1), Start(0, 1, 0, 6, 1)]
    assert violations(problem, solution(problem, plan, (), "hand")) == []


def test_tasks_that_run_take_room_and_hold_up_what_follows() -> None:
    """One of the maps runs until 3: there is room for one more, and the reduce waits for both."""
    problem = replace(PROBLEM, jobs=(map_reduce("j", 1, 1),), running=(Running(0, 0, 0, 3, 1),))
    fine = [Start(0, 0, 0, 0, 1), Start(0, 1, 0, 3, 1)]
    assert violations(problem, solution(problem, fine, (), "hand")) == []
    early = [Start(0, 0, 0, 0, 1), Start(0, 1, 0, 2, 1)]
    assert any("Eq. 5" in x for x in violations(problem, solution(problem, early, (), "hand")))
    assert first_fit(problem).makespan == 5


def test_what_begins_beside_its_input_is_as_said_and_the_rest_is_brought() -> None:
    """A class of tasks has no more beside copies than it has, and these where they lie."""
    nodes = (replace(flat("a", 2, 2), link_bytes_per_s=2), flat("b", 2, 2))
    read = stage("read", 3, 1, chunk_bytes=2, bring_s=1.0, copies=(((0,), 1), ((1,), 1)))
    problem = Problem(nodes, (Job("j", (read,)),), 1.0, 2)
    starts = [Start(0, 0, 0, 0, 1), Start(0, 0, 1, 0, 1), Start(0, 0, 1, 1, 1)]
    begun = solution(problem, starts, (), "hand")
    told = (Beside(0, 0, 0, 0, 1), Beside(0, 0, 1, 1, 1))
    assert violations(problem, replace(begun, beside=told)) == []
    for wrong, law in (
        ((), "delivery"),
        ((*told, Beside(0, 0, 0, 1, 1)), "does not lie"),
        ((*told, Beside(0, 0, 1, 1, 1)), "which has 1"),
        ((Beside(0, 0, 0, 0, 2),), "where 1 begin"),
        ((Beside(0, 0, 7, 0, 1),), "does not lie"),
    ):
        assert any(law in x for x in violations(problem, replace(begun, beside=wrong)))
    for tick, is_there in ((1, False), (2, True)):  # one tick on the link, one until it is read
        linked = solution(problem, [*starts[:2], Start(0, 0, 0, tick, 1)], (), "hand")
        assert (violations(problem, replace(linked, beside=told)) == []) == is_there
    assert plan(problem).makespan == 2


def test_unused_capacity_is_eq_1_and_never_negative() -> None:
    assert unused(4000, [0.0, 0.5, 0.95, 1.0], 0.1) == (3600, 1600, 0, 0)


@pytest.mark.parametrize(
    ("problem", "path"),
    [
        (replace(PROBLEM, tick_s=0.0), "tick_s"),
        (replace(PROBLEM, step_ticks=0), "step_ticks"),
        (replace(PROBLEM, nodes=(flat("a", 1, 1), flat("b", 1, 1, steps=3))), "nodes.1.cpu_m"),
        (replace(PROBLEM, nodes=(flat("a", 1, 1, speed=0.0),)), "nodes.0.speed"),
        (replace(PROBLEM, jobs=(map_reduce("j", 0, 0),)), "jobs.0"),
        (replace(PROBLEM, jobs=(map_reduce("j", -1, 2),)), "jobs.0.stages.0.tasks"),
        (
            replace(PROBLEM, jobs=(Job("j", (stage("a", 1, 1, after=(1,)), stage("b", 1, 1))),)),
            "jobs.0.stages.0.after",
        ),
        (
            replace(PROBLEM, jobs=(Job("j", (stage("a", 1, 1, cpu_m=0, memory_bytes=0),)),)),
            "jobs.0.stages.0.cpu_m",
        ),
        (
            replace(PROBLEM, jobs=(Job("j", (stage("a", 1, 1, nodes=(4,)),)),)),
            "jobs.0.stages.0.nodes",
        ),
        (replace(PROBLEM, running=(Running(3, 0, 0, 1, 1),)), "running.0"),
        (with_stage(copies=(((4,), 1),)), "jobs.0.stages.0.copies"),
        (with_stage(copies=(((0,), 1),), present=((0, 1),)), "jobs.0.stages.0.copies"),
        (with_stage(bring_s=-1.0), "jobs.0.stages.0.bring_s"),
    ],
)
def test_what_cannot_be_planned_is_told_by_its_field(problem: Problem, path: str) -> None:
    assert path in [fault.path for fault in faults(problem)]


def test_a_problem_of_the_papers_size_is_well_formed() -> None:
    assert faults(data_centre(27, 680)) == ()
