"""Run times learned from an app's jobs, and what is promised with and without them."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.capacity.run_time_model import RUNS
from tenure.core.capacity.run_times import safety_of
from tenure.model.estimate import AppRuns, Estimate, JobSize, RunTime
from tenure.model.node import Site
from tenure.model.resources import Resources
from tenure.model.units import US
from tests.unit.core.bench import Bench, node, shown

UNSTATED: dict[str, Any] = {"estimate_local_us": None}


def bench_of(*, site: Site = Site.LOCAL) -> Bench:
    bench = Bench(node("a", site=site))
    bench.connect("a")
    return bench


def run(bench: Bench, name: str, took_s: int, *, code: int = 0, **spec: Any) -> None:
    """Have a job of one executor run for so long, and end with a code."""
    bench.submit(name, **(UNSTATED | spec))
    made = bench.open("create")
    bench.end(made)
    bench.end(bench.open("start"))
    begun = bench.now_us
    ends = {"started_us": begun, "finished_us": begun + took_s * US, "exit_code": code}
    bench.now_us += took_s * US
    bench.listed("a", shown(made, f"engine-{name}", "exited", **ends))


def estimate(bench: Bench, name: str = "next", **spec: Any) -> Estimate:
    found: Estimate = bench.submit(name, **(UNSTATED | spec)).estimate
    return found


def test_nothing_is_known_of_a_new_app() -> None:
    bench = bench_of()
    job = bench.submit("first", **UNSTATED)
    assert job.estimate == Estimate(600 * US, 600 * US, "unknown")
    assert job.admission.class_ == "unknown"
    behind = bench.submit("second")
    assert (behind.estimate.source, behind.admission.class_) == ("given", "best_effort")


def test_the_maximum_run_time_stands_in_for_what_is_unknown() -> None:
    assert estimate(bench_of(), max_runtime_us=9 * US).local_us == 9 * US


def test_one_run_gives_an_estimate_with_a_margin() -> None:
    bench = bench_of()
    run(bench, "first", 100)
    learned = estimate(bench)
    assert learned == Estimate(120 * US, 156 * US, "learned", 1, 1200, alike=1)
    assert bench.tables.jobs["next"].admission.class_ == "admitted"


def test_the_margin_follows_the_error_that_the_means_made() -> None:
    steady = tuple(RunTime(100, 100) for _ in range(4))
    assert safety_of(steady) == 1.0
    wild = tuple(RunTime(taken, 100) for taken in (50, 150, 50, 150))
    assert safety_of(wild) == 1.5
    assert safety_of((RunTime(900, 100),) * 4) == 2.0, "bounded"
    assert safety_of((RunTime(100, 100),) * 2) == 1.2, "not tried often enough"


def test_only_the_last_runs_count() -> None:
    bench = bench_of()
    for index in range(RUNS + 2):
        run(bench, f"old{index}", 10 if index < 2 else 50)
    runs = bench.tables.apps["app"]
    assert [one.taken_us for one in runs.local] == [50 * US] * RUNS
    assert estimate(bench).runs == RUNS


def test_runs_on_cloud_are_another_kind() -> None:
    bench = bench_of(site=Site.CLOUD)
    run(bench, "first", 130)
    runs = bench.tables.apps["app"]
    assert (runs.local, len(runs.hybrid)) == ((), 1)
    assert estimate(bench) == Estimate(120 * US, 156 * US, "learned", 1, 1200, alike=1)


@pytest.mark.parametrize(
    ("local", "hybrid", "expected"),
    [((100,), (), 130), ((100,), (170,), 170), ((100,), (80,), 100)],
    ids=["the paper's factor", "its own factor", "never below the local one"],
)
def test_the_hybrid_factor_is_learned(
    local: tuple[int, ...], hybrid: tuple[int, ...], expected: int
) -> None:
    bench = bench_of()
    first, second = (tuple(RunTime(s * US, 0) for s in kind) for kind in (local, hybrid))
    bench.tables.apps.put("app", AppRuns("app", first, second))
    given = estimate(bench, estimate_local_us=100 * US)
    assert given == Estimate(100 * US, expected * US, "given")


def test_a_job_that_was_retried_or_failed_teaches_nothing() -> None:
    bench = bench_of()
    run(bench, "failing", 5, code=3)
    assert bench.tables.jobs["failing"].state == "failed"
    assert "app" not in bench.tables.apps


def test_one_executor_and_many_get_different_promises() -> None:
    bench = bench_of()
    run(bench, "first", 100, request=Resources(1000, 0))
    more = estimate(bench, "more", executors=4, request=Resources(100, 0))
    assert (more.local_us, more.runs, more.alike) == (300 * US, 1, 0), "0.4 cores in place of 1"
    assert estimate(bench, "wide", executors=2, request=Resources(600, 0)).local_us == 120 * US
    same = estimate(bench, "same", request=Resources(1000, 0))
    assert (same.local_us, same.alike) == (120 * US, 1)


def test_runs_stored_before_sizes_count_for_every_size() -> None:
    bench = bench_of()
    bench.tables.apps.put("app", AppRuns("app", (RunTime(100 * US, 0),)))
    assert estimate(bench, executors=2) == Estimate(120 * US, 156 * US, "learned", 1, 1200, alike=1)


def test_what_was_promised_keeps_its_estimate() -> None:
    bench = bench_of()
    run(bench, "first", 100)
    estimate(bench, "waits", deadline_us=bench.now_us + 3600 * US)
    before = bench.tables.jobs["waits"].estimate
    bench.tables.apps.put("app", AppRuns("app", (RunTime(1 * US, 0),)))
    bench.restart()
    assert bench.tables.jobs["waits"].estimate == before


def test_what_was_learned_survives_a_restart() -> None:
    bench = bench_of()
    run(bench, "first", 100)
    before = bench.tables.apps["app"]
    bench.restart()
    assert bench.tables.apps["app"] == before


def test_what_its_runs_say_nothing_of_is_unknown() -> None:
    bench = bench_of()
    read = RunTime(100 * US, 0, JobSize(1, 1000, 1 << 30))
    bench.tables.apps.put("app", AppRuns("app", (read,)))
    assert estimate(bench).source == "unknown"
