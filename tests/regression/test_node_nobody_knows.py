"""A node that is off, of unknown capacity, was never switched on for anybody who waited."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tenure.core.jobs import jobs
from tenure.core.state.indexes import Index
from tenure.core.state.params import Params
from tenure.model.events import DrainNode, ScheduleNode, Tick
from tenure.model.job import Constraint, JobSpec
from tenure.model.node import NodeSpec
from tenure.model.outcome import Done, Refused
from tenure.model.resources import Resources
from tenure.model.units import US
from tests.regression.acts import run_service
from tests.unit.core.bench import IMAGE, SIZE, SMALL, Bench, node

HALF = Resources(SIZE.cpu_m // 2, SIZE.memory_bytes // 2)


def unknown(name: str, generation: str = "young", *, price: int = 0) -> NodeSpec:
    spec = node(name, generation, driver="command", price_nano_per_h=price)
    return replace(spec, capacity=None)


def fleet(*nodes: NodeSpec) -> Bench:
    """Return a fleet whose switchable nodes are off, and whose others answer."""
    bench = Bench(*nodes, params=Params(min_on={}, grace_us=5 * US, nursery_full="wait"))
    for effect in [e for e in bench.tables.effects.values() if e.kind == "probe"]:
        bench.end(effect, Done("off"))
    for one in nodes:
        if one.power.driver == "none":
            bench.connect(one.name)
    return bench


def booting(bench: Bench) -> list[str]:
    return sorted(n.name for n in bench.tables.nodes.values() if n.power == "booting")


def boots(bench: Bench, name: str) -> None:
    bench.end(bench.open("power"))
    bench.connect(name)


def test_a_job_that_fits_nowhere_else_is_told_to_come_again_and_has_it_learned() -> None:
    bench = fleet(unknown("new"))
    early = bench.submit("j")
    assert (early.code, early.status) == ("nodes_not_known", 503)
    assert early.extra["retry_after_s"] == 5.0
    assert booting(bench) == ["new"]
    boots(bench, "new")
    assert bench.submit("j").spec.name == "j"
    assert bench.tables.executors["j/0"].node == "new"


def test_what_no_node_could_ever_serve_is_refused_as_ever() -> None:
    bench = fleet(unknown("new"))
    on_other = (Constraint("name", "==", ("other",)),)
    assert bench.submit("j", constraints=on_other).code == "never_fits"
    assert booting(bench) == []


def test_a_dry_run_switches_nothing_on() -> None:
    bench = fleet(unknown("new"))
    spec = JobSpec(name="j", app="a", image=IMAGE, command=("run",), executors=1, request=SMALL)
    found = bench.read(jobs.appraise, bench.read(jobs.new_job, "j", spec))
    assert getattr(found, "code", "") == "nodes_not_known"
    bench.say(Tick(at_us=0))
    assert booting(bench) == []


@pytest.mark.parametrize("policy", ["ff", "tenure"])
def test_a_job_whose_nodes_went_has_one_learned(policy: str) -> None:
    bench = fleet(node("a"), unknown("new"))
    bench.submit("first", request=SIZE, policy=policy)
    bench.submit("waits", request=HALF, policy=policy)
    assert booting(bench) == [], "it will fit on a"
    bench.configure(unknown("new"))
    assert booting(bench) == ["new"]


def test_an_executor_that_lost_its_node_has_one_learned() -> None:
    """As in the seed of the simulated fleet that found it: a node forgotten and named again."""
    bench = fleet(node("a"), unknown("new"))
    bench.submit("j", executors=2, request=HALF, policy="ff")
    executor = bench.tables.executors["j/0"]
    assert executor.node == "a"
    for effect in [e for e in bench.tables.effects.values() if e.kind == "create"]:
        bench.end(effect, Refused("no_image", "gone"))
    assert booting(bench) == ["new"]


def test_a_container_that_waits_has_one_learned_and_one_at_a_time() -> None:
    bench = fleet(unknown("dear", "nursery", price=2), unknown("cheap", "nursery", price=1))
    service = bench.create("web")
    assert booting(bench) == ["cheap"]
    bench.create("db")
    bench.say(Tick(at_us=0))
    assert booting(bench) == ["cheap"], "the other is not needed yet"
    boots(bench, "cheap")
    assert bench.tables.services[service.id].node == "cheap"


def test_a_container_too_large_for_known_nodes_is_taken_where_others_are_not_known() -> None:
    bench = fleet(node("n", "nursery"), unknown("new", "nursery"))
    small = replace(node("n", "nursery"), capacity=Resources(100, SMALL.memory_bytes))
    bench.configure(small, unknown("new", "nursery"))
    service = bench.create("web")
    assert booting(bench) == ["new"]
    boots(bench, "new")
    assert bench.tables.services[service.id].node == "new"


def test_a_drain_that_has_nowhere_to_go_has_one_learned() -> None:
    bench = fleet(node("n", "nursery"), unknown("new", "nursery"))
    run_service(bench)
    bench.say(DrainNode(at_us=0, request="x", node="n"))
    assert booting(bench) == ["new"]


def test_one_that_does_not_boot_is_tried_again_ever_more_rarely() -> None:
    bench = fleet(unknown("new", "nursery"))
    bench.create("web")
    times = []
    for _ in range(12):
        times.append(bench.now_us)
        bench.end(bench.open("power"), Refused("power_failed", "no answer"))
        bench.end(bench.open("probe"), Done("off"))
        while not booting(bench):
            due_us = bench.state.wakeup_us()
            assert due_us is not None, "it is tried again"
            bench.say(Tick(at_us=0), after_us=max(1, due_us - bench.now_us))
    pauses_s = [round((b - a) / US) for a, b in itertools.pairwise(times)]
    assert pauses_s[0] < pauses_s[1] < pauses_s[2]
    assert max(pauses_s) == pauses_s[-1] == pauses_s[-2], "bounded too"
    assert max(pauses_s) < 1200


def test_hands_in_the_machine_and_cordons_keep_it_off() -> None:
    bench = fleet(unknown("new", "nursery"))
    bench.say(ScheduleNode(at_us=0, request="c", node="new", to="cordoned"))
    bench.create("web")
    assert booting(bench) == []


def test_what_was_learned_outlives_a_restart() -> None:
    bench = fleet(unknown("new"))
    bench.submit("j")
    boots(bench, "new")
    bench.restart()
    assert bench.tables.nodes["new"].capacity == SIZE
    assert not bench.state_of(Index).unsized
