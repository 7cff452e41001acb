"""A move waited for ever for a source whose node had gone off during an earlier step."""

from __future__ import annotations

from tenure.model.container import ContainerState, Step
from tenure.model.outcome import Done
from tests.regression.acts import PUBLISHED, begin_move, power_gone, run_service, the_move, wait
from tests.unit.core.bench import Bench, node, shown


def moving(**host: object) -> tuple[Bench, str]:
    bench = Bench(node("a", "nursery", driver="command"), node("b", "nursery"), node("t"))
    bench.connect("a")
    bench.connect("t")
    service, _ = run_service(bench, HostConfig=host)
    bench.connect("b")
    begin_move(bench, service, "a", "t")
    return bench, service


def test_one_that_was_to_be_stopped_is_stopped() -> None:
    bench, service = moving(**PUBLISHED)
    made = bench.open("create")
    power_gone(bench, "a")
    bench.end(made, Done("target"))
    assert bench.open("start").node == "t"
    bench.end(bench.open("start"))
    wait(bench, 10)
    bench.listed("t", shown(made, "target", "running"))
    assert bench.tables.services[service].state is ContainerState.RUNNING
    assert bench.tables.services[service].node == "t"


def test_one_to_go_back_to_is_created_anew() -> None:
    bench, service = moving()
    made = bench.open("create")
    bench.end(made, Done("target"))
    bench.end(bench.open("start"))
    power_gone(bench, "a")
    bench.listed("t", shown(made, "target", "exited", exit_code=1))
    bench.end(bench.open("retire"))
    assert the_move(bench).step is Step.ROLLED_BACK
    wait(bench, 10)
    assert bench.tables.services[service].state is ContainerState.CREATING
    assert bench.tables.services[service].node == "b"
