"""The checks hold for a recorded run, and each fails for the fault that it is there for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demo.checks import checks
from demo.collect import recorded_us
from demo.facts import Facts, load, save

RECORDED = Path(__file__).parent / "facts.json"


@pytest.fixture(scope="module")
def facts() -> Facts:
    return load(RECORDED)


def changed(facts: Facts, rows: str, name: str, **values: Any) -> Facts:
    """Return the facts with values of one row changed."""
    found = [replace(row, **values) if row.name == name else row for row in getattr(facts, rows)]
    assert found != getattr(facts, rows)
    fresh: dict[str, Any] = {rows: found}
    return replace(facts, **fresh)


def broken(facts: Facts) -> list[str]:
    return [check.what for check in checks(facts) if not check.is_held]


def test_a_good_run_holds(facts: Facts) -> None:
    assert broken(facts) == []
    assert len(checks(facts)) == 11


def test_facts_survive_their_file(facts: Facts, tmp_path: Path) -> None:
    save(facts, tmp_path / "facts.json")
    assert load(tmp_path / "facts.json") == facts


def off_ledger(facts: Facts) -> Facts:
    rows = [replace(row, ledger_s=row.ledger_s * 1.2) for row in facts.on_times]
    return replace(facts, on_times=rows)


def without_cron(facts: Facts) -> Facts:
    return replace(facts, runs=[run for run in facts.runs if run.trigger != "* * * * *"])


def with_failed_run(facts: Facts) -> Facts:
    return replace(facts, runs=[*facts.runs, replace(facts.runs[0], state="failed")])


def first_attempt_only(facts: Facts) -> Facts:
    job = next(job for job in facts.jobs if job.name == "flaky")
    return changed(facts, "jobs", "flaky", stretches=job.stretches[-1:])


def overtaken_too_late(facts: Facts) -> Facts:
    queued = next(job for job in facts.jobs if job.name == "ledger")
    assert queued.placed_s is not None
    return changed(facts, "jobs", "audit", placed_s=queued.placed_s + 1)


def without_cloud(facts: Facts) -> Facts:
    jobs = [
        replace(job, stretches=[replace(s, node="young1") for s in job.stretches])
        for job in facts.jobs
    ]
    return replace(facts, jobs=jobs)


FAULTS: dict[str, tuple[Callable[[Facts], Facts], str]] = {
    "late": (lambda f: changed(f, "jobs", "matrix", finished_s=500.0), "deadline"),
    "failed": (lambda f: changed(f, "jobs", "matrix", state="failed"), "deadline"),
    "unpromised": (lambda f: changed(f, "jobs", "index", promise="best_effort"), "deadline"),
    "wrong reason": (lambda f: changed(f, "refusals", "rush", code="never_fits"), "refused"),
    "wrong cause": (lambda f: changed(f, "refusals", "greedy", reason="other"), "refused"),
    "accepted": (lambda f: replace(f, refusals=f.refusals[1:]), "refused"),
    "not cancelled": (lambda f: changed(f, "jobs", "video", state="succeeded"), "cancelled"),
    "not retried": (first_attempt_only, "tried again"),
    "stuck": (lambda f: changed(f, "containers", "web", generation="young"), "reached"),
    "two copies": (lambda f: changed(f, "containers", "web", copies=2), "one copy"),
    "no copy": (lambda f: changed(f, "containers", "web", copies=0), "one copy"),
    "no cron": (without_cron, "Cron"),
    "failed run": (with_failed_run, "Cron"),
    "no priority": (overtaken_too_late, "higher priority"),
    "unexplained": (lambda f: replace(f, explained=[]), "higher priority"),
    "no cloud": (without_cloud, "used cloud"),
    "cloud on": (lambda f: changed(f, "nodes", "cloud1", power="on"), "off at the end"),
    "ledger": (off_ledger, "ledger"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_breaks_its_check(facts: Facts, name: str) -> None:
    breaks, word = FAULTS[name]
    found = broken(breaks(facts))
    assert len(found) == 1
    assert word in found[0]


def test_a_container_may_stay_for_a_stated_reason(facts: Facts) -> None:
    stuck = changed(facts, "containers", "web", generation="young", why_not="no room")
    assert broken(stuck) == []
    assert any("web is in young: no room" in check.detail for check in checks(stuck))


def test_power_is_not_checked_on_the_operators_engines(facts: Facts) -> None:
    own = replace(off_ledger(facts), is_own=True)
    assert broken(own) == []
    assert len(checks(own)) < len(checks(facts))


def test_a_small_fleet_of_somebody_may_refuse_more(facts: Facts) -> None:
    own = changed(replace(facts, is_own=True), "refusals", "greedy", expects="met")
    assert broken(own) == []
    assert len(broken(replace(own, is_own=False))) == 1


def test_recorded_time_is_on_from_order_to_off() -> None:
    def row(event: str, at_us: int) -> dict[str, object]:
        return {"node": "n", "event": event, "at_us": at_us}

    log = [row("on_issued", 10), row("on_done", 13), row("off_issued", 40), row("off_done", 50)]
    assert recorded_us(log, 100) == (40, 2)
    assert recorded_us([*log, row("on_issued", 80)], 100) == (60, 3)
    assert recorded_us([*log, row("on_issued", 120)], 100) == (40, 2)
    assert recorded_us([], 100) == (0, 0)
