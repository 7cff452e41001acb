"""Conditional commands: refused inside ``handle`` unless the record has the version they expect."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.model.effects import Reply
from tenure.model.errors import Problem
from tenure.model.events import (
    CancelJob,
    ChangeService,
    Command,
    FenceNode,
    PowerNode,
    RequestRun,
    ScheduleNode,
)
from tests.unit.core.bench import Bench, node


def ready() -> Bench:
    bench = Bench(node("a"))
    bench.connect("a")
    return bench


def answer(bench: Bench, command: Command) -> Any:
    (reply,) = [effect for effect in bench.say(command) if isinstance(effect, Reply)]
    return reply.value


def test_only_the_expected_version_is_changed() -> None:
    bench = ready()
    version = bench.tables.nodes["a"].version
    order: dict[str, Any] = {"at_us": 0, "request": "r", "node": "a"}
    late = answer(bench, ScheduleNode(**order, to="cordoned", expect_version=version - 1))
    assert isinstance(late, Problem)
    assert (late.code, late.status) == ("version_mismatch", 412)
    assert late.extra == {"version": version}
    assert bench.tables.nodes["a"].version == version
    done = answer(bench, ScheduleNode(**order, to="cordoned", expect_version=version))
    assert done.scheduling == "cordoned"
    again = answer(bench, ScheduleNode(**order, to="yes", expect_version=version))
    assert isinstance(again, Problem)


def test_of_two_that_were_queued_together_one_wins() -> None:
    """Both callers saw the same version; a check before the queue would have let both pass."""
    bench = ready()
    bench.submit("j1", name="one")
    version = bench.tables.jobs["j1"].version
    order = CancelJob(at_us=0, request="r", job="j1", expect_version=version)
    first, second = answer(bench, order), answer(bench, order)
    assert first.is_cancelling
    assert isinstance(second, Problem)
    assert second.status == 412


@pytest.mark.parametrize(
    "command",
    [
        CancelJob(at_us=0, request="r", job="none", expect_version=1),
        ChangeService(at_us=0, request="r", container="none", verb="stop", expect_version=1),
        PowerNode(at_us=0, request="r", node="none", to="on", expect_version=1),
        FenceNode(at_us=0, request="r", node="none", expect_version=1),
    ],
    ids=lambda c: type(c).__name__,
)
def test_a_record_that_is_not_there_is_not_found(command: Command) -> None:
    found = answer(ready(), command)
    assert isinstance(found, Problem)
    assert found.status == 404


def test_a_command_without_a_record_takes_no_condition() -> None:
    found = answer(ready(), RequestRun(at_us=0, request="r", cycle="c", expect_version=1))
    assert isinstance(found, Problem)
    assert found.status == 412
