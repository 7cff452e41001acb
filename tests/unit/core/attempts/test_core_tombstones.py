"""Tombstones: a copy that must not run is removed by its engine id, and only then forgotten."""

from __future__ import annotations

from typing import Any

from tenure.model.events import CancelJob, NodeLost
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.units import US
from tests.unit.core.bench import Bench, node, shown


def running() -> tuple[Bench, Any]:
    """Return a bench with one executor that runs as container c1, and its create effect."""
    bench = Bench(node("a"))
    bench.connect("a")
    bench.submit("j")
    create = bench.open("create")
    bench.end(create, Done("c1"))
    bench.end(bench.open("start"))
    return bench, create


def cancel(bench: Bench) -> None:
    bench.say(CancelJob(at_us=0, request="cancel", job="j"))


def test_a_cancelled_executor_is_retired_and_its_job_waits_for_that() -> None:
    bench, _ = running()
    cancel(bench)
    assert bench.open("retire").target == "c1"
    assert not bench.tables.jobs["j"].is_over
    bench.end(bench.open("retire"))
    assert bench.tables.jobs["j"].state == "cancelled"
    assert len(bench.tables.tombstones) == 0


def test_a_removal_that_ended_unknown_is_settled_by_a_later_listing_only() -> None:
    bench, create = running()
    cancel(bench)
    asked_us = bench.now_us
    bench.end(bench.open("retire"), Unknown("timed out"))
    bench.listed("a", asked_us=asked_us)
    assert len(bench.tables.tombstones) == 1, "a listing from before says nothing"
    bench.listed("a", shown(create, "c1", "running"))
    assert bench.open("retire").target == "c1", "what runs is stopped at once"
    bench.end(bench.open("retire"), Refused("no_such_container"))
    assert bench.tables.jobs["j"].state == "cancelled"


def test_nothing_is_removed_by_its_name() -> None:
    """The successor of a service has the same name; a late removal must not hit it."""
    bench = Bench(node("n", "nursery"))
    bench.connect("n")
    bench.create("web")
    create = bench.open("create")
    bench.end(create, Refused("engine_error", "lied"))
    assert not bench.has_open("retire")
    bench.listed("n", shown(create, "c1"))
    assert bench.open("retire").target == "c1"


def test_a_late_copy_of_a_service_that_failed_is_removed() -> None:
    bench = Bench(node("n", "nursery"))
    bench.connect("n")
    service = bench.create("web")
    create = bench.open("create")
    bench.end(create, Refused("bad_request", "no such option"))
    assert bench.tables.services[service.id].state == "failed"
    bench.listed("n")
    assert len(bench.tables.tombstones) == 0
    bench.listed("n", shown(create, "late"))
    assert bench.open("retire").target == "late"


def test_a_tombstone_without_a_copy_is_dropped_by_a_listing() -> None:
    bench = Bench(node("n", "nursery"))
    bench.connect("n")
    bench.create("web")
    bench.end(bench.open("create"), Refused("engine_error"))
    assert len(bench.tables.tombstones) == 1
    bench.listed("n")
    assert len(bench.tables.tombstones) == 0


def test_nothing_is_sent_to_an_engine_that_is_away_and_all_of_it_later() -> None:
    bench, create = running()
    bench.say(NodeLost(at_us=0, node="a"))
    cancel(bench)
    assert not bench.has_open("retire")
    bench.restart()
    assert not bench.has_open("retire")
    bench.configure(node("a"))
    bench.connect("a")  # its first listing shows nothing: the copy is gone
    assert bench.tables.jobs["j"].state == "cancelled"
    assert create.name == "tenure-j-0-1"


def test_a_restart_names_whose_effects_it_takes_for_unknown() -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    bench.submit("j")
    bench.end(bench.open("create"), Done("c1"))
    bench.restart()
    bench.restart()
    told = [one.data for one in bench.public if one.type == "daemon.started"][-2:]
    assert [one["unknown"] for one in told] == [{"j/0": "start"}, {}]
    assert told[0]["unnamed"] == 0


def test_a_start_that_was_refused_may_have_happened() -> None:
    """The next attempt waits until the copy is gone: no executor runs twice."""
    bench = Bench(node("a"))
    bench.connect("a")
    bench.submit("j", retries=1)
    bench.end(bench.open("create"), Done("c1"))
    bench.end(bench.open("start"), Refused("engine_error", "after success"))
    bench.now_us += 60 * US
    bench.listed("a")
    assert not bench.has_open("create")
    bench.end(bench.open("retire"))
    bench.now_us += 60 * US
    bench.listed("a")
    assert bench.open("create").name == "tenure-j-0-2"
