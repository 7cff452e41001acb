"""Where and when one job is best put, for the policy ``tenure`` (ours): the value of a place.

    value = g(r) + a * delay / T - o * (g(r) - 1) * (s - now) / (latest - now)   (last: r > 1)

r is the growth of the plan's cost by that of the same core-time on full nodes of the cheapest kind:
0 fills holes of nodes that are on anyway, 1 fills nodes, a cloud node of four times the price with
1.3 times the run time is 5.2. g(r) is r up to 1 and 1 + ln r above, so that what a wait may save
counts by its share of the price, whatever the pricing. delay is finish - arrival - T: waiting, and
what a hybrid run takes longer. a = (1 - patience) / (4 patience): at patience 1/5 a job may be put
off by one run time to save what full nodes cost. o = patience ** 2 / 2: a start later than now
keeps the option of a better place; that is worth more the worse the place is, and nothing where
nothing is wasted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import FOREVER_US, HOUR_US
from tenure.placement.decisions.cost import is_hybrid
from tenure.placement.decisions.decide import HYBRID, LOCAL
from tenure.placement.planning.window import (
    LOOKS,
    Grid,
    Horizon,
    Window,
    counts_of,
    cover,
    grid_of,
    has_cloud,
    lent_grid,
    next_wait_us,
    rewind,
    weigh,
)

#: The charge of one run time of delay where patience is one half, in parts of a full node's cost.
DELAY_CHARGE = 0.25
#: The charge at full patience, so that of equal places the earlier is taken; less patience than
#: LEAST_PATIENCE counts as that.
LEAST_CHARGE, LEAST_PATIENCE = 0.002, 0.001
#: The part of a bad place's premium that waiting to the last moment keeps open, at full patience.
OPTION = 0.5
#: So much patience is kept however long the queue is.
CALM = 0.25
#: What the fleet needs for all that waits, as a part of the mean slack of those jobs: up to RELAXED
#: all patience may be spent, from PRESSED on no more than CALM.
RELAXED, PRESSED = 0.25, 0.5
LN_2 = 0.6931471805599453


class Taste(NamedTuple):
    """The numbers a and o of the value."""

    charge: float
    option: float


class Spot(NamedTuple):
    """A place for a job: ``mode`` 0 is none; ``counts`` (n,) are executors per node.

    ``soon_us`` is when it could start first, at whatever cost.
    """

    value: float
    mode: int
    start_us: int
    end_us: int
    soon_us: int
    counts: Ints


def taste_of(patience: float) -> Taste:
    """Return the numbers that ``patience`` (0 to 1) stands for."""
    charge = DELAY_CHARGE * (1.0 - patience) / max(patience, LEAST_PATIENCE)
    return Taste(max(charge, LEAST_CHARGE), OPTION * patience * patience)


def spendable(horizon: Horizon, line: Ints) -> float:
    """Return the patience that the plan has while ``line`` waits.

    What goes beyond CALM is for queues that the fleet works off in a small part of their slack. In
    overload slack that was spent on saving is missed later: room that is left empty now never comes
    back.
    """
    plan, jobs, fleet = horizon.plan, horizon.jobs, horizon.fleet
    if plan.patience <= CALM:
        return float(plan.patience)
    work, slack_us, count = 0.0, 0.0, 0
    for job in line:
        if jobs.deadline_us[job] < FOREVER_US:
            cores = float(jobs.executors[job]) * float(jobs.cpu_m[job])
            work += cores * float(jobs.local_us[job])
            left_us = jobs.deadline_us[job] - horizon.now_us - jobs.local_us[job]
            slack_us += float(max(left_us, 0))
            count += 1
    if count == 0:
        return float(plan.patience)
    whole = 0.0
    for cpu_m in fleet.capacity_cpu_m:
        whole += float(max(cpu_m, 1))
    pressure = work / whole * float(count) / max(slack_us, 1.0)
    spare = min(max((PRESSED - pressure) / (PRESSED - RELAXED), 0.0), 1.0)
    return float(CALM + (plan.patience - CALM) * spare)


def natural_log(x: float) -> float:
    """Return ln x for x >= 1 within 0.001, by operations that are the same compiled or not."""
    halvings = 0.0
    while x >= 2.0:
        x *= 0.5
        halvings += 1.0
    return halvings * LN_2 + 3.0 * (x * x - 1.0) / (x * x + 4.0 * x + 1.0)


class Wish(NamedTuple):
    """What of a job the value of a place depends on; ``full_nano`` is its cost on full nodes."""

    now_us: int
    since_us: int
    run_us: int
    deadline_us: int
    full_nano: float


def wish_of(horizon: Horizon, job: int) -> Wish:
    """Return what of a job the value depends on."""
    jobs, plan, run_us = horizon.jobs, horizon.plan, horizon.jobs.local_us[job]
    core_us = float(jobs.executors[job]) * float(jobs.cpu_m[job]) * float(run_us) / 1000.0
    full_nano = max(float(plan.core_weight) * core_us / HOUR_US, 1.0)
    return Wish(horizon.now_us, plan.since_us[job], run_us, jobs.deadline_us[job], full_nano)


def charge_of(wish: Wish, window: Window, charge: float) -> float:
    """Return what the delay of a place is charged: no place in that window has a lesser value."""
    delay_us = window.start_us + window.hold_us - wish.run_us - wish.since_us
    return charge * float(delay_us) / float(max(wish.run_us, 1))


def value_of(wish: Wish, window: Window, nano: float, taste: Taste) -> float:
    """Return the value of a place that costs ``nano`` (module docstring); less is better.

    It never falls as ``nano`` grows.
    """
    ratio, now_us = nano / wish.full_nano, wish.now_us
    price = ratio if ratio <= 1.0 else 1.0 + natural_log(ratio)
    value = price + charge_of(wish, window, taste.charge)
    if ratio > 1.0 and wish.deadline_us < FOREVER_US:
        latest_us = wish.deadline_us - 1 - window.hold_us
        part = float(window.start_us - now_us) / float(latest_us - now_us + 1)
        value -= taste.option * (price - 1.0) * part
    return value


def nowhere(nodes: int, end_us: int) -> Spot:
    """Return no place, that ends at ``end_us`` where it is compared with others."""
    none = np.zeros(nodes, dtype=np.int64)
    return Spot(np.inf, 0, 0, end_us, FOREVER_US, none)


def with_soonest(best: Spot, window: Window) -> Spot:
    """Return the best place so far, knowing that there is room in a window."""
    soon_us = min(best.soon_us, window.start_us + window.wait_us)
    return Spot(best.value, best.mode, best.start_us, best.end_us, soon_us, best.counts)


def place(horizon: Horizon, job: int, taste: Taste) -> Spot:
    """Return the place of least value before the deadline; mode 0 if there is none."""
    grid, wish = grid_of(horizon, job), wish_of(horizon, job)
    is_cloud, tries = horizon.fleet.is_cloud, horizon.plan.starts
    best, wait_us = nowhere(is_cloud.shape[0], 0), 0
    while wait_us < FOREVER_US:
        for mode in (LOCAL, HYBRID):
            if mode == HYBRID and not has_cloud(grid):
                continue
            run_us = wish.run_us if mode == LOCAL else horizon.jobs.hybrid_us[job]
            window = Window(mode, wish.now_us, wait_us, wait_us + run_us)
            best = better(grid, (wish, taste, tries), window, is_cloud, best)
        wait_us = next_wait_us(grid, wait_us)
    if best.mode == 0 and grid.moments.shape[0] > tries:
        last = soonest(grid, horizon, job)
        if last.end_us < wish.deadline_us:
            return last
    return best


def better(
    grid: Grid, judge: tuple[Wish, Taste, int], first: Window, is_cloud: Bools, best: Spot
) -> Spot:
    """Return the best place by windows like ``first`` or later; ``best`` if that is as good.

    Starts are tried in order of time, wherever room changes at the start or at the end of a window
    (so nodes empty together), until the charge for the delay alone exceeds the best value, or so
    many were that ``judge`` says it is enough. One at which a look at the room is enough counts as
    a part of a try.
    """
    grid, (wish, taste, tries), (mode, start_us, wait_us, hold_us) = lent_grid(grid), judge, first
    moments, begins, ends, last = grid.moments, 1, 1, grid.moments.shape[0] - 1
    tries *= LOOKS
    rewind(grid)
    while start_us < wish.deadline_us - hold_us and tries > 0:
        window = Window(mode, start_us, wait_us, hold_us)
        if charge_of(wish, window, taste.charge) >= best.value:
            break
        fits, least_nano = weigh(grid, window)
        tries -= 1
        if fits >= grid.need:
            best = with_soonest(best, window)
        if fits >= grid.need and value_of(wish, window, least_nano, taste) < best.value:
            tries -= LOOKS - 1
            value = value_of(wish, window, float(cover(grid)), taste)
            if value < best.value:
                counts = counts_of(grid, is_cloud.shape[0])
                # local nodes alone need not take T_C^H: the other mode has this start too
                if mode == LOCAL or is_hybrid(counts, is_cloud):
                    best = Spot(value, mode, start_us, start_us + hold_us, best.soon_us, counts)
        while begins < last and moments[begins] <= start_us:
            begins += 1
        while ends < last and moments[ends] <= start_us + hold_us:
            ends += 1
        start_us = moments[begins]
        if ends < last:
            start_us = min(start_us, moments[ends] - hold_us)
    return best


def place_late(horizon: Horizon, job: int) -> Spot:
    """Return the place that ends first, whatever the deadline; mode 0 if the job never fits."""
    grid = grid_of(horizon, job)
    return soonest(grid, horizon, job)


def soonest(grid: Grid, horizon: Horizon, job: int) -> Spot:
    """Return the place on a grid that ends first; mode 0 if the job never fits."""
    is_cloud = horizon.fleet.is_cloud
    best, wait_us = nowhere(is_cloud.shape[0], FOREVER_US), 0
    while wait_us < FOREVER_US:
        for mode in (LOCAL, HYBRID):
            if mode == HYBRID and not has_cloud(grid):
                continue
            run_us = horizon.jobs.local_us[job] if mode == LOCAL else horizon.jobs.hybrid_us[job]
            window = Window(mode, horizon.now_us, wait_us, wait_us + run_us)
            best = sooner(grid, window, is_cloud, best)
        wait_us = next_wait_us(grid, wait_us)
    return best


def sooner(grid: Grid, first: Window, is_cloud: Bools, best: Spot) -> Spot:
    """Return the first place by windows like ``first`` or later; ``best`` if that ends as soon.

    At most ``starts * LOOKS`` starts are tried: those of the grid's moments.
    """
    grid = lent_grid(grid)
    rewind(grid)
    for start_us in grid.moments[:-1]:
        end_us = start_us + first.hold_us
        if end_us >= best.end_us:
            break
        fits, _ = weigh(grid, Window(first.mode, start_us, first.wait_us, first.hold_us))
        if fits >= grid.need:
            cover(grid)
            counts = counts_of(grid, is_cloud.shape[0])
            mode = HYBRID if is_hybrid(counts, is_cloud) else LOCAL
            return Spot(0.0, mode, start_us, end_us, start_us, counts)
    return best
