"""What was learned of nodes and containers that are gone was kept until the next restart."""

from __future__ import annotations

from dataclasses import replace

from tenure.core.capacity.room import Loads
from tenure.core.state.learned import Learned
from tenure.model.events import Configured, UsageObserved
from tenure.model.resources import Resources
from tests.regression.acts import run_service
from tests.unit.core.bench import Bench, node, shown


def test_a_forgotten_node_leaves_nothing() -> None:
    keep = node("b", "nursery")
    bench = Bench(node("a", "nursery"), keep)
    bench.connect("a")
    bench.say(UsageObserved(at_us=0, foreign={"a": Resources(100)}))
    bench.listed("a")
    bench.say(Configured(at_us=0, nodes=(keep,)))
    assert "a" not in bench.tables.nodes
    told = bench.state_of(Learned)
    loads = bench.state_of(Loads).by_node
    assert not any("a" in learned for learned in (told.foreign, told.fresh, told.orphans, loads))


def test_an_orphan_is_told_once_and_forgotten_when_it_is_gone() -> None:
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    _, made = run_service(bench)
    ours = shown(made, "engine-web", "running")
    labels = ours.labels | {"tenure.container": "f" * 64}
    stray = replace(ours, engine_id="x", name="stray", labels=labels)
    for _ in range(2):
        bench.listed("a", ours, stray)
    assert [e.subject for e in bench.public if e.type == "container.orphan"] == ["x"]
    bench.listed("a", ours)
    assert bench.state_of(Learned).orphans["a"] == frozenset()
