"""Replicated services: as many containers as are wanted, and updates number by number."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tenure.core.services.deployments import MAX_MADE
from tenure.core.services.services import RETRY_US, STEADY_US
from tenure.model.deployment import Phase, Rollout
from tenure.model.events import (
    ChangeService,
    ClockStepped,
    Configured,
    FenceNode,
    NodeLost,
    Tick,
)
from tenure.model.quota import Quota
from tenure.model.roles import Owner
from tenure.model.units import US
from tests.unit.core.bench import node, shown

#: A command that no engine can start.
from tests.unit.core.services.deployed import BAD, Site, names


def test_a_service_has_as_many_containers_as_are_wanted() -> None:
    bench = Site()
    assert bench.apply(3).name == "web"
    assert bench.running() == names(1, 2, 3)
    assert (bench.row.ready, bench.row.state) == (3, "steady")
    assert {row.deployment for row in bench.tables.services.values()} == {"web"}
    ids = {number: bench.of(number).id for number in (1, 2)}
    bench.change("scale", 5)
    assert bench.running() == names(1, 2, 3, 4, 5)
    bench.change("scale", 2)
    assert bench.running() == names(1, 2), "the highest numbers go first"
    assert {number: bench.of(number).id for number in (1, 2)} == ids
    assert bench.row.revision.number == 1, "to scale is no new revision"
    bench.change("scale", 0)
    assert bench.running() == []
    assert bench.row.state == "steady"


def test_many_containers_are_made_in_slices() -> None:
    bench = Site()
    bench.apply(2 * MAX_MADE + 1)
    bench.wait(10)
    begun = Counter(row.created_us for row in bench.tables.services.values())
    assert (max(begun.values()), sum(begun.values())) == (MAX_MADE, 2 * MAX_MADE + 1)


def test_a_removed_service_goes_with_its_containers_and_its_name_is_free_again() -> None:
    bench = Site()
    bench.apply(2)
    bench.change("remove")
    assert "web" not in bench.tables.deployments
    assert bench.running() == []
    assert bench.told("removed")
    bench.apply(1)
    assert bench.running() == names(1)


def test_what_somebody_removed_is_made_anew_once_no_copy_of_it_may_run() -> None:
    bench = Site()
    bench.apply(2)
    bench.wait(STEADY_US // US + 5)
    old = bench.of(1)
    bench.say(ChangeService(at_us=0, request="r", container=old.id, verb="remove"))
    retire = bench.open("retire")
    assert bench.of(1).id == old.id, "its copy may still run"
    bench.end(retire)
    assert bench.of(1).id != old.id
    bench.settle()
    assert bench.running() == names(1, 2)


def test_a_copy_of_a_number_that_may_run_keeps_its_next_container_from_being_made() -> None:
    bench = Site()
    bench.apply(1)
    bench.wait(STEADY_US // US + 5)
    old = bench.of(1)
    bench.say(ChangeService(at_us=0, request="r", container=old.id, verb="remove"))
    bench.say(NodeLost(at_us=0, node=old.node, why="no answer"))
    bench.say(Tick(at_us=0), after_us=60 * US)
    assert not bench.has_open("create")
    assert f"node {old.node}, which does not answer" in bench.row.reason
    bench.say(FenceNode(at_us=0, request="f", node=old.node))
    bench.settle()
    assert bench.running() == names(1)
    assert bench.of(1).node != old.node


def test_a_vanished_container_is_followed_once_a_copy_that_came_back_is_gone() -> None:
    bench = Site()
    bench.apply(1)
    old = bench.of(1)
    bench.say(NodeLost(at_us=0, node=old.node, why="no answer"))
    bench.say(FenceNode(at_us=0, request="f", node=old.node))
    bench.wait(30)
    new = bench.of(1)
    assert (new.id, new.node) != (old.id, old.node)
    bench.connect_again(old.node)
    revived = shown(bench.made[old.engine_id], old.engine_id, "running")
    bench.listed(old.node, revived)
    retire = bench.open("retire")
    bench.listed(new.node)
    assert new.id in bench.tables.services
    bench.say(Tick(at_us=0), after_us=60 * US)
    assert not bench.has_open("create"), "the copy that its engine revived may still run"
    bench.end(retire)
    bench.say(Tick(at_us=0), after_us=60 * US)
    bench.settle()
    assert bench.running() == names(1)
    assert bench.of(1).id != new.id


def test_a_lost_node_is_made_up_for_elsewhere() -> None:
    bench = Site("a", "b", "c")
    bench.apply(3)
    lost = bench.of(2).node
    bench.say(NodeLost(at_us=0, node=lost, why="no answer"))
    bench.say(FenceNode(at_us=0, request="f", node=lost))
    bench.wait(30)
    assert bench.running() == names(1, 2, 3)
    assert lost not in {row.node for row in bench.tables.services.values()}


def test_a_container_that_fails_is_followed_by_another_with_a_growing_delay() -> None:
    bench = Site()
    bench.apply(1, Cmd=BAD)
    first = bench.row.members[0]
    assert (first.container, first.tries) == ("", 1)
    assert "no such file" in bench.row.reason
    begun = []
    for _ in range(40):
        before = len(bench.made)
        bench.wait(5)
        if len(bench.made) > before:
            begun.append(bench.now_us // US)
    gaps = [after - at for at, after in pairwise(begun)]
    assert gaps == sorted(gaps)
    assert gaps[-1] >= 8 * RETRY_US // US
    assert len(bench.told("short")) == 1, "told once, not at each try"


@pytest.mark.parametrize(
    ("policy", "code", "is_replaced"),
    [
        ("always", 0, True),
        ("unless-stopped", 1, True),
        ("on-failure", 1, True),
        ("on-failure", 0, False),
        ("no", 1, False),
    ],
)
def test_one_that_ended_is_replaced_as_its_restart_policy_says(
    policy: str, code: int, *, is_replaced: bool
) -> None:
    bench = Site()
    bench.apply(1, HostConfig={"RestartPolicy": {"Name": policy}})
    old = bench.of(1)
    bench.ends(1, code)
    assert f"has ended with code {code}" in bench.row.reason
    bench.wait(60)
    assert bool(bench.running()) is is_replaced
    assert (bench.of(1).id != old.id) is is_replaced
    assert len(bench.told("ready")) == is_replaced


def test_one_with_files_on_its_node_is_started_there_again() -> None:
    host = {"RestartPolicy": {"Name": "always"}, "Binds": ["data:/data"]}
    bench = Site()
    bench.apply(1, HostConfig=host)
    old = bench.of(1)
    bench.ends(1)
    bench.wait(60)
    assert bench.running() == names(1)
    assert bench.of(1).id == old.id


def test_an_update_leaves_a_number_with_its_files_and_does_not_pin_it() -> None:
    bench = Site("a", "b", "c")
    data = {"Binds": ["data:/data"]}
    bench.apply(1, HostConfig=data)
    home = bench.of(1).node
    for number in range(6):
        bench.create(f"x{number}")
        bench.settle()
    for row in list(bench.tables.services.values()):
        if row.name.startswith("x") and row.node != home:
            bench.ask(ChangeService(at_us=0, request="r", container=row.id, verb="remove"))
    bench.apply(1, HostConfig=data, Cmd=["new"])
    bench.wait(60)
    assert (bench.of(1).node, bench.of(1).body["Cmd"]) == (home, ["new"]), "all others are empty"
    assert bench.of(1).constraints == ()
    bench.apply(1, Cmd=["newer"])
    bench.wait(60)
    assert bench.of(1).node != home, "it needs no files any more"


def test_a_changed_rollout_is_a_change_and_a_paused_update_is_rolled_back() -> None:
    bench = Site()
    bench.apply(2)
    assert bench.apply(2, is_dry=True).steps == ()
    plan = bench.apply(2, is_dry=True, rollout=Rollout(2, 1))
    assert plan.steps == (("change", "web", "changed: update"),)
    bench.apply(2, Cmd=["new"])
    bench.change("pause")
    bench.change("rollback")
    bench.wait(60)
    assert (bench.row.phase, bench.row.is_paused) == (Phase.STEADY, False)
    assert ["Cmd" in bench.of(number).body for number in (1, 2)] == [False, False]


def test_what_a_person_stopped_stays_stopped_and_is_said() -> None:
    bench = Site()
    bench.apply(2)
    bench.by_hand(2, "stop")
    bench.wait(60)
    assert bench.running() == names(1)
    assert (bench.row.state, bench.row.reason) == ("short", "web-2: was stopped by hand")
    bench.by_hand(2, "start")
    assert (bench.row.state, bench.row.reason) == ("steady", "")


def test_what_has_no_room_says_so_once_and_begins_when_there_is_some() -> None:
    bench = Site("n")
    bench.apply(6)
    assert bench.row.ready == 4
    assert bench.row.reason.endswith(": no node of its generation has room")
    bench.wait(60)
    assert len(bench.told("short")) == 1
    bench.configure(node("n", "nursery"), node("m", "nursery"))
    bench.connect("m")
    bench.wait(5)
    assert (bench.row.ready, bench.row.reason) == (6, "")
    assert len(bench.told("ready")) == 1


def test_the_quota_of_its_namespace_and_a_taken_name_are_reasons() -> None:
    bench = Site()
    nodes = tuple(spec.spec for spec in bench.tables.nodes.values())
    quotas = {"default": Quota(containers=2, cpu_m=None)}
    bench.say(Configured(at_us=0, nodes=nodes, quotas=quotas))
    bench.create("web-1")
    bench.apply(2)
    assert "the name 'web-1' is taken" in bench.row.reason
    bench.change("scale", 3)
    notes = {member.number: member.note for member in bench.row.members}
    assert "may have 2 containers" in notes[3]
    assert bench.running() == names(1, 2)


def test_another_namespace_keeps_its_service() -> None:
    bench = Site()
    bench.apply(1)
    problem = bench.apply(2, owner=Owner("other"))
    assert (problem.code, problem.status) == ("name_taken", 409)
    assert bench.row.replicas == 1


def test_a_restart_goes_on_and_a_step_of_the_clock_moves_what_waits() -> None:
    bench = Site()
    bench.apply(3)
    bench.by_hand(1, "remove")
    before = bench.row.members[0].retry_us
    assert before > bench.now_us
    bench.say(ClockStepped(at_us=0, step_us=1000 * US))
    assert bench.row.members[0].retry_us == before + 1000 * US
    bench.restart()
    for name in ("n", "m"):
        bench.connect_again(name)
    bench.now_us += 1000 * US
    bench.wait(10)
    assert bench.running() == names(1, 2, 3)
