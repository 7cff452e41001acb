"""How a service goes from one revision to another, number by number, and back."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.services.services import NO_ROOM, STEADY_US
from tenure.model.deployment import MAX_REVISIONS, DeploymentPlan, Phase, Rollout, Template
from tenure.model.events import (
    ApplyDeployment,
)
from tenure.model.job import Constraint
from tenure.model.units import US
from tests.unit.core.bench import IMAGE, SMALL, shown

#: A command that no engine can start.
from tests.unit.core.services.deployed import BAD, Site, names


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


def test_an_update_that_bars_the_node_of_its_files_is_undone() -> None:
    """Law L5: it waited for a place without end."""
    bench = Site("a", "b")
    data = {"Binds": ["data:/data"]}
    bench.apply(1, HostConfig=data)
    home = bench.of(1).node
    elsewhere = (Constraint("name", "!=", (home,)),)
    bench.apply(1, HostConfig=data, Cmd=["new"], constraints=elsewhere)
    bench.wait(60)
    assert bench.row.phase is Phase.STEADY
    assert f"its files are on node {home}" in bench.row.failure
    assert (bench.of(1).node, bench.running()) == (home, names(1))
    assert "Cmd" not in bench.of(1).body
    bench.apply(1, HostConfig=data, Cmd=["newer"])
    bench.wait(60)
    assert (bench.row.phase, bench.of(1).body["Cmd"]) == (Phase.STEADY, ["newer"])
