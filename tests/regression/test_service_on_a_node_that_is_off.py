"""A stopped service on a node that went off could not be started, one stopping never stopped."""

from __future__ import annotations

from typing import Any

from tenure.model.container import ContainerState
from tenure.model.events import ChangeService, NodeConnected
from tenure.model.facts import EngineFacts
from tenure.model.outcome import Unknown
from tests.regression.acts import power_gone, run_service
from tests.unit.core.bench import SIZE, Bench, node, shown


def ready() -> tuple[Bench, str, Any]:
    bench = Bench(node("a", "nursery", driver="command"))
    bench.connect("a")
    service, made = run_service(bench)
    bench.say(ChangeService(at_us=0, request="stop", container=service, verb="stop"))
    return bench, service, made


def test_its_node_is_switched_on_to_start_it() -> None:
    bench, service, made = ready()
    bench.end(bench.open("stop"))
    power_gone(bench, "a")
    bench.say(ChangeService(at_us=0, request="start", container=service, verb="start"))
    assert bench.open("power").to == "on"
    bench.end(bench.open("power"))
    bench.say(NodeConnected(at_us=0, node="a", facts=EngineFacts("id-a", SIZE)))
    bench.listed("a", shown(made, "engine-web", "exited", exit_code=137))
    assert bench.open("start").engine_id == "engine-web"
    assert bench.tables.services[service].state is ContainerState.STARTING


def test_one_that_was_to_stop_has_stopped() -> None:
    bench, service, _ = ready()
    bench.end(bench.open("stop"), Unknown("cut"))
    power_gone(bench, "a")
    assert bench.tables.services[service].state is ContainerState.STOPPED
