"""Places found by whole arrays are those that the loops over nodes find."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tenure.model.placing import Running
from tenure.model.units import FOREVER_US, US
from tenure.placement import timeline, upkeep, value, wholesale
from tenure.placement.arrays import Ends, Fleet, Jobs, ends_of, fleet_of
from tenure.placement.decide import PLANNED
from tenure.placement.desk import with_own_places
from tenure.placement.plan import Plan, open_plan
from tenure.placement.planner import COMPILED_BOUNDS
from tenure.placement.precedence import settle
from tenure.placement.timeline import END, Timeline
from tenure.placement.value import Spot, taste_of
from tenure.placement.window import Horizon
from tests.unit.placement.build import N, view_of

GIB = 1 << 30
NOW_US = 1000 * US


def nodes(dice: random.Random) -> list[N]:
    rows = []
    for k in range(dice.choice((1, 3, 8, 30))):
        is_on, cores = dice.random() < 0.6, dice.choice((2, 4, 8))
        rows.append(
            N(
                f"n{k:02}",
                cores=cores,
                gib=4 * cores,
                usd_per_h=dice.choice((0.0, 3.6, 14.4)),
                is_cloud=dice.random() < 0.4,
                is_on=is_on,
                remaining_s=dice.choice((0, 30, 60)) if is_on else 0,
                boot_s=0 if is_on else dice.choice((0, 20, 45)),
                reboot_s=dice.choice((0, 20, 45)),
                min_billing_s=dice.choice((0, 60)),
            )
        )
    return rows


def occupied(dice: random.Random, fleet: Fleet) -> tuple[Fleet, Ends]:
    """Return a fleet of which a part is in use, and what will be given back."""
    rows, free = [], fleet.free_cpu_m.copy()
    for _ in range(dice.randint(0, 60)):
        j, cores = dice.randrange(free.shape[0]), dice.randint(1, 3)
        if free[j] >= 1000 * cores:
            free[j] -= 1000 * cores
            rows.append(
                (j, 1000 * cores, GIB, NOW_US + dice.choice((1, 10 * US, 10 * US, 50 * US)))
            )
    memory, on = fleet.free_memory.copy(), fleet.is_on.copy()
    for j, _, gib, _ in rows:
        memory[j] -= gib
        on[j] = True
    columns: Any = zip(*rows, strict=True) if rows else ([], [], [], [])
    running = Running(*(np.array(column, dtype=np.int64) for column in columns))
    return fleet._replace(free_cpu_m=free, free_memory=memory, is_on=on), ends_of(running, NOW_US)


def jobs_of(dice: random.Random, nodes: int) -> Jobs:
    count = 12
    run_us = np.array([dice.choice((10, 40, 100)) * US for _ in range(count)])
    slack_us = np.array([dice.choice((1, 60, 600)) * US for _ in range(count)])
    return Jobs(
        np.full(count, PLANNED),
        np.array([dice.randint(1, 6) for _ in range(count)]),
        np.array([1000 * dice.randint(0, 4) for _ in range(count)]),
        np.array([GIB * dice.randint(0, 9) for _ in range(count)]),
        run_us,
        run_us * dice.choice((10, 13)) // 10,
        NOW_US + run_us + slack_us,
        np.array([[dice.random() < 0.9 for _ in range(nodes)] for _ in range(count)]),
    )


def horizon_of(fleet: Fleet, jobs: Jobs, plan: Plan, line: Timeline) -> Horizon:
    off_us, ready_us = NOW_US + fleet.remaining_us, NOW_US + fleet.boot_us
    return Horizon(fleet, off_us, ready_us, jobs, plan, line, NOW_US)


def steps(line: Timeline, j: int) -> list[tuple[int, int, int]]:
    found, step = [], int(line.head[j])
    while step != END:
        found.append((int(line.at_us[step]), int(line.cpu_m[step]), int(line.memory[step])))
        step = int(line.after[step])
    return found


def same(one: Spot, other: Spot) -> bool:
    heads = [(s.value, s.mode, s.start_us, s.end_us, s.soon_us) for s in (one, other)]
    return heads[0] == heads[1] and one.counts.tolist() == other.counts.tolist()


@pytest.mark.parametrize("seed", range(80))
def test_the_same_room_and_places(seed: int) -> None:
    dice = random.Random(seed)
    fleet, ends = occupied(dice, fleet_of(view_of(nodes(dice))))
    n = fleet.price.shape[0]
    jobs = jobs_of(dice, n)
    plan = open_plan(fleet, jobs, dice.choice((0.0, 0.25, 1.0)), COMPILED_BOUNDS)
    plan.since_us[:] = NOW_US
    lines = [timeline.blank_line(n, n + 60 + 12 * 12) for _ in range(2)]
    timeline.fill(lines[0], fleet, ends, NOW_US)
    wholesale.fill(lines[1], fleet, ends, NOW_US)
    assert lines[0].jobs.tolist() == lines[1].jobs.tolist()
    assert lines[0].whole_memory.tolist() == lines[1].whole_memory.tolist()
    for j in range(n):
        assert steps(lines[0], j) == steps(lines[1], j)
    horizon, taste = horizon_of(fleet, jobs, plan, lines[1]), taste_of(plan.patience)
    for job in range(12):
        found = value.place(horizon, job, taste)
        assert same(found, wholesale.place(horizon, job, taste))
        late = value.place_late(horizon, job)
        assert same(late, wholesale.place_late(horizon, job))
        spot = found if found.mode else late
        if spot.mode:
            settle(horizon, job, spot, found.mode == 0)
    assert plan.mode.any() or n == 1


@pytest.mark.parametrize("seed", range(80))
def test_the_same_jobs_keep_the_same_places(seed: int) -> None:
    dice = random.Random(seed)
    fleet, ends = occupied(dice, fleet_of(view_of(nodes(dice))))
    n = fleet.price.shape[0]
    jobs = jobs_of(dice, n)
    plan = open_plan(fleet, jobs, 0.25, COMPILED_BOUNDS)
    plan.since_us[:] = NOW_US
    line = timeline.blank_line(n, n + 60 + 12 * 12)
    timeline.fill(line, fleet, ends, NOW_US)
    horizon = horizon_of(fleet, jobs, plan, line)
    for job in range(12):
        spot = value.place(horizon, job, taste_of(0.25))
        if spot.mode:
            settle(horizon, job, spot, False)
    kept = np.array([job for job in range(12) if plan.mode[job]], dtype=np.int64)
    # some ends are late: who waits for them is put off, the others stay
    late_us = dice.choice((0, 1, 2 * US, 20 * US))
    found = []
    for fill, keep_all in ((timeline.fill, upkeep.keep_all), (wholesale.fill, wholesale.keep_all)):
        now_us = NOW_US + late_us
        later = ends._replace(end_us=np.maximum(ends.end_us, now_us + 1))
        own = with_own_places(plan)
        room = timeline.blank_line(n, n + 60 + 12 * 12)
        fill(room, fleet, later, now_us)
        here = horizon_of(fleet, jobs, own, room)._replace(now_us=now_us)
        lost = keep_all(here, kept).tolist()
        places = [part.tolist() for part in (own.start_us, own.end_us, own.is_late)]
        found.append((lost, places, [steps(room, j) for j in range(n)], room.jobs.tolist()))
    assert found[0] == found[1]


def test_of_many_moments_the_near_ones_and_the_last_are_looked_at() -> None:
    moments = np.append(np.arange(1000) * US, FOREVER_US)
    few = wholesale.thinned(moments, 48)
    assert few.shape[0] <= 48
    assert few[:4].tolist() == [0, US, 2 * US, 3 * US]
    assert few[-2:].tolist() == [999 * US, FOREVER_US]
    assert (np.diff(few) > 0).all()
    assert np.diff(few[:-1]).max() < 200 * US
    assert wholesale.thinned(few, 48) is few
