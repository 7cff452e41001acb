"""Who goes before whom in the plan of the queue: by priority, whatever estimates went wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.model.events import CancelJob
from tenure.model.job import JobState
from tenure.model.units import US
from tests.unit.core.planned import Planned


def test_higher_priority_goes_first_where_no_promise_is_broken() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 100)
    fleet.submit("low", 50, 5000)
    fleet.submit("high", 50, 5000, priority=1)
    assert fleet.start_us("high") < fleet.start_us("low")
    tight = Planned("a")
    tight.submit("runs", 100)
    tight.submit("low", 50, 105)
    tight.submit("high", 50, 5000, priority=1)
    assert tight.start_us("low") < tight.start_us("high")


def test_lower_priority_never_delays_higher() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 100)
    fleet.submit("high", 50, 5000, priority=1)
    before_us = fleet.start_us("high")
    for number in range(6):
        fleet.submit(f"low{number}", 50, 200 + 60 * number)
        assert fleet.start_us("high") <= before_us + 10_000


def test_a_job_without_deadline_is_last_but_not_starved() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 300)
    fleet.submit("free", 50)
    fleet.submit("due", 50, 5000)
    assert fleet.start_us("due") < fleet.start_us("free")
    # a stream of jobs with deadlines pushes it aside for an hour, not for ever
    for number in range(100):
        fleet.submit(f"due{number}", 50, 50_000)
    job = fleet.bench.tables.jobs["free"]
    assert fleet.bench.tables.reservations["free"].end_us <= job.arrival_us + (3600 + 50) * US
    assert sum(fleet.start_us(f"due{n}") > fleet.start_us("free") for n in range(100)) > 10


@pytest.mark.parametrize("before", [0, 1, 2])
def test_room_that_comes_early_is_offered_by_priority(before: int) -> None:
    """Whoever has his turn to be looked at: jobs that waited and went have moved the turn on."""
    fleet = Planned("a", "b")
    for name in ("r1", "r2"):
        fleet.submit(name, 1000)
    for number in range(before):
        fleet.submit(f"gone{number}", 50, 5000)
        fleet.wait(fleet.bench.now_us + 5 * US)
        fleet.bench.say(CancelJob(at_us=0, request=f"c{number}", job=f"gone{number}"))
    fleet.submit("low", 50, 5000)
    fleet.submit("high", 50, 5000, priority=1)
    fleet.wait(fleet.bench.now_us + 100 * US)
    fleet.finish("r1")
    fleet.wait(fleet.bench.now_us + US)
    assert fleet.state("high") is JobState.RUNNING
    assert fleet.state("low") is JobState.WAITING


def _high_before_low(slack_s: float = 5000, **words: Any) -> Planned:
    """A job of low rank came before one of high rank, which has the earlier place: 100 and 130."""
    fleet = Planned("a", "b")
    fleet.submit("r1", 100, **words)
    fleet.submit("r2", 130)
    fleet.submit("low", 50, slack_s)
    fleet.submit("high", 50, 5000, priority=1)
    fleet.wait(fleet.bench.now_us + 5 * US)
    assert fleet.start_us("high") < fleet.start_us("low")
    return fleet


def test_who_is_put_off_takes_the_place_of_a_lower_priority() -> None:
    fleet = _high_before_low(retries=1)
    fleet.wait(fleet.bench.now_us + 60 * US)
    fleet.finish("r1", exit_code=1)  # its second attempt will take until 160 or later
    fleet.wait(fleet.bench.now_us + US)
    assert fleet.nodes("high") == {"b": 1}
    assert fleet.nodes("low") == {"a": 1}
    assert fleet.start_us("high") < fleet.start_us("low")


def test_nobody_loses_his_promise_to_who_is_put_off() -> None:
    fleet = _high_before_low(140, retries=1)
    was_us = fleet.start_us("low")
    fleet.wait(fleet.bench.now_us + 60 * US)
    fleet.finish("r1", exit_code=1)
    fleet.wait(fleet.bench.now_us + US)
    assert fleet.start_us("low") == was_us < fleet.start_us("high")


def test_room_that_comes_in_time_goes_first_to_who_waits_for_an_overdue_job() -> None:
    fleet = _high_before_low()
    ends_us = fleet.bench.tables.jobs["r2"].end_estimate_us
    fleet.wait(ends_us - US)
    fleet.finish("r2")  # as estimated, or hardly earlier
    fleet.wait(ends_us + US)
    assert fleet.state("high") is JobState.RUNNING
    assert fleet.state("low") is JobState.WAITING


def test_who_waits_for_an_overdue_job_is_not_passed_when_somebody_comes_at_that_moment() -> None:
    fleet = _high_before_low()
    ends_us = fleet.bench.tables.jobs["r2"].end_estimate_us
    fleet.wait(ends_us - 2 * US - US // 2)
    fleet.finish("r2")  # hardly earlier than estimated
    assert (fleet.state("high"), fleet.state("low")) == (JobState.WAITING, JobState.WAITING)
    fleet.submit("new", 10, 50000, priority=-1)
    assert fleet.bench.now_us > fleet.bench.tables.jobs["low"].admission.start_us
    assert fleet.state("low") is JobState.WAITING
    assert fleet.state("high") is JobState.RUNNING
