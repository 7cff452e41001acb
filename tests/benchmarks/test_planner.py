"""The planner's benchmark makes judged plans in processes of their own; no figure is judged."""

from __future__ import annotations

from benchmarks import planner, planner_problems
from tenure.harvest.problem import faults


def test_each_plan_has_its_own_process_and_is_judged() -> None:
    rows = planner.each(planner.asked("first_fit", 170, 1.0, nodes=3))
    assert len(rows) == len(planner.SEEDS)
    for row in rows:
        assert row["makespan_s"] > 0
        assert row["peak_mib"] > 10
        assert row["found_s"] <= row["took_s"]


def test_copies_are_three_of_each_chunk_but_of_those_that_lie_nowhere() -> None:
    problem = planner_problems.with_copies(planner_problems.data_centre(9, 170), 0.1, seed=1)
    (job,) = problem.jobs
    assert faults(problem) == ()
    assert sum(count for _, count in job.stages[0].copies) == job.stages[0].tasks - 16
    assert {len(set(where)) for where, _ in job.stages[0].copies} == {3}


def test_the_choice_by_the_fastest_copy_is_judged_and_has_more_tasks_beside_it() -> None:
    asks = planner.asked("first_fit", 170, 1.0, nodes=5, link=planner_problems.LINK_BYTES_PER_S)
    for row in planner.each(asks, planner.draw_near):
        assert row["took_s"] > 0
        assert 0 < row["before"] < row["after"] <= 100


def test_each_chunk_has_one_copy_that_is_the_fastest() -> None:
    problem = planner_problems.with_copies(planner_problems.data_centre(9, 170), 0.0, seed=1)
    stage = planner_problems.with_nearest(problem, seed=1).jobs[0].stages[0]
    assert faults(problem) == ()
    assert sum(count for _, _, count in stage.nearest) == stage.tasks
    assert all(len(near) == 1 and set(near) < set(where) for where, near, _ in stage.nearest)
