"""Maintenance: a node with hands in the machine is switched by nobody but a person."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.state.params import Params
from tenure.model.events import ChangeService, DrainNode, NodeLost, PowerNode, ScheduleNode
from tenure.model.node import Node, Power, Scheduling
from tenure.model.outcome import Done
from tests.regression.acts import power_gone, run_service, wait
from tests.unit.core.bench import Bench, node


def maintain(bench: Bench, name: str, *, is_on: bool, reason: str = "") -> Any:
    command = ScheduleNode(at_us=0, request="m", node=name, is_in_maintenance=is_on, reason=reason)
    return bench._reply(bench.say(command))


def schedule(bench: Bench, name: str, to: str, **more: Any) -> Any:
    return bench._reply(bench.say(ScheduleNode(at_us=0, request="s", node=name, to=to, **more)))


def switchable(*others: Any) -> Bench:
    """A node that is on, empty, and would be switched off after a minute."""
    bench = Bench(node("a", driver="command"), *others, params=Params(min_on={}))
    bench.connect("a")
    return bench


def relisted(bench: Bench, seconds: int) -> None:
    for _ in range(seconds // 10):
        wait(bench, 10)
        bench.listed("a")


def test_it_is_not_switched_off_when_empty() -> None:
    bench = switchable()
    answer = maintain(bench, "a", is_on=True, reason="new fan")
    assert isinstance(answer, Node)
    assert (answer.word, answer.reason) == ("maintenance", "new fan")
    relisted(bench, 300)
    assert not bench.has_open("power")
    maintain(bench, "a", is_on=False)
    assert bench.tables.nodes["a"].reason == ""
    relisted(bench, 120)
    assert bench.open("power").to == "off"


def test_it_is_not_switched_on_for_work_and_takes_none() -> None:
    bench = switchable()
    maintain(bench, "a", is_on=True)
    bench.say(PowerNode(at_us=0, request="p", node="a", to="off"))
    bench.end(bench.open("power"))
    assert bench.tables.nodes["a"].power is Power.OFF
    bench.submit("j")
    wait(bench, 120)
    assert not bench.has_open("power")
    bench.say(PowerNode(at_us=0, request="p", node="a", to="on"))
    assert bench.open("power").to == "on"


def test_a_container_there_is_not_started_while_the_node_is_off() -> None:
    bench = Bench(node("a", "nursery", driver="command"))
    bench.connect("a")
    key, _ = run_service(bench)
    bench.say(ChangeService(at_us=0, request="s", container=key, verb="stop"))
    bench.end(bench.open("stop"))
    maintain(bench, "a", is_on=True)
    power_gone(bench, "a")
    start = ChangeService(at_us=0, request="s", container=key, verb="start")
    answer = bench._reply(bench.say(start))
    assert (answer.code, answer.status) == ("maintenance", 409)
    assert "tenure node maintenance a off" in answer.detail
    assert bench.tables.services[key].state.value == "stopped"


def test_it_is_not_fenced_by_power_when_it_is_lost() -> None:
    bench = switchable()
    bench.submit("j")
    bench.end(bench.open("create"), Done("e"))
    bench.end(bench.open("start"))
    maintain(bench, "a", is_on=True)
    bench.say(NodeLost(at_us=0, node="a"))
    wait(bench, 600)
    assert not bench.has_open("power")


def test_it_is_uncordoned_by_its_end_alone() -> None:
    bench = switchable()
    maintain(bench, "a", is_on=True)
    answer = schedule(bench, "a", "yes")
    assert (answer.code, answer.status) == ("maintenance", 409)
    assert maintain(bench, "a", is_on=False).scheduling is Scheduling.YES


@pytest.mark.parametrize("is_on", [True, False])
def test_twice_is_once(is_on: bool) -> None:
    bench = switchable()
    first = maintain(bench, "a", is_on=is_on)
    assert maintain(bench, "a", is_on=is_on) == first


def test_the_reason_of_a_cordon_is_kept_until_it_is_lifted() -> None:
    bench = switchable()
    assert schedule(bench, "a", "cordoned", reason="slow disk").reason == "slow disk"
    assert schedule(bench, "a", "cordoned").reason == "slow disk"
    assert schedule(bench, "a", "yes").reason == ""


@pytest.mark.parametrize("way", ["cordon", "drain"])
def test_a_node_that_takes_no_work_is_not_the_one_that_is_kept_on(way: str) -> None:
    specs = node("a", "nursery", driver="command"), node("b", "nursery", driver="command")
    bench = Bench(*specs, params=Params(min_on={"nursery": 1}))
    bench.connect("a")
    bench.connect("b")
    if way == "cordon":
        schedule(bench, "a", "cordoned")
    else:
        bench.say(DrainNode(at_us=0, request="d", node="a"))
    for _ in range(30):
        wait(bench, 10)
        bench.listed("b")
    assert bench.tables.nodes["b"].power is Power.ON
    bench.listed("a")
    assert bench.open("power").node == "a"
