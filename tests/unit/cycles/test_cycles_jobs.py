"""The job of a cycle against a daemon in memory: claim, plan, submit, or say why not."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tenure.cycles.io import jobs
from tenure.cycles.snapshot import Snapshot, snapshot_to_json
from tenure.model.errors import Conflict, InvalidInput, TenureError, Unavailable
from tenure.model.plan import CycleSpec


class Daemon:
    """What the daemon answers, as data: due run ids by cycle, and what was submitted."""

    def __init__(self, due: Mapping[str, str], cycles: tuple[CycleSpec, ...]) -> None:
        self.due = dict(due)
        self.state = snapshot_to_json(Snapshot(3, 100, cycles=cycles))
        self.plans: list[Mapping[str, Any]] = []
        self.failed: dict[str, str] = {}
        self.claims = 0
        self.due_at_claim = 1
        self.error: BaseException | None = None
        self.is_closed = False

    def claim(self, cycle: str, run_id: str = "") -> Mapping[str, Any]:
        self.claims += 1
        known = cycle in self.due and run_id in ("", self.due[cycle])
        if not known or self.claims < self.due_at_claim:
            raise Conflict("none is due", code="nothing_due")
        return {"id": self.due.pop(cycle)}

    def snapshot(self) -> Mapping[str, Any]:
        return self.state

    def submit_plan(self, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.error is not None:
            raise self.error
        self.plans.append(plan)
        return {}

    def fail_run(self, run_id: str, reason: str) -> Mapping[str, Any]:
        self.failed[run_id] = reason
        return {}

    def close(self) -> None:
        self.is_closed = True


SPEC = CycleSpec("c", "nursery", "young", interval_us=1_000_000)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    made = Daemon({"c": "c@1"}, (SPEC,))
    monkeypatch.setattr(jobs, "CLAIM_WAITS_S", (0.0, 0.0))
    jobs.use_gateway(lambda: made)
    yield made
    monkeypatch.setattr(jobs, "_factory", None)


def test_a_due_run_is_planned_once(daemon: Daemon) -> None:
    assert jobs.run_cycle("c")["outcome"] == "submitted"
    assert jobs.run_cycle("c")["outcome"] == "nothing_due"
    assert [(plan["run_id"], plan["revision"]) for plan in daemon.plans] == [("c@1", 3)]
    assert daemon.is_closed


def test_a_claim_a_moment_too_early_is_tried_again(daemon: Daemon) -> None:
    daemon.due_at_claim = 3
    assert jobs.run_cycle("c", "c@1")["outcome"] == "submitted"


def test_a_failure_is_told_and_raised(daemon: Daemon) -> None:
    daemon.error = Unavailable("the daemon is starting")
    with pytest.raises(Unavailable):
        jobs.run_cycle("c")
    assert daemon.failed == {"c@1": "the daemon is starting"}
    assert daemon.is_closed


def test_a_broken_snapshot_is_told(daemon: Daemon) -> None:
    daemon.state = {"revision": "none"}
    with pytest.raises(InvalidInput):
        jobs.run_cycle("c")
    assert "not a snapshot" in daemon.failed["c@1"]


def test_an_unknown_cycle_is_told(daemon: Daemon) -> None:
    daemon.due["x"] = "x@1"
    with pytest.raises(TenureError, match="no cycle 'x'"):
        jobs.run_cycle("x")
    assert "x@1" in daemon.failed


def test_any_bug_is_told(daemon: Daemon) -> None:
    daemon.error = ZeroDivisionError("oh")
    with pytest.raises(ZeroDivisionError):
        jobs.run_cycle("c")
    assert daemon.failed == {"c@1": "ZeroDivisionError: oh"}


def test_another_refusal_of_the_claim_is_raised(daemon: Daemon) -> None:
    def refuse(cycle: str, run_id: str = "") -> Mapping[str, Any]:
        raise Conflict("no such cycle", code="not_found")

    daemon.claim = refuse  # type: ignore[method-assign]
    with pytest.raises(Conflict):
        jobs.run_cycle("c")


def test_a_worker_without_a_gateway_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_factory", None)
    with pytest.raises(InvalidInput, match="no gateway"):
        jobs.run_cycle("c")


def test_another_kind_of_cycle_is_run_by_its_runner(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = CycleSpec("c", "", "", interval_us=1_000_000, kind="forecast")
    daemon.state = snapshot_to_json(Snapshot(3, 100, cycles=(spec,)))
    monkeypatch.setattr(jobs, "_runners", {})
    with pytest.raises(InvalidInput, match="knows no cycles of kind forecast"):
        jobs.run_cycle("c")
    assert "kind forecast" in daemon.failed["c@1"]
    given: list[tuple[Any, int, str]] = []

    def run(gateway: Any, snapshot: Snapshot, run_id: str) -> dict[str, int]:
        given.append((gateway, snapshot.now_us, run_id))
        return {"cold": 3}

    jobs.use_runner("forecast", run)
    daemon.due = {"c": "c@2"}
    found = jobs.run_cycle("c")
    assert found == {"cycle": "c", "outcome": "submitted", "run": "c@2", "cold": 3}
    assert given == [(daemon, 100, "c@2")]
    assert daemon.plans == []
