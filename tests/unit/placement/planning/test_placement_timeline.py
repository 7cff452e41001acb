"""Steps of free room, against a table of every node at every moment."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from tenure.placement.arrays import Ends, Jobs, fleet_of
from tenure.placement.planning.timeline import END, Timeline, book, moments_of, timeline_of
from tenure.placement.queue.plan import Plan, blank_jobs, blank_plan
from tests.unit.placement.build import N, view_of
from tests.unit.placement.queue.test_placement_replay import NO_ENDS

NODES, JOBS, LONG = 3, 12, 40


def room_at(line: Timeline, j: int, at_us: int) -> tuple[int, int]:
    """Return cpu_m and bytes that are free on a node at a moment."""
    step = line.head[j]
    while line.after[step] != END and line.at_us[line.after[step]] <= at_us:
        step = line.after[step]
    return int(line.cpu_m[step]), int(line.memory[step])


def steps_of(line: Timeline, j: int) -> list[tuple[int, int, int]]:
    found, step = [], int(line.head[j])
    while step != END:
        found.append((int(line.at_us[step]), int(line.cpu_m[step]), int(line.memory[step])))
        step = int(line.after[step])
    return found


def places(dice: random.Random) -> tuple[Jobs, Plan]:
    """Draw jobs of one executor on each of some nodes, with places between 0 and LONG."""
    jobs, plan = blank_jobs(JOBS, NODES), blank_plan(JOBS, JOBS * NODES)
    for job in range(JOBS):
        jobs.cpu_m[job], jobs.memory_bytes[job] = dice.randint(1, 2) * 1000, dice.randint(1, 2)
        plan.start_us[job] = dice.randrange(LONG)
        plan.end_us[job] = plan.start_us[job] + dice.randint(1, 10)
        plan.first[job] = job * NODES
        nodes = dice.sample(range(NODES), dice.randint(1, NODES))
        plan.used[job] = len(nodes)
        for row, j in enumerate(nodes, start=job * NODES):
            plan.node[row], plan.executors[row] = j, dice.randint(1, 2)
    return jobs, plan


def of(dice: random.Random, ends: Ends) -> Timeline:
    nodes = [N(f"n{k}", cores=dice.choice((8, 16))) for k in range(NODES)]
    return timeline_of(fleet_of(view_of(nodes)), ends, 0, 2 * JOBS * NODES)


@pytest.mark.parametrize("seed", range(50))
def test_steps_say_what_a_table_of_every_moment_says(seed: int) -> None:
    dice = random.Random(seed)
    line, (jobs, plan) = of(dice, NO_ENDS), places(dice)
    table = np.empty((NODES, 2 * LONG, 2), dtype=np.int64)
    for j in range(NODES):
        table[j] = room_at(line, j, 0)
    booked: set[int] = set()
    for _ in range(40):
        job = dice.randrange(JOBS)
        sign = -1 if job in booked else 1
        booked ^= {job}
        book(line, plan, jobs, job, sign)
        for row in range(plan.first[job], plan.first[job] + plan.used[job]):
            span = slice(plan.start_us[job], plan.end_us[job])
            each = np.array((jobs.cpu_m[job], jobs.memory_bytes[job]))
            table[plan.node[row], span] -= sign * plan.executors[row] * each
        for j in range(NODES):
            found = [room_at(line, j, at_us) for at_us in range(2 * LONG)]
            assert found == [tuple(row) for row in table[j].tolist()]
            rooms = [step[1:] for step in steps_of(line, j)]
            assert all(a != b for a, b in pairwise(rooms)), "one step, not two"


@pytest.mark.parametrize("seed", range(20))
def test_what_is_put_and_taken_out_again_leaves_nothing(seed: int) -> None:
    dice = random.Random(seed)
    end = Ends(*(np.array(column) for column in ((0, 1), (1000, 500), (1, 1), (7, 9))))
    line, (jobs, plan) = of(dice, end), places(dice)
    for job in range(6):
        book(line, plan, jobs, job, 1)
    before = [steps_of(line, j) for j in range(NODES)]
    used = int(line.spare[0])
    for _ in range(30):
        some = dice.sample(range(6, JOBS), 3)
        for job in some:
            book(line, plan, jobs, job, 1)
        for job in dice.sample(some, 3):
            book(line, plan, jobs, job, -1)
        assert [steps_of(line, j) for j in range(NODES)] == before
    # steps are used again: three jobs at once add two for each of their nodes at most
    assert line.spare[0] <= used + 2 * 3 * NODES


def test_moments_are_those_of_the_nodes_asked_about() -> None:
    dice = random.Random(1)
    line, (jobs, plan) = of(dice, NO_ENDS), places(dice)
    for job in range(JOBS):
        book(line, plan, jobs, job, 1)
    every = np.arange(NODES)
    assert moments_of(line, every).tolist() == sorted(
        {at_us for j in range(NODES) for at_us, _, _ in steps_of(line, j)}
    )
    assert moments_of(line, every[1:2]).tolist() == [at_us for at_us, _, _ in steps_of(line, 1)]
    assert moments_of(line, every[:0]).tolist() == [0]
