"""Batches on the core alone: what is lent, in which order, and who gives way when."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tenure.core.capacity import room
from tenure.core.lifecycle import restore
from tenure.core.nodes import harvestable, power
from tenure.core.state.params import Params
from tenure.model.batch import Batch
from tenure.model.effects import SendInput
from tenure.model.errors import Problem
from tenure.model.events import (
    CancelBatch,
    DrainNode,
    EffectEnded,
    FenceNode,
    NodeLost,
    ScheduleNode,
    Tick,
)
from tenure.model.node import NodeSpec, Scheduling
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.unit.core.bench import SIZE, SMALL, node, shown
from tests.unit.core.lender import Lender, S, lender, lends, stage, two


def test_stages_run_one_behind_the_other_until_all_is_done() -> None:
    bench = lender()
    assert isinstance(bench.lend("b", *two()), Batch)
    assert [bench.task(i).state for i in range(3)] == [S.CREATING, S.CREATING, S.PENDING]
    bench.finish(0)
    assert bench.task(2).state is S.PENDING
    bench.finish(1)
    bench.finish(2)
    sends = [effect for effect in bench.effects if isinstance(effect, SendInput)]
    files = [part.file for part in sends[-1].parts]
    assert files == ["b/00000/part-00000", "b/00001/part-00000"]
    assert bench.batch().state == "succeeded"
    assert bench.batch().finished_us is not None


def test_owners_see_nothing_of_what_is_lent() -> None:
    bench = lender()
    before = {name: bench.read(room.free_on, bench.tables.nodes[name]) for name in ("n", "m")}
    bench.lend("b", stage(count=4))
    assert sum(bench.task(i).state is S.CREATING for i in range(4)) == 4
    after = {name: bench.read(room.free_on, bench.tables.nodes[name]) for name in ("n", "m")}
    assert after == before
    lent = bench.read(harvestable.free_on, bench.tables.nodes["n"])
    margin = SIZE.scaled(0.1)
    assert lent == SIZE - margin - SMALL - SMALL


def test_what_is_spare_over_time_is_told_in_steps_that_cover_it() -> None:
    bench = lender(lends("n"))
    begin_us = bench.now_us + 7
    bench.lend("b", stage(count=2))
    node = bench.tables.nodes["n"]
    found = bench.read(harvestable.spare_over, node, begin_us, begin_us + 24 * 3600 * US)
    assert (found.from_us, found.step_us, len(found)) == (begin_us, 180 * US, 480)
    left = SIZE - SIZE.scaled(0.1)
    assert set(found.cpu_m) == {left.cpu_m}
    assert set(found.memory_bytes) == {left.memory_bytes}
    assert len(bench.read(harvestable.spare_over, node, begin_us, begin_us + 180 * US + 1)) == 2
    assert len(bench.read(harvestable.spare_over, node, begin_us, begin_us)) == 0
    for number in range(4):
        bench.create(f"web{number}")
    over = bench.read(harvestable.spare_over, bench.tables.nodes["n"], begin_us, begin_us + 1)
    taken = 4 * SMALL.memory_bytes
    assert (over.cpu_m, over.memory_bytes) == ((0,), (left.memory_bytes - taken,))


def test_a_prediction_is_what_playing_it_gives() -> None:
    bench = lender()
    # 1.8 of 2 cores each, half a core a task: three seats on each of two nodes
    answer = bench.lend("x", stage(count=13, run_us=10 * US), is_dry=True)
    assert answer.end_us == bench.now_us + 3 * 10 * US
    assert sum(start.count for start in answer.schedule.starts) == 13
    behind = bench.lend("y", stage("a", 6), stage("b", 1, after=("a",)), is_dry=True)
    assert behind.end_us == bench.now_us + 20 * US
    assert not bench.tables.batches
    bench.lend("b", stage(count=6))
    queued = bench.lend("z", stage(count=1), is_dry=True)
    assert queued.end_us == bench.now_us + 20 * US


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"request": Resources(1900, MIB)}, "no_room"),
        ({"request": Resources(100, 1000 * MIB)}, "no_room"),
        ({"image": "nobody:1"}, "no_node"),
        ({"count": 10_001}, "too_many_tasks"),
        ({"run_us": 25 * 3600 * US}, "outside_window"),
        ({"run_us": 300_000_000_000 * US}, "outside_window"),  # a time that has no name
        ({"chunk_bytes": 2 * SIZE.memory_bytes}, "chunk_too_large"),
    ],
)
def test_what_cannot_be_done_is_refused_whole(change: dict[str, Any], code: str) -> None:
    bench = lender()
    answer = bench.lend("b", stage("fine"), dataclasses.replace(stage(), **change))
    assert isinstance(answer, Problem)
    assert answer.code == code
    assert not bench.tables.batches
    assert not bench.tables.tasks


def test_the_latest_started_gives_way_when_owners_need_the_memory() -> None:
    bench = lender(lends("n"))
    bench.lend("b", stage(count=3, request=Resources(100, 256 * MIB)))
    for index in range(3):
        bench.run(index)
    bench.create("web", HostConfig={"Memory": 64 * MIB})
    assert [bench.task(i).attempt for i in range(3)] == [1, 1, 1]  # within half the margin
    for number in range(3):
        bench.create(f"web{number}", HostConfig={"Memory": 64 * MIB})
    assert [bench.task(i).attempt for i in range(3)] == [1, 1, 2]
    assert (bench.batch().reclaimed, bench.batch().retried) == (1, 0)
    assert bench.task(2).state is S.PENDING


def test_a_killed_task_costs_no_retry_and_goes_elsewhere() -> None:
    bench = lender()
    bench.lend("b", retries=0)
    create = bench.run()
    bench.exit(0, create, 137)
    assert bench.task().state is S.EXITED  # who ended it is not known yet
    bench.told(kills="e0")
    assert bench.task().state is S.PENDING
    assert "ended it for its owners (memory, limit)" in bench.task().note
    tombstone = bench.tables.tombstones["b/0/1"]
    bench.say(EffectEnded(at_us=0, effect=tombstone.effect, outcome=Done()))
    bench.say(Tick(at_us=0), after_us=30 * US)
    assert bench.task().state is S.CREATING
    assert bench.task().node != create.node
    assert (bench.batch().retried, bench.batch().reclaimed) == (0, 1)


def test_one_killed_for_its_own_memory_failed() -> None:
    bench = lender()
    bench.lend("b", retries=0)
    bench.exit(0, bench.run(), 137, is_oom_killed=True)
    bench.told()
    assert bench.batch().is_failing
    assert "more than it asked for" in bench.batch().reason


def test_a_send_of_unknown_end_gets_a_container_of_its_own() -> None:
    bench = lender()
    bench.lend("b")
    bench.end(bench.open_of("create"), Done("e0"))
    bench.end(bench.open_of("send"), Unknown("cut"))
    assert (bench.task().state, bench.task().attempt) == (S.PENDING, 2)
    assert not bench.has_open("start")
    assert "b/0/1" in bench.tables.tombstones


def test_a_restart_asks_again_for_an_output_and_for_nothing_else() -> None:
    bench = lender()
    bench.lend("b", stage(count=2))
    bench.exit(0, bench.run(0), 0)
    assert bench.task(0).state is S.COLLECTING
    create = bench.run(1)
    bench.restart()
    for name in ("n", "m"):
        bench.connect_again(name)
        bench.guard(name)
    first = [e for e in bench.effects if getattr(e, "owner", "") == "task:b/0"]
    made = next(e for e in first if e.kind == "create")
    bench.listed(made.node, shown(made, "e0", "exited", exit_code=0))
    bench.listed(create.node, shown(create, "e1", "running"))
    bench.say(Tick(at_us=0), after_us=30 * US)
    assert bench.task(0).attempt == bench.task(1).attempt == 1
    bench.end(bench.open_of("collect", 0))
    assert bench.task(0).state is S.DONE
    assert bench.task(1).state is S.RUNNING


@pytest.mark.parametrize(
    ("detail", "told"),
    [("/in: it was changed", "/in: it was changed"), ("", "input_changed")],
)
def test_an_input_that_is_gone_fails_the_batch(detail: str, told: str) -> None:
    bench = lender()
    bench.lend("b")
    bench.end(bench.open_of("create"), Done("e0"))
    bench.end(bench.open_of("send"), Refused("input_changed", detail))
    assert bench.batch().is_failing
    assert bench.batch().reason == f"stage {bench.task(0).stage}: {told}"


def power_of(bench: Lender, name: str) -> str:
    return str(bench.tables.nodes[name].power.value)


def test_tasks_keep_no_node_on_and_are_ended_before_it_goes_off() -> None:
    bench = lender(lends("y", "young", driver="command"), grace_us=20 * US)
    bench.submit("j", command=("run",))
    create = bench.open("create")
    bench.end(create, Done("ej"))
    bench.end(bench.open("start"))
    bench.lend("b")
    task = bench.run()
    done = shown(create, "ej", "exited", exit_code=0)
    bench.listed("y", done, shown(task, "e0", "running"))
    bench.listed("y", shown(task, "e0", "running"))
    for tombstone in list(bench.tables.tombstones.values()):
        if tombstone.effect:
            bench.say(EffectEnded(at_us=0, effect=tombstone.effect, outcome=Done()))
    assert bench.tables.nodes["y"].idle_us is not None
    assert bench.read(power.is_leaving, bench.tables.nodes["y"])
    bench.say(Tick(at_us=0), after_us=30 * US)
    bench.listed("y", shown(task, "e0", "running"))
    assert (bench.task().state, bench.task().attempt) == (S.PENDING, 2)
    assert power_of(bench, "y") == "on"  # its container may still run
    bench.say(EffectEnded(at_us=0, effect=bench.tables.tombstones["b/0/1"].effect, outcome=Done()))
    bench.listed("y")
    bench.say(Tick(at_us=0), after_us=30 * US)
    bench.listed("y")
    assert power_of(bench, "y") == "stopping"
    assert bench.task().state is S.PENDING  # nothing is lent there on the way


def test_a_drain_ends_tasks_and_nothing_is_lent_there() -> None:
    bench = lender(lends("n"))
    bench.lend("b")
    bench.run()
    bench.say(DrainNode(at_us=0, request="d", node="n"))
    assert bench.task().attempt == 2
    bench.say(EffectEnded(at_us=0, effect=bench.tables.tombstones["b/0/1"].effect, outcome=Done()))
    bench.say(Tick(at_us=0), after_us=30 * US)
    assert bench.task().state is S.PENDING
    assert bench.tables.drains["n"].is_over


def test_a_cancelled_batch_ends_once_nothing_of_it_can_run() -> None:
    bench = lender()
    bench.lend("b", stage(count=2))
    bench.run(0)
    bench.say(CancelBatch(at_us=0, request="c", batch="b"))
    assert bench.batch().state == "running"
    for key in ("b/0/1", "b/1/1"):
        tombstone = bench.tables.tombstones.get(key)
        if tombstone is not None and tombstone.effect:
            bench.say(EffectEnded(at_us=0, effect=tombstone.effect, outcome=Done()))
    bench.listed("n")
    bench.listed("m")
    assert bench.batch().state == "cancelled"


def test_after_a_restore_what_was_not_done_begins_anew_beside_nothing() -> None:
    bench = lender()
    bench.lend("b", stage(count=2))
    bench.finish(0)
    create = bench.run(1)
    meta = restore.marked(bench.records["meta"]["meta"], bench.now_us)
    bench.records["meta"] = {"meta": meta}
    bench.restart()
    bench.configure(lends("n"), lends("m"))
    for name in ("n", "m"):
        bench.connect_again(name)
        bench.guard(name)
        there = [shown(create, "e1", "running")] if create.node == name else []
        bench.listed(name, *there)
    assert not bench.meta.is_restoring
    assert bench.task(0).state is S.DONE
    assert bench.task(1).state is S.PENDING  # the copy that runs is ended first
    assert bench.task(1).attempt > 1000
    (tombstone,) = [g for g in bench.tables.tombstones.values() if g.owner == "b/1"]
    assert tombstone.may_run
    bench.listed(create.node, shown(create, "e1", "running"))
    tombstone = bench.tables.tombstones[tombstone.id]
    bench.say(EffectEnded(at_us=0, effect=tombstone.effect, outcome=Done()))
    bench.say(Tick(at_us=0), after_us=30 * US)
    bench.listed("n")
    bench.listed("m")
    assert bench.task(1).state is S.CREATING


# the agent


@pytest.mark.parametrize(
    ("specs", "guard", "told"),
    [
        ((node("n", "nursery"),), {}, "set harvest.mode: act and agent.url"),
        ((lends("n", harvest=QosParams(mode="advise")),), {}, "set harvest.mode: act"),
        ((lends("n"),), {"fault": "no answer within 5 s"}, "n: its agent does not protect"),
        ((lends("n"),), {"mode": "off"}, "n: its agent is in mode off yet"),
        ((lends("n", cgroup="/rack/n"),), {}, "below /rack/n/tenure-harvest by cgroup"),
    ],
)
def test_nothing_is_lent_unless_an_agent_protects_the_owners(
    specs: tuple[NodeSpec, ...], guard: dict[str, Any], told: str
) -> None:
    bench = lender(*specs)
    bench.guard("n", **guard)
    for is_dry in (True, False):
        answer = bench.lend("b", is_dry=is_dry)
        assert answer.code == "no_lender"
        assert told in answer.detail
    assert not bench.tables.batches


def test_an_agent_that_was_never_heard_of_lends_nothing() -> None:
    bench = Lender(lends("n"), params=Params(min_on={}))
    bench.connect("n")
    assert "has not answered yet" in bench.lend("b").detail
    bench.guard("n")
    assert isinstance(bench.lend("b"), Batch)


def test_under_systemd_the_agent_looks_at_the_root() -> None:
    bench = lender(lends("n", cgroup="/rack/n"))
    bench.store(dataclasses.replace(bench.tables.nodes["n"], cgroup_driver="systemd"))
    assert bench.read(harvestable.objection, bench.tables.nodes["n"]) == ""


def test_nothing_begins_while_the_agent_is_away_and_what_runs_goes_on() -> None:
    bench = lender(lends("n"))
    bench.lend("b", stage(count=2))
    bench.run(0)
    bench.end(bench.open_of("create", 1), Done("e1"))
    bench.guard("n", fault="no answer")
    bench.end(bench.open_of("send", 1))
    assert bench.task(1).state is S.READY
    assert not bench.has_open("start")
    bench.guard("n")
    bench.end(bench.open_of("start", 1))
    assert [bench.task(i).state for i in range(2)] == [S.RUNNING, S.RUNNING]


def test_what_waits_for_a_lost_agent_begins_elsewhere() -> None:
    bench = lender()
    bench.lend("b")
    home = bench.task().node
    bench.end(bench.open_of("create"), Done("e0"))
    bench.guard(home, fault="no answer")
    bench.end(bench.open_of("send"))
    bench.say(Tick(at_us=0), after_us=61 * US)
    assert (bench.task().attempt, bench.batch().reclaimed) == (2, 1)
    tombstone = bench.tables.tombstones["b/0/1"]
    bench.say(EffectEnded(at_us=0, effect=tombstone.effect, outcome=Done()))
    bench.say(Tick(at_us=0), after_us=30 * US)
    assert bench.task().node not in ("", home)


def test_a_node_that_lends_no_more_is_left_by_its_tasks() -> None:
    bench = lender()
    bench.lend("b")
    home = bench.run().node
    other = "m" if home == "n" else "n"
    bench.configure(node(home, "nursery"), lends(other))
    assert (bench.task().attempt, bench.batch().retried) == (2, 0)
    assert "lends no more" in bench.task().note


def test_what_asks_for_too_much_is_told_how_much_there_is() -> None:
    bench = lender()
    huge = bench.lend("b", stage(request=Resources(50_000, 64 * MIB)))
    assert "50 CPUs, and n has the most, 1.8 CPUs after the margin" in huge.detail
    both = bench.lend("b", stage(request=Resources(50_000, 1 << 40)))
    assert "1TiB of memory, and n has the most" in both.detail
    assert both.fields[0].path == "stages.0"


def test_a_node_that_was_fenced_by_word_says_how_it_lends_again() -> None:
    bench = lender(lends("n"))
    bench.say(NodeLost(at_us=0, node="n"))
    bench.say(FenceNode(at_us=0, request="f", node="n"))
    bench.connect("n")
    back = bench.tables.nodes["n"]
    assert bench.read(harvestable.objection, back) == "it is cordoned: tenure node uncordon n"
    assert not bench.read(harvestable.is_lendable, back)
    bench.say(ScheduleNode(at_us=0, request="u", node="n", to=Scheduling.YES))
    assert bench.read(harvestable.is_lendable, bench.tables.nodes["n"])


def test_whether_a_node_lends_follows_all_that_it_depends_on() -> None:
    bench = lender(lends("n"), starved_us=10 * US)

    def lends_now() -> bool:
        found = bench.read(harvestable.is_lendable, bench.tables.nodes["n"])
        assert found is not bool(bench.read(harvestable.objection, bench.tables.nodes["n"]))
        return found

    assert lends_now()
    bench.guard("n", fault="it is blind")
    assert not lends_now()
    bench.guard("n")
    assert lends_now()
    bench.guard("n", is_at_floor=True)
    assert lends_now()
    bench.say(Tick(at_us=0), after_us=11 * US)
    assert not lends_now()
    bench.guard("n")
    assert lends_now()
    bench.say(NodeLost(at_us=0, node="n"))
    assert not lends_now()
