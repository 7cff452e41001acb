"""Tasks that are held back are found so once, and looked at again when that may be over."""

from __future__ import annotations

from typing import Any

from tenure.core.attempts.tasks import TASKS
from tenure.core.dispatch import backoff
from tenure.core.state.indexes import Index
from tenure.model.batch import TaskState
from tenure.model.events import EffectEnded, Tick
from tenure.model.outcome import Done
from tenure.model.units import US
from tests.unit.core.lender import Lender, lender, lends, stage

S = TaskState
#: One node has room for all of them.
COUNT = 3


def _ended(bench: Lender) -> list[int]:
    """Have a node's tasks end for its owners; return them. Their containers stay for now."""
    bench.lend("b", stage(count=COUNT, run_us=1000 * US))
    there = [index for index in range(COUNT) if bench.task(index).node == "n"]
    for index in there:
        bench.run(index)
    bench.guard("n", mode="off")
    for index in there:
        bench.act(TASKS.reclaim, bench.task(index), "a test")
    bench.say(Tick(at_us=0))
    assert there
    assert all(bench.task(index).state is S.PENDING for index in there)
    return there


def _stage_tasks(bench: Lender) -> Any:
    return bench.state_of(Index).tasks_by_stage["b", "map"]


def _removed(bench: Lender, index: int) -> None:
    tombstone = bench.tables.tombstones[f"b/{index}/1"]
    bench.say(EffectEnded(at_us=0, effect=tombstone.effect, outcome=Done()), after_us=1)


def test_whoever_is_held_back_is_gone_through_once_until_its_container_is_gone() -> None:
    bench = lender()
    there = _ended(bench)
    bench.say(Tick(at_us=0), after_us=60 * US)  # their pauses are over, their containers are not
    assert list(bench.read(backoff.placeable, "b", "map")) == []
    assert set(_stage_tasks(bench).held) == set(there)
    assert list(_stage_tasks(bench).waiting()) == []
    _removed(bench, there[-1])
    assert bench.task(there[-1]).node == "m"
    assert set(_stage_tasks(bench).held) == set(there[:-1])
    for index in there[:-1]:
        _removed(bench, index)
    assert {bench.task(index).state for index in range(COUNT)} == {S.CREATING}


def test_a_pause_that_somebody_found_ends_by_itself() -> None:
    bench = lender(retry_us=20 * US)
    there = _ended(bench)
    for index in there:
        _removed(bench, index)
    assert list(bench.read(backoff.placeable, "b", "map")) == []
    assert set(_stage_tasks(bench).held) == set(there)
    due_us = bench.state.wakeup_us()
    assert due_us is not None
    bench.say(Tick(at_us=0), after_us=20 * US)
    assert {bench.task(index).node for index in there} == {"m"}
    assert not _stage_tasks(bench).held


def test_a_restart_knows_who_waits_though_nobody_looks() -> None:
    bench = lender(lends("n"), lends("m"), retry_us=20 * US)
    there = _ended(bench)
    for index in there:
        _removed(bench, index)
    bench.restart()
    for name in ("n", "m"):
        bench.connect_again(name)
        bench.listed(name)
    bench.guard("m")
    bench.say(Tick(at_us=0), after_us=20 * US)
    assert {bench.task(index).node for index in there} == {"m"}
