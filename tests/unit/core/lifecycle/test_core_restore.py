"""A restored state meets a fleet that went on: look first, adopt what runs, begin nothing twice."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.fleet import FleetState
from tenure.core.lifecycle import adopt, restore
from tenure.core.lifecycle.adopt import NO_TRACE, SKIPPED_TURNS
from tenure.locality.localizer import Tiers
from tenure.model.container import ContainerState, Tombstone
from tenure.model.effects import SetRestartPolicy
from tenure.model.errors import Problem
from tenure.model.events import (
    ChangeService,
    ClockStepped,
    Configured,
    DrainNode,
    NodeConnected,
    NodeLost,
    PowerNode,
    Started,
    Tick,
)
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.node import Power
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.fleet.remembered import check
from tests.regression.acts import ALWAYS, fence, run_service
from tests.unit.core.bench import IMAGE, SIZE, Bench, node, shown

NODES = (node("n", "nursery"), node("a"), node("b"))
Records = dict[str, dict[str, Any]]
HOUR_US = 3_600 * US


def backup(bench: Bench) -> Records:
    return {kind: dict(rows) for kind, rows in bench.records.items()}


def put_back(bench: Bench, records: Records, *nodes: Any) -> None:
    """Begin anew from a backup, as ``tenured restore`` leaves it; no engine answers yet.

    Without ``nodes`` the configuration names those of the backup.
    """
    named = nodes or tuple(row.spec for row in records.get("nodes", {}).values())
    meta = restore.marked(records["meta"]["meta"], bench.now_us)
    bench.records = backup(bench) and {kind: dict(rows) for kind, rows in records.items()}
    bench.records["meta"] = {"meta": meta}
    bench.effects.clear()
    bench.public.clear()
    bench.state = FleetState(bench.params, Policies, localizer=Tiers(), fleet="bench")
    bench.state.load(bench.records)
    bench.say(Started(at_us=0))
    bench.say(Configured(at_us=0, nodes=named))


def show(bench: Bench, name: str, *containers: ContainerFacts) -> None:
    """Have an engine answer and show these containers."""
    facts = EngineFacts(f"id-{name}", SIZE, images=(IMAGE,))
    bench.say(NodeConnected(at_us=0, node=name, facts=facts))
    bench.listed(name, *containers)


def began(bench: Bench) -> list[str]:
    """Return every effect since the restore that touches a container or a node's power."""
    kinds = ("create", "start", "stop", "retire", "power")
    return [e.kind for e in bench.effects if e.kind in kinds]


def fleet() -> Bench:
    bench = Bench(*NODES)
    for spec in NODES:
        bench.connect(spec.name)
    return bench


def running_job(bench: Bench, job: str = "j", **spec: Any) -> Any:
    """Have a job of one executor run; return the effect that created its container."""
    bench.submit(job, **spec)
    create = bench.open("create")
    bench.end(create, Done(f"engine-{job}"))
    bench.end(bench.open("start"))
    return create


def test_nothing_begins_and_nothing_is_taken_until_every_node_was_seen() -> None:
    bench = fleet()
    bench.submit("j")
    older = backup(bench)
    put_back(bench, older)
    show(bench, "n")
    show(bench, "a")
    bench.say(Tick(at_us=0), after_us=60 * US)
    assert began(bench) == []
    answer = bench.submit("k")
    assert isinstance(answer, Problem)
    assert (answer.code, answer.status) == ("restoring", 503)
    assert "these were not: b;" in answer.detail
    assert bench.read(restore.pending) == ["b"]
    show(bench, "b")
    assert not bench.meta.is_restoring
    bench.say(Tick(at_us=0), after_us=10 * US)
    assert "create" in began(bench)
    assert bench.submit("k").id == "k"


def test_a_daemon_that_dies_amid_the_survey_begins_it_again() -> None:
    bench = fleet()
    bench.submit("j")
    put_back(bench, backup(bench))
    show(bench, "n")
    show(bench, "a")
    bench.restart()
    show(bench, "b")
    assert bench.read(restore.pending) == ["a", "n"]
    assert began(bench) == []


def test_a_node_that_an_operator_gave_up_is_not_waited_for() -> None:
    bench = fleet()
    put_back(bench, backup(bench))
    show(bench, "n")
    show(bench, "a")
    fence(bench, "b")
    assert not bench.meta.is_restoring


def dropped_with_a_forgotten_copy() -> tuple[Bench, str, Any]:
    """Return a bench whose configuration lost a node on which, by its record, nothing runs.

    A move brought a container there after the backup, and had stopped it where it was.
    """
    bench = Bench(*NODES)
    bench.connect("n")
    service, create = run_service(bench)
    put_back(bench, backup(bench), NODES[0], NODES[1])
    show(bench, "a")
    show(bench, "n", shown(create, "engine-web", "exited", exit_code=143))
    return bench, service, create


def test_a_node_that_was_dropped_is_waited_for_unless_it_is_given_up() -> None:
    bench, service, _ = dropped_with_a_forgotten_copy()
    assert bench.read(restore.pending) == ["b"]
    assert "these were not: b; bring them back (name those" in bench.read(restore.explain)
    assert began(bench) == []
    fence(bench, "b")
    assert not bench.meta.is_restoring
    assert bench.tables.services[service].node == "n"


def test_what_runs_on_a_node_that_was_dropped_and_is_named_again_is_adopted() -> None:
    bench, service, create = dropped_with_a_forgotten_copy()
    bench.configure(*NODES)
    newer = dict(create.body["Labels"]) | {"tenure.incarnation": "2"}
    show(bench, "b", ContainerFacts("e2", "web", IMAGE, "running", newer, started_us=1))
    assert not bench.meta.is_restoring
    assert bench.tables.services[service].node == "b"
    assert "start" not in began(bench)


def test_a_node_that_was_renamed_since_the_backup_is_seen_by_its_new_name() -> None:
    bench = fleet()
    put_back(bench, backup(bench), NODES[0], NODES[1], node("c"))
    show(bench, "n")
    show(bench, "a")
    assert bench.read(restore.pending) == ["b", "c"]
    bench.say(NodeConnected(at_us=0, node="c", facts=EngineFacts("id-b", SIZE)))
    bench.listed("c")
    assert not bench.meta.is_restoring


def test_an_older_copy_on_a_node_that_was_dropped_amid_the_survey_is_removed() -> None:
    bench = fleet()
    service, create = run_service(bench)
    put_back(bench, backup(bench), *NODES)
    labels = dict(create.body["Labels"])
    older = ContainerFacts("e2", "web", IMAGE, "running", labels | {"tenure.incarnation": "2"})
    newer = ContainerFacts("e3", "web", IMAGE, "running", labels | {"tenure.incarnation": "3"})
    show(bench, "b", older)
    bench.configure(NODES[0], NODES[1])
    show(bench, "n")
    show(bench, "a", newer)
    assert not bench.meta.is_restoring
    assert bench.tables.services[service].node == "a"
    retire = next(e for e in bench.tables.effects.values() if e.kind == "retire")
    assert (retire.node, retire.target) == ("b", "e2")
    bench.end(retire)
    bench.listed("b")
    bench.say(Tick(at_us=0))
    assert "b" not in bench.tables.nodes


def test_without_any_node_it_is_said_that_none_is_configured() -> None:
    bench = Bench()
    put_back(bench, backup(bench))
    answer = bench.submit("j")
    assert isinstance(answer, Problem)
    assert (answer.code, answer.status) == ("restoring", 503)
    assert "no node is configured: name the nodes of the fleet under nodes" in answer.detail


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


def test_a_node_that_was_off_is_believed_off_only_by_its_drivers_word() -> None:
    nodes = (node("n", "nursery"), node("c", driver="command"))
    bench = Bench(*nodes)
    bench.connect("n")
    bench.end(bench.open("probe"), Done("off"))
    assert bench.tables.nodes["c"].power is Power.OFF
    put_back(bench, backup(bench), *nodes)
    show(bench, "n")
    assert bench.read(restore.pending) == ["c"]
    answer = bench._reply(bench.say(PowerNode(at_us=0, request="on", node="c", to="on")))
    assert answer.code == "restoring"
    bench.end(bench.open("probe"), Done("off"))
    assert not bench.meta.is_restoring


def test_an_unreachable_node_is_not_fenced_by_its_power_before_it_was_seen() -> None:
    nodes = (node("n", "nursery"), node("c", driver="command"))
    bench = Bench(*nodes)
    for spec in nodes:
        bench.connect(spec.name)
    running_job(bench)
    put_back(bench, backup(bench), *nodes)
    show(bench, "n")
    bench.say(NodeLost(at_us=0, node="c"))
    for _ in range(40):
        bench.say(Tick(at_us=0), after_us=10 * US)
    assert began(bench) == []


def test_no_number_comes_again() -> None:
    bench = fleet()
    older = backup(bench)
    running_job(bench)
    last, effects = bench.public[-1].seq, {e.id for e in bench.effects if hasattr(e, "id")}
    put_back(bench, older)
    assert bench.public[0].type == "daemon.started"
    assert bench.public[0].seq > last
    assert bench.public[1].type == "state.restored"
    for name in ("n", "a", "b"):
        show(bench, name)
    assert not effects & {e.id for e in bench.effects if hasattr(e, "id")}
    assert restore.marked(bench.meta, 1).next_event >= bench.meta.next_event


def test_a_power_off_of_before_may_still_act_so_work_waits() -> None:
    """It had ended unknown, or its daemon had: the node got work, and went off with it."""
    bench = Bench(node("s", driver="command"))
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("s")
    bench.submit("j")
    put_back(bench, backup(bench))
    show(bench, "s")
    assert bench.tables.meta["meta"].is_restoring
    told = bench.read(restore.explain)
    assert "a power command of before may still act on s" in told
    assert began(bench) == []
    due_us = bench.state.wakeup_us()
    assert due_us is not None
    restored_us = bench.tables.meta["meta"].restored_us
    bench.say(Tick(at_us=0), after_us=restored_us + bench.params.power_retry_us - bench.now_us)
    assert not bench.tables.meta["meta"].is_restoring
    bench.listed("s")
    assert "create" in began(bench)


@pytest.mark.parametrize("wall_s", [-86_400, 86_400])
def test_a_wall_that_was_wrong_at_the_restore_is_not_waited_for(wall_s: int) -> None:
    bench = Bench(node("s", driver="command"))
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("s")
    bench.records["meta"] = {"meta": restore.marked(bench.tables.meta["meta"], wall_s * US)}
    bench.restart()
    bench.connect_again("s")
    bench.listed("s")
    assert bench.tables.meta["meta"].is_restoring
    bench.say(ClockStepped(at_us=0, step_us=HOUR_US), after_us=0)
    bench.now_us += HOUR_US
    bench.say(Tick(at_us=0))
    assert bench.tables.meta["meta"].is_restoring, "a step is no time that passed"
    bench.say(Tick(at_us=0), after_us=bench.params.power_retry_us)
    assert not bench.tables.meta["meta"].is_restoring


def test_one_that_goes_off_meanwhile_by_its_drivers_word_is_not_waited_for() -> None:
    bench = Bench(node("s", driver="command"))
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("s")
    put_back(bench, backup(bench))
    show(bench, "s")
    bench.say(NodeLost(at_us=0, node="s", why="gone"))
    bench.end(bench.open("probe"), Done("off"))
    assert not bench.tables.meta["meta"].is_restoring
    assert bench.tables.nodes["s"].power is Power.OFF
