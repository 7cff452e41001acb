"""The benchmarks that need no engine, for a few seconds: they work; no figure is judged."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from benchmarks import scale, submissions
from benchmarks.figures import Report


@pytest.fixture(autouse=True)
def _everywhere() -> Iterator[None]:
    """Give the process back the cores that a benchmark keeps it from."""
    allowed = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, allowed)


def keys(report: Report) -> set[str]:
    for figure in report.figures:
        assert figure.values, figure.key
    return {figure.key for figure in report.figures}


def test_submissions() -> None:
    found = keys(submissions.measure(is_quick=True))
    assert {"accepted_per_s", "latency_p99_ms"} <= found


def test_scale() -> None:
    found = keys(scale.measure(is_quick=True))
    assert {"cpu_cores", "rss_mib", "livez_p50_ms", "submit_p50_ms", "nodes_p50_ms"} <= found
