"""The tasks of a stage that wait: who was tried before comes first, in an order that is kept."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

from tenure.core.state.indexes import StageTasks
from tenure.model.batch import Task, TaskState


def waiting(index: int, *, attempt: int = 2, shunned: str = "") -> Task:
    """Return a task that waits for a node."""
    return Task("b", index, "map", index, attempt=attempt, shunned=shunned)


def test_who_had_to_leave_a_node_comes_first_then_who_was_tried_then_who_was_not() -> None:
    stage_tasks = StageTasks()
    for task in (
        waiting(0, attempt=1),
        waiting(1),
        waiting(2, shunned="n"),
        waiting(3, attempt=1),
        waiting(4, shunned="m"),
    ):
        stage_tasks.take(None, task)
    assert list(stage_tasks.waiting()) == [2, 4, 1, 0, 3]


def test_the_order_is_that_of_sorting_whatever_becomes_of_tasks() -> None:
    random_ = random.Random(5)
    stage_tasks, tasks = StageTasks(), dict[int, Task]()
    for _ in range(3_000):
        index = random_.randrange(60)
        task = replace(
            waiting(index, attempt=random_.choice([1, 2, 3])),
            state=random_.choice([TaskState.PENDING, TaskState.PENDING, TaskState.RUNNING]),
            shunned=random_.choice(["", "", "n"]),
        )
        stage_tasks.take(tasks.get(index), task)
        tasks[index] = task
        again = [tasks[i] for i in stage_tasks.again]
        wanted = [t.index for t in sorted(again, key=lambda t: (not t.shunned, t.index))]
        assert list(stage_tasks.retried()) == wanted


def test_what_is_placed_meanwhile_is_left_out_and_nobody_twice() -> None:
    stage_tasks = StageTasks()
    tasks = [waiting(index, shunned="n" if index % 3 else "") for index in range(12)]
    for task in tasks:
        stage_tasks.take(None, task)
    seen = []
    for index in stage_tasks.retried():
        seen.append(index)
        for gone in (index, (index + 1) % 12):
            placed = replace(tasks[gone], state=TaskState.RUNNING)
            stage_tasks.take(tasks[gone], placed)
            tasks[gone] = placed
    assert len(set(seen)) == len(seen)
    assert list(stage_tasks.retried()) == []


def test_a_look_at_the_first_of_many_goes_through_a_few() -> None:
    """They were sorted anew for each look, ten thousand in 11 ms."""
    stage_tasks = StageTasks()
    for index in range(10_000):
        stage_tasks.take(None, waiting(index))
    assert list(islice(stage_tasks.waiting(), 3)) == [0, 1, 2]
    looked = 0

    class Counted(list[tuple[bool, int]]):
        def __getitem__(self, place):  # type: ignore[no-untyped-def]
            nonlocal looked
            looked += 1
            return super().__getitem__(place)

    stage_tasks.tried = Counted(stage_tasks.tried)
    assert list(islice(stage_tasks.waiting(), 64)) == list(range(64))
    assert 64 <= looked < 64 * 20


def test_who_is_held_back_is_left_out_until_released_and_has_its_place_again() -> None:
    random_ = random.Random(6)
    stage_tasks, tasks = StageTasks(), dict[int, Task]()
    for _ in range(3_000):
        index = random_.randrange(40)
        if random_.random() < 0.4 and index in tasks:
            stage_tasks.hold(tasks[index])
        elif random_.random() < 0.4:
            stage_tasks.release(index)
        else:
            state = random_.choice([TaskState.PENDING, TaskState.PENDING, TaskState.RUNNING])
            task = replace(waiting(index, shunned=random_.choice(["", "n", "m"])), state=state)
            stage_tasks.take(tasks.get(index), task)
            tasks[index] = task
        free = [tasks[i] for i in stage_tasks.again - stage_tasks.held.keys()]
        wanted = [t.index for t in sorted(free, key=lambda t: (not t.shunned, t.index))]
        assert list(stage_tasks.retried()) == wanted
        by_node: dict[str, set[int]] = {}
        for i in stage_tasks.again:
            by_node.setdefault(tasks[i].shunned, set()).add(i)
        by_node.pop("", None)
        assert stage_tasks.shunned == by_node
