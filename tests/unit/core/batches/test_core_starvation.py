"""Tasks that owners leave no CPU begin anew where there is some."""

from __future__ import annotations

from tenure.core.nodes import harvestable
from tenure.model.batch import TaskState
from tenure.model.events import EffectEnded, Tick
from tenure.model.outcome import Done
from tenure.model.units import US
from tests.unit.core.asking import asking
from tests.unit.core.lender import lends, stage

S = TaskState


def test_tasks_without_cpu_begin_anew_where_there_is_some() -> None:
    bench = asking()
    bench.submit_batch("b", stage(count=2, run_us=600 * US))
    bench.answer()
    for index in range(2):
        bench.run(index)
    home = {bench.task(index).node: index for index in range(2)}
    starved = home["n"]
    bench.guard("n", is_at_floor=True)
    bench.say(Tick(at_us=0), after_us=59 * US)
    assert bench.task(starved).attempt == 1
    bench.say(Tick(at_us=0), after_us=2 * US)
    task = bench.task(starved)
    assert (task.attempt, bench.batch().reclaimed, bench.batch().retried) == (2, 1, 0)
    assert "no CPU" in task.note
    node = bench.tables.nodes["n"]
    assert "left no CPU" in bench.read(harvestable.objection, node)
    tombstone = bench.tables.tombstones[f"b/{starved}/1"]
    bench.say(EffectEnded(at_us=0, effect=tombstone.effect, outcome=Done()))
    bench.say(Tick(at_us=0), after_us=5 * US)
    bench.answer()
    assert bench.task(starved).node == "m"
    bench.guard("n")
    assert bench.read(harvestable.objection, node) == ""


def test_a_task_that_was_half_done_waits_for_cpu_no_longer_than_it_takes_anew() -> None:
    """Owners kept a node for hours, and the batch waited for what was to end there in minutes."""
    bench = asking()
    bench.submit_batch("b", stage(count=2, run_us=600 * US))
    bench.answer()
    for index in range(2):
        bench.run(index)
    half = {bench.task(index).node: index for index in range(2)}["n"]
    bench.say(Tick(at_us=0), after_us=400 * US)
    bench.guard("n", is_at_floor=True)
    for _ in range(9):
        bench.say(Tick(at_us=0), after_us=61 * US)
    assert bench.task(half).attempt == 1
    bench.say(Tick(at_us=0), after_us=61 * US)
    assert bench.task(half).attempt == 2


def test_tasks_without_cpu_stay_where_no_other_node_has_room() -> None:
    bench = asking(lends("n"))
    bench.submit_batch("b", stage(count=1, run_us=600 * US))
    bench.answer()
    bench.run()
    bench.guard("n", is_at_floor=True)
    bench.say(Tick(at_us=0), after_us=200 * US)
    assert (bench.task().attempt, bench.task().state) == (1, S.RUNNING)
