"""Drains: the plan is what is enacted, blockers have names, and nothing is killed or doubled."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from tenure.core.lifecycle.drain import Looks
from tenure.core.state.params import Params
from tenure.daemon.answers import views
from tenure.model.container import Step
from tenure.model.drain import DrainState
from tenure.model.events import (
    ChangeService,
    MoveService,
    ScheduleNode,
    UsageObserved,
)
from tenure.model.outcome import Done
from tenure.model.resources import Resources
from tenure.model.units import US
from tests.regression.acts import PUBLISHED, wait
from tests.unit.core.bench import SIZE, node
from tests.unit.core.drains import HOST, Drained, with_two


def test_the_plan_is_what_is_enacted() -> None:
    drained = with_two(HostConfig=PUBLISHED)
    plan = drained.plan()
    assert {(m.name, m.target, m.method) for m in plan.moves} == {
        ("one", "b", "stop-first"),
        ("two", "b", "start-first"),
    }
    assert plan.blockers == ()
    assert drained.scheduling() == "yes"
    assert drained.moves == []
    drained.drain()
    enacted = {(m.container, m.target, m.is_start_first) for m in drained.moves}
    assert enacted == {(m.container, m.target, m.method == "start-first") for m in plan.moves}


def test_a_drain_ends_with_the_node_empty_and_cordoned() -> None:
    drained = with_two(HostConfig=PUBLISHED)
    drained.drain(reason="new disk")
    assert drained.scheduling() == "draining"
    for move in drained.moves:
        drained.finish(move)
    record = drained.record
    assert (record.state, record.moved, record.blockers) == (DrainState.DRAINED, 2, ())
    assert drained.scheduling() == "cordoned"
    assert drained.bench.tables.nodes[HOST].reason == "new disk"
    assert {s.node for s in drained.bench.tables.services.values()} == {"b"}


def test_a_move_within_a_generation_does_not_make_a_container_younger() -> None:
    drained = with_two()
    since = {s.id: s.since_us for s in drained.bench.tables.services.values()}
    drained.drain()
    for move in drained.moves:
        drained.finish(move)
    assert {s.id: s.since_us for s in drained.bench.tables.services.values()} == since


def test_an_empty_node_is_drained_at_once() -> None:
    drained = Drained(node("b", "nursery"))
    assert drained.drain().state is DrainState.DRAINED
    assert drained.scheduling() == "cordoned"


def test_no_more_moves_run_at_a_time_than_the_budget_allows() -> None:
    drained = Drained(node("b", "nursery"), params=Params(min_on={}, moves_per_node=1))
    drained.run("one")
    drained.run("two")
    drained.open_others()
    drained.drain()
    assert sorted(m.step.value for m in drained.moves) == ["create", "queued"]
    drained.finish(next(m for m in drained.moves if m.step is Step.CREATE))
    assert drained.record.moved == 1
    wait(drained.bench, 10)
    assert sorted(m.step.value for m in drained.moves) == ["create", "done"]


def test_two_that_bind_one_port_do_not_go_to_one_node() -> None:
    drained = Drained(node("b", "nursery"), node("c", "nursery"))
    drained.run("one", HostConfig=PUBLISHED)
    drained.bench.configure(node(HOST, "nursery"), node("h", "nursery"))
    drained.bench.connect("h")
    drained.run("two", HostConfig=PUBLISHED)
    drained.others = (node("h", "nursery"), node("b", "nursery"))
    drained.open_others("b")
    assert {s.node for s in drained.bench.tables.services.values()} == {HOST, "h"}
    drained.drain()
    drained.drain("h")
    assert [m.target for m in drained.moves] == ["b"]
    assert [b.code for b in drained.bench.tables.drains["h"].blockers] == ["no_node"]
    assert "b: port" in drained.bench.tables.drains["h"].blockers[0].reason


def test_never_migrate_is_named_and_never_forced() -> None:
    drained = with_two()
    service = next(iter(drained.bench.tables.services.values()))
    drained.bench.store(replace(service, migrate="never"))
    plan = drained.plan()
    (blocker,) = plan.blockers
    assert (blocker.code, blocker.name) == ("never_migrate", "one")
    assert "tenure container rm one" in blocker.remedy
    drained.drain()
    wait(drained.bench, 60)
    assert [m.container for m in drained.moves] != [service.id]
    assert not any(e.kind == "stop" for e in drained.bench.tables.effects.values())
    drained.bench.say(ChangeService(at_us=0, request="rm", container=service.id, verb="remove"))
    drained.bench.end(drained.bench.open("retire"))
    drained.finish(drained.moves[0])
    assert drained.record.state is DrainState.DRAINED


def test_what_fits_nowhere_says_which_dimension() -> None:
    drained = Drained(node("b", "nursery"))
    drained.run("one")
    drained.open_others()
    drained.bench.say(UsageObserved(at_us=0, foreign={"b": SIZE}))
    drained.drain()
    assert drained.codes() == ["no_room_cpu_m"]
    assert "b: no_room_cpu_m" in drained.record.blockers[0].reason
    drained.bench.say(UsageObserved(at_us=0, foreign={"b": Resources()}))
    wait(drained.bench, 15)
    assert [m.target for m in drained.moves] == ["b"]
    assert drained.codes() == []


def blocked() -> Drained:
    """Return a drain that has to wait until b has room again."""
    drained = Drained(node("b", "nursery"))
    drained.run("one")
    drained.open_others()
    drained.bench.say(UsageObserved(at_us=0, foreign={"b": SIZE}))
    drained.drain()
    assert drained.codes() == ["no_room_cpu_m"]
    return drained


def test_a_drain_that_is_blocked_looks_less_and_less_often() -> None:
    drained, seen = blocked(), []
    for second in range(60):
        drained.bench.say(UsageObserved(at_us=0, foreign={"b": Resources(SIZE.cpu_m, second)}))
        seen.append(drained.bench.state_of(Looks).by_node[HOST].soonest_us)
    looks = sorted(set(seen))
    gaps = [(b - a) // US for a, b in itertools.pairwise(looks)]
    assert gaps[:4] == [2, 4, 8, 10]
    assert set(gaps[4:]) == {10}


def test_it_looks_at_once_when_something_happens_on_the_node() -> None:
    drained = blocked()
    wait(drained.bench, 60)
    drained.bench.say(UsageObserved(at_us=0, foreign={HOST: Resources(1)}))
    drained.bench.say(UsageObserved(at_us=0, foreign={"b": Resources(), HOST: Resources()}))
    assert [m.target for m in drained.moves] == ["b"]


def test_what_is_shown_is_what_the_latest_look_found_and_is_not_planned_anew() -> None:
    drained = blocked()
    wait(drained.bench, 60)
    drained.bench.say(UsageObserved(at_us=0, foreign={"b": Resources()}), after_us=1)
    assert drained.moves == [], "not looked at yet"
    shown_now = drained.bench.read(views.drain, HOST, is_dry=False)
    assert shown_now is not None
    assert (shown_now.plan.moves, shown_now.plan.blockers) == ((), drained.record.blockers)
    would = drained.bench.read(views.drain, HOST, is_dry=True)
    assert would is not None
    assert [m.target for m in would.plan.moves] == ["b"]
    assert would.drain is None
    wait(drained.bench, 15)
    shown_now = drained.bench.read(views.drain, HOST, is_dry=False)
    assert shown_now is not None
    assert (shown_now.plan.blockers, len(shown_now.plan.under_way)) == ((), 1)


def test_without_another_node_of_the_generation_there_is_nowhere_to_go() -> None:
    drained = Drained(node("y", "young"))
    drained.run("one")
    drained.open_others()
    drained.drain()
    assert drained.codes() == ["no_node"]
    assert "generation nursery" in drained.record.blockers[0].remedy


def test_a_node_that_is_off_is_switched_on_only_if_none_that_is_on_fits() -> None:
    drained = Drained(node("b", "nursery"), node("off", "nursery", driver="command"))
    drained.run("one")
    drained.open_others("b")
    probe = drained.bench.open("probe")
    drained.bench.end(probe, Done("off"))
    assert [m.target for m in drained.plan().moves] == ["b"]
    drained.bench.say(ScheduleNode(at_us=0, request="x", node="b", to="cordoned"))
    plan = drained.plan()
    assert ([m.target for m in plan.moves], plan.switch_on) == (["off"], ("off",))
    drained.drain()
    assert drained.bench.open("power").to == "on"
    assert drained.moves[0].step is Step.CREATE
    assert not drained.bench.has_open("create")
    drained.bench.end(drained.bench.open("power"))
    drained.bench.connect("off")
    assert drained.bench.open("create").node == "off"


def test_what_a_drain_does_says_so() -> None:
    drained = with_two(HostConfig=PUBLISHED)
    drained.drain()
    for move in drained.moves:
        drained.finish(move)
    run = drained.record.id
    mine = [event for event in drained.bench.public if event.data.get("run") == run]
    told = {(event.type, run, event.data.get("cause")) for event in mine}
    assert ("node.draining", run, "drain") in told  # the request
    assert ("migration.queued", run, "drain") in told
    assert ("migration.done", run, None) in told
    assert ("node.drained", run, run) in told


def test_a_person_moves_a_container_by_the_same_table() -> None:
    drained = with_two(HostConfig=PUBLISHED)
    one = next(iter(drained.bench.tables.services.values()))

    def move(to: str, *, is_dry: bool = False) -> Any:
        words = {"container": one.id, "node": to, "is_dry": is_dry}
        return drained.ask(MoveService(at_us=0, request=f"{to}{is_dry}", **words))

    assert move("b", is_dry=True).code == "accepted"
    assert drained.moves == []
    assert move("b").migration
    (begun,) = drained.moves
    assert (begun.target, begun.run_id, begun.method) == ("b", "", "stop-first")
    assert move("b").code == "moving"
    drained.finish(begun)
    assert drained.bench.tables.services[one.id].node == "b"
    assert move("b").code == "same_node"
    assert move("none").status == 404
    # what was moved a moment ago is left by cycles, not by people
    assert move(HOST, is_dry=True).code == "accepted"
    drained.bench.say(ScheduleNode(at_us=0, request="s", node=HOST, to="cordoned"))
    refused = move(HOST)
    assert (refused.code, refused.status) == ("cordoned", 409)
    drained.bench.store(replace(drained.bench.tables.services[one.id], migrate="never"))
    assert move(HOST).code == "never_migrate"
