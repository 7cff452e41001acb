"""The planner's benchmark makes judged plans in processes of their own; no figure is judged."""

from __future__ import annotations

from benchmarks import planner


def test_each_plan_has_its_own_process_and_is_judged() -> None:
    rows = planner.each(planner.asked("first_fit", 170, 1.0, nodes=3))
    assert len(rows) == len(planner.SEEDS)
    for row in rows:
        assert row["makespan_s"] > 0
        assert row["peak_mib"] > 10
        assert row["found_s"] <= row["took_s"]
