"""A service on a node fenced by an operator's word waited for that node for ever."""

from __future__ import annotations

from tenure.model.container import ContainerState, Step
from tenure.model.events import NodeConnected, NodeLost
from tenure.model.facts import EngineFacts
from tenure.model.outcome import Done, Unknown
from tests.regression.acts import PUBLISHED, begin_move, fence, run_service, the_move, wait
from tests.unit.core.bench import SIZE, Bench, node, shown


def test_it_is_created_elsewhere() -> None:
    bench = Bench(node("a", "nursery"), node("b", "nursery"))
    bench.connect("a")
    service, _ = run_service(bench)
    bench.connect("b")
    fence(bench, "a")
    wait(bench, 10)
    assert bench.tables.services[service].state is ContainerState.CREATING
    assert bench.tables.services[service].node == "b"


def test_it_does_not_start_beside_a_copy_that_its_engine_may_have_revived() -> None:
    bench = Bench(node("a", "nursery"), node("b", "nursery"))
    bench.connect("a")
    service, made = run_service(bench)
    bench.connect("b")
    fence(bench, "a")
    wait(bench, 10)
    facts = EngineFacts("id-a", SIZE)
    bench.say(NodeConnected(at_us=0, node="a", facts=facts))
    bench.end(bench.open("create"), Done("second"))
    wait(bench, 60)
    assert not bench.has_open("start")
    bench.listed("a", shown(made, "engine-web", "running"))
    bench.end(bench.open("retire"))
    assert bench.open("start").node == "b"
    assert bench.tables.services[service].state is ContainerState.STARTING


def test_a_move_to_it_goes_back_to_its_source() -> None:
    bench = Bench(node("a", "nursery"), node("t"))
    bench.connect("a")
    bench.connect("t")
    service, _ = run_service(bench, HostConfig=PUBLISHED)
    begin_move(bench, service, "a", "t")
    for kind in ("create", "restart_policy", "stop"):
        bench.end(bench.open(kind), Done("target"))
    bench.end(bench.open("start"), Unknown("cut"))
    bench.say(NodeLost(at_us=0, node="t"))
    assert the_move(bench).step is Step.START
    fence(bench, "t")
    assert the_move(bench).step is Step.UNDO_SOURCE
    assert bench.open("start").node == "a"
