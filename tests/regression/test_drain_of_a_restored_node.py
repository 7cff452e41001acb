"""A drain of a node was over as soon as a restored state was settled, with an old copy there."""

from __future__ import annotations

from tenure.model.drain import DrainState
from tenure.model.events import DrainNode, Tick
from tenure.model.facts import ContainerFacts
from tenure.model.units import US
from tests.regression.acts import run_service
from tests.unit.core.bench import IMAGE, Bench, node, shown
from tests.unit.core.lifecycle.restores import backup, put_back, show


def test_a_drain_ends_only_once_its_node_was_looked_at_after_a_restore() -> None:
    specs = (node("n", "nursery"), node("m", "nursery"))
    bench = Bench(*specs)
    for spec in specs:
        bench.connect(spec.name)
    web, create = run_service(bench)
    was = bench.tables.services[web].node
    other = next(spec.name for spec in specs if spec.name != was)
    bench.say(DrainNode(at_us=0, request="drain", node=was))
    put_back(bench, backup(bench))
    newer = dict(create.body["Labels"]) | {"tenure.incarnation": "2"}
    show(bench, other, ContainerFacts("e2", "web", IMAGE, "running", newer, started_us=1))
    show(bench, was, old := shown(create, "engine-web", "running", started_us=1))
    assert not bench.meta.is_restoring
    assert bench.tables.services[web].node == other
    assert not bench.tables.drains[was].is_over, "the old copy runs there, and no record says so"
    bench.listed(was, old)
    bench.end(bench.open("retire"))
    bench.listed(was)
    bench.say(Tick(at_us=0), after_us=60 * US)
    assert bench.tables.drains[was].state is DrainState.DRAINED
