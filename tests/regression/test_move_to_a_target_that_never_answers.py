"""A move whose target was lost while its copy was created held its service for ever."""

from __future__ import annotations

from tenure.model.container import ContainerState, Step
from tenure.model.events import NodeLost
from tenure.model.outcome import Unknown
from tests.regression.acts import begin_move, run_service, the_move, wait
from tests.unit.core.bench import Bench, node


def test_it_is_given_up_when_the_plan_expires() -> None:
    bench = Bench(node("a", "nursery"), node("t"))
    bench.connect("a")
    bench.connect("t")
    service, _ = run_service(bench)
    begin_move(bench, service, "a", "t")
    bench.end(bench.open("create"), Unknown("cut"))
    bench.say(NodeLost(at_us=0, node="t"))
    wait(bench, 500)
    assert the_move(bench).step is Step.CREATE
    bench.restart()
    wait(bench, 200)
    assert the_move(bench).step is Step.ROLLED_BACK
    assert bench.tables.services[service].state is ContainerState.RUNNING
    assert [(g.node, g.may_run) for g in bench.tables.tombstones.values()] == [("t", False)]
