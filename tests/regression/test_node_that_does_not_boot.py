"""A job placed on a node that is switched on, and whose engine never answers, waited for ever."""

from __future__ import annotations

from tenure.model.job import ExecutorState
from tenure.model.outcome import Done, Refused
from tests.regression.acts import wait
from tests.unit.core.bench import Bench, node


def test_what_was_never_sent_goes_elsewhere() -> None:
    bench = Bench(node("a", driver="command"), node("b", driver="command"))
    for probe in [e for e in bench.tables.effects.values() if e.kind == "probe"]:
        bench.end(probe, Done("off"))
    bench.submit("j")
    assert bench.tables.executors["j/0"].node == "a"
    bench.end(bench.open("power"), Done("on"))
    wait(bench, 130)
    bench.end(bench.open("probe"), Done("on"))
    assert bench.tables.executors["j/0"].node == "b"
    assert bench.open("power").node == "b"
    bench.end(bench.open("power"), Done("on"))
    bench.connect("b")
    assert bench.tables.executors["j/0"].state is ExecutorState.CREATING


def test_a_node_whose_power_on_was_refused_is_tried_again() -> None:
    """Nothing else happens meanwhile: without its timer the job would wait for ever."""
    bench = Bench(node("a", driver="command"))
    bench.end(bench.open("probe"), Done("off"))
    bench.submit("j")
    bench.end(bench.open("power"), Refused("power_failed", "no current"))
    bench.end(bench.open("probe"), Done("off"))
    assert not bench.has_open("power"), "not at once"
    wait(bench, 60)
    assert bench.open("power").to == "on"
    bench.end(bench.open("power"), Done("on"))
    bench.connect("a")
    assert bench.tables.executors["j/0"].state is ExecutorState.CREATING
