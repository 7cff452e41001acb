"""Events of one transaction: reviewed one by one, the queue served once at the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.model.effects import CreateContainer, Reply
from tenure.model.events import SubmitJob
from tenure.model.job import JobSpec
from tenure.model.units import US
from tests.unit.core.bench import IMAGE, SMALL, Bench, node

SPEC = JobSpec("j", "app", IMAGE, ("run",), 1, SMALL, estimate_local_us=10 * US, policy="ff")


def submission(at_us: int, name: str, **spec: Any) -> SubmitJob:
    return SubmitJob(at_us=at_us, request=name, job=name, spec=replace(SPEC, name=name, **spec))


def batch(*names: str, **spec: Any) -> tuple[Bench, list[Any]]:
    bench = Bench(node("a"))
    bench.connect("a")
    at_us = bench.now_us + US
    return bench, bench.state.handle_all([submission(at_us, name, **spec) for name in names])


def test_every_command_of_a_batch_is_answered_in_its_order() -> None:
    _, effects = batch("x", "y", "x")
    answers = [effect for effect in effects if isinstance(effect, Reply)]
    assert [answer.request for answer in answers] == ["x", "y", "x"]
    assert answers[2].value.code == "duplicate_id"


def test_a_batch_is_served_in_the_order_of_the_queue_not_of_arrival() -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    at_us = bench.now_us + US
    late = submission(at_us, "late", executors=4, deadline_us=at_us + 900 * US)
    soon = submission(at_us, "soon", executors=4, deadline_us=at_us + 500 * US)
    effects = bench.state.handle_all([late, soon])
    created = {e.owner for e in effects if isinstance(e, CreateContainer)}
    assert created == {f"executor:soon/{index}" for index in range(4)}
    assert bench.tables.jobs["late"].state == "waiting"


def test_promises_of_one_batch_know_of_each_other() -> None:
    bench, _ = batch("x", "y", "z", executors=4)
    ends = [bench.tables.jobs[name].admission.end_us for name in ("x", "y", "z")]
    assert [end - ends[0] for end in ends] == [0, 10 * US, 20 * US]
