"""Services: who is reviewed when a node is ready, and calls of unknown end."""

from __future__ import annotations

from tenure.core.services.services import LATE_US, SERVICES
from tenure.core.state.owned import Notices
from tenure.model.outcome import Done, Unknown
from tests.unit.core.bench import Bench, node


def with_one_that_runs() -> Bench:
    bench = Bench(node("n"))
    bench.connect("n")
    bench.create("runs")
    bench.end(bench.open("create"), Done("engine-runs"))
    bench.end(bench.open("start"))
    return bench


def test_a_node_that_is_ready_has_only_those_reviewed_that_wait_for_it() -> None:
    bench = with_one_that_runs()
    waits = bench.create("waits")
    bench.end(bench.open("create"), Unknown("timed out"))
    assert [service.node for service in bench.tables.services.values()] == ["n", "n"]
    bench.act(SERVICES.on_node_ready, "n")
    assert bench.state_of(Notices).services == {waits.id}


def test_a_start_of_unknown_end_may_happen_for_a_while_but_a_create_harms_nobody() -> None:
    bench = with_one_that_runs()
    service = bench.create("late")
    create = bench.open("create")
    bench.end(create, Unknown("timed out"))
    assert bench.tables.services[service.id].late_us == 0
    bench.listed("n")
    bench.end(bench.open("create"), Done("engine-late"))
    bench.end(bench.open("start"), Unknown("timed out"))
    assert bench.tables.services[service.id].is_unsure
    assert bench.tables.services[service.id].late_us == bench.now_us + LATE_US
