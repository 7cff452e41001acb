"""Tasks over datasets begin by the plan: which nodes have openings, and who takes them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tenure.core.dispatch import dispatch_list
from tenure.core.dispatch.dispatch_list import DispatchList
from tenure.model.batch import Batch, BatchSpec, TaskState
from tenure.model.effects import CopyBlock, PlanBatches
from tenure.model.events import EffectEnded, SubmitBatch
from tenure.model.outcome import Done
from tenure.model.planning import PlanAnswer, PlannedStart, PlanQuestion, Schedule
from tenure.model.resources import Resources
from tenure.model.tier import TierKind
from tenure.model.units import MIB, US
from tests.unit.core.dispatch.test_core_task_inputs import OFF, Library
from tests.unit.core.lender import AGENT, stage
from tests.unit.core.shelf import with_tiers

S = TaskState
#: One of these fills a node.
WHOLE = Resources(1500, 64 * MIB)
#: And two of these.
HALF = Resources(800, 64 * MIB)


class Planned(Library):
    """A library whose planner says what a test has it say."""

    is_planning = False

    def plan(self, *starts: tuple[str, str, float, int, int]) -> None:
        """Answer what is asked: (stage, node, seconds from now, tasks, brought) of batch b."""
        effect = [e for e in self.effects if isinstance(e, PlanBatches)][-1]
        rows = tuple(
            PlannedStart(name, node, self.now_us + round(at_s * US), count, brought)
            for name, node, at_s, count, brought in starts
        )
        found = Schedule("b", rows, self.now_us + 1000 * US, "hand", True, self.now_us)
        outcome = Done(plan=PlanAnswer((found,)))
        self.say(EffectEnded(at_us=0, effect=effect.id, outcome=outcome), after_us=1)

    def asked(self) -> PlanQuestion:
        """Return what the planner was asked last."""
        question: PlanQuestion = [e for e in self.effects if isinstance(e, PlanBatches)][
            -1
        ].question
        return question

    def send(self, *stages: Any) -> None:
        spec = BatchSpec("b", stages)
        self.say(SubmitBatch(at_us=0, request="b", batch="b", spec=spec))

    def begun(self) -> Counter[str]:
        return Counter(task.node for task in self.tasks() if task.node)

    def left(self) -> dict[str, list[int]]:
        rows = self.state_of(DispatchList).entries.items()
        return {node: [entry.count for entry in entries] for node, entries in rows if entries}


def library(blocks: int, *, nodes: str = "ab", replicas: int = 2, slow: str = "") -> Planned:
    words: dict[str, Any] = {"generation": "nursery", **AGENT}
    specs = [with_tiers(n, "ssd", speed=0.5 if n == slow else 1.0, **words) for n in nodes]
    made = Planned(*specs, prefetch=OFF)
    made.put("logs", blocks, replicas=replicas)
    made.work()
    assert made.dataset("logs").state == "ready"
    return made


def test_the_planner_is_told_on_which_nodes_blocks_lie_and_on_which_they_are_read_fastest() -> None:
    words: dict[str, Any] = {"generation": "nursery", **AGENT}
    specs = [with_tiers(n, "memory", "ssd", "hdd", **words) for n in "abc"]
    made = Planned(*specs, prefetch=OFF)
    made.put("logs", 4, tiers=(TierKind.SSD,))
    made.work()
    made.cache("logs", range(2))
    made.send(made.over("logs", 4))
    (need,) = made.asked().batches[0].stages
    held = [{node for node, _ in row} for row in made.places("logs")]
    cached = [{node for node, tier in row if tier == "memory"} for row in made.places("logs")]
    assert all(cached[:2])
    told = Counter[tuple[str, str]]()
    for where, near, count in need.copies:
        told["".join("abc"[k] for k in where), "".join("abc"[k] for k in near)] += count
    rows = zip(held, cached, strict=True)
    assert told == Counter(("".join(sorted(h)), "".join(sorted(c or h))) for h, c in rows)
    assert told.total() == 4


def test_tasks_begin_where_the_plan_has_them_though_others_have_room() -> None:
    made = library(4)
    made.send(made.over("logs", 4))
    made.plan(("scan", "b", 0, 3, 0), ("scan", "b", 5, 1, 0))
    assert sum(made.begun().values()) == 4, "idle room is taken, as that ends no later"
    slow = library(4, slow="a")
    slow.send(slow.over("logs", 4))
    slow.plan(("scan", "b", 0, 3, 0), ("scan", "b", 5, 1, 0))
    assert slow.begun() == {"b": 3}, "it would end later than planned"


def test_idle_room_beside_a_start_that_is_open_is_as_good() -> None:
    made = library(4)
    made.send(made.over("logs", 4))
    made.plan(("scan", "b", 0, 4, 0))
    assert sum(made.begun().values()) == 4, "of which b can prepare three at once"


def test_what_is_planned_first_on_a_node_is_not_kept_from_its_time() -> None:
    """Of two stages the one over a dataset has room now, and would be in the way in 5 s."""
    made = library(2, nodes="a", replicas=1)
    other = stage("other", 1, request=WHOLE, run_us=20 * US)
    made.send(other, made.over("logs", 2, request=WHOLE))
    made.plan(("other", "a", 5, 1, 0), ("scan", "a", 25, 2, 0))
    placed = [task.stage for task in made.tasks() if task.node]
    assert placed == ["other"], "that may begin early, the scan may not take its room"
    short = library(2, nodes="a", replicas=1)
    short.send(other, short.over("logs", 2, request=WHOLE, run_us=3 * US))
    short.plan(("scan", "a", 0, 1, 0), ("other", "a", 5, 1, 0), ("scan", "a", 25, 1, 0))
    assert [task.stage for task in short.tasks() if task.node and not task.is_ahead] == ["scan"]


def test_idle_room_is_taken_only_where_nobody_is_planned_before_its_task_would_end() -> None:
    made = library(4)
    late = stage("late", 1, request=WHOLE, run_us=20 * US)
    made.send(late, made.over("logs", 4, request=HALF, run_us=10 * US))
    made.plan(("late", "a", 8, 1, 0), ("scan", "b", 0, 2, 0), ("scan", "b", 10, 2, 0))
    assert {task.node for task in made.tasks() if task.stage == "scan" and task.node} == {"b"}


def test_starts_are_taken_off_the_plan_one_by_one() -> None:
    made = library(6)
    made.send(made.over("logs", 6, run_us=60 * US, request=HALF))
    made.plan(*[("scan", node, at_s, 1, 0) for node in "ab" for at_s in (0, 60, 120)])
    assert sum(made.begun().values()) >= 2
    before = sum(map(sum, made.left().values()))
    assert before == 6 - sum(made.begun().values())
    first = made.tasks()[0]
    made.finish(first.index)
    assert sum(map(sum, made.left().values())) == before - 1


def test_what_the_plan_has_brought_is_brought_ahead_of_its_start() -> None:
    """Node a has all blocks and is planned full; b begins one in 30 s whose block it lacks."""
    made = library(4, replicas=1)
    holder = made.places("logs")[0][0][0]
    other = "b" if holder == "a" else "a"
    mine = sum(places[0][0] == other for places in made.places("logs"))
    made.send(made.over("logs", 4, run_us=10 * US, request=WHOLE))
    made.plan(
        *[("scan", holder, 10 * n, 1, 0) for n in range(4 - mine - 1)],
        *[("scan", other, 10 * n, 1, 0) for n in range(mine)],
        ("scan", other, 60, 1, 1),
    )
    copies = [e for e in made.tables.effects.values() if isinstance(e, CopyBlock)]
    assert not copies, "it is not due, and would only take room"
    made.wait(50)
    assert [one.node for one in made.done if isinstance(one, CopyBlock)][-1] == other
    assert sum(len(places) == 2 for places in made.places("logs")) == 1


def test_a_start_that_nobody_takes_has_a_block_brought_after_a_while() -> None:
    """All blocks lie on a node that runs something else, against the plan."""
    made = library(1, replicas=1)
    ((holder, _),) = made.places("logs")[0]
    other = "b" if holder == "a" else "a"
    made.send(made.over("logs", 1))
    made.guard(holder, mode="off")
    made.plan(("scan", other, 0, 1, 0))
    assert not made.begun()
    made.wait(dispatch_list.PATIENCE_US / US + 1)
    assert made.task().node == other
    found = made.task().reading
    assert found is not None
    assert found.is_brought


def test_of_many_tasks_those_are_found_that_a_node_can_read() -> None:
    """The first ones by far have their block on a node that is planned for later."""
    made = library(40, replicas=1)
    ours = [n for n, places in enumerate(made.places("logs")) if places[0][0] == "b"]
    made.send(made.over("logs", 40, run_us=60 * US, request=HALF))
    made.plan(("scan", "a", 500, 20, 0), ("scan", "b", 0, 2, 0), ("scan", "b", 60, 18, 0))
    assert {task.index for task in made.tasks() if task.node == "b"} <= set(ours)
    assert made.begun()["b"] == 2


def test_a_plan_that_is_made_while_tasks_begin_counts_them() -> None:
    made = library(4)
    made.send(made.over("logs", 4, run_us=60 * US, request=HALF))
    made.plan(("scan", "a", 0, 1, 0), ("scan", "b", 0, 1, 0), ("scan", "b", 60, 2, 0))
    assert sum(map(sum, made.left().values())) == 4 - sum(made.begun().values())


@pytest.mark.parametrize("seed", range(12))
def test_whatever_lends_or_is_lost_every_task_is_done_in_the_end(seed: int) -> None:
    """With the true planner: a node that does not lend for a while, one that is lost and back."""
    dice = random.Random(seed)
    names = "abcd"[: dice.randint(2, 4)]
    made = Library(
        *(with_tiers(n, "ssd", generation="nursery", **AGENT) for n in names), prefetch=OFF
    )
    count, replicas = dice.randint(1, 12), dice.randint(1, 2)
    made.put("logs", count, replicas=replicas)
    made.work()
    off, lost = dice.choice(names), dice.choice(names) if replicas == 2 else ""
    made.guard(off, mode="off")
    size = Resources(dice.choice((500, 800, 1500)), 64 * MIB)
    assert isinstance(made.scan("logs", count, request=size, run_us=20 * US), Batch)
    for step in range(100):
        made.wait(3)
        if step == 3 and lost:
            made.lose(lost)
        if step == 20:
            made.guard(off)
        if step == 30 and lost:
            made.find(lost)
            made.guard(lost)
        for task in made.tasks():
            is_there = task.state is S.CREATING and task.node not in made.away
            if is_there and dice.random() < 0.5:
                made.finish(task.index)
    assert {task.state for task in made.tasks()} == {S.DONE}
