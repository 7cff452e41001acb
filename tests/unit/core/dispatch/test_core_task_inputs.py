"""Tasks over datasets: where they run, what they read, what is pinned, brought and told."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tenure.core.dispatch import task_inputs
from tenure.core.state.params import Params, PrefetchParams
from tenure.core.state.prefetch_state import Prefetches
from tenure.model.batch import Batch, StageSpec, Task, TaskState
from tenure.model.effects import CopyBlock, CreateContainer
from tenure.model.events import CancelBatch
from tenure.model.outcome import Done, Refused
from tenure.model.reading import DatasetInput
from tenure.model.resources import Resources
from tenure.model.tier import TierKind
from tenure.model.units import MIB, US
from tests.unit.core.lender import AGENT, Lender, stage
from tests.unit.core.shelf import Shelf, with_tiers

S = TaskState
OFF = PrefetchParams(mode="off")


class Library(Shelf, Lender):
    """Nodes with tiers that lend, and batches over their datasets."""

    def __init__(self, *nodes: Any, **params: Any) -> None:
        words: dict[str, Any] = {"min_on": {}, "replica_lost_us": 60 * US, "prefetch": OFF}
        super().__init__(*nodes, params=Params(**(words | params)))
        for spec in nodes:
            self.guard(spec.name)

    def over(self, name: str, count: int, **more: Any) -> StageSpec:
        """Return a stage over a dataset."""
        dataset = self.dataset(name)
        spec = dataset.spec
        given = DatasetInput(dataset.id, name, spec.blocks, spec.block_bytes, spec.size_bytes)
        return stage("scan", count, dataset=given, **more)

    def scan(self, name: str, count: int, **more: Any) -> Any:
        """Submit a batch over a dataset that is there."""
        return self.lend("b", self.over(name, count, **more))

    def tasks(self) -> list[Task]:
        found: list[Task] = sorted(self.tables.tasks.values(), key=lambda task: task.index)
        return found

    def where(self) -> list[tuple[str, str]]:
        """Return node and tier of the copy that each task reads."""
        return [(t.node, t.reading.tier if t.reading else "") for t in self.tasks()]

    def pins(self, name: str) -> list[tuple[str, ...]]:
        return [block.pins for block in self.blocks(name)]

    def cache(self, name: str, numbers: range) -> None:
        """Have blocks in memory on the first of the nodes that hold them."""
        from tenure.core.datasets import copies

        for number in numbers:
            block = self.blocks(name)[number]
            assert self.act(copies.cache, block, block.replicas[0].node)
            self.work()


def library(*tiers: str, nodes: str = "abc", **params: Any) -> Library:
    kinds = tiers or ("memory", "ssd", "hdd")
    specs = [with_tiers(name, *kinds, generation="nursery", **AGENT) for name in nodes]
    return Library(*specs, **params)


def filled(blocks: int = 4, **put: Any) -> Library:
    made = library()
    made.put("logs", blocks, **put)
    made.work()
    assert made.dataset("logs").state == "ready"
    return made


def test_each_task_reads_its_block_on_its_own_node() -> None:
    made = filled(4)
    assert isinstance(made.scan("logs", 4), Batch)
    held = made.places("logs")
    for task, places in zip(made.tasks(), held, strict=True):
        assert task.state is S.CREATING
        assert task.reading is not None
        assert (task.node, task.reading.tier) in places


def test_the_block_is_mounted_read_only_where_chunks_are() -> None:
    made = filled(1)
    made.scan("logs", 1)
    create = made.open_of("create")
    (mount,) = create.body["HostConfig"]["Mounts"]
    assert mount["Type"] == "bind"
    assert mount["ReadOnly"] is True
    assert mount["Target"] == "/tenure/in/chunk"
    task = made.task()
    assert task.reading is not None
    disk = made.disks[task.node, f"/mnt/{task.reading.tier}"]
    assert mount["Source"].removeprefix(f"/mnt/{task.reading.tier}/") in disk


def test_memory_is_read_before_ssd_before_hdd() -> None:
    made = filled(3, replicas=2, tiers=(TierKind.SSD, TierKind.HDD))
    made.cache("logs", range(1))
    made.scan("logs", 3)
    kinds = Counter(task.reading.kind for task in made.tasks() if task.reading)
    assert kinds == {TierKind.MEMORY: 1, TierKind.SSD: 2}
    assert made.read_counts() == {"memory": 1, "ssd": 2}
    costs = [task.reading.cost for task in made.tasks() if task.reading]
    assert sorted(costs)[0] == 1000


def test_a_block_is_pinned_until_its_task_is_over() -> None:
    made = filled(1)
    made.scan("logs", 1)
    assert made.pins("logs") == [("b/0",)]
    made.finish(0)
    assert made.pins("logs") == [()]
    assert made.batch().state == "succeeded"


def test_a_new_attempt_reads_the_copy_that_is_best_then() -> None:
    made = filled(1, replicas=2)
    made.scan("logs", 1)
    first = made.where()
    made.end(made.open_of("create"), Refused("bad_request", "bind source path does not exist"))
    made.work()
    assert made.task().mishaps == 1, "the fleet's doing, not its own"
    made.wait(30)
    assert made.task().attempt == 2
    assert made.task().reading is not None
    assert made.where()[0] in made.places("logs")[0]
    assert first[0] in made.places("logs")[0]
    assert made.pins("logs") == [("b/0",)]


def test_a_command_that_cannot_be_started_costs_a_retry_from_the_second_time_on() -> None:
    made = filled(1, replicas=2)
    made.scan("logs", 1)
    told = []
    for number in range(2):
        made.end(made.open_of("create"), Done(f"c-{number}"))
        made.end(made.open_of("send"))
        made.end(made.open_of("start"), Refused("start_failed", "exec: no such file or directory"))
        told.append((made.task().mishaps, made.task().failures))
        (retire,) = [e for e in made.tables.effects.values() if e.kind == "retire"]
        made.end(retire)
        made.work()
        made.wait(30)
    assert told == [(1, 0), (1, 1)]


def test_with_fewer_slots_than_tasks_the_cheapest_go_first() -> None:
    made = filled(20, replicas=2)
    made.cache("logs", range(16, 20))
    made.scan("logs", 20)
    placed = [task.index for task in made.tasks() if task.state is S.CREATING]
    assert {16, 17, 18, 19} <= set(placed)
    assert len(placed) < 20


def test_a_block_is_brought_where_no_node_that_holds_it_is_free_soon() -> None:
    made = library(nodes="ab")
    made.put("logs", 1, replicas=1)
    made.work()
    ((holder, _),) = made.places("logs")[0]
    other = "b" if holder == "a" else "a"
    made.guard(holder, mode="off")  # it lends no more
    made.scan("logs", 1)
    sent = [e for e in made.tables.effects.values() if isinstance(e, CopyBlock)]
    assert [(e.source, e.node) for e in sent] == [(holder, other)]
    assert made.task().state is S.PENDING
    made.work()
    assert made.task().node == other
    reading_ = made.task().reading
    assert reading_ is not None
    assert reading_.is_brought
    made.finish(0)
    made.work()
    assert [{node for node, _ in rows} for rows in made.places("logs")] == [{holder}], "not kept"
    made.check()


def test_nothing_is_brought_any_more_for_a_batch_that_was_cancelled() -> None:
    made = library(nodes="ab")
    made.put("logs", 1, replicas=1)
    made.work()
    ((holder, _),) = made.places("logs")[0]
    made.guard(holder, mode="off")
    made.scan("logs", 1)
    assert made.state_of(Prefetches).brought
    made.say(CancelBatch(at_us=0, request="c", batch="b"))
    assert made.batch().is_over
    assert not made.state_of(Prefetches).brought, "surplus copies would stay for good"
    made.work()


def test_nothing_is_brought_while_a_slot_beside_the_copy_is_free_soon() -> None:
    made = library(nodes="ab")
    made.put("logs", 12, replicas=1)
    made.work()
    made.scan("logs", 12, run_us=US)
    assert not [e for e in made.done if isinstance(e, CopyBlock) and e.source]
    busy = [task for task in made.tasks() if task.state is S.PENDING]
    assert busy, "some wait"


def test_a_block_that_nobody_can_read_keeps_its_task_waiting() -> None:
    made = library(nodes="ab")
    made.put("logs", 1, replicas=1)
    made.work()
    ((holder, _),) = made.places("logs")[0]
    made.lose(holder)
    made.scan("logs", 1)
    assert made.task().state is S.PENDING
    assert {c.cost for c in made.read(task_inputs.choices, made.task())} == {100_000}
    made.find(holder)
    made.guard(holder)
    made.wait(2)
    assert made.task().node == holder, "the plan was made anew"


def test_of_many_tasks_whose_blocks_nobody_can_read_some_are_looked_at_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The only one that can be read is the last: it is found all the same."""
    made = library(nodes="ab")
    made.put("logs", 40, replicas=1)
    made.work()
    for block in made.blocks("logs"):
        made.store(replace(block, broken=tuple(f"{r.node}/{r.tier}" for r in block.replicas)))
    batch = made.scan("logs", 40)
    assert isinstance(batch, Batch)
    (stage,) = batch.spec.stages
    made.store(replace(made.blocks("logs")[-1], broken=()))
    monkeypatch.setattr(task_inputs, "MOST_LOOKED", 7)
    looked: list[int] = []
    real = task_inputs.look_at

    def counted(ctx: Any, stage: StageSpec, task: Task) -> Any:
        looked.append(task.index)
        return made.read(real, stage, task)

    monkeypatch.setattr(task_inputs, "look_at", counted)
    rounds = [
        [w.task.index for w in made.read(task_inputs._waiting, batch, stage)] for _ in range(6)
    ]
    assert rounds == [[], [], [], [], [], [39]]
    assert looked[:40] == list(range(40)), "each in its turn"
    assert not made.state_of(Prefetches).cursors, "the first are looked at first again"


def test_a_lost_node_costs_no_data_with_two_replicas() -> None:
    made = filled(6, replicas=2)
    made.scan("logs", 6)
    made.lose("a")
    made.wait(90)
    assert made.nodes_of("logs") == [{"b", "c"}] * 6


def test_the_choices_of_a_task_are_told_with_their_costs() -> None:
    made = filled(2, replicas=2)
    made.scan("logs", 2)
    found = made.read(task_inputs.choices, made.task())
    assert [choice.cost for choice in found] == sorted(choice.cost for choice in found)
    assert len(found) == 3
    assert found[0].node in {node for node, _ in made.places("logs")[0]}


def test_a_removed_dataset_ends_its_batch_with_the_reason() -> None:
    made = filled(20)
    key = made.dataset("logs").id
    made.scan("logs", 20)
    made.change("remove", key)
    made.work()
    found = made.batch()
    assert found.is_failing or found.state == "failed"
    assert "logs" in found.reason


def test_pins_outlive_a_restart_and_what_was_placed_goes_on() -> None:
    made = filled(2)
    made.scan("logs", 2)
    before = made.where()
    made.restart()
    assert made.where() == before
    assert all(made.pins("logs"))


@pytest.mark.parametrize("field", ["dataset", "reading"])
def test_records_of_before_datasets_are_read(field: str) -> None:
    assert dataclasses.fields(StageSpec if field == "dataset" else Task)
    assert getattr(stage() if field == "dataset" else Task("b", 0, "s", 0), field) is None


def test_pins_of_readers_that_are_no_more_go_with_a_restart() -> None:
    made = filled(1)
    (block,) = made.blocks("logs")
    stale = dataclasses.replace(block, pins=("gone/0",))
    made.records["blocks"][block.key] = stale
    made.restart()
    assert made.pins("logs") == [()]


def test_containers_of_other_stages_have_no_mount() -> None:
    made = library()
    made.lend("b", stage("plain", 1))
    create: CreateContainer = made.open_of("create")
    assert "Mounts" not in create.body["HostConfig"]


def test_eighty_tasks_on_ten_nodes_begin_together_beside_copies_in_memory() -> None:
    """The last of them alone have their blocks in memory, so all have to be looked at at once."""
    made = library(nodes="abcdefghij", preparing=8)
    made.put("logs", 80)
    made.work()
    made.cache("logs", range(60, 80))
    made.scan("logs", 80, request=Resources(400, 16 * MIB))
    read = [task.reading for task in made.tasks() if task.reading is not None]
    slots = 10 * 4
    assert len(read) == slots, "as many as there are slots"
    cached = [task for task in made.tasks()[60:] if task.reading is not None]
    assert [task.reading.tier for task in cached if task.reading] == ["memory"] * 20
