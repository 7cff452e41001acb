"""Drains: the plan is what is enacted, blockers have names, and nothing is killed or doubled."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from tenure.core.params import Params
from tenure.daemon import views
from tenure.model.container import Step
from tenure.model.drain import Drain, DrainPlan, DrainState
from tenure.model.effects import Reply
from tenure.model.errors import Problem
from tenure.model.events import (
    CancelDrain,
    ChangeService,
    Closing,
    DrainNode,
    NodeConnected,
    NodeLost,
    ScheduleNode,
    Tick,
    UsageObserved,
)
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.node import Scheduling
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.resources import Resources
from tenure.model.units import US
from tests.regression.acts import PUBLISHED, power_gone, wait
from tests.unit.core.bench import SIZE, Bench, node, shown

HOST = "a"


class Drained:
    """A bench of nursery nodes, on the first of which services run; the others come after."""

    def __init__(self, *others: Any, params: Params | None = None) -> None:
        self.bench = Bench(node(HOST, "nursery"), params=params or Params(min_on={}))
        self.others = others
        self.bench.connect(HOST)
        self.made: dict[str, Any] = {}

    def run(self, name: str, **body: Any) -> str:
        service = self.bench.create(name, **body)
        self.made[name] = self.bench.open("create")
        self.bench.end(self.made[name], Done(f"engine-{name}"))
        self.bench.end(self.bench.open("start"))
        return str(service.id)

    def open_others(self, *connected: str) -> None:
        self.bench.configure(node(HOST, "nursery"), *self.others)
        for other in connected or [spec.name for spec in self.others]:
            self.bench.connect(other)

    def ask(self, command: Any) -> Any:
        return self.bench._reply(self.bench.say(command))

    def plan(self, name: str = HOST) -> DrainPlan:
        found = self.ask(DrainNode(at_us=0, request="dry", node=name, is_dry=True))
        assert isinstance(found, DrainPlan)
        return found

    def drain(self, name: str = HOST, **words: Any) -> Drain:
        found = self.ask(DrainNode(at_us=0, request="drain", node=name, **words))
        assert isinstance(found, Drain)
        return found

    def cancel(self) -> Any:
        return self.ask(CancelDrain(at_us=0, request="cancel", node=HOST))

    @property
    def record(self) -> Drain:
        found: Drain = self.bench.tables.drains[HOST]
        return found

    @property
    def moves(self) -> list[Any]:
        return list(self.bench.tables.migrations.values())

    def codes(self) -> list[str]:
        return [blocker.code for blocker in self.record.blockers]

    def scheduling(self) -> str:
        return str(self.bench.tables.nodes[HOST].scheduling)

    def finish(self, move: Any) -> None:
        """Have the engines do everything that an open move asks for."""
        bench, name = self.bench, self.bench.tables.services[move.container].name
        key = f"migration:{move.id}"
        for _ in range(20):
            mine = [e for e in bench.tables.effects.values() if e.owner == key]
            graves = [e for e in bench.tables.effects.values() if move.container in e.owner]
            for effect in mine + graves:
                if effect.kind == "create":
                    self.made[name] = effect
                bench.end(effect, Done(f"{name}@{move.target}"))
            step = bench.tables.migrations[move.id].step
            if step is Step.VERIFY:
                wait(bench, 10)
                running = shown(self.made[name], f"{name}@{move.target}", "running")
                bench.listed(move.target, running)
        assert bench.tables.migrations[move.id].step is Step.DONE


def with_two(**first: Any) -> Drained:
    """Two services on the node, and another node that has room for both."""
    drained = Drained(node("b", "nursery"))
    drained.run("one", **first)
    drained.run("two")
    drained.open_others()
    return drained


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
    drained.bench.state.ctx.put_service(replace(service, migrate="never"))
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
        seen.append(drained.bench.state.ctx.looks[HOST].soonest_us)
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
    ctx = drained.bench.state.ctx
    drained.bench.say(UsageObserved(at_us=0, foreign={"b": Resources()}), after_us=1)
    assert drained.moves == [], "not looked at yet"
    shown_now = views.drain(ctx, HOST, is_dry=False)
    assert shown_now is not None
    assert (shown_now.plan.moves, shown_now.plan.blockers) == ((), drained.record.blockers)
    would = views.drain(ctx, HOST, is_dry=True)
    assert would is not None
    assert [m.target for m in would.plan.moves] == ["b"]
    assert would.drain is None
    wait(drained.bench, 15)
    shown_now = views.drain(ctx, HOST, is_dry=False)
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


def test_an_executor_is_waited_for_and_told_with_its_end() -> None:
    bench = Bench(node("y"), node("z"))
    bench.connect("y")
    bench.submit("j", estimate_local_us=60 * US)
    bench.end(bench.open("create"), Done("e1"))
    bench.end(bench.open("start"))
    bench.connect("z")
    plan = bench._reply(bench.say(DrainNode(at_us=0, request="d", node="y", is_dry=True)))
    (blocker,) = plan.blockers
    assert (blocker.kind, blocker.code, blocker.is_passing) == ("executor", "executor", True)
    assert blocker.until_us == bench.tables.executors["j/0"].started_us + 60 * US
    bench.say(DrainNode(at_us=0, request="d", node="y"))
    wait(bench, 300)
    assert bench.tables.drains["y"].state.value == "draining"
    assert not any(e.kind in ("stop", "retire") for e in bench.tables.effects.values())
    facts = shown(_create_of(bench, "y"), "e1", "exited", exit_code=0, finished_us=bench.now_us)
    bench.listed("y", facts)
    bench.end(bench.open("retire"))
    assert bench.tables.jobs["j"].state.value == "succeeded"
    assert bench.tables.drains["y"].state.value == "drained"


def _create_of(bench: Bench, name: str) -> Any:
    return [e for e in bench.effects if e.kind == "create" and e.node == name][-1]


def test_a_failed_executor_is_retried_elsewhere() -> None:
    bench = Bench(node("y"), node("z"))
    bench.connect("y")
    bench.submit("j", retries=1)
    bench.end(bench.open("create"), Done("e1"))
    bench.end(bench.open("start"))
    bench.connect("z")
    bench.say(DrainNode(at_us=0, request="d", node="y"))
    facts = shown(_create_of(bench, "y"), "e1", "exited", exit_code=3, finished_us=bench.now_us)
    bench.listed("y", facts)
    bench.end(bench.open("retire"))
    wait(bench, 10)
    assert bench.tables.executors["j/0"].node == "z"


def test_new_work_goes_elsewhere_from_the_first_moment() -> None:
    drained = with_two()
    drained.run("never")
    drained.drain()
    service = drained.bench.create("late")
    assert drained.bench.tables.services[service.id].node == "b"


def test_a_failed_move_is_tried_again_on_another_node() -> None:
    drained = Drained(node("b", "nursery"), node("c", "nursery"))
    drained.run("one")
    drained.open_others()
    drained.drain()
    (move,) = drained.moves
    first = move.target
    drained.bench.end(drained.bench.open("create"), Refused("engine_error", "no space left"))
    drained.bench.listed(first)
    assert drained.moves[0].step is Step.ROLLED_BACK
    assert drained.codes() == ["retrying"]
    assert "no space left" in drained.record.blockers[0].reason
    assert len(drained.moves) == 1
    wait(drained.bench, 10)
    assert len(drained.moves) == 2
    assert drained.moves[1].target != first
    drained.finish(drained.moves[1])
    assert drained.record.state is DrainState.DRAINED


def test_waits_between_tries_grow_and_stay_bounded() -> None:
    drained = Drained(node("b", "nursery"))
    drained.run("one")
    drained.open_others()
    drained.drain()
    waits = []
    for _ in range(8):
        drained.bench.end(drained.bench.open("create"), Refused("engine_error", "no"))
        drained.bench.listed("b")
        begun = drained.bench.now_us
        for _ in range(400):
            if drained.bench.has_open("create"):
                break
            drained.bench.say(Tick(at_us=0))
        waits.append((drained.bench.now_us - begun) // US)
    assert waits[0] <= 7
    assert waits == sorted(waits)
    assert 155 <= waits[-1] == waits[-2] <= 165


def test_a_start_that_may_still_happen_is_waited_for() -> None:
    drained = Drained(node("b", "nursery"))
    drained.bench.create("one")
    made = drained.bench.open("create")
    drained.bench.end(made, Done("e1"))
    drained.bench.end(drained.bench.open("start"), Unknown())
    drained.bench.listed(HOST, shown(made, "e1", "running"))
    drained.open_others()
    drained.drain()
    (blocker,) = drained.record.blockers
    assert (blocker.code, blocker.is_passing) == ("unsure", True)
    wait(drained.bench, 660)
    assert [m.target for m in drained.moves] == ["b"]


def test_what_was_not_sent_yet_is_placed_elsewhere() -> None:
    drained = Drained(node("b", "nursery"))
    drained.bench.say(NodeLost(at_us=0, node=HOST))
    drained.bench.configure(node("off", "nursery", driver="command"), node(HOST, "nursery"))
    drained.bench.end(drained.bench.open("probe"), Done("off"))
    key = drained.bench.create("one").id
    assert drained.bench.tables.services[key].node == "off"
    (blocker,) = drained.plan("off").blockers
    assert blocker.code == "unsent"
    drained.bench.configure(node("off", "nursery", driver="command"), node("b", "nursery"))
    drained.bench.connect("b")
    drained.drain("off")
    assert drained.bench.tables.services[key].node == "b"


def test_a_stopped_container_is_named_and_kept() -> None:
    drained = Drained(node("b", "nursery"))
    key = drained.run("one")
    drained.open_others()
    drained.bench.say(ChangeService(at_us=0, request="s", container=key, verb="stop"))
    drained.bench.end(drained.bench.open("stop"))
    drained.drain()
    assert drained.codes() == ["stopped"]
    assert "tenure container start one" in drained.record.blockers[0].remedy
    wait(drained.bench, 60)
    assert drained.moves == []
    drained.bench.say(ChangeService(at_us=0, request="s", container=key, verb="start"))
    drained.bench.end(drained.bench.open("start"))
    assert [m.target for m in drained.moves] == ["b"]


def test_what_is_not_ours_is_told_and_does_not_count() -> None:
    drained = Drained(node("b", "nursery"))
    stranger = ContainerFacts("x1", "database", "db:1", "running", {})
    drained.bench.listed(HOST, stranger)
    assert drained.plan().strangers == ("database",)
    assert drained.drain().state is DrainState.DRAINED
    assert not any(e.kind in ("stop", "retire") for e in drained.bench.effects)


def test_what_is_not_ours_is_forgotten_once_the_node_is_off() -> None:
    bench = Bench(node("a", driver="command"), node("b"))
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("a")
    bench.listed("a", ContainerFacts("x1", "database", "db:1", "running", {}))
    assert bench.state.ctx.strangers["a"] == ("database",)
    power_gone(bench, "a")
    plan = bench._reply(bench.say(DrainNode(at_us=0, request="dry", node="a", is_dry=True)))
    assert plan.strangers == ()


def test_nothing_moves_off_a_node_that_does_not_answer() -> None:
    drained = with_two()
    drained.bench.say(NodeLost(at_us=0, node=HOST))
    drained.drain()
    assert drained.codes() == ["unreachable", "unreachable"]
    assert f"tenure node fence {HOST}" in drained.record.blockers[0].remedy
    assert drained.moves == []


def test_cancelled_it_is_what_it_was_and_moves_that_began_end() -> None:
    drained = Drained(node("b", "nursery"), params=Params(min_on={}, moves_per_node=1))
    drained.run("one")
    drained.run("two")
    drained.open_others()
    drained.drain(reason="a mistake")
    answer = drained.cancel()
    assert answer.state is DrainState.CANCELLED
    assert drained.scheduling() == "yes"
    assert drained.bench.tables.nodes[HOST].reason == ""
    steps = {m.step: m for m in drained.moves}
    assert set(steps) == {Step.CREATE, Step.REFUSED}
    drained.finish(steps[Step.CREATE])
    wait(drained.bench, 60)
    assert len(drained.moves) == 2
    again = drained.cancel()
    assert isinstance(again, Problem)
    assert (again.code, again.status) == ("not_draining", 409)


def test_a_cordoned_node_is_cordoned_again_after_a_cancel() -> None:
    drained = with_two()
    command = ScheduleNode(at_us=0, request="c", node=HOST, to="cordoned", reason="noisy")
    drained.bench.say(command)
    drained.drain(reason="out")
    drained.cancel()
    assert drained.scheduling() == "cordoned"
    assert drained.bench.tables.nodes[HOST].reason == "noisy"


def test_a_timeout_leaves_the_node_cordoned_and_tells_the_blockers() -> None:
    drained = with_two()
    service = next(iter(drained.bench.tables.services.values()))
    drained.bench.state.ctx.put_service(replace(service, migrate="never"))
    drained.drain(timeout_us=30 * US)
    wait(drained.bench, 40)
    assert drained.record.state is DrainState.TIMED_OUT
    assert drained.scheduling() == "cordoned"
    assert drained.codes()[0] == "never_migrate"


def test_asked_again_it_takes_over_reason_and_limit() -> None:
    drained = with_two()
    first = drained.drain(reason="x", timeout_us=10 * US)
    again = drained.drain(reason="y")
    assert (again.id, again.reason, again.deadline_us) == (first.id, "y", None)
    wait(drained.bench, 30)
    assert drained.record.state is DrainState.DRAINING


def test_it_goes_on_after_a_restart() -> None:
    drained = with_two(HostConfig=PUBLISHED)
    drained.drain(timeout_us=600 * US)
    before = drained.record
    drained.bench.restart()
    assert drained.record == before
    bench, home = drained.bench, dict(drained.made)
    running = [shown(home[name], f"engine-{name}", "running") for name in home]
    bench.say(NodeConnected(at_us=0, node=HOST, facts=EngineFacts(f"id-{HOST}", SIZE)))
    bench.listed(HOST, *running)
    bench.connect("b")
    wait(bench, 10)
    assert drained.record.state is DrainState.DRAINING
    for move in drained.moves:
        drained.finish(move)
    assert (drained.record.state, drained.record.moved) == (DrainState.DRAINED, 2)
    assert len(drained.moves) == 2


def test_no_move_begins_while_the_daemon_ends() -> None:
    drained = with_two()
    drained.bench.say(Closing(at_us=0))
    drained.drain()
    assert drained.moves == []


def test_a_node_that_is_no_longer_named_is_drained_and_then_forgotten() -> None:
    drained = with_two()
    bench = drained.bench
    bench.configure(node("b", "nursery"))
    assert bench.tables.nodes[HOST].is_removed
    assert drained.scheduling() == "draining"
    refused = drained.cancel()
    assert (refused.code, refused.status) == ("removed", 409)
    wait(bench, 5)
    assert {m.target for m in drained.moves} == {"b"}
    for move in drained.moves:
        drained.finish(move)
    assert bench.tables.nodes.get(HOST) is None
    assert bench.tables.drains.get(HOST) is None


def test_named_again_it_takes_work_again() -> None:
    drained = with_two()
    drained.bench.configure(node("b", "nursery"))
    drained.bench.configure(node("b", "nursery"), node(HOST, "nursery"))
    assert drained.record.state is DrainState.CANCELLED
    assert drained.scheduling() == "yes"


def test_a_drain_that_a_person_ordered_outlives_a_slip_of_the_configuration() -> None:
    drained = with_two()
    drained.drain()
    drained.bench.configure(node("b", "nursery"))
    drained.bench.configure(node("b", "nursery"), node(HOST, "nursery"))
    assert (drained.record.state, drained.record.is_removal) == (DrainState.DRAINING, False)
    assert drained.scheduling() == "draining"


@pytest.mark.parametrize("to", ["yes", "cordoned"])
def test_a_node_that_is_drained_is_not_scheduled_otherwise(to: str) -> None:
    drained = with_two()
    drained.drain()
    answer = drained.ask(ScheduleNode(at_us=0, request="s", node=HOST, to=to))
    assert (answer.code, answer.status) == ("draining", 409)
    assert "--cancel" in answer.detail
    assert drained.bench.tables.nodes[HOST].scheduling is Scheduling.DRAINING


def test_nobody_knows_a_node() -> None:
    drained = Drained()
    for command in (
        DrainNode(at_us=0, request="d", node="x"),
        DrainNode(at_us=0, request="d", node="x", is_dry=True),
        CancelDrain(at_us=0, request="d", node="x"),
    ):
        replies = [e for e in drained.bench.say(command) if isinstance(e, Reply)]
        assert [reply.value.status for reply in replies] == [404]


def test_a_container_of_a_generation_that_is_gone_blocks_and_breaks_nothing() -> None:
    drained = with_two()
    service = next(iter(drained.bench.tables.services.values()))
    drained.bench.state.ctx.put_service(replace(service, generation="elders"))
    drained.drain()
    assert drained.codes() == ["no_node"]
    assert "generation elders" in drained.record.blockers[0].reason
