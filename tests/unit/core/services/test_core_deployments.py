"""Replicated services: as many containers as are wanted, and updates number by number."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from tenure.core.services.deployments import MAX_MADE
from tenure.core.services.services import NO_ROOM, RETRY_US, STEADY_US
from tenure.model.deployment import MAX_REVISIONS, DeploymentPlan, Phase, Rollout, Template
from tenure.model.effects import DurableEffect, Reply
from tenure.model.events import (
    ApplyDeployment,
    ChangeDeployment,
    ChangeService,
    ClockStepped,
    Configured,
    FenceNode,
    NodeLost,
    Tick,
)
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.quota import Quota
from tenure.model.roles import Owner
from tenure.model.units import US
from tests.unit.core.bench import IMAGE, SMALL, Bench, node, shown

#: A command that no engine can start.
BAD = ["bad"]


class Site(Bench):
    """A bench whose engines do at once what they are asked for."""

    def __init__(self, *names: str) -> None:
        self.made: dict[str, Any] = {}
        super().__init__(*(node(name, "nursery") for name in names or ("n", "m")))
        for name in names or ("n", "m"):
            self.connect(name)
        self.most_gone = 0

    def settle(self) -> None:
        """Have every effect end, and what follows."""
        while open_now := sorted(self.tables.effects.values(), key=lambda e: int(e.id[1:])):
            for effect in open_now:
                self.end(effect, self.outcome(effect))
                self.most_gone = max(self.most_gone, 3 - len(self.running()))

    def outcome(self, effect: DurableEffect) -> Outcome:
        if effect.kind == "create":
            self.made[f"c-{effect.id}"] = effect
            return Done(f"c-{effect.id}")
        if effect.kind == "start" and self.made[effect.engine_id].body.get("Cmd") == BAD:
            return Refused("start_failed", "no such file")
        return Done()

    def ask(self, command: Any) -> Any:
        replies = [effect for effect in self.say(command) if isinstance(effect, Reply)]
        self.settle()
        return replies[0].value

    def apply(self, replicas: int = 3, *, is_dry: bool = False, **more: Any) -> Any:
        """Have a service of so many; ``more`` are parts of its body, or its rollout or owner."""
        rollout = more.pop("rollout", Rollout())
        owner = more.pop("owner", Owner())
        template = Template("web", {"Image": IMAGE} | more, SMALL)
        fields: dict[str, Any] = {"template": template, "rollout": rollout, "is_dry": is_dry}
        return self.ask(
            ApplyDeployment(
                at_us=0, request="r", name="web", replicas=replicas, owner=owner, **fields
            )
        )

    def change(self, verb: str, replicas: int = 0) -> Any:
        return self.ask(
            ChangeDeployment(at_us=0, request="r", name="web", verb=verb, replicas=replicas)
        )

    def by_hand(self, number: int, verb: str) -> None:
        key = self.of(number).id
        self.ask(ChangeService(at_us=0, request="r", container=key, verb=verb))

    @property
    def row(self) -> Any:
        return self.tables.deployments["web"]

    def of(self, number: int) -> Any:
        (member,) = [member for member in self.row.members if member.number == number]
        return self.tables.services.get(member.container)

    def running(self) -> list[str]:
        rows = self.tables.services.values()
        return sorted(row.name for row in rows if row.state == "running" and not row.is_removing)

    def wait(self, seconds: float = 10) -> None:
        """Have time pass, in steps, and what is due then done."""
        for _ in range(max(1, int(seconds // 5))):
            self.say(Tick(at_us=0), after_us=5 * US)
            self.settle()

    def ends(self, number: int, code: int = 1) -> None:
        """Have a container end by itself; its engine shows it."""
        service = self.of(number)
        rows = [row for row in self.tables.services.values() if row.node == service.node]
        facts = []
        for row in rows:
            if row.engine_id in self.made:
                state = "exited" if row is service else "running"
                facts.append(shown(self.made[row.engine_id], row.engine_id, state, exit_code=code))
        self.listed(service.node, *facts)
        self.settle()

    def told(self, kind: str) -> list[Any]:
        return [event.data for event in self.public if event.type == f"service.{kind}"]


def names(*numbers: int) -> list[str]:
    return [f"web-{number}" for number in numbers]


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


# updates


@pytest.mark.parametrize(
    ("rollout", "most_gone", "most"),
    [(Rollout(), 1, 3), (Rollout(0, 1), 0, 4), (Rollout(2, 1), 2, 4), (Rollout(0, 2), 0, 5)],
)
def test_an_update_replaces_number_by_number(rollout: Rollout, most_gone: int, most: int) -> None:
    bench = Site("a", "b", "c")
    bench.apply(3, rollout=rollout)
    bench.most_gone = 0
    assert bench.apply(3, rollout=rollout, Cmd=["new"]).phase is Phase.UPDATING
    seen = 0
    for _ in range(60):
        seen = max(seen, len(bench.running()))
        bench.wait(5)
    assert bench.row.phase is Phase.STEADY
    assert bench.running() == names(1, 2, 3)
    assert {bench.of(n).body["Cmd"][0] for n in (1, 2, 3)} == {"new"}
    assert (bench.most_gone, seen) == (most_gone, most)
    assert len(bench.told("updated")) == 1


def test_a_surge_without_room_is_the_reason_and_fewer_replicas_make_room_for_it() -> None:
    bench = Site("a")
    wide = Rollout(max_unavailable=0, max_surge=1)
    bench.apply(4, rollout=wide)  # all that a node holds
    bench.apply(4, rollout=wide, Cmd=["new"])
    bench.wait(60)
    assert bench.running() == names(1, 2, 3, 4)
    assert bench.row.reason == f"web-5: {NO_ROOM}"
    bench.change("scale", 3)
    bench.wait(300)
    assert (bench.row.phase, bench.running()) == (Phase.STEADY, names(1, 2, 3))
    assert {bench.of(n).body["Cmd"][0] for n in (1, 2, 3)} == {"new"}


def test_an_update_waits_while_others_are_down_for_reasons_of_their_own() -> None:
    bench = Site("a", "b", "c")
    bench.apply(3)
    bench.apply(3, Cmd=["new"])
    bench.wait(5)
    bench.by_hand(1, "stop")
    bench.wait(60)
    assert bench.running() == names(2, 3)
    assert all("Cmd" not in bench.of(n).body for n in (2, 3)), "one may be missing, and one is"
    bench.by_hand(1, "start")
    bench.wait(60)
    assert {bench.of(n).body["Cmd"][0] for n in (1, 2, 3)} == {"new"}


def test_a_new_container_counts_once_it_was_healthy_for_long_enough() -> None:
    bench = Site("a", "b", "c")
    check: dict[str, Any] = {"Healthcheck": {"Test": ["CMD", "true"]}}
    bench.apply(2)
    bench.apply(2, **check)
    bench.wait(60)
    fresh = [n for n in (1, 2) if "Healthcheck" in bench.of(n).body]
    assert fresh == [1], "nothing says that the first is healthy"
    service = bench.of(1)
    there = shown(bench.made[service.engine_id], service.engine_id, "running", health="healthy")
    rest = [
        shown(bench.made[row.engine_id], row.engine_id, "running")
        for row in bench.tables.services.values()
        if row.node == service.node and row.engine_id in bench.made and row is not service
    ]
    bench.listed(service.node, there, *rest)
    bench.settle()
    assert "Healthcheck" not in bench.of(2).body
    bench.wait(20)
    assert "Healthcheck" in bench.of(2).body


def test_an_update_that_fails_goes_back_to_exactly_what_was() -> None:
    bench = Site("a", "b", "c")
    bench.apply(3, Cmd=["old"])
    before = bench.row.revisions
    bench.apply(3, Cmd=BAD)
    bench.wait(60)
    assert bench.row.revisions == before
    assert bench.row.phase is Phase.STEADY
    assert "no such file" in bench.row.failure
    assert [told["revision"] for told in bench.told("update_failed")] == [2]
    assert bench.running() == names(1, 2, 3)
    assert {bench.of(n).body["Cmd"][0] for n in (1, 2, 3)} == {"old"}
    bench.apply(3, Cmd=["newer"])
    assert (bench.row.revision.number, bench.row.failure) == (3, "")


def test_a_rollback_by_hand_goes_back_and_only_some_revisions_are_kept() -> None:
    bench = Site("a", "b", "c")
    for number in range(7):
        bench.apply(1, Cmd=[f"v{number}"])
        bench.wait(20)
    assert [one.number for one in bench.row.revisions] == [3, 4, 5, 6, 7]
    bench.change("rollback")
    bench.wait(20)
    assert bench.of(1).body["Cmd"] == ["v5"]
    assert len(bench.told("rolled_back")) == 1
    for _ in range(MAX_REVISIONS - 2):
        bench.change("rollback")
    assert bench.change("rollback").code == "no_revision"


def test_an_update_that_is_superseded_is_no_revision_to_go_back_to() -> None:
    bench = Site("a", "b", "c")
    bench.apply(3, Cmd=["old"])
    bench.apply(3, Cmd=["never"])
    bench.apply(3, Cmd=BAD)
    bench.wait(60)
    assert bench.row.revision.template.body["Cmd"] == ["old"]
    bench.apply(3, Cmd=["never"])
    bench.apply(3, Cmd=["old"])
    assert bench.row.phase is Phase.ROLLING_BACK
    assert bench.row.revision.number == 1


def test_a_paused_update_takes_nothing_down_and_what_ends_is_made_as_it_was() -> None:
    bench = Site("a", "b", "c")
    bench.apply(2, Cmd=["old"])
    bench.wait(STEADY_US // US + 5)
    bench.change("pause")
    bench.apply(2, Cmd=["new"])
    bench.by_hand(2, "remove")
    bench.wait(60)
    assert bench.row.state == "paused"
    assert [bench.of(n).body["Cmd"][0] for n in (1, 2)] == ["old", "old"]
    bench.change("resume")
    bench.wait(60)
    assert [bench.of(n).body["Cmd"][0] for n in (1, 2)] == ["new", "new"]


def test_a_plan_says_what_would_be_done_and_does_nothing() -> None:
    bench = Site()
    plan = bench.apply(2, is_dry=True)
    assert isinstance(plan, DeploymentPlan)
    assert [step[:2] for step in plan.steps] == [("create", "web-1"), ("create", "web-2")]
    assert not len(bench.tables.deployments)
    bench.apply(2)
    assert bench.apply(2, is_dry=True).steps == ()
    steps = bench.apply(1, is_dry=True, Cmd=["new"], Env=["A=1"]).steps
    assert steps == (
        ("replace", "web-1", "changed: Cmd, Env"),
        ("remove", "web-2", "1 are wanted"),
    )


def test_what_can_never_fit_is_refused() -> None:
    bench = Site()
    template = Template("web", {"Image": IMAGE}, SMALL, generation="unheard-of")
    told = bench.ask(
        ApplyDeployment(
            at_us=0, request="r", name="web", replicas=1, template=template, rollout=Rollout()
        )
    )
    assert told.code == "unknown_generation"
    assert not len(bench.tables.deployments)
