"""The benchmarks that need no engine, for a few seconds: they work; no figure is judged."""

from __future__ import annotations

import os

from benchmarks import lookahead, scale, submissions
from benchmarks.figures import Report
from benchmarks.footprint import large_fleet, submit_first
from benchmarks.http import run
from benchmarks.rig import until


def keys(report: Report) -> set[str]:
    for figure in report.figures:
        assert figure.values, figure.key
    return {figure.key for figure in report.figures}


def test_submissions() -> None:
    allowed = os.sched_getaffinity(0)
    found = keys(submissions.measure(is_quick=True))
    assert {"accepted_per_s", "latency_p99_ms"} <= found
    assert os.sched_getaffinity(0) == allowed


def test_scale() -> None:
    found = keys(scale.measure(is_quick=True))
    assert {"cpu_cores", "rss_mib", "livez_p50_ms", "submit_p50_ms", "nodes_p50_ms"} <= found


def test_lookahead() -> None:
    report = lookahead.measure(is_quick=True)
    assert {"run_s", "worker_peak_mib", "held_25_ms", "submit_p50_ms"} <= keys(report)
    made = next(figure for figure in report.figures if figure.key == "forecast_nodes")
    assert made.is_met, "the recorded past was read, and every node forecast"


def test_the_first_job_of_a_large_fleet_has_kernels_compiled() -> None:
    with large_fleet() as daemon:
        assert "kernels" not in daemon.process.log.read_text()
        run(submit_first(daemon))
        told = "planning runs uncompiled until its kernels are compiled or loaded"
        until(lambda: told in daemon.process.log.read_text(), 30.0, "kernels to be compiled")
