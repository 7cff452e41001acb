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
