"""Power commands that end unclear, nodes that were promised, boots that are tried again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.core.state.params import Params
from tenure.daemon.answers.views import snapshot
from tenure.model.events import NodeLost, Tick
from tenure.model.job import Constraint
from tenure.model.node import Power
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.resources import Resources
from tenure.model.units import US
from tests.unit.core.bench import SIZE, Bench, node

HALF = Resources(SIZE.cpu_m // 2, SIZE.memory_bytes // 2)
PARAMS = Params(min_on={}, grace_us=5 * US, power_retry_us=20 * US)


def idle() -> Bench:
    """Return a bench whose one switchable node is on and empty."""
    bench = Bench(node("a", driver="command"), params=PARAMS)
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("a")
    return bench


def going_off() -> Bench:
    """Return a bench whose node is told to go off."""
    bench = idle()
    bench.now_us += 10 * US
    bench.listed("a")
    assert bench.open("power").to == "off"
    return bench


def held(bench: Bench) -> dict[str, str]:
    """Return what a worker's snapshot says keeps each node on."""
    steps = bench.read(snapshot)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return {row["name"]: row["held"] for row in end.value["nodes"].values}


def power_of(bench: Bench) -> Power:
    power: Power = bench.tables.nodes["a"].power
    return power


@pytest.mark.parametrize(
    ("params", "left"),
    [
        (PARAMS, set()),
        (replace(PARAMS, min_on={"young": 1}), {"b"}),
        (replace(PARAMS, spare_cpu_m=SIZE.cpu_m), {"b"}),
        (replace(PARAMS, spare_cpu_m=SIZE.cpu_m + 1), {"a", "b"}),
    ],
)
def test_as_many_nodes_and_as_much_cpu_stay_on_as_configured(
    params: Params, left: set[str]
) -> None:
    bench = Bench(node("a", driver="command"), node("b", driver="command"), params=params)
    for name in ("a", "b"):
        probe = next(e for e in bench.tables.effects.values() if e.node == name)
        bench.end(probe, Done("on"))
        bench.connect(name)
    bench.now_us += 10 * US
    for name in ("a", "b"):
        bench.listed(name)
    assert {n.name for n in bench.tables.nodes.values() if n.power is Power.ON} == left


def test_a_node_whose_off_command_ended_unknown_gets_no_work_for_a_while() -> None:
    bench = going_off()
    bench.end(bench.open("power"), Unknown("timed out"))
    assert power_of(bench) is Power.STOPPING
    assert not bench.has_open("probe")
    bench.say(Tick(at_us=0), after_us=10 * US)
    assert not bench.has_open("probe"), "the command may still act"
    bench.say(Tick(at_us=0), after_us=11 * US)
    bench.end(bench.open("probe"), Done("on"))
    assert power_of(bench) is Power.ON


def test_that_wait_survives_a_restart() -> None:
    bench = going_off()
    bench.restart()  # takes the open command as ended unknown
    assert power_of(bench) is Power.STOPPING
    bench.configure(node("a", driver="command"))
    assert not bench.has_open("probe")


def test_a_refused_off_command_is_asked_about_at_once() -> None:
    bench = going_off()
    bench.end(bench.open("power"), Refused("power_failed"))
    bench.end(bench.open("probe"), Done("on"))
    assert power_of(bench) is Power.ON


def test_an_engine_that_answers_while_its_node_stops_is_known_when_it_stays() -> None:
    bench = going_off()
    bench.say(NodeLost(at_us=0, node="a"))
    bench.connect("a")
    bench.end(bench.open("power"), Refused("power_failed"))
    bench.end(bench.open("probe"), Done("on"))
    assert power_of(bench) is Power.ON


def test_a_boot_that_failed_is_tried_again_for_the_job_that_waits() -> None:
    bench = Bench(node("a", driver="command"), params=PARAMS)
    bench.end(bench.open("probe"), Done("off"))
    bench.submit("j")
    bench.end(bench.open("power"), Refused("power_failed"))
    bench.end(bench.open("probe"), Done("off"))
    assert not bench.has_open("power")
    bench.say(Tick(at_us=0), after_us=25 * US)
    assert bench.open("power").to == "on"


def test_a_node_that_went_off_unseen_is_found_off() -> None:
    """Neither a watcher's word nor a first unclear probe is needed for that."""
    bench = idle()
    bench.restart()
    bench.say(Tick(at_us=0), after_us=30 * US)
    bench.end(bench.open("probe"), Unknown("no clear answer"))
    bench.say(Tick(at_us=0), after_us=30 * US)
    bench.end(bench.open("probe"), Done("off"))
    assert power_of(bench) is Power.OFF


def test_an_idle_node_stays_on_while_a_promise_counts_on_it() -> None:
    bench = Bench(node("a", driver="command"), node("b"), params=PARAMS)
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("a")
    bench.connect("b")
    on_b = (Constraint("name", "==", ("b",)),)
    bench.submit("first", executors=2, estimate_local_us=60 * US, request=HALF, constraints=on_b)
    deadline_us = bench.now_us + 300 * US
    second = bench.submit("second", executors=4, deadline_us=deadline_us, request=HALF)
    assert (second.admission.class_, second.state) == ("admitted", "accepted")
    bench.now_us += 10 * US
    bench.listed("a")
    assert not bench.has_open("power")
    assert held(bench) == {"a": "jobs that wait and count on it", "b": "executors of jobs"}
    bench.now_us = deadline_us
    bench.listed("a")
    assert bench.open("power").to == "off"
