"""The workload of the Spark experiment: the same for every policy, scaled from an hour."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from benchmarks.spark import FULL, workload


def test_every_policy_is_given_the_same_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENURE_DATA", raising=False)
    work = workload(FULL)
    assert work == workload(FULL)
    assert len(work) == FULL.jobs
    times = [one.at_s for one in work]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= FULL.window_s
    low, high = FULL.slack_s
    assert all(low <= one.slack_s <= high and one.app in FULL.apps for one in work)


def test_arrivals_of_a_trace_are_those_of_its_first_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gzip.open(tmp_path / "fb2010_0.csv.gz", "wt") as file:
        file.write("job,submit_s\n")
        file.writelines(f"{number},{number * 600}\n" for number in range(12))
    monkeypatch.setenv("TENURE_DATA", str(tmp_path))
    times = [one.at_s for one in workload(FULL)]
    hour = {number * 600 / 3600 * FULL.window_s for number in range(6)}
    assert times == sorted(times)
    assert len(set(times)) == FULL.jobs
    assert set(times) <= hour
