"""What a restored state finds running is adopted; what left no trace begins anew, never twice."""

from __future__ import annotations

import pytest

from tenure.core.lifecycle import adopt
from tenure.core.lifecycle.adopt import NO_TRACE
from tenure.core.services.services import SKIPPED_TURNS
from tenure.model.container import ContainerState, Tombstone
from tenure.model.effects import SetRestartPolicy
from tenure.model.events import (
    ChangeService,
    DrainNode,
    Tick,
)
from tenure.model.facts import ContainerFacts
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.units import US
from tests.fleet.remembered import check
from tests.regression.acts import ALWAYS, run_service
from tests.unit.core.bench import IMAGE, SIZE, Bench, node, shown
from tests.unit.core.lifecycle.restores import (
    NODES,
    backup,
    began,
    fleet,
    put_back,
    running_job,
    show,
)


def test_an_executor_that_went_on_elsewhere_is_adopted_and_its_job_goes_on() -> None:
    """The backup shows a job that waits; meanwhile its second attempt runs on another node."""
    nodes = (node("n", "nursery"), node("a"), node("b"))
    bench = Bench(*nodes)
    bench.connect("n")
    bench.connect("a")
    big = running_job(bench, "big", request=SIZE)
    bench.submit("j")
    older = backup(bench)
    assert bench.tables.jobs["j"].state == "waiting"
    bench.listed("a", shown(big, "engine-big", "exited", exit_code=0, finished_us=bench.now_us))
    create = bench.open("create")
    put_back(bench, older)
    second = dict(create.body["Labels"]) | {"tenure.attempt": "2"}
    runs = ContainerFacts("e2", "tenure-j-0-2", IMAGE, "running", second, started_us=bench.now_us)
    died = ContainerFacts("e1", "tenure-j-0-1", IMAGE, "exited", create.body["Labels"], exit_code=3)
    show(bench, "n")
    show(bench, "a", died)
    show(bench, "b", runs)
    executor = bench.tables.executors["j/0"]
    assert (executor.node, executor.attempt, executor.engine_id) == ("b", 2, "e2")
    assert (bench.tables.jobs["j"].state, bench.tables.jobs["j"].mode) == ("running", "local")
    bench.listed("a", died)
    retired = {e.target for e in bench.effects if e.kind == "retire"}
    assert retired == {"e1", "engine-big"}, "what died, and what left no trace; never what runs"


def test_of_a_job_that_waited_the_executors_without_a_trace_find_a_node_too() -> None:
    bench = fleet()
    bench.submit("first", executors=2, request=SIZE)
    bench.submit("j", executors=2, request=SIZE)
    older = backup(bench)
    for create in [e for e in bench.tables.effects.values() if e.kind == "create"]:
        bench.end(create, Done(f"engine-{create.owner}"))
    for start in [e for e in bench.tables.effects.values() if e.kind == "start"]:
        bench.end(start)
    for copy in [e for e in bench.effects if e.kind == "create"]:
        bench.listed(copy.node, shown(copy, f"engine-{copy.owner}", "exited", exit_code=0))
    seen = next(e for e in bench.effects if e.kind == "create" and e.owner == "executor:j/0")
    put_back(bench, older, *NODES, node("c"), node("d"))
    for spec in (*NODES, node("c"), node("d")):
        show(bench, spec.name, *([shown(seen, "E", "running")] if spec.name == seen.node else ()))
    (settled,) = [event for event in bench.public if event.type == "state.settled"]
    assert settled.data == {"adopted": 1, "begun_anew": 2, "gone": 0, "unknown": 0}
    crew = {e.index: e for e in bench.crew("j")}
    assert crew[0].node == seen.node
    assert crew[1].node not in ("", seen.node)
    check(bench.state)


def test_an_executor_that_ended_meanwhile_ends_its_job() -> None:
    bench = fleet()
    bench.submit("j")
    create = bench.open("create")
    put_back(bench, backup(bench))
    over = shown(create, "e1", "exited", exit_code=0, finished_us=bench.now_us)
    for name in ("n", "a", "b"):
        show(bench, name, *([over] if name == create.node else []))
    bench.listed(create.node, over)
    assert bench.tables.jobs["j"].state == "succeeded"


def test_an_executor_without_a_trace_begins_anew_with_a_number_never_used() -> None:
    bench = fleet()
    running_job(bench)
    put_back(bench, backup(bench))
    for name in ("n", "a", "b"):
        show(bench, name)
    executor = bench.tables.executors["j/0"]
    assert executor.attempt == 2 + SKIPPED_TURNS
    assert (executor.mishaps, executor.note) == (1, NO_TRACE)
    bench.end(bench.open("retire"), Refused("no_such_container"))
    bench.say(Tick(at_us=0), after_us=10 * US)
    assert bench.open("create").name == f"tenure-j-0-{2 + SKIPPED_TURNS}"


def test_a_start_that_was_forgotten_may_still_come_so_its_copy_goes_first() -> None:
    bench = fleet()
    bench.submit("j")
    create = bench.open("create")
    put_back(bench, backup(bench))
    for name in ("n", "a", "b"):
        show(bench, name, *([shown(create, "e1")] if name == create.node else []))
    bench.say(Tick(at_us=0), after_us=30 * US)
    assert began(bench) == ["retire"]
    bench.end(bench.open("retire"))
    assert bench.open("create").body["Labels"]["tenure.attempt"] == str(2 + SKIPPED_TURNS)


def test_a_container_that_moved_is_adopted_where_it_is_with_its_restart_policy() -> None:
    bench = fleet()
    web, create = run_service(bench, "web", HostConfig=ALWAYS)
    put_back(bench, backup(bench))
    labels = dict(create.body["Labels"]) | {"tenure.incarnation": "4"}
    show(bench, "n", shown(create, "engine-web", "exited", exit_code=0))
    show(bench, "b", ContainerFacts("e4", "web", IMAGE, "running", labels, started_us=1))
    show(bench, "a")
    service = bench.tables.services[web]
    assert (service.node, service.incarnation, service.generation) == ("b", 4, "young")
    policy = bench.open("restart_policy")
    assert (policy.engine_id, policy.policy) == ("e4", {"Name": "always"})
    bench.end(policy, Unknown("cut"))
    bench.say(Tick(at_us=0), after_us=10 * US)
    again = bench.open("restart_policy")
    assert again.engine_id == "e4", "asked again until it is certain"
    assert began(bench) == []
    bench.end(again)
    assert bench.now_us < bench.tables.services[web].late_us, "the first may still act: no move"


def test_a_container_that_is_removed_is_not_given_its_restart_policy_again() -> None:
    bench = Bench(node("n", "nursery"))
    bench.connect("n")
    body = {"HostConfig": {"RestartPolicy": {"Name": "always"}}}
    service = bench.create("web", **body)
    bench.end(bench.open("create"), Done("engine-web"))
    bench.end(bench.open("start"))
    bench.act(adopt.on_timer, service.id)
    (effect,) = bench.state.take_effects()
    assert isinstance(effect, SetRestartPolicy)
    assert effect.node == "n"
    bench.say(ChangeService(at_us=0, request="rm", container=service.id, verb="remove"))
    bench.act(adopt.on_timer, service.id)
    assert bench.state.take_effects() == []


def test_the_next_incarnation_of_an_adopted_container_is_beyond_every_copy_that_was_seen() -> None:
    bench = fleet()
    web, create = run_service(bench, "web")
    put_back(bench, backup(bench))
    newer = dict(create.body["Labels"]) | {"tenure.incarnation": "5"}
    show(bench, "n", shown(create, "engine-web", "running", started_us=1))
    show(bench, "b", ContainerFacts("e5", "web", IMAGE, "created", newer))
    show(bench, "a")
    service = bench.tables.services[web]
    assert (service.node, service.incarnation) == ("n", 1)
    assert service.turns == 5 + SKIPPED_TURNS


def test_a_tombstone_of_one_node_says_nothing_of_a_copy_on_another() -> None:
    bench = fleet()
    web, create = run_service(bench, "web")
    bench.store(Tombstone(f"{web}/1@a", "a", web, 1, "web", "old", created_us=bench.now_us))
    bench.say(Tick(at_us=0))
    put_back(bench, backup(bench))
    show(bench, "n", shown(create, "engine-web", "running", started_us=1))
    show(bench, "a")
    show(bench, "b")
    service = bench.tables.services[web]
    assert (service.node, service.state) == ("n", ContainerState.RUNNING)


def test_a_container_that_a_forgotten_move_stopped_is_started_again() -> None:
    bench = fleet()
    web, create = run_service(bench, "web", HostConfig=ALWAYS)
    put_back(bench, backup(bench))
    later = dict(create.body["Labels"]) | {"tenure.incarnation": "2"}
    show(bench, "n", shown(create, "engine-web", "exited", exit_code=0))
    show(bench, "a", ContainerFacts("e2", "web", IMAGE, "created", later))
    show(bench, "b")
    bench.listed("n", shown(create, "engine-web", "exited", exit_code=0))
    bench.listed("a", ContainerFacts("e2", "web", IMAGE, "created", later))
    assert bench.open("retire").target == "e2"
    assert "start" not in began(bench), "its engine may hold a process of it that it does not show"
    bench.end(bench.open("retire"))
    bench.listed("n", shown(create, "engine-web", "exited", exit_code=0))
    assert bench.open("start").engine_id == "engine-web"
    assert bench.tables.services[web].node == "n"


def test_one_that_ended_without_its_policy_is_started_again() -> None:
    """A forgotten move had taken its restart policy away, and its host went down meanwhile."""
    bench = fleet()
    web, create = run_service(bench, "web", HostConfig=ALWAYS)
    put_back(bench, backup(bench))
    ended = shown(create, "engine-web", "exited", exit_code=137)
    show(bench, "n", ended)
    show(bench, "a")
    show(bench, "b")
    bench.listed("n", ended)
    assert bench.open("start").engine_id == "engine-web"
    assert bench.tables.services[web].node == "n"


def test_one_that_was_moved_at_rest_is_not_started_by_a_restore() -> None:
    """Its copy never ran: engines show it as created, like one that is about to be started."""
    bench = fleet()
    web, create = run_service(bench, "web", HostConfig=ALWAYS)
    bench.say(ChangeService(at_us=0, request="s", container=web, verb="stop"))
    bench.end(bench.open("stop"))
    began_us = bench.tables.services[web].started_us
    put_back(bench, backup(bench))
    moved = dict(create.body["Labels"]) | {"tenure.incarnation": "2"}
    show(bench, "n")
    show(bench, "a", ContainerFacts("e2", "web", IMAGE, "created", moved))
    show(bench, "b")
    bench.listed("a", ContainerFacts("e2", "web", IMAGE, "created", moved))
    service = bench.tables.services[web]
    assert (service.node, service.state) == ("a", ContainerState.STOPPED)
    assert began(bench) == []
    assert service.started_us == began_us, "a refused start must not have it made anew"
    assert not any(e.kind == "restart_policy" for e in bench.effects), "an engine would start it"
    bench.say(ChangeService(at_us=0, request="go", container=web, verb="start"))
    bench.end(bench.open("start"))
    assert bench.open("restart_policy").policy == {"Name": "always"}


@pytest.mark.parametrize("verb", ["stop", None])
def test_a_move_at_rest_that_a_restore_cuts_leaves_it_at_rest(verb: str | None) -> None:
    bench = fleet()
    bench.configure(*NODES, node("m", "nursery"))
    bench.connect("m")
    web, create = run_service(bench, "web")
    home = bench.tables.services[web].node
    ended = shown(create, "engine-web", "exited", exit_code=0, finished_us=bench.now_us)
    if verb:
        bench.say(ChangeService(at_us=0, request="s", container=web, verb="stop"))
        bench.end(bench.open("stop"))
    else:
        bench.listed(home, ended)
    rest = bench.tables.services[web].state
    bench.say(DrainNode(at_us=0, request="d", node=home))
    assert bench.tables.services[web].state is ContainerState.MOVING
    put_back(bench, backup(bench))
    later = dict(create.body["Labels"]) | {"tenure.incarnation": "2"}
    for name in ("n", "m", "a", "b"):
        fresh = ContainerFacts("e2", "web", IMAGE, "created", later)
        show(bench, name, *([ended] if name == home else [fresh] if name in "nm" else []))
    bench.listed(home, ended)
    service = bench.tables.services[web]
    assert (service.node, service.state) == (home, rest)
    assert "start" not in began(bench)


def test_a_container_without_a_trace_was_removed_since() -> None:
    bench = fleet()
    web, _ = run_service(bench)
    put_back(bench, backup(bench))
    for name in ("n", "a", "b"):
        show(bench, name)
    service = bench.tables.services[web]
    assert (service.state, service.reason) == ("removed", NO_TRACE)


def test_a_job_that_the_backup_does_not_know_is_left_alone_and_keeps_its_node_on() -> None:
    nodes = (node("n", "nursery"), node("c", driver="command"))
    bench = Bench(*nodes)
    for spec in nodes:
        bench.connect(spec.name)
    older = backup(bench)
    create = running_job(bench)
    assert create.node == "c"
    put_back(bench, older, *nodes)
    runs = shown(create, "engine-j", "running", started_us=1)
    show(bench, "n")
    show(bench, "c", runs)
    for _ in range(20):
        bench.listed("c", runs)
        bench.say(Tick(at_us=0), after_us=10 * US)
    assert began(bench) == []
    assert [e.subject for e in bench.public if e.type == "container.orphan"] == ["engine-j"]
    bench.listed("c")
    bench.say(Tick(at_us=0), after_us=100 * US)
    bench.listed("c")
    assert began(bench) == ["power"], "once it has ended the node may go off"
