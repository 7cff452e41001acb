"""A move whose target vanished, or went off, at its commit kept its service moving for ever."""

from __future__ import annotations

from tenure.model.container import ContainerState, Step
from tenure.model.outcome import Done, Refused, Unknown
from tests.regression.acts import ALWAYS, begin_move, power_gone, run_service, the_move, wait
from tests.unit.core.bench import Bench, node, shown


def committing() -> tuple[Bench, str]:
    bench = Bench(node("a", "nursery"), node("t", driver="command"), node("u"))
    bench.connect("a")
    bench.connect("t")
    service, _ = run_service(bench, HostConfig=ALWAYS)
    begin_move(bench, service, "a", "t")
    made = bench.open("create")
    bench.end(made, Done("target"))
    bench.end(bench.open("start"))
    wait(bench, 10)
    bench.listed("t", shown(made, "target", "running"))
    assert the_move(bench).step is Step.COMMIT
    bench.connect("u")
    return bench, service


def test_a_target_removed_by_somebody_ends_the_service() -> None:
    bench, service = committing()
    bench.end(bench.open("restart_policy"), Refused("no_such_container", "gone"))
    assert bench.tables.services[service].state is ContainerState.RUNNING
    bench.listed("t")
    assert bench.tables.services[service].state is ContainerState.REMOVED


def test_a_target_whose_node_is_off_is_created_anew() -> None:
    bench, service = committing()
    bench.end(bench.open("restart_policy"), Unknown("cut"))
    power_gone(bench, "t")
    bench.end(bench.open("retire"))
    wait(bench, 10)
    assert the_move(bench).step is Step.DONE
    assert bench.tables.services[service].state is ContainerState.CREATING
    assert bench.tables.services[service].node == "u"
