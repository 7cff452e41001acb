"""Datasets whose blocks lie in HDFS: linked, located, matched, read from where they are."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.blocks import external, replicas
from tenure.core.dispatch import task_inputs
from tenure.core.state.params import Params
from tenure.core.state.prefetch_state import Prefetches
from tenure.model.batch import BatchState, StageSpec, TaskState
from tenure.model.dataset import Dataset, DatasetFile, DatasetSpec, DatasetState
from tenure.model.effects import LocateBlocks, Reply
from tenure.model.errors import Problem
from tenure.model.events import ChangeDataset, EffectEnded, PutDataset, Tick
from tenure.model.external import Layout, OuterBlock, Spot
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.reading import DatasetInput
from tenure.model.tier import TierKind
from tenure.model.units import MIB, US
from tests.unit.core.bench import node
from tests.unit.core.lender import AGENT, Lender, lends, stage

M, S, H = TierKind.MEMORY, TierKind.SSD, TierKind.HDD
BLOCK = 128 * MIB
D = DatasetState


def layout(*spots: tuple[Spot, ...] | str) -> Layout:
    """Return a layout of one file whose blocks have these copies, or this fault."""
    rows = [
        OuterBlock(
            0, i * BLOCK, BLOCK, () if isinstance(s, str) else s, s if type(s) is str else ""
        )
        for i, s in enumerate(spots)
    ]
    return Layout(tuple(rows), "http://nn1:9870", "hdfs user")


class Lake(Lender):
    """Nodes that lend, and files in HDFS."""

    def __init__(self, *nodes: Any, **params: Any) -> None:
        specs = nodes or (lends("n1"), lends("n2"), lends("n3"))
        super().__init__(*specs, params=Params(min_on={}, **params))
        for spec in specs:
            self.connect(spec.name)
            self.guard(spec.name)

    def link(self, found: Layout, name: str = "logs", *, mtime: int = 1) -> Any:
        size = sum(block.length for block in found.blocks)
        file = DatasetFile("", size, mtime, len(found.blocks))
        spec = DatasetSpec(name, "hdfs://lake/logs", (file,), BLOCK, 0, source="lake")
        self._requests += 1
        words: dict[str, Any] = {"request": f"r{self._requests}", "dataset": f"d-{self._requests}"}
        return self._reply(self.say(PutDataset(at_us=0, spec=spec, layout=found, **words)))

    def change(self, verb: str, key: str = "logs") -> Any:
        """Return the reply, None where there is none yet."""
        self._requests += 1
        dataset = self.read(replicas.dataset_of, key)
        assert dataset is not None
        words: dict[str, Any] = {"request": f"r{self._requests}", "dataset": dataset.id}
        found = self.say(ChangeDataset(at_us=0, verb=verb, **words))
        values = [e.value for e in found if isinstance(e, Reply)]
        return values[0] if values else None

    def dataset(self) -> Dataset:
        found = self.read(replicas.dataset_of, "logs")
        assert found is not None
        return found

    def over(self, count: int, **more: Any) -> StageSpec:
        spec = self.dataset().spec
        given = DatasetInput(self.dataset().id, "logs", spec.blocks, BLOCK, spec.size_bytes, True)
        return stage("scan", count, dataset=given, **more)

    def looks(self) -> list[LocateBlocks]:
        return [effect for effect in self.effects if isinstance(effect, LocateBlocks)]

    def answer(self, outcome: Outcome) -> list[Any]:
        return self.say(EffectEnded(at_us=0, effect=self.looks()[-1].id, outcome=outcome))

    def pass_s(self, seconds: float) -> None:
        self.say(Tick(at_us=0), after_us=int(seconds * US))

    def where(self) -> list[tuple[str, str]]:
        rows = sorted(self.tables.tasks.values(), key=lambda task: task.index)
        return [(t.node, t.reading.word if t.reading else "") for t in rows]


def test_linked_it_is_ready_and_located_by_the_interface_of_all_datasets() -> None:
    lake = Lake()
    made = lake.link(layout((Spot("n1", S), Spot("n2.example", H)), (Spot("dn9", M),)))
    assert (made.state, made.spec.blocks) == (D.READY, 2)
    rows = list(lake.read(replicas.locations, lake.dataset()))
    assert [[(p.node, p.kind) for p in places] for _, places in rows] == [
        [("n1", S), ("n2", H)],
        [],
    ], "dn9 is no node of ours"
    assert [r.node for r in rows[1][0].replicas] == ["dn9"]
    assert {p.path for _, places in rows for p in places} == {"hdfs://lake/logs"}
    assert not lake.looks(), "what was found while it was linked counts"


def test_a_restart_forgets_where_blocks_lie_and_looks_again() -> None:
    lake = Lake()
    lake.link(layout((Spot("n1", S),)))
    lake.restart()
    assert list(lake.read(replicas.locations, lake.dataset())) == []
    assert lake.change("locate") is None, "answered when the look has ended"
    (effect,) = lake.looks()
    assert (effect.source, effect.root) == ("lake", "hdfs://lake/logs")
    assert effect.files == lake.dataset().spec.files
    (reply,) = [e for e in lake.answer(Done(layout=layout((Spot("n2", H),)))) if e.kind == "reply"]
    assert isinstance(reply.value, Dataset)
    assert [p for _, places in lake.read(replicas.locations, lake.dataset()) for p in places] == []
    for name in ("n1", "n2", "n3"):
        lake.connect_again(name)
        lake.listed(name)
    ((_, (place,)),) = lake.read(replicas.locations, lake.dataset())
    assert place.node == "n2", "which answers again"
    assert isinstance(lake.change("locate"), Dataset), "known well enough"
    assert len(lake.looks()) == 1


def test_tasks_run_on_the_fastest_copies_and_are_told_of_their_blocks() -> None:
    lake = Lake()
    lake.link(layout((Spot("n1", S), Spot("n2", H)), (Spot("n2", H), Spot("n3", M))))
    lake.lend("b", lake.over(2))
    assert lake.where() == [("n1", "ssd"), ("n3", "memory")]
    task = lake.task(1)
    assert task.reading is not None
    assert (task.reading.offset, task.reading.length) == (BLOCK, BLOCK)
    body = lake.open_of("create", 1).body
    assert "Mounts" not in body["HostConfig"], "they are not ours to mount"
    told = dict(row.split("=", 1) for row in body["Env"])
    assert told["TENURE_BLOCK_URI"] == "hdfs://lake/logs"
    assert told["TENURE_BLOCK_OFFSET"] == told["TENURE_BLOCK_LENGTH"] == str(BLOCK)
    assert told["TENURE_BLOCK_URL"] == (
        f"http://nn1:9870/webhdfs/v1/logs?op=OPEN&offset={BLOCK}&length={BLOCK}"
        "&user.name=hdfs%20user"
    )
    lake.finish(0)
    lake.finish(1)
    assert lake.batch().state is BatchState.SUCCEEDED


def test_without_a_copy_on_a_node_of_ours_it_is_read_from_anywhere_at_once() -> None:
    lake = Lake()
    lake.link(layout((Spot("dn9", H),), ()))
    lake.lend("b", lake.over(2))
    assert [word for _, word in lake.where()] == ["remote", "remote"]
    assert lake.read_counts() == {"remote": 2}


def crowded(run_us: int) -> tuple[Lake, int]:
    """Return two nodes, a batch over more blocks of the first than it has slots, and these."""
    lake = Lake(lends("n1"), lends("n2"))
    lake.link(layout(*([(Spot("n1", H),)] * 4)))
    scan = lake.over(4, run_us=run_us)
    slots = lake.read(task_inputs.seats_for, scan).free[0]
    assert 0 < slots < 4
    lake.lend("b", scan)
    return lake, slots


def test_what_cannot_begin_beside_its_copy_soon_is_read_from_afar() -> None:
    lake, slots = crowded(10 * US)
    words = [word for _, word in lake.where()]
    assert (words.count("hdd"), words.count("remote")) == (slots, 4 - slots)
    assert {node for node, word in lake.where() if word == "remote"} == {"n2"}


def test_a_slot_beside_the_copy_is_awaited_no_longer_than_reading_from_afar_takes() -> None:
    lake, slots = crowded(US // 10)
    words = [word for _, word in lake.where()]
    assert (words.count("hdd"), words.count("")) == (slots, 4 - slots), "one frees in a moment"
    lake.pass_s(2)
    words = [word for _, word in lake.where()]
    assert (words.count("hdd"), words.count("remote")) == (slots, 4 - slots), "but did not"
    assert not lake.state_of(Prefetches).patience_us


def test_faulty_blocks_wait_until_another_look_finds_them() -> None:
    lake = Lake()
    lake.link(layout("HDFS has no live datanode that holds it"))
    lake.lend("b", lake.over(1))
    assert lake.where() == [("", "")]
    assert lake.task().state is TaskState.PENDING
    lake.pass_s(61)
    lake.answer(Done(layout=layout((Spot("n1", S),))))
    assert lake.where() == [("n1", "ssd")]


def test_old_locations_match_nothing() -> None:
    lake = Lake()
    lake.link(layout((Spot("n1", S),)))
    lake.pass_s(61)
    lake.lend("b", lake.over(1))
    assert lake.where() == [("", "")]
    lake.answer(Done(layout=layout((Spot("n3", S),))))
    assert lake.where() == [("n3", "ssd")]
    assert len(lake.looks()) == 1


def test_an_hdfs_that_is_away_is_asked_again_and_tasks_wait() -> None:
    lake = Lake()
    lake.link(layout((Spot("n1", S),)))
    lake.pass_s(61)
    lake.lend("b", lake.over(1))
    lake.answer(Refused("unreachable", "no name node can tell"))
    assert lake.dataset().state is D.READY
    assert [e.type for e in lake.public if e.type.startswith("dataset.")][-1] == (
        "dataset.not_located"
    )
    refused = lake.change("locate")
    assert isinstance(refused, Problem)
    assert (refused.code, refused.status) == ("hdfs_unavailable", 503)
    assert "no name node can tell" in refused.detail
    assert len(lake.looks()) == 1, "not again at once"
    lake.pass_s(11)
    assert len(lake.looks()) == 2
    lake.answer(Done(layout=layout((Spot("n1", S),))))
    assert lake.where() == [("n1", "ssd")]
    assert lake.public[-1].type != "dataset.not_located"


@pytest.mark.parametrize("code", ["input_changed", "no_input"])
def test_files_that_changed_fail_what_reads_them_until_they_are_the_same_again(code: str) -> None:
    lake = Lake()
    lake.link(layout((Spot("n1", S),)))
    lake.pass_s(61)
    lake.lend("b", lake.over(1))
    lake.answer(Refused(code, "a.log has changed"))
    assert (lake.dataset().state, lake.dataset().reason) == (D.FAILED, "a.log has changed")
    batch = lake.batch()
    assert batch.state is BatchState.FAILED
    assert "a.log has changed" in batch.reason
    refused = lake.lend("c", lake.over(1))
    assert isinstance(refused, Problem)
    assert (refused.code, refused.status) == ("input_changed", 409)
    lake.pass_s(11)
    lake.change("locate")
    lake.answer(Done(layout=layout((Spot("n1", S),))))
    assert (lake.dataset().state, lake.dataset().reason) == (D.READY, "")


def test_the_same_files_are_the_same_dataset_and_others_are_refused() -> None:
    lake = Lake()
    first = lake.link(layout((Spot("n1", S),)))
    again = lake.link(layout((Spot("n2", S),)))
    assert again.id == first.id
    ((_, (place,)),) = lake.read(replicas.locations, lake.dataset())
    assert place.node == "n2"
    other = lake.link(layout((Spot("n2", S),)), mtime=2)
    assert isinstance(other, Problem)
    assert (other.code, other.status) == ("name_taken", 409)
    spec = DatasetSpec("logs", "/srv/logs", (DatasetFile("", 1, 1),), BLOCK)
    taken = lake._reply(lake.say(PutDataset(at_us=0, request="x", dataset="d-x", spec=spec)))
    assert isinstance(taken, Problem)
    assert taken.code == "name_taken"


@pytest.mark.parametrize("verb", ["pin", "unpin", "prefetch", "verify"])
def test_what_is_not_ours_is_not_kept_by_us(verb: str) -> None:
    lake = Lake()
    lake.link(layout((Spot("n1", S),)))
    refused = lake.change(verb)
    assert isinstance(refused, Problem)
    assert (refused.code, refused.status) == ("external", 409)
    assert not lake.dataset().is_pinned


def test_removed_it_leaves_nothing_and_fails_what_reads_it() -> None:
    lake = Lake()
    lake.link(layout("corrupt"))
    lake.lend("b", lake.over(1))
    lake.pass_s(61)
    assert lake.change("locate") is None
    found = lake.say(ChangeDataset(at_us=0, request="rm", dataset=lake.dataset().id, verb="remove"))
    codes = [getattr(e.value, "code", "") for e in found if isinstance(e, Reply)]
    assert codes == ["removing", ""], "who waits for a look is told"
    lake.pass_s(1)
    assert not dict(lake.tables.datasets.items())
    assert not lake.state_of(external.Outlooks).by_dataset
    assert lake.batch().state is BatchState.FAILED
    lake.answer(Done(layout=layout((Spot("n1", S),))))  # late, and nobody's any more
    assert lake.act(external.on_end, "e0", Done()) is False


def test_limits_are_those_of_all_datasets() -> None:
    lake = Lake(max_blocks=1)
    refused = lake.link(layout((), ()))
    assert isinstance(refused, Problem)
    assert refused.code == "too_many_blocks"
    lake = Lake(max_datasets=1)
    lake.link(layout(()))
    refused = lake.link(layout(()), "more")
    assert isinstance(refused, Problem)
    assert refused.code == "too_many_datasets"


def test_nodes_without_tiers_read_too() -> None:
    lake = Lake(node("n1", "nursery", **AGENT))
    assert not lake.tables.nodes["n1"].spec.tiers
    lake.link(layout((Spot("n1", H),)))
    lake.lend("b", lake.over(1))
    assert lake.where() == [("n1", "hdd")]
