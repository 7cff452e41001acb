"""The tasks of a stage that wait: who was tried before comes first, in an order that is kept."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

from tenure.core.state.indexes import Strand
from tenure.model.batch import Task, TaskState


def waiting(index: int, *, attempt: int = 2, shunned: str = "") -> Task:
    """Return a task that waits for a node."""
    return Task("b", index, "map", index, attempt=attempt, shunned=shunned)


def test_who_had_to_leave_a_node_comes_first_then_who_was_tried_then_who_was_not() -> None:
    strand = Strand()
    for task in (
        waiting(0, attempt=1),
        waiting(1),
        waiting(2, shunned="n"),
        waiting(3, attempt=1),
        waiting(4, shunned="m"),
    ):
        strand.take(None, task)
    assert list(strand.waiting()) == [2, 4, 1, 0, 3]


def test_the_order_is_that_of_sorting_whatever_becomes_of_tasks() -> None:
    random_ = random.Random(5)
    strand, tasks = Strand(), dict[int, Task]()
    for _ in range(3_000):
        index = random_.randrange(60)
        task = replace(
            waiting(index, attempt=random_.choice([1, 2, 3])),
            state=random_.choice([TaskState.PENDING, TaskState.PENDING, TaskState.RUNNING]),
            shunned=random_.choice(["", "", "n"]),
        )
        strand.take(tasks.get(index), task)
        tasks[index] = task
        again = [tasks[i] for i in strand.again]
        wanted = [t.index for t in sorted(again, key=lambda t: (not t.shunned, t.index))]
        assert list(strand.retried()) == wanted


def test_what_is_placed_meanwhile_is_left_out_and_nobody_twice() -> None:
    strand = Strand()
    tasks = [waiting(index, shunned="n" if index % 3 else "") for index in range(12)]
    for task in tasks:
        strand.take(None, task)
    seen = []
    for index in strand.retried():
        seen.append(index)
        for gone in (index, (index + 1) % 12):
            placed = replace(tasks[gone], state=TaskState.RUNNING)
            strand.take(tasks[gone], placed)
            tasks[gone] = placed
    assert len(set(seen)) == len(seen)
    assert list(strand.retried()) == []


def test_a_look_at_the_first_of_many_goes_through_a_few() -> None:
    """They were sorted anew for each look, ten thousand in 11 ms."""
    strand = Strand()
    for index in range(10_000):
        strand.take(None, waiting(index))
    assert list(islice(strand.waiting(), 3)) == [0, 1, 2]
    looked = 0

    class Counted(list[tuple[bool, int]]):
        def __getitem__(self, place):  # type: ignore[no-untyped-def]
            nonlocal looked
            looked += 1
            return super().__getitem__(place)

    strand.tried = Counted(strand.tried)
    assert list(islice(strand.waiting(), 64)) == list(range(64))
    assert 64 <= looked < 64 * 20


def test_who_is_held_back_is_left_out_until_released_and_has_its_place_again() -> None:
    random_ = random.Random(6)
    strand, tasks = Strand(), dict[int, Task]()
    for _ in range(3_000):
        index = random_.randrange(40)
        if random_.random() < 0.4 and index in tasks:
            strand.hold(tasks[index])
        elif random_.random() < 0.4:
            strand.release(index)
        else:
            state = random_.choice([TaskState.PENDING, TaskState.PENDING, TaskState.RUNNING])
            task = replace(waiting(index, shunned=random_.choice(["", "n", "m"])), state=state)
            strand.take(tasks.get(index), task)
            tasks[index] = task
        free = [tasks[i] for i in strand.again - strand.held.keys()]
        wanted = [t.index for t in sorted(free, key=lambda t: (not t.shunned, t.index))]
        assert list(strand.retried()) == wanted
        by_node: dict[str, set[int]] = {}
        for i in strand.again:
            by_node.setdefault(tasks[i].shunned, set()).add(i)
        by_node.pop("", None)
        assert strand.shunned == by_node
