"""Inputs kept as replicas: where chunks lie, who reads them, what a loss costs, that they go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tenure.core.blocks import replicas
from tenure.core.dispatch import planner_inputs
from tenure.core.state.block_index import BlockIndex
from tenure.core.state.indexes import Index
from tenure.core.state.work_limits import WorkLimits
from tenure.daemon.answers import readings, views
from tenure.model.batch import (
    Batch,
    BatchSpec,
    Chunk,
    InputFile,
    StageSpec,
    TaskState,
)
from tenure.model.effects import CopyBlock, Reply, SendInput
from tenure.model.errors import Problem
from tenure.model.events import (
    CancelBatch,
    ChangeDataset,
    EffectEnded,
    FenceNode,
    SubmitBatch,
    Tick,
)
from tenure.model.outcome import Done, Refused
from tenure.model.reading import DatasetInput
from tenure.model.units import MIB, US
from tests.unit.core.bench import node
from tests.unit.core.dispatch.test_core_task_inputs import OFF, Library, library
from tests.unit.core.lender import AGENT, stage
from tests.unit.core.shelf import is_refused, with_tiers

S = TaskState
SOURCE = InputFile("/in/text", 9 * MIB, 7)
#: Chunks end at the ends of lines, so they are of any length.
LENGTHS = (3 * MIB, 2 * MIB, 1 * MIB, 3 * MIB)


def chunks() -> tuple[Chunk, ...]:
    starts = [sum(LENGTHS[:i]) for i in range(len(LENGTHS))]
    return tuple(Chunk(at, length) for at, length in zip(starts, LENGTHS, strict=True))


def over_file(name: str = "map", **more: Any) -> StageSpec:
    words: dict[str, Any] = {"input": SOURCE, "chunk_bytes": max(LENGTHS)}
    return stage(name, len(LENGTHS), **(words | more))


def ask(made: Library, *stages: StageSpec, is_dry: bool = False, **spec: Any) -> Any:
    given = BatchSpec("b", stages or (over_file(),), **({"replicas": 2} | spec))
    cuts = {one.name: chunks() for one in given.stages if one.input is not None}
    command = SubmitBatch(at_us=0, request="b", batch="b", spec=given, chunks=cuts, is_dry=is_dry)
    replies = [e for e in made.say(command) if isinstance(e, Reply)]
    return replies[0].value


def begun(made: Library, *stages: StageSpec, **spec: Any) -> Library:
    assert isinstance(ask(made, *stages, **spec), Batch)
    made.work()
    return made


def files(made: Library) -> int:
    return sum(made.files(name) for name in "abc")


def origins(made: Library) -> list[CopyBlock]:
    """Return the copies that were made from the daemon's file."""
    return [e for e in made.done if isinstance(e, CopyBlock) and e.origin is not None]


def test_chunks_lie_as_they_were_cut_on_so_many_nodes_and_are_read_there() -> None:
    made = begun(library())
    dataset = made.dataset("b.map")
    assert (dataset.state, dataset.spec.batch, dataset.spec.replicas) == ("ready", "b", 2)
    blocks = made.blocks("b.map")
    assert [(block.offset, block.length) for block in blocks] == [
        (chunk.offset, chunk.length) for chunk in chunks()
    ]
    assert {(e.origin, e.length) for e in origins(made)} == {(SOURCE, n) for n in set(LENGTHS)}
    assert [len(nodes) for nodes in made.nodes_of("b.map")] == [2] * len(LENGTHS)
    for task, places in zip(made.tasks(), made.places("b.map"), strict=True):
        assert task.reading is not None
        assert (task.node, task.reading.tier) in places
    made.check()


def test_nothing_is_sent_into_the_container_of_a_task_that_reads_a_replica() -> None:
    made = begun(library())
    create = made.open_of("create")
    (mount,) = create.body["HostConfig"]["Mounts"]
    assert (mount["Target"], mount["ReadOnly"]) == ("/tenure/in/chunk", True)
    made.end(create, Done("e0"))
    send = made.open_of("send")
    assert isinstance(send, SendInput)
    assert (send.parts, send.source) == ((), None)
    made.end(send)
    assert made.task().sent_to == ""


def test_without_replicas_nothing_is_kept() -> None:
    made = library()
    assert isinstance(ask(made, replicas=1), Batch)
    made.work()
    assert not made.tables.datasets
    made.end(made.open_of("create"), Done("e0"))
    assert made.open_of("send").parts[0].length == LENGTHS[0]


def test_the_first_copy_of_a_chunk_goes_where_the_plan_has_its_task() -> None:
    made = library()
    assert isinstance(ask(made), Batch)
    schedule = made.tables.schedules["b"]
    homes = [start.node for start in schedule.starts for _ in range(start.count)]
    assert len(homes) == len(LENGTHS)
    assert [block.home for block in made.blocks("b.map")] == homes
    made.work()
    assert all(home in nodes for home, nodes in zip(homes, made.nodes_of("b.map"), strict=True))
    assert Counter(task.node for task in made.tasks()) == Counter(homes)
    assert (made.batch().remote, made.batch().resent) == (0, 0)


def test_what_only_keeps_is_the_last_to_get_a_copy() -> None:
    idle = with_tiers("a", "ssd", mib=4000, generation="nursery")
    lend = [with_tiers(name, "ssd", generation="nursery", **AGENT) for name in "bc"]
    made = begun(Library(idle, *lend))
    assert made.nodes_of("b.map") == [{"b", "c"}] * len(LENGTHS)


def test_a_task_that_moves_begins_at_its_replica_without_a_new_transfer() -> None:
    made = begun(library())
    sent = len(origins(made))
    home = made.run(0).node
    made.lose(home)
    made.say(FenceNode(at_us=0, request="f", node=home))
    for tombstone in list(made.tables.tombstones.values()):
        if tombstone.effect:
            made.say(EffectEnded(at_us=0, effect=tombstone.effect, outcome=Done()))
    made.say(Tick(at_us=0), after_us=30 * US)
    again = made.task()
    assert (again.attempt, again.reading is not None) == (2, True)
    assert again.node in made.nodes_of("b.map")[0] - {home}
    assert len(origins(made)) == sent
    assert (made.batch().remote, made.batch().retried) == (0, 0)


def test_a_chunk_of_which_all_copies_are_gone_comes_from_the_file_again() -> None:
    made = library(nodes="ab")
    begun(made)
    block = made.blocks("b.map")[0]
    sent = len(origins(made))
    for replica in block.replicas:
        path = f"/mnt/{replica.tier}"
        for file in list(made.disks[replica.node, path]):
            if file.endswith("/000000"):
                del made.disks[replica.node, path][file]
    for name in "ab":
        made.lose(name)
        made.find(name)
        made.guard(name)
    made.work()
    assert len(made.nodes_of("b.map")[0]) == 2
    assert len(origins(made)) > sent
    assert made.dataset("b.map").reason == "", "it is not to be put again by hand"


def finish_all(made: Library, *indices: int) -> None:
    for index in indices:
        made.finish(index)


def test_they_go_as_soon_as_their_stage_is_done() -> None:
    reduce = stage("reduce", 1, after=("map",), shuffle="map")
    made = begun(library(), over_file(partitions=1), reduce)
    assert files(made) == 2 * len(LENGTHS)
    finish_all(made, *range(len(LENGTHS)))
    assert made.batch().state == "running"
    made.work()
    assert not made.tables.datasets
    assert files(made) == 0
    made.finish(len(LENGTHS))
    assert made.batch().state == "succeeded"


def test_they_go_when_the_batch_is_cancelled() -> None:
    made = begun(library())
    made.say(CancelBatch(at_us=0, request="c", batch="b"))
    made.work()
    assert (dict(made.tables.datasets.items()), files(made)) == ({}, 0)


def test_they_go_when_the_batch_fails() -> None:
    made = begun(library(), retries=0)
    made.exit(0, made.run(0), 3)
    made.told()
    assert made.batch().is_failing
    made.work()
    assert (dict(made.tables.datasets.items()), files(made)) == ({}, 0)


def test_a_daemon_that_is_killed_amid_the_copies_goes_on_and_leaves_nothing() -> None:
    made = library()
    assert isinstance(ask(made), Batch)
    first = next(e for e in made.tables.effects.values() if isinstance(e, CopyBlock))
    made.end(first, made.perform(first))
    made.restart()
    for name in "abc":
        made.connect_again(name)
        made.guard(name)
        made.listed(name)
    made.work()
    made.say(Tick(at_us=0), after_us=30 * US)
    assert made.dataset("b.map").state == "ready"
    assert all(task.reading is not None for task in made.tasks())
    made.say(CancelBatch(at_us=0, request="c", batch="b"))
    made.work()
    assert (dict(made.tables.datasets.items()), files(made)) == ({}, 0)


def test_an_input_that_changed_fails_the_batch_and_says_so() -> None:
    made = library()
    made.failing["copy_block"] = Refused("input_changed", "/in/text was changed")
    begun(made)
    assert made.batch().is_failing
    assert "/in/text was changed" in made.batch().reason
    made.failing.clear()
    made.work()
    assert not made.tables.datasets


def test_one_that_came_broken_is_sent_again_and_counted() -> None:
    made = library()
    assert isinstance(ask(made), Batch)
    first = next(e for e in made.tables.effects.values() if isinstance(e, CopyBlock))
    made.end(first, Refused("corrupted", "its checksum is wrong"))
    made.work()
    assert made.dataset("b.map").state == "ready"
    assert made.batch().resent == 1


def test_they_keep_no_node_on() -> None:
    made = library(nodes="ab")
    assert isinstance(ask(made), Batch)
    made.work()
    assert not any(made.read(replicas.is_needed, name) for name in "ab")
    made.lose("b")
    made.wait(70)
    assert not made.read(replicas.is_sole, "a")


def surveyed(made: Any) -> planner_inputs.Survey:
    """Return a look at all nodes."""
    survey: planner_inputs.Survey = made.read(planner_inputs.Survey)
    while not survey.go_on(made.now_us):
        made.state_of(WorkLimits).renew()
    return survey


def test_the_planner_is_told_where_they_lie() -> None:
    made = begun(library())
    survey = surveyed(made)
    (need,) = survey.of_batch(made.batch()).stages
    assert need.chunk_bytes == max(LENGTHS)
    assert sum(count for _, _, count in need.running) == len(LENGTHS)
    for index in range(len(LENGTHS)):
        made.exit(index, made.run(index), 3)
        made.told(index)
    parts = [s for s in surveyed(made).of_batch(made.batch()).stages if s.name == "map"]
    waiting = sum(task.state is TaskState.PENDING for task in made.tasks())
    assert waiting > 0
    assert sum(count for part in parts for *_, count in part.copies) == waiting
    assert all(set(nodes) <= set(part.nodes) for part in parts for nodes, *_ in part.copies)
    elsewhere = [part for part in parts if part.is_rest]
    assert elsewhere, "those that had to leave a node may read the other replica"
    assert all(nodes for part in elsewhere for nodes, *_ in part.copies)


def test_of_many_tasks_some_tell_where_all_of_them_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_inputs, "MOST_LOOKED", 2)
    made = begun(library())
    made.state_of(Index).tasks_by_stage["b", "map"].pending.update(range(len(LENGTHS)))
    asked: list[str] = []
    blocks = made.tables.blocks
    found = type(blocks).get

    def get(table: Any, key: str) -> Any:
        asked.append(key)
        return found(table, key)

    monkeypatch.setattr(type(blocks), "get", get)
    (rest,) = surveyed(made).of_batch(made.batch()).stages[:1]
    assert len([key for key in asked if "/" in key and key.startswith("d-")]) == 2
    assert sum(count for *_, count in rest.copies) == len(LENGTHS)


@pytest.mark.parametrize(
    ("made", "code", "told"),
    [
        (lambda: library(nodes="a"), "too_few_nodes", "2 replicas need as many nodes"),
        (lambda: Library(*_bare()), "no_tiers", "without replicas they are sent into"),
        (lambda: Library(*_small()), "no_room", "take 18MiB"),
        (lambda: Library(*_idle()), "no_tiers", "no node that lends has tiers"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_remedy(made: Any, code: str, told: str) -> None:
    library_ = made()
    for is_dry in (True, False):
        answer = ask(library_, is_dry=is_dry)
        assert is_refused(answer, code)
        assert told in answer.detail
        assert answer.fields[0].path == "replicas"
    assert not library_.tables.batches
    assert not library_.tables.datasets


def _bare() -> list[Any]:
    return [node(name, "nursery", **AGENT) for name in "ab"]


def _small() -> list[Any]:
    return [with_tiers(name, "ssd", mib=8, generation="nursery", **AGENT) for name in "ab"]


def _idle() -> list[Any]:
    kept = [with_tiers(name, "ssd", generation="nursery") for name in "ab"]
    return [*kept, node("c", "nursery", **AGENT)]


def test_people_cannot_remove_the_input_of_a_batch_or_take_its_name() -> None:
    made = begun(library())
    dataset = made.dataset("b.map")
    asked = ChangeDataset(at_us=0, request="x", dataset=dataset.id, verb="remove")
    (reply,) = [e for e in made.say(asked) if isinstance(e, Reply)]
    assert isinstance(reply.value, Problem)
    assert (reply.value.code, reply.value.status) == ("in_use", 409)
    assert "tenure batch cancel b" in reply.value.detail
    assert is_refused(made.put("b.map", 2), "name_taken")
    assert made.dataset("b.map") == dataset


def test_what_waits_for_its_first_copy_says_so() -> None:
    made = library()
    assert isinstance(ask(made), Batch)
    ((name, waiting, why),) = made.read(views.batch_waits, "b")
    assert (name, waiting) == ("map", len(LENGTHS))
    assert why.startswith("for a copy of their block that can be read, 4 of 4")
    made.work()
    assert made.read(views.batch_waits, "b") == []


def test_what_runs_on_a_node_that_does_not_answer_says_so() -> None:
    """A batch stood still for as long as nobody fenced the node, and nothing told why."""
    made = begun(library())
    task = made.task()
    made.lose(task.node)
    here = sum(one.place == task.node for one in made.tasks())
    ((name, waiting, why),) = made.read(views.batch_waits, "b")
    assert (name, waiting) == ("map", here)
    remedy = f"{task.node}, which does not answer, or `tenure node fence {task.node}`"
    assert why == f"for {remedy}"
    assert made.read(readings.explain, made.task())["reason"] == f"it waits for {remedy}"


def test_two_batches_at_once_do_not_take_the_same_room() -> None:
    """What was promised to the first is not offered to the second."""
    rooms = [with_tiers(name, "ssd", mib=12, generation="nursery", **AGENT) for name in "ab"]
    made = Library(*rooms, prefetch=OFF)
    assert isinstance(ask(made), Batch)
    second = SubmitBatch(
        at_us=0,
        request="c",
        batch="c",
        spec=BatchSpec("c", (over_file(),), replicas=2),
        chunks={"map": chunks()},
    )
    (reply,) = [e for e in made.say(second) if isinstance(e, Reply)]
    assert is_refused(reply.value, "no_room")


def test_a_dataset_of_people_may_stand_beside() -> None:
    made = library()
    made.put("logs", 4)
    made.work()
    dataset = made.dataset("logs")
    spec = dataset.spec
    given = DatasetInput(dataset.id, "logs", spec.blocks, spec.block_bytes, spec.size_bytes)
    begun(made, over_file(), stage("scan", 4, dataset=given))
    assert set(made.state_of(BlockIndex).names) == {"logs", "b.map"}
    made.say(CancelBatch(at_us=0, request="c", batch="b"))
    made.work()
    assert set(made.state_of(BlockIndex).names) == {"logs"}
