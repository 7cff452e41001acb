"""Prefetching in the core: what is copied ahead, how much at a time, and what becomes of it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest

from tenure.core.datasets import prefetch_inputs, prefetching
from tenure.core.state.params import PrefetchParams
from tenure.core.state.prefetch_state import Prefetches
from tenure.locality.localizer import Tiers
from tenure.model.batch import TaskState
from tenure.model.effects import Abort, CopyBlock
from tenure.model.events import CancelBatch
from tenure.model.locality import PrefetchAsk, PrefetchPlan, Taken
from tenure.model.outcome import Refused
from tenure.model.tier import TierKind, TierSpec
from tenure.model.units import US
from tests.unit.core.bench import Bench
from tests.unit.core.dispatch.test_core_task_inputs import Library, library
from tests.unit.core.lender import AGENT
from tests.unit.core.shelf import BLOCK, with_tiers

S = TaskState
ALL = PrefetchParams(policy="all", share=1.0)
KINDS = ("ssd", "hdd")


def shelved(blocks: int, *, prefetch: PrefetchParams = ALL, **put: Any) -> Library:
    made = library(prefetch=prefetch)
    made.put("logs", blocks, **({"tiers": (TierKind.HDD,)} | put))
    made.work()
    made.done.clear()
    return made


def lay(made: Library, name: str, homes: list[str]) -> None:
    """Have the copies of each block lie on two nodes, by SSD and HDD."""
    files = {key: row for disk in made.disks.values() for key, row in disk.items()}
    made.disks.update({(node, f"/mnt/{kind}"): dict(files) for node in "abc" for kind in KINDS})
    for block, nodes in zip(made.blocks(name), homes, strict=True):
        rows = zip(block.replicas, nodes, KINDS, strict=True)
        moved = tuple(dataclasses.replace(row, node=n, tier=kind) for row, n, kind in rows)
        made.store(dataclasses.replace(block, replicas=moved))


def counts(made: Library) -> dict[str, int]:
    return {word: count for word, count in made.state_of(Prefetches).counts.items() if count}


def copying(made: Library) -> list[CopyBlock]:
    return [e for e in made.tables.effects.values() if isinstance(e, CopyBlock)]


def run_all(made: Library) -> None:
    """Bring every task to its end, disks first."""
    for _ in range(200):
        made.work_now()
        busy = [t for t in made.tasks() if t.state is S.CREATING]
        if not busy:
            if made.batch().state == "succeeded":
                return
            made.wait(5)
            continue
        made.finish(busy[0].index)
    raise AssertionError("the batch does not end")


def test_blocks_of_tasks_that_wait_are_copied_into_memory_where_they_lie() -> None:
    made = shelved(40)
    made.scan("logs", 40)
    made.work_now()
    waiting = [t for t in made.tasks() if t.state is S.PENDING]
    held = [set(places) for places in made.places("logs")]
    assert waiting
    for task in waiting:
        nodes = {node for node, tier in held[task.number] if tier == "hdd"}
        cached = {node for node, tier in held[task.number] if tier == "memory"}
        assert cached
        assert cached <= nodes
    assert counts(made)["done"] == len(waiting)


def test_what_was_copied_ahead_is_read_and_counts_as_hits() -> None:
    made = shelved(24)
    made.scan("logs", 24)
    run_all(made)
    found = counts(made)
    ahead = made.state_of(Prefetches)
    assert found["hits"] == made.read_counts()["memory"] > 0
    assert found["hits"] + found.get("wasted", 0) + found.get("failed", 0) == found["done"]
    assert not ahead.courses
    assert not ahead.made
    assert not ahead.under_way


def test_no_more_copies_from_a_device_at_a_time_than_allowed() -> None:
    made = shelved(40, prefetch=PrefetchParams(policy="all", share=1.0, per_device=2))
    made.scan("logs", 40)
    places = Counter((e.source, e.source_path.rsplit("/tenure-", 1)[0]) for e in copying(made))
    assert places
    assert max(places.values()) <= 2


def test_the_budget_bounds_what_lies_in_memory_unread() -> None:
    made = shelved(60, prefetch=PrefetchParams(policy="all", share=0.05))
    made.scan("logs", 60)
    made.work_now()
    per_node = Counter(e.node for e in made.done if isinstance(e, CopyBlock))
    assert per_node
    assert all(count * BLOCK <= 400 * 2**20 * 0.05 for count in per_node.values())


def test_a_task_that_begins_before_its_copy_reads_the_base_and_the_copy_is_waste() -> None:
    made = shelved(40)
    made.scan("logs", 40)
    late = {e.owner.partition("@")[0].removeprefix("copy:") for e in copying(made)}
    assert late
    # no copy ends while everything that runs is finished, so that waiting tasks begin without
    for _ in range(40):
        busy = [t for t in made.tasks() if t.state is S.CREATING]
        if not busy:
            break
        made.finish(busy[0].index)
    key = made.dataset("logs").id
    read = {f"{key}/{t.number}": t.reading.tier for t in made.tasks() if t.reading}
    assert all(read[key] == "hdd" for key in late)
    made.work_now()
    made.wait(10)
    assert counts(made)["wasted"] >= len(late)


def test_a_cancelled_batch_copies_no_more() -> None:
    made = shelved(60, prefetch=PrefetchParams(policy="all", share=1.0, per_device=1))
    made.scan("logs", 60)
    begun = len(copying(made))
    assert made.state_of(Prefetches).courses["b/scan"].queue

    made.say(CancelBatch(at_us=0, request="c", batch="b"))
    made.work_now()
    made.wait(10)
    done = [e for e in made.done if isinstance(e, CopyBlock)]
    assert len(done) == begun
    assert counts(made)["dropped"] > 0
    assert counts(made)["wasted"] == begun
    assert not made.state_of(Prefetches).courses


def test_a_copy_that_fails_is_told_and_its_task_reads_elsewhere() -> None:
    made = shelved(12)
    made.failing["copy_block"] = Refused("tier_full", "no space left")
    made.scan("logs", 12)
    made.work_now()
    made.failing.clear()
    assert counts(made).get("failed", 0) > 0
    run_all(made)
    assert made.batch().state == "succeeded"


def test_off_means_off() -> None:
    made = shelved(40, prefetch=PrefetchParams(mode="off"))
    made.scan("logs", 40)
    assert copying(made) == []
    assert not made.state_of(Prefetches).courses


def test_the_search_copies_only_what_shortens_the_run() -> None:
    made = shelved(40, prefetch=PrefetchParams(share=1.0))
    made.scan("logs", 40, run_us=60 * US)
    found = made.state_of(Prefetches).courses["b/scan"]
    assert found.plans >= 1
    few = shelved(2, prefetch=PrefetchParams(share=1.0))
    few.scan("logs", 2)
    assert copying(few) == [], "both begin at once"


def test_a_dataset_that_is_asked_for_comes_into_memory() -> None:
    made = shelved(30, prefetch=PrefetchParams(mode="off", share=1.0))
    made.act(prefetching.order, made.dataset("logs"))
    made.wait(60)
    tiers = [{tier for _, tier in places} for places in made.places("logs")]
    assert all("memory" in row for row in tiers)
    assert not made.state_of(Prefetches).courses
    made.scan("logs", 30)
    run_all(made)
    reads = made.read_counts()
    assert reads["memory"] >= 27, "the last ones may find only a slot beside a disk free"
    assert sum(reads.values()) == 30 == reads["memory"] + reads["hdd"]
    assert counts(made)["hits"] == reads["memory"]
    made.check()


def test_a_dataset_that_just_fits_comes_into_memory_whole_and_level() -> None:
    """By the slowest copies alone some nodes are full while others have room, and half empty."""
    eight = TierSpec("memory", TierKind.MEMORY, "/mnt/memory", 8 * BLOCK)
    words: dict[str, Any] = {"generation": "nursery", **AGENT}
    specs = [with_tiers(name, "ssd", "hdd", **words) for name in "abc"]
    whole = [dataclasses.replace(spec, tiers=(eight, *spec.tiers)) for spec in specs]
    made = Library(*whole, prefetch=PrefetchParams(mode="off", share=1.0))
    made.put("logs", 24, tiers=(TierKind.SSD, TierKind.HDD))
    made.work()
    lay(made, "logs", ["cb"] * 8 + ["ba"] * 16)
    made.act(prefetching.order, made.dataset("logs"))
    made.wait(60)
    found = Counter(node for row in made.places("logs") for node, tier in row if tier == "memory")
    assert found == {"a": 8, "b": 8, "c": 8}
    made.check()


def test_tasks_are_held_back_for_copies_that_are_worth_it_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Bench, "make_localizer", Waiting)
    made = shelved(6, prefetch=PrefetchParams(share=1.0, is_waiting=True))
    made.scan("logs", 6)
    assert [t.state for t in made.tasks()] == [S.PENDING] * 6
    assert any(event.type == "prefetch.holds" for event in made.public)
    made.work_now()
    assert not [t for t in made.tasks() if t.state is S.PENDING], "as soon as they are there"
    assert made.read_counts() == {"memory": 6}


class Waiting(Tiers):
    """Has every job wait for half a minute for all that fits."""

    def plan(self, ask: PrefetchAsk) -> PrefetchPlan:
        found = super().plan(dataclasses.replace(ask, is_all=True))
        return dataclasses.replace(found, delay_us=30 * US if ask.may_wait else 0)


def test_what_cannot_begin_is_given_up() -> None:
    made = shelved(8, prefetch=PrefetchParams(mode="off", share=1.0))
    made.failing["copy_block"] = Refused("tier_full", "no space left")
    made.act(prefetching.order, made.dataset("logs"))
    made.wait(200)
    assert not made.state_of(Prefetches).courses
    assert not made.state_of(Prefetches).under_way
    assert counts(made)["failed"] > 0
    assert "done" not in counts(made)


def test_how_long_copies_take_corrects_later_predictions() -> None:
    made = shelved(40)
    made.scan("logs", 40)
    made.wait(3)
    told = made.localizer.told()
    assert told["measured"] > 0


class Noting(Tiers):
    """Keeps what it planned, and what it was told of tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.plans: list[PrefetchPlan] = []
        self.taken: list[Taken] = []

    def plan(self, ask: PrefetchAsk) -> PrefetchPlan:
        self.plans.append(super().plan(ask))
        return self.plans[-1]

    def learn_task(self, course: str, taken: Taken) -> None:
        assert course == "b/scan"
        self.taken.append(taken)
        super().learn_task(course, taken)


def test_how_long_tasks_took_corrects_what_the_estimate_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task is estimated at a second, and computes for a minute on top of what it reads."""
    monkeypatch.setattr(Bench, "make_localizer", Noting)
    made = shelved(40, prefetch=PrefetchParams(share=1.0))
    told = made.localizer
    assert isinstance(told, Noting)
    made.scan("logs", 40, run_us=US)
    before = told.plans[-1]
    for task in [t for t in made.tasks() if t.state is S.CREATING][:4]:
        create = made.run(task.index)
        made.wait(60)
        made.exit(task.index, create, 0)
        made.end(made.open_of("collect", task.index))
    made.wait(30)
    assert len(told.taken) == 4
    assert all(60 * US <= taken.took_us < 70 * US for taken in told.taken)
    assert {taken.length for taken in told.taken} == {BLOCK}
    assert len(told.plans) > 1
    assert told.plans[-1].without_us > before.without_us + 60 * US
    assert told._computing
    made.say(CancelBatch(at_us=0, request="c", batch="b"))
    made.wait(10)
    assert not made.state_of(Prefetches).courses
    assert not told._computing, "nobody asks for it any more"


def test_of_tasks_whose_node_or_batch_is_gone_by_now_nothing_is_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Bench, "make_localizer", Noting)
    made = shelved(8)
    told = made.localizer
    assert isinstance(told, Noting)
    made.scan("logs", 8)
    made.finish(0)
    known = len(told.taken)
    task = made.tasks()[0]
    assert made.read(prefetch_inputs.taken_by, task) is not None
    for gone in ({"node": "z"}, {"batch": "z"}, {"reading": None}, {"finished_us": None}):
        assert made.read(prefetch_inputs.taken_by, dataclasses.replace(task, **gone)) is None
    made.state_of(Prefetches).ended += ["z/0", task.key]
    made.state_of(Prefetches).courses.clear()
    made.act(prefetching.settle)
    assert not made.state_of(Prefetches).ended
    assert len(told.taken) == known


def test_a_restart_plans_anew() -> None:
    made = shelved(40)
    made.scan("logs", 40)
    made.restart()
    assert not made.state_of(Prefetches).under_way
    for name in "abc":
        made.connect_again(name)
        made.listed(name)
        made.guard(name)
    made.work()
    made.wait(30)
    run_all_after_restart = [t.state for t in made.tasks()]
    assert run_all_after_restart
    made.check()


def aborted(made: Library) -> list[str]:
    return [effect.effect for effect in made.effects if isinstance(effect, Abort)]


def test_copies_under_way_that_nobody_waits_for_any_more_are_cancelled() -> None:
    made = shelved(60, prefetch=PrefetchParams(policy="all", share=1.0, per_device=1))
    made.scan("logs", 60)
    begun = {effect.id: effect for effect in copying(made)}
    assert begun
    assert not aborted(made)
    made.say(CancelBatch(at_us=0, request="c", batch="b"))
    assert set(aborted(made)) == set(begun), "each of them, once"
    for effect in begun.values():
        made.end(effect, Refused("aborted", "it was given up"))
    made.wait(10)
    assert counts(made)["cancelled"] == len(begun)
    assert not counts(made).get("failed")
    assert not made.state_of(Prefetches).under_way
    assert all({tier for _, tier in places} == {"hdd"} for places in made.places("logs"))
    assert not any(block.mishaps or block.note for block in made.blocks("logs"))
    assert sorted(aborted(made)) == sorted(begun)
    made.check()


def test_a_copy_that_was_cancelled_too_late_is_memory_like_any_other() -> None:
    made = shelved(60, prefetch=PrefetchParams(policy="all", share=1.0, per_device=1))
    made.scan("logs", 60)
    begun = copying(made)
    made.say(CancelBatch(at_us=0, request="c", batch="b"))
    made.work_now()
    made.wait(10)
    found = counts(made)
    assert found["wasted"] == found["done"] == len(begun)
    assert not found.get("cancelled")
    made.check()


def test_a_copy_that_another_batch_waits_for_is_not_cancelled() -> None:
    made = shelved(60, prefetch=PrefetchParams(policy="all", share=1.0, per_device=1))
    made.scan("logs", 60)
    assert copying(made)
    made.change("prefetch", made.dataset("logs").id)
    made.say(CancelBatch(at_us=0, request="c", batch="b"))
    assert not aborted(made)
