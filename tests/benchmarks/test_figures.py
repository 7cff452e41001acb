"""Medians, percentiles and goals."""

from __future__ import annotations

import math

import pytest

from benchmarks.figures import Figure, Goal, figure, percentile, shown


def test_the_median_of_repetitions_is_judged() -> None:
    assert Figure("k", "w", "", (1.0, 100.0, 20.0), Goal("most", 20)).is_met
    assert not Figure("k", "w", "", (1.0, 100.0, 20.5), Goal("most", 20)).is_met
    assert figure("k", "w", "", 3).is_met is None


@pytest.mark.parametrize(
    ("kind", "met", "missed"), [("least", 5.0, 4.9), ("below", 4.9, 5.0), ("most", 5.0, 5.1)]
)
def test_goals_at_their_edge(kind: str, met: float, missed: float) -> None:
    goal = Goal(kind, 5)  # type: ignore[arg-type]
    assert goal.is_met(met)
    assert not goal.is_met(missed)
    assert not goal.is_met(math.nan)


def test_percentiles_are_nearest_ranks() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile(values, 1.0) == 100
    assert percentile([4.0], 0.01) == 4
    assert math.isnan(percentile([], 0.5))


def test_figures_are_shown_with_three_digits() -> None:
    assert [shown(v) for v in (1234.5, 12.34, 1.234, 5.0, math.nan)] == [
        "1,234",
        "12.3",
        "1.23",
        "5",
        "none",
    ]
