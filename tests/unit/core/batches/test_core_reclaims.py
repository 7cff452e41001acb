"""What controllers did is published once, over restarts of the daemon too."""

from __future__ import annotations

from typing import Any

from tenure.model.events import HarvestReported
from tenure.model.harvest import HarvestAction
from tests.unit.core.bench import Bench, node


def kill(seq: int, *, is_done: bool = True) -> HarvestAction:
    numbers = {"memory_limit_bytes": 10, "task_memory_bytes": 7}
    return HarvestAction(seq, 5, "kill", "limit", is_done, "t" * 64, "memory", "", numbers)


def quota(seq: int, quota_m: int) -> HarvestAction:
    return HarvestAction(seq, 5, "quota", "limit", True, numbers={"quota_m": quota_m})


class Told:
    """A bench with one node, and what is published of its harvest."""

    def __init__(self) -> None:
        self.bench = Bench(node("a"))
        self.bench.connect("a")

    def report(self, *actions: HarvestAction, oldest: int = 1, name: str = "a") -> list[Any]:
        before = len(self.published())
        self.bench.say(HarvestReported(at_us=0, node=name, actions=actions, oldest_seq=oldest))
        return self.published()[before:]

    def published(self) -> list[Any]:
        return [e for e in self.bench.public if e.type.startswith("harvest.")]


def test_each_end_of_a_task_is_an_event_with_its_numbers() -> None:
    told = Told()
    events = told.report(kill(3), kill(4, is_done=False))
    assert [(e.type, e.subject) for e in events] == [("harvest.kill", "a")] * 2
    assert events[0].data["task"] == "t" * 64
    assert events[0].data["memory_limit_bytes"] == 10
    assert events[0].data["task_memory_bytes"] == 7
    assert [e.data["is_done"] for e in events] == [True, False]
    assert told.bench.tables.harvests["a"].kills == 1


def test_what_was_published_is_not_published_again() -> None:
    told = Told()
    told.report(kill(3), kill(4))
    assert [e.data["seq"] for e in told.report(kill(4), kill(5))] == [5]
    assert told.report(kill(4)) == []


def test_the_throttling_of_one_report_is_one_event() -> None:
    told = Told()
    (event,) = told.report(quota(3, 900), quota(4, 10), quota(5, 300))
    assert event.type == "harvest.quota"
    assert (event.data["quota_m"], event.data["moves"]) == (300, 3)
    assert event.data["least"]["quota_m"] == 10


def test_actions_that_the_agent_lost_are_a_gap() -> None:
    told = Told()
    told.report(kill(3))
    events = told.report(kill(9), oldest=9)
    assert [e.type for e in events] == ["harvest.gap", "harvest.kill"]
    assert events[0].data == {"since_seq": 3, "until_seq": 9}
    assert [e.type for e in told.report(kill(12), oldest=9)] == ["harvest.kill"]


def test_of_a_node_that_is_not_known_nothing_is_told() -> None:
    assert Told().report(kill(1), name="b") == []
