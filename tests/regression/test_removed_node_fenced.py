"""A node that the configuration no longer named, fenced by word, was drained for ever."""

from __future__ import annotations

from tenure.model.container import ContainerState
from tenure.model.events import NodeLost
from tenure.model.outcome import Done
from tests.regression.acts import fence, run_service, wait
from tests.unit.core.bench import Bench, node


def test_it_is_forgotten_with_the_copies_that_died_with_it() -> None:
    bench = Bench(node("a", "nursery"), node("b", "nursery"))
    bench.connect("a")
    service, _ = run_service(bench)
    bench.connect("b")
    bench.say(NodeLost(at_us=0, node="a"))
    bench.configure(node("b", "nursery"))
    assert bench.tables.nodes["a"].is_removed
    fence(bench, "a")
    assert "a" not in bench.tables.nodes
    assert not len(bench.tables.tombstones)
    assert not len(bench.tables.drains)
    assert [e.type for e in bench.public if e.subject == "a"][-1] == "node.forgotten"
    wait(bench, 10)
    assert bench.tables.services[service].node == "b"
    bench.end(bench.open("create"), Done("second"))
    bench.end(bench.open("start"))
    assert bench.tables.services[service].state is ContainerState.RUNNING
    bench.restart()
    assert "a" not in bench.tables.nodes


def test_so_is_one_that_its_driver_calls_off() -> None:
    bench = Bench(node("a", "nursery", driver="command"), node("b", "nursery"))
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("a")
    service, _ = run_service(bench)
    bench.connect("b")
    bench.say(NodeLost(at_us=0, node="a"))
    bench.configure(node("b", "nursery"))
    bench.end(bench.open("probe"), Done("off"))
    assert "a" not in bench.tables.nodes
    wait(bench, 10)
    assert bench.tables.services[service].node == "b"


def test_named_and_fenced_it_stays_with_what_is_to_be_cleared_away() -> None:
    bench = Bench(node("a", "nursery"), node("b", "nursery"))
    bench.connect("a")
    run_service(bench)
    bench.connect("b")
    fence(bench, "a")
    wait(bench, 10)
    assert "a" in bench.tables.nodes
    assert [tombstone.node for tombstone in bench.tables.tombstones.values()] == ["a"]


def test_removed_and_merely_lost_it_is_waited_for() -> None:
    bench = Bench(node("a", "nursery"), node("b", "nursery"))
    bench.connect("a")
    service, _ = run_service(bench)
    bench.connect("b")
    bench.say(NodeLost(at_us=0, node="a"))
    bench.configure(node("b", "nursery"))
    wait(bench, 60)
    assert "a" in bench.tables.nodes
    assert bench.tables.services[service].node == "a"
