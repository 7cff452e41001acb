"""Policy ``tenure``: a rolling plan of all waiting jobs (ours).

Theory of operation. Not "what starts now?" is decided, but when and where every waiting job will
run. A job that comes is put where its value is least (``value``); the others keep their places, so
nobody is passed over (conservative backfilling, Mu'alem and Feitelson 2001), and a plan that meets
its deadlines goes on meeting them while estimates hold. Then a few waiting jobs are taken out in
turn and put back where they are best now. A job starts when its planned start comes.

A job that fits no start before its deadline first drives out the late jobs, then has the whole
queue planned again by deadline as early as can be; whichever leaves fewer late jobs is kept. Late
jobs take the earliest room left over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tenure.model.placing import Ints
from tenure.model.units import FOREVER_US
from tenure.placement import timeline, value, window
from tenure.placement.arrays import Jobs
from tenure.placement.course import DROPPED, NOW, Chronicle, Course, Rules
from tenure.placement.decide import NO_NODE
from tenure.placement.plan import UNSEEN, Plan
from tenure.placement.timeline import book, timeline_of
from tenure.placement.value import Spot, Taste, place, place_late, taste_of
from tenure.placement.waiting import Picks, ends_to_come, line_of, picked
from tenure.placement.window import Horizon

#: The charge that makes a plan as early as possible.
HURRY = 50.0
#: Jobs put back anew after each arrival, and jobs up to which the whole queue is: both bound the
#: work of one event.
ROUNDS, REPAIR_JOBS = 4, 200


def settle(horizon: Horizon, job: int, spot: Spot, is_late: bool) -> None:
    """Put a job into the plan at ``spot``."""
    plan, row = horizon.plan, horizon.plan.first[job]
    plan.start_us[job], plan.end_us[job], plan.mode[job] = spot.start_us, spot.end_us, spot.mode
    plan.is_late[job] = is_late
    for j in range(spot.counts.shape[0]):
        if spot.counts[j] > 0:
            plan.node[row], plan.executors[row] = j, spot.counts[j]
            row += 1
    plan.used[job] = row - plan.first[job]
    book(horizon.line, plan, horizon.jobs, job, 1)


def add(horizon: Horizon, job: int, taste: Taste) -> bool:
    """Plan a job: in time if it can be, else as early as there is room; False if it never fits."""
    spot = place(horizon, job, taste)
    is_late = spot.mode == 0
    if is_late:
        spot = place_late(horizon, job)
    if spot.mode == 0:
        return False
    settle(horizon, job, spot, is_late)
    return True


def improve(horizon: Horizon, line: Ints, taste: Taste) -> None:
    """Take ROUNDS jobs of the plan out in turn, and put each back where it is best now."""
    plan, count = horizon.plan, line.shape[0]
    for k in range(min(ROUNDS, count)):
        job = line[(plan.turn[0] + k) % count]
        book(horizon.line, plan, horizon.jobs, job, -1)
        spot = place(horizon, job, taste)
        is_late = spot.mode == 0
        if is_late and plan.is_late[job]:
            spot = place_late(horizon, job)
        if spot.mode == 0:
            book(horizon.line, plan, horizon.jobs, job, 1)
        else:
            settle(horizon, job, spot, is_late)
    plan.turn[0] += ROUNDS


def by_deadline(jobs: Jobs, line: Ints) -> Ints:
    """Return jobs by deadline, equals in the order given."""
    return line[np.argsort(jobs.deadline_us[line], kind="mergesort")]


def late_among(plan: Plan, line: Ints) -> int:
    """Return how many jobs miss their deadlines by the plan."""
    count = 0
    for job in line:
        count += plan.is_late[job]
    return count


def spot_of(plan: Plan, job: int, nodes: int) -> Spot:
    """Return the place that a job has."""
    counts = np.zeros(nodes, dtype=np.int64)
    for used in range(plan.first[job], plan.first[job] + plan.used[job]):
        counts[plan.node[used]] = plan.executors[used]
    return Spot(0.0, plan.mode[job], plan.start_us[job], plan.end_us[job], counts)


def replan(horizon: Horizon, line: Ints, taste: Taste) -> None:
    """Plan jobs, which have no place, in their order; those that would be late come last."""
    is_left = np.zeros(line.shape[0], dtype=np.bool_)
    for k in range(line.shape[0]):
        spot = place(horizon, line[k], taste)
        is_left[k] = spot.mode == 0
        if spot.mode > 0:
            settle(horizon, line[k], spot, False)
    for job in line[is_left]:
        settle(horizon, job, place_late(horizon, job), True)


def repair(horizon: Horizon, line: Ints, taste: Taste) -> None:
    """Have fewer late jobs, or leave the plan as it is: O(jobs) placements.

    First only late jobs are planned again, then all, by deadline and as early as possible.
    """
    jobs, plan, nodes = horizon.jobs, horizon.plan, horizon.fleet.price.shape[0]
    order = by_deadline(jobs, line)
    for is_whole in (False, True):
        before = late_among(plan, order)
        if before == 0:
            return
        some = order if is_whole else order[plan.is_late[order]]
        was_late = plan.is_late[some]
        old = [spot_of(plan, job, nodes) for job in some]
        for job in some:
            book(horizon.line, plan, jobs, job, -1)
        replan(horizon, some, Taste(HURRY, 0.0) if is_whole else taste)
        if late_among(plan, order) < before:
            continue
        for job in some:
            book(horizon.line, plan, jobs, job, -1)
        for k in range(some.shape[0]):
            settle(horizon, some[k], old[k], was_late[k])


def horizon_of(course: Course, chronicle: Chronicle, jobs: Jobs, line: Ints) -> Horizon:
    """Return the room from now on, with all that runs and ``line`` at their places taken out."""
    now_us = course.marks[NOW]
    # each is planned up to three times, and a place has two ends
    more = 6 * line.shape[0] + 2 * ROUNDS + 8
    room = timeline_of(course.fleet, ends_to_come(course, chronicle, jobs), now_us, more)
    for job in line:
        book(room, course.plan, jobs, job, 1)
    return Horizon(course.fleet, course.off_us, course.ready_us, jobs, course.plan, room, now_us)


def arrive(course: Course, chronicle: Chronicle, jobs: Jobs, job: int) -> bool:
    """Plan a job that has come; False if it never fits."""
    plan, line = course.plan, line_of(course)
    others = line[plan.start_us[line] != UNSEEN]
    plan.since_us[job] = course.marks[NOW]
    horizon, taste = horizon_of(course, chronicle, jobs, others), taste_of(plan.patience)
    if not add(horizon, job, taste):
        return False
    line = np.append(others, job)
    if plan.is_late[job] and line.shape[0] <= REPAIR_JOBS:
        repair(horizon, line, taste)
    improve(horizon, line, taste)
    return True


def due(plan: Plan, line: Ints, now_us: int, nodes: int) -> Picks:
    """Return the jobs whose planned start has come, else when the next one's will."""
    ready = line[plan.start_us[line] <= now_us]
    wake_us = FOREVER_US if ready.shape[0] else int(np.min(plan.start_us[line]))
    counts = np.zeros((ready.shape[0], nodes), dtype=np.int64)
    for k in range(ready.shape[0]):
        counts[k] = spot_of(plan, ready[k], nodes).counts
    return Picks(ready, plan.mode[ready], counts, wake_us)


def pick_planned(course: Course, chronicle: Chronicle, jobs: Jobs, rules: Rules) -> Picks:
    """Plan who has come since, and return whose start has come; a queue policy (``waiting``).

    Where ``rules`` drop jobs, one is dropped as soon as a start now would be too late.
    """
    line, now_us, nodes = line_of(course), course.marks[NOW], jobs.eligible.shape[1]
    for job in line:
        if rules.drops and now_us + jobs.local_us[job] > jobs.deadline_us[job]:
            return picked(job, DROPPED, np.zeros(nodes, dtype=np.int64), FOREVER_US)
    for job in line:
        if course.plan.since_us[job] == UNSEEN and not arrive(course, chronicle, jobs, job):
            return picked(job, NO_NODE, np.zeros(nodes, dtype=np.int64), FOREVER_US)
    return due(course.plan, line, now_us, nodes)


#: Put into their callers, as ``kernels.INLINED``: what is asked for each node and start.
INLINED = frozenset(
    (
        window.fits_in,
        window.room_of,
        window.share_nano,
        window.segment_of,
        window.next_start_us,
        value.natural_log,
        value.charge_of,
        value.value_of,
    )
)

#: The kernels of this policy, each calling only those above it and those of the event loop; the
#: last is the queue policy.
KERNELS: tuple[Callable[..., Any], ...] = (
    timeline.timeline_of,
    timeline.segment_at,
    timeline.cut,
    timeline.book,
    window.fits_in,
    window.candidates,
    window.facts_of,
    window.grid_of,
    window.room_of,
    window.share_nano,
    window.segment_of,
    window.least_nano,
    window.counts_of,
    window.next_start_us,
    window.next_wait_us,
    value.taste_of,
    value.natural_log,
    value.wish_of,
    value.charge_of,
    value.value_of,
    value.better,
    value.place,
    value.sooner,
    value.place_late,
    settle,
    add,
    improve,
    by_deadline,
    late_among,
    spot_of,
    replan,
    repair,
    horizon_of,
    arrive,
    due,
    pick_planned,
)
