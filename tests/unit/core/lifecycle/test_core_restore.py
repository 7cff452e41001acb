"""A restored state meets a fleet that went on: look first, adopt what runs, begin nothing twice."""

from __future__ import annotations

import pytest

from tenure.core.lifecycle import restore
from tenure.model.errors import Problem
from tenure.model.events import (
    ClockStepped,
    NodeConnected,
    NodeLost,
    PowerNode,
    Tick,
)
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.node import Power
from tenure.model.outcome import Done
from tenure.model.units import US
from tests.regression.acts import fence, run_service
from tests.unit.core.bench import IMAGE, SIZE, Bench, node
from tests.unit.core.lifecycle.restores import (
    HOUR_US,
    NODES,
    backup,
    began,
    dropped_with_a_forgotten_copy,
    fleet,
    put_back,
    running_job,
    show,
)


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
