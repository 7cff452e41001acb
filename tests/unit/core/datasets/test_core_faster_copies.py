"""A task waits some seconds for a planned start beside its copy in memory, and no longer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from tenure.core.dispatch.planned_starts import SOON_US
from tenure.model.batch import TaskState
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.unit.core.dispatch.test_core_planned_starts import Planned
from tests.unit.core.dispatch.test_core_task_inputs import OFF
from tests.unit.core.lender import AGENT
from tests.unit.core.shelf import with_tiers

#: One of these fills a node.
WHOLE = Resources(1500, 64 * MIB)
RUN_S = 2.0
SOON_S = SOON_US / US


def planned(*starts_s: float, in_memory: str = "b") -> Planned:
    """Return a batch whose starts are all planned on b, and whose blocks lie on disks of both.

    They lie in memory on ``in_memory`` too; a is idle.
    """
    words: dict[str, Any] = {"generation": "nursery", **AGENT}
    made = Planned(*(with_tiers(name, "memory", "ssd", **words) for name in "ab"), prefetch=OFF)
    made.put("logs", len(starts_s))
    made.work()
    for block in made.blocks("logs"):
        one = block.replicas[0]
        lies = [(name, "ssd") for name in "ab"] + [(name, "memory") for name in in_memory]
        rows = tuple(replace(one, node=name, tier=tier) for name, tier in lies)
        made.store(replace(block, replicas=rows))
    made.send(made.over("logs", len(starts_s), run_us=round(RUN_S * US), request=WHOLE))
    made.plan(*(("scan", "b", at_s, 1, 0) for at_s in starts_s))
    return made


def tiers(made: Planned) -> Counter[tuple[str, str]]:
    return Counter((t.node, t.reading.tier) for t in made.tasks() if t.reading)


def test_room_that_is_idle_for_a_moment_is_left_where_memory_is_elsewhere() -> None:
    made = planned(0, 2, 4)
    assert tiers(made) == {("b", "memory"): 1}
    for turn in range(1, 4):
        made.wait(RUN_S)
        busy = [task for task in made.tasks() if task.state is TaskState.CREATING]
        made.finish(busy[0].index)
        made.work_now()
        assert tiers(made) == {("b", "memory"): min(3, turn + 1)}


def test_idle_room_is_taken_where_copies_are_no_faster_elsewhere() -> None:
    assert sum(tiers(planned(0, 2, 4, in_memory="")).values()) == 2
    assert tiers(planned(0, 2, 4, in_memory="ab")) == {("a", "memory"): 1, ("b", "memory"): 1}


def test_a_start_that_comes_much_later_is_not_waited_for() -> None:
    assert tiers(planned(0, 2 * SOON_S)) == {("b", "memory"): 1, ("a", "ssd"): 1}


def test_a_node_that_does_not_get_on_is_not_waited_for_longer() -> None:
    made = planned(0, 2, 4)
    made.wait(SOON_S)
    assert tiers(made) == {("b", "memory"): 1}
    made.wait(5)
    assert tiers(made)["a", "ssd"] == 1


def test_a_node_that_gets_on_more_slowly_than_planned_is_waited_for() -> None:
    made = planned(0, 2, 4)
    made.wait(SOON_S)
    made.finish(0)
    made.work_now()
    assert tiers(made) == {("b", "memory"): 2}
    made.wait(SOON_S - 1)
    assert tiers(made) == {("b", "memory"): 2}
    made.wait(5)
    assert tiers(made)["a", "ssd"] == 1
