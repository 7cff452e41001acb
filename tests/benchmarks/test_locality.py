"""The benchmark of matching, allocating and prefetching works; none of its figures is judged."""

from __future__ import annotations

import pytest

from benchmarks import locality


@pytest.mark.computes
@pytest.mark.timeout(1800)
def test_a_quick_run_has_every_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locality, "ROUNDS", 1)
    report = locality.measure(is_quick=True)
    judged = {figure.key.partition("_")[0] for figure in report.figures if figure.goal is not None}
    assert judged == {"match", "small", "allocate", "prefetch", "from"}
    assert all(value > 0 for figure in report.figures for value in figure.values)
    keys = [figure.key for figure in report.figures]
    assert len(set(keys)) == len(keys)
