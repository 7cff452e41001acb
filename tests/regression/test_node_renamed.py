"""After a restart with a node renamed, all containers under its old name were removed."""

from __future__ import annotations

from tenure.model.container import ContainerState
from tenure.model.events import ChangeService, NodeConnected
from tenure.model.facts import EngineFacts
from tests.regression.acts import effects_on, fence, run_service
from tests.unit.core.bench import SIZE, Bench, node, shown

FACTS = EngineFacts("id-a", SIZE)


def renamed() -> tuple[Bench, str, object]:
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    service, made = run_service(bench)
    bench.configure(node("b", "nursery"))
    bench.restart()
    bench.configure(node("b", "nursery"))
    bench.say(NodeConnected(at_us=0, node="b", facts=FACTS))
    return bench, service, made


def test_the_engine_is_not_taken_for_another() -> None:
    bench, service, made = renamed()
    bench.listed("b", shown(made, "engine-web", "running"))
    assert effects_on(bench, "b", "stop", "retire") == []
    assert "same engine as node a" in bench.tables.nodes["b"].note
    assert bench.tables.services[service].state is ContainerState.RUNNING


def test_fencing_the_old_name_frees_the_new_one() -> None:
    bench, _, _ = renamed()
    fence(bench, "a")
    bench.say(NodeConnected(at_us=0, node="b", facts=FACTS))
    assert bench.tables.nodes["b"].reach == "ok"


def test_the_new_name_is_taken_once_the_old_one_is_empty() -> None:
    bench, service, _ = renamed()
    bench.say(NodeConnected(at_us=0, node="a", facts=FACTS))
    bench.say(ChangeService(at_us=0, request="rm", container=service, verb="remove"))
    bench.end(bench.open("retire"))
    bench.listed("b")
    assert "a" not in bench.tables.nodes
    assert bench.tables.nodes["b"].reach == "ok"
    assert bench.tables.nodes["b"].note == ""
