"""Of a long queue the head is planned; who is behind it waits in order and costs nothing."""

from __future__ import annotations

import pytest

from tenure.core.jobs import queue_plan, start
from tenure.model.errors import Problem
from tenure.model.units import US
from tests.unit.core.planned import Planned


def test_more_deadlines_than_a_plan_holds_are_told_to_come_later() -> None:
    fleet = Planned("a", max_planned=2)
    fleet.submit("runs", 100)
    for name in ("one", "two"):
        fleet.submit(name, 50, 5000)
    refused = fleet.submit("three", 50, 5000)
    assert isinstance(refused, Problem)
    assert (refused.code, refused.status) == ("queue_full", 429)


def held(fleet: Planned) -> set[str]:
    """Return who waits and has no place in the plan."""
    waiting = {job.id for job in fleet.bench.tables.jobs.values() if job.state == "waiting"}
    return waiting - {key for key, _ in fleet.bench.tables.reservations.items()}


def test_who_has_no_deadline_is_held_behind_those_who_are_planned() -> None:
    fleet = Planned("a", max_planned=2)
    fleet.submit("runs", 100)
    for name in ("one", "two", "three", "four"):
        answer = fleet.submit(name, 50)
    assert (answer.admission.class_, answer.admission.end_us) == ("best_effort", None)
    assert held(fleet) == {"three", "four"}
    assert fleet.bench.read(start.reason_of, "three") == "behind_others"
    fleet.wait(fleet.bench.now_us + 100 * US)
    fleet.finish("runs")
    assert fleet.bench.tables.jobs["one"].state == "running"
    assert held(fleet) == {"four"}, "in its turn"


def test_a_deadline_takes_the_place_of_the_last_without_one() -> None:
    fleet = Planned("a", max_planned=2)
    fleet.submit("runs", 100)
    for name in ("one", "two"):
        fleet.submit(name, 50)
    dated = fleet.submit("dated", 50, 5000)
    assert dated.admission.class_ == "admitted"
    assert held(fleet) == {"two"}
    assert fleet.bench.read(start.reason_of, "two") == "behind_others"
    urgent = fleet.submit("urgent", 50, priority=5)
    assert urgent.admission.end_us is not None
    assert held(fleet) == {"one", "two"}


def test_what_never_fits_is_refused_behind_a_full_plan_too() -> None:
    fleet = Planned("a", max_planned=1)
    fleet.submit("runs", 100)
    fleet.submit("one", 50)
    assert fleet.submit("big", 50, executors=2).code == "never_fits"
    assert fleet.submit("two", 50).admission.class_ == "best_effort"


def test_whom_nobody_plans_costs_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Planned("a", max_planned=2)
    fleet.submit("runs", 100)
    for name in ("one", "two", "three"):
        fleet.submit(name, 50)
    monkeypatch.setattr(queue_plan, "serve", None)
    assert fleet.submit("four", 50).state == "accepted"
    assert fleet.bench.tables.jobs["four"].state == "waiting"


def test_a_deadline_is_planned_behind_those_who_go_first() -> None:
    fleet = Planned("a", max_planned=2)
    fleet.submit("runs", 100)
    for name in ("one", "two"):
        fleet.submit(name, 50, priority=5)
    assert fleet.submit("dated", 50, 5000).admission.class_ == "admitted"
    assert held(fleet) == {"two"}


def test_the_first_to_be_planned_behind_too_many_deadlines_is_told_to_come_later() -> None:
    fleet = Planned("a", max_planned=2)
    fleet.submit("runs", 100, policy="gio")
    for name in ("one", "two", "three"):
        fleet.submit(name, 50, 5000, policy="gio")
    assert fleet.submit("new", 50).code == "queue_full"
    assert fleet.submit("more", 50, 5000, policy="gio").admission.class_ == "admitted"
