"""A removal gave every container ten seconds, and so did a move, whatever its owner had said."""

from __future__ import annotations

from tenure.model.events import ChangeService
from tenure.model.outcome import Done
from tests.regression.acts import PUBLISHED, begin_move, run_service
from tests.unit.core.bench import Bench, node


def test_a_removal_gives_the_time_asked_for() -> None:
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    service, _ = run_service(bench)
    order = ChangeService(at_us=0, request="rm", container=service, verb="remove", grace_s=60)
    bench.say(order)
    assert bench.open("retire").grace_s == 60


def test_without_a_word_a_container_has_the_time_of_its_body() -> None:
    """The API filled in its own ten seconds, so that nothing of the container's ever counted."""
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    service, _ = run_service(bench, StopTimeout=77)
    bench.say(ChangeService(at_us=0, request="stop", container=service, verb="stop"))
    assert bench.open("stop").grace_s == 77
    bench.end(bench.open("stop"))
    bench.say(ChangeService(at_us=0, request="rm", container=service, verb="remove"))
    assert bench.open("retire").grace_s == 77


def test_a_move_gives_the_stop_timeout_of_the_body() -> None:
    bench = Bench(node("a", "nursery"), node("t"))
    bench.connect("a")
    bench.connect("t")
    service, _ = run_service(bench, HostConfig=PUBLISHED, StopTimeout=90)
    begin_move(bench, service, "a", "t")
    for kind in ("create", "restart_policy"):
        bench.end(bench.open(kind), Done("target"))
    assert bench.open("stop").grace_s == 90
