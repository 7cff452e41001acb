"""Drains under way: retries, cancels, restarts, nodes that come and go; nothing is doubled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.core.lifecycle.drain import Looks
from tenure.core.lifecycle.retention import PERIOD_US
from tenure.core.state.owned import Change
from tenure.core.state.params import Params
from tenure.model.container import ContainerState, Step
from tenure.model.drain import DrainState
from tenure.model.effects import Reply
from tenure.model.errors import Problem
from tenure.model.events import (
    CancelDrain,
    ChangeService,
    Closing,
    DrainNode,
    EffectEnded,
    FenceNode,
    NodeConnected,
    NodeLost,
    ScheduleNode,
    Tick,
)
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.node import Scheduling
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.units import US
from tests.fleet import states
from tests.regression.acts import PUBLISHED, power_gone, wait
from tests.unit.core.bench import SIZE, Bench, node, shown
from tests.unit.core.drains import HOST, Drained, with_two


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


def test_a_move_that_is_forgotten_as_it_ends_breaks_nothing() -> None:
    params = Params(min_on={}, max_history=0)
    drained = Drained(node("b", "nursery"), node("c", "nursery"), params=params)
    drained.run("one")
    drained.open_others()
    drained.drain()
    bench, (move,) = drained.bench, drained.moves
    create, at_us = bench.open("create"), bench.now_us + PERIOD_US
    refused = Refused("engine_error", "no space left")
    ended = EffectEnded(at_us=at_us, effect=create.id, outcome=refused)
    bench.state.handle_all((ended, Tick(at_us=at_us)))
    assert move.id not in bench.tables.migrations
    (told,) = [e for e in bench.state.take_changes().events if e.type == "history.forgotten"]
    assert told.data["migrations"] == 1
    assert drained.record.state is DrainState.DRAINING


def test_moves_that_end_are_heard_of_from_the_first_event_on() -> None:
    core = Bench()._fresh()
    states.tell(core, Change.MOVED, "a#1")
    assert states.state_of(core, Looks).ended == ["a#1"]


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


def stopped(**host: Any) -> tuple[Drained, str]:
    """A node with one container, which is stopped; another node is there."""
    drained = Drained(node("b", "nursery"))
    key = drained.run("one", HostConfig=host)
    drained.open_others()
    drained.bench.say(ChangeService(at_us=0, request="s", container=key, verb="stop"))
    drained.bench.end(drained.bench.open("stop"))
    return drained, key


def sent(drained: Drained, kind: str) -> list[Any]:
    return [effect for effect in drained.bench.effects if effect.kind == kind]


def test_a_stopped_container_is_moved_with_its_files_and_stays_stopped() -> None:
    drained, key = stopped()
    drained.drain()
    (move,) = drained.moves
    assert (move.target, move.method, move.kind) == ("b", "at-rest", "snapshot")
    drained.finish(move)
    service = drained.bench.tables.services[key]
    assert (service.node, service.state) == ("b", ContainerState.STOPPED)
    assert [e.engine_id for e in sent(drained, "start")] == ["engine-one"]
    assert drained.bench.tables.migrations[move.id].downtime_us is None
    assert drained.record.state is DrainState.DRAINED


def test_one_that_was_moved_at_rest_gets_its_restart_policy_once_it_runs() -> None:
    """An engine that comes back starts what is created with a policy."""
    drained, key = stopped(RestartPolicy={"Name": "always"})
    drained.drain()
    drained.finish(drained.moves[0])
    bench = drained.bench
    assert drained.made["one"].body["HostConfig"]["RestartPolicy"] == {"Name": "no"}
    assert [(e.node, e.policy["Name"]) for e in sent(drained, "restart_policy")] == [(HOST, "no")]
    bench.say(ChangeService(at_us=0, request="s", container=key, verb="start"))
    bench.end(bench.open("start"))
    effect = bench.open("restart_policy")
    assert (effect.node, effect.policy) == ("b", {"Name": "always"})
    bench.end(effect, Done())
    assert not bench.tables.services[key].is_disarmed
    wait(bench, 60)
    assert len(sent(drained, "restart_policy")) == 2


def test_a_move_at_rest_ends_where_it_began_if_somebody_starts_the_container() -> None:
    drained, key = stopped()
    drained.drain()
    bench, (move,) = drained.bench, drained.moves
    effect = bench.open("carry")
    bench.end(effect, Refused("unreachable", "no answer"))
    bench.listed(HOST, shown(drained.made["one"], "engine-one", "running"))
    assert bench.tables.migrations[move.id].step is Step.ROLLED_BACK
    assert bench.tables.services[key].state is ContainerState.STOPPED
    bench.listed(HOST, shown(drained.made["one"], "engine-one", "running"))
    assert bench.tables.services[key].state is ContainerState.RUNNING


def test_one_that_was_started_while_its_files_were_carried_stays_with_what_it_wrote() -> None:
    """The copy is of files as they were before: with it, what was written since would be lost."""
    drained, key = stopped()
    drained.drain()
    bench, (move,) = drained.bench, drained.moves
    for kind in ("carry", "restart_policy", "carry", "create"):
        bench.end(bench.open(kind), Done("x"))
    # its engine is asked by hand amid the last step: a listing of then says nothing of the end
    running = shown(drained.made["one"], "engine-one", "running")
    bench.listed(HOST, running)
    bench.end(bench.open("transfer"), Done())
    assert bench.tables.migrations[move.id].step is Step.TRANSFER, "not before a look at the source"
    bench.listed("b")
    assert bench.tables.migrations[move.id].step is Step.TRANSFER
    bench.listed(HOST, running)
    bench.end(bench.open("restart_policy"))
    assert bench.tables.migrations[move.id].step is Step.ROLLED_BACK
    assert all(e.target != "engine-one" for e in sent(drained, "retire"))
    bench.listed(HOST, running)
    service = bench.tables.services[key]
    assert (service.node, service.state) == (HOST, ContainerState.RUNNING)


def test_a_move_at_rest_whose_source_goes_off_waits_for_it() -> None:
    """Its files are there alone: it is not created anew."""
    drained, key = stopped()
    drained.drain()
    bench, (move,) = drained.bench, drained.moves
    bench.end(bench.open("carry"))
    assert bench.open("restart_policy").node == HOST
    bench.say(NodeLost(at_us=0, node=HOST))
    bench.say(FenceNode(at_us=0, request="fence", node=HOST))
    assert bench.tables.migrations[move.id].step is Step.ROLLED_BACK
    service = bench.tables.services[key]
    assert (service.node, service.state) == (HOST, ContainerState.STOPPED)


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
    dry = DrainNode(at_us=0, request="dry", node="a", is_dry=True)
    assert bench._reply(bench.say(dry)).strangers == ("database",)
    power_gone(bench, "a")
    assert bench._reply(bench.say(dry)).strangers == ()


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
    drained.bench.store(replace(service, migrate="never"))
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
    drained.bench.store(replace(service, generation="elders"))
    drained.drain()
    assert drained.codes() == ["no_node"]
    assert "generation elders" in drained.record.blockers[0].reason
