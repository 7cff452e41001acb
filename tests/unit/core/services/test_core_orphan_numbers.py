"""Containers of a service that a restored state does not know: its numbers adopt them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.core.services.deployments import FOUND
from tenure.model.effects import RetireContainer, StopContainer
from tenure.model.events import ChangeService, FenceNode, NodeLost, Tick
from tenure.model.facts import ContainerFacts
from tenure.model.job import Constraint
from tenure.model.roles import Owner
from tenure.model.units import US
from tests.fleet.remembered import check
from tests.unit.core.bench import shown
from tests.unit.core.lifecycle.restores import Records, backup, put_back, show
from tests.unit.core.services.deployed import Site, names


class Restored(Site):
    """A service of three whose backup is put back after some of its containers were replaced."""

    def __init__(self) -> None:
        super().__init__("n", "m", "o")
        self.apply(3)
        self.wait(90)
        self.older: Records = backup(self)

    def replace(self, number: int) -> None:
        """Have a container removed by hand and followed."""
        self.by_hand(number, "remove")
        self.wait(30)

    def of_four(self) -> Any:
        """Return the container of a fourth number, made since the backup."""
        self.change("scale", 4)
        self.wait(30)
        return self.of(4)

    def there(self) -> dict[str, list[ContainerFacts]]:
        """Return what engines show by node: what the state knows runs, and runs."""
        found: dict[str, list[ContainerFacts]] = {name: [] for name in ("n", "m", "o")}
        for row in self.tables.services.values():
            if row.node:
                made = self.made[row.engine_id]
                found[row.node].append(shown(made, row.engine_id, "running", started_us=5))
        return found

    def put_back(self, there: dict[str, list[ContainerFacts]]) -> None:
        put_back(self, self.older)
        self.made.clear()
        for name, facts in there.items():
            show(self, name, *facts)
        for _ in range(4):
            for name, facts in there.items():
                self.listed(name, *facts)
            self.settle()
            self.wait(5)
        check(self.state)

    def touched(self) -> list[str]:
        """Return the engine ids of what was stopped or removed since."""
        stopped = [e.engine_id for e in self.effects if isinstance(e, StopContainer)]
        return stopped + [e.target for e in self.effects if isinstance(e, RetireContainer)]

    def ids(self) -> dict[int, str]:
        return {number: self.of(number).engine_id for number in (1, 2, 3)}


def test_what_replaced_a_number_since_the_backup_is_adopted_and_runs_on() -> None:
    bench = Restored()
    bench.replace(2)
    ids, there = bench.ids(), bench.there()
    assert ids != {n: bench.older["services"][m.container].engine_id for n, m in _members(bench)}
    bench.put_back(there)
    assert bench.running() == names(1, 2, 3)
    assert bench.ids() == ids
    assert not bench.made, "nothing is made beside it"
    assert ids[2] not in bench.touched()
    assert (bench.row.state, bench.row.failure) == ("steady", "")
    assert bench.of(2).turns > bench.of(2).incarnation + 900, "a forgotten move may have used some"


def _members(bench: Restored) -> list[tuple[int, Any]]:
    return [(m.number, m) for m in bench.older["deployments"]["web"].members]


def test_what_an_update_made_since_runs_on_until_people_say_what_is_wanted() -> None:
    bench = Restored()
    bench.apply(3, Cmd=["new"])
    bench.wait(120)
    ids, there = bench.ids(), bench.there()
    bench.put_back(there)
    assert (bench.running(), bench.ids(), bench.made) == (names(1, 2, 3), ids, {})
    assert (bench.row.state, bench.row.failure) == ("paused", FOUND)
    assert {bench.of(number).migrate for number in ids} == {"never"}
    bench.most_gone = 0
    bench.change("resume")
    bench.wait(120)
    assert bench.running() == names(1, 2, 3)
    assert bench.row.state == "steady"
    assert bench.most_gone == 1, "one after another"
    assert not set(ids.values()) & set(bench.ids().values())


def test_one_where_its_revision_may_not_be_is_of_another() -> None:
    """Law L37: it was bound by what its node does not meet."""
    bench = Restored()
    bench.apply(3, constraints=(Constraint("name", "!=", ("n",)),))
    bench.wait(200)
    assert "n" not in {bench.of(number).node for number in (1, 2, 3)}
    bench.older = backup(bench)
    bench.apply(3)
    bench.wait(200)
    there = bench.there()
    assert there["n"]
    bench.put_back(there)
    assert bench.running() == names(1, 2, 3)
    on = [bench.of(number) for number in (1, 2, 3) if bench.of(number).node == "n"]
    assert [row.constraints for row in on] == [()] * len(there["n"])
    assert bench.row.state == "paused"


def test_numbers_beyond_what_the_backup_wants_are_left_until_they_are_wanted() -> None:
    bench = Restored()
    four, there = bench.of_four().engine_id, bench.there()
    bench.put_back(there)
    assert bench.touched() == []
    assert [e.subject for e in bench.public if e.type == "container.orphan"] == [four]
    bench.change("scale", 4)
    for name, facts in there.items():
        bench.listed(name, *facts)
    assert bench.of(4).engine_id == four
    assert (bench.of(4).state, bench.made) == ("running", {})


def test_a_service_made_since_adopts_its_containers_when_it_is_applied_again() -> None:
    bench = Restored()
    bench.change("remove")
    empty = backup(bench)
    bench.apply(3)
    there, ids = bench.there(), bench.ids()
    bench.older = empty
    bench.put_back(there)
    assert bench.touched() == []
    bench.restart()
    bench.apply(3)
    assert not bench.has_open("create"), "after a start too, before any engine answers"
    for name, facts in there.items():
        show(bench, name, *facts)
    for _ in range(8):
        for name, facts in there.items():
            bench.listed(name, *facts)
        bench.wait(5)
    assert (bench.running(), bench.ids(), bench.made) == (names(1, 2, 3), ids, {})


def test_a_number_waits_for_a_node_that_has_a_container_of_it_and_does_not_answer() -> None:
    bench = Restored()
    home, there = bench.of_four().node, bench.there()
    bench.put_back(there)
    bench.say(NodeLost(at_us=0, node=home, why="no answer"))
    bench.change("scale", 4)
    bench.wait(200)
    assert not bench.made
    assert f"is on node {home}, which does not answer" in bench.row.reason
    bench.say(FenceNode(at_us=0, request="f", node=home))
    bench.wait(200)
    assert "web-4" in bench.running()
    assert bench.of(4).node != home


def test_an_unknown_container_whose_number_has_another_is_removed() -> None:
    bench = Restored()
    old = bench.of(2)
    late = shown(bench.made[old.engine_id], "late", "running")
    late = replace(late, labels={**late.labels, "tenure.container": "f" * 64})
    others = bench.there()[old.node]
    bench.listed(old.node, *others, late)
    assert bench.open("retire").target == "late"


@pytest.mark.parametrize("changed", [{"name": "another"}, {"labels": ("tenure.service", "")}])
def test_one_that_only_looks_like_a_number_is_left_alone(changed: dict[str, Any]) -> None:
    """An image made of a container hands its labels on; earlier versions gave none."""
    bench = Restored()
    old = bench.of(2)
    late = shown(bench.made[old.engine_id], "late", "running")
    labels = {**late.labels, "tenure.container": "f" * 64}
    labels |= dict([changed.pop("labels")]) if "labels" in changed else {}
    others = bench.there()[old.node]
    bench.listed(old.node, *others, replace(late, labels=labels, **changed))
    assert not bench.has_open("retire")
    assert bench.tables.nodes[old.node].orphans == ()


def test_what_the_backup_was_creating_is_not_begun_beside_what_came_after_it() -> None:
    bench = Restored()
    bench.say(ChangeService(at_us=0, request="r", container=bench.of(2).id, verb="remove"))
    bench.end(bench.open("retire"))
    while not bench.has_open("create"):
        bench.say(Tick(at_us=0), after_us=US)
    bench.older = backup(bench)
    bench.settle()
    bench.replace(2)
    ids = bench.ids()
    bench.put_back(bench.there())
    assert (bench.running(), bench.ids(), bench.made) == (names(1, 2, 3), ids, {})


def test_a_service_of_another_namespace_takes_nothing_over() -> None:
    bench = Restored()
    bench.change("remove")
    bench.older = backup(bench)
    bench.apply(1)
    theirs, there = bench.of(1).id, bench.there()
    bench.put_back(there)
    bench.apply(1, owner=Owner("others"))
    bench.wait(10)
    assert bench.of(1).id != theirs
    assert bench.touched() == []


def test_of_two_the_one_that_runs_is_taken_and_the_other_removed() -> None:
    bench = Restored()
    bench.replace(2)
    there = bench.there()
    (facts,) = [f for rows in there.values() for f in rows if f.name == "web-2"]
    ended = replace(facts, engine_id="ended", state="exited", exit_code=0, started_us=9)
    ended = replace(ended, labels={**facts.labels, "tenure.container": "f" * 64})
    home = next(name for name, rows in there.items() if facts not in rows)
    there[home].append(ended)
    bench.put_back(there)
    assert bench.of(2).engine_id == facts.engine_id
    assert set(bench.touched()) >= {"ended"}
    assert facts.engine_id not in bench.touched()


def test_one_that_has_ended_is_started_again_where_it_is() -> None:
    bench = Restored()
    bench.replace(2)
    there = bench.there()
    for name, rows in there.items():
        there[name] = [
            replace(f, state="exited", exit_code=0, finished_us=9) if f.name == "web-2" else f
            for f in rows
        ]
    bench.put_back(there)
    assert (bench.of(2).state, bench.of(2).exit_code) == ("exited", 0)
    bench.say(ChangeService(at_us=0, request="r", container=bench.of(2).id, verb="start"))
    start = bench.open("start")
    assert start.engine_id == bench.of(2).engine_id
    bench.end(start)
    assert (bench.running(), bench.made) == (names(1, 2, 3), {})
