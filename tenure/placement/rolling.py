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
from tenure.placement import choice, precedence, timeline, value, window
from tenure.placement.arrays import Jobs
from tenure.placement.choice import in_time, too_late
from tenure.placement.course import DROPPED, NOW, Chronicle, Course, Rules
from tenure.placement.decide import NO_NODE
from tenure.placement.plan import UNSEEN, Plan
from tenure.placement.precedence import (
    add,
    behind,
    is_hurt,
    push_aside,
    settle,
    spot_of,
    take_out,
)
from tenure.placement.timeline import book, timeline_of
from tenure.placement.value import Taste, taste_of
from tenure.placement.waiting import Picks, ends_to_come, line_of, picked
from tenure.placement.window import Horizon

#: The charge that makes a plan as early as possible.
HURRY = 50.0
#: Jobs put back anew after each arrival.
ROUNDS = 4


def improve(horizon: Horizon, line: Ints, taste: Taste, rounds: int) -> None:
    """Take so many jobs of the plan out in turn, and put each back where it is best now."""
    plan, count = horizon.plan, line.shape[0]
    for k in range(min(rounds, count)):
        job = line[(plan.turn[0] + k) % count]
        take_out(horizon, job)
        spot = in_time(horizon, job, taste)
        is_late = spot.mode == 0
        if is_late and plan.is_late[job]:
            spot = too_late(horizon, job)
        if spot.mode == 0:
            book(horizon.line, plan, horizon.jobs, job, 1)
        else:
            settle(horizon, job, spot, is_late)
    plan.turn[0] += rounds


def by_precedence(plan: Plan, jobs: Jobs, line: Ints) -> Ints:
    """Return jobs by rank, then by deadline, equals in the order given."""
    line = line[np.argsort(jobs.deadline_us[line], kind="mergesort")]
    return line[np.argsort(plan.rank[line], kind="mergesort")]


def late_among(plan: Plan, line: Ints) -> int:
    """Return how many jobs miss their deadlines by the plan."""
    count = 0
    for job in line:
        count += plan.is_late[job]
    return count


def replan(horizon: Horizon, line: Ints, taste: Taste) -> None:
    """Plan jobs, which have no place, in their order; those that would be late come last."""
    is_left = np.zeros(line.shape[0], dtype=np.bool_)
    for k in range(line.shape[0]):
        spot = in_time(horizon, line[k], taste)
        is_left[k] = spot.mode == 0
        if spot.mode > 0:
            settle(horizon, line[k], spot, False)
    for job in line[is_left]:
        settle(horizon, job, too_late(horizon, job), True)


def repair(horizon: Horizon, line: Ints, taste: Taste) -> None:
    """Have fewer late jobs, or leave the plan as it is: O(jobs) placements.

    First only late jobs are planned again, then all, by deadline and as early as possible. Nobody
    is put off beyond his guard.
    """
    jobs, plan, nodes = horizon.jobs, horizon.plan, horizon.fleet.price.shape[0]
    order = by_precedence(plan, jobs, line)
    for is_whole in (False, True):
        before = late_among(plan, order)
        if before == 0:
            return
        some = order if is_whole else order[plan.is_late[order]]
        was_late = plan.is_late[some]
        old = [spot_of(plan, job, nodes) for job in some]
        for job in some:
            take_out(horizon, job)
        replan(horizon, some, Taste(HURRY, 0.0) if is_whole else taste)
        is_fine = late_among(plan, order) < before
        for k in range(some.shape[0]):
            is_fine = is_fine and not is_hurt(plan, some[k], old[k].end_us)
        if is_fine:
            continue
        for job in some:
            take_out(horizon, job)
        for k in range(some.shape[0]):
            settle(horizon, some[k], old[k], was_late[k])


def not_before(plan: Plan, line: Ints, job: int) -> Ints:
    """Return the jobs of ``line`` that do not go before ``job`` by their rank."""
    movable: Ints = line[plan.rank[line] >= plan.rank[job]]
    return movable


def take_in(horizon: Horizon, others: Ints, job: int, taste: Taste) -> bool:
    """Plan a job beside ``others``, and see how they can be better; False if it never fits."""
    plan = horizon.plan
    lesser = behind(horizon, others, job)
    is_in = 0 < lesser.shape[0] <= plan.repairs and push_aside(horizon, lesser, job, taste)
    if not is_in and not add(horizon, job, taste):
        return False
    line = np.append(others, job)
    if plan.is_late[job]:
        movable = not_before(plan, line, job)
        if movable.shape[0] <= plan.repairs:
            repair(horizon, movable, taste)
    improve(horizon, line, taste, ROUNDS)
    return True


def room_for(jobs: int, plan: Plan) -> int:
    """Return how many breakpoints planning one job beside so many may add, theirs included.

    Each is planned up to four times (pushed aside, twice in a repair), and a place has two ends.
    """
    return 2 * jobs + 8 * min(jobs, plan.repairs) + 2 * ROUNDS + 16


def horizon_of(course: Course, chronicle: Chronicle, jobs: Jobs, line: Ints) -> Horizon:
    """Return the room from now on, with all that runs and ``line`` at their places taken out."""
    now_us = course.marks[NOW]
    more = room_for(line.shape[0] + 1, course.plan)
    room = timeline_of(course.fleet, ends_to_come(course, chronicle, jobs), now_us, more)
    for job in line:
        book(room, course.plan, jobs, job, 1)
    return Horizon(course.fleet, course.off_us, course.ready_us, jobs, course.plan, room, now_us)


def arrive(course: Course, chronicle: Chronicle, jobs: Jobs, job: int) -> bool:
    """Plan a job that has come; False if it never fits."""
    plan, line = course.plan, line_of(course)
    others = line[plan.start_us[line] != UNSEEN]
    plan.since_us[job] = course.marks[NOW]
    horizon = horizon_of(course, chronicle, jobs, others)
    return take_in(horizon, others, job, taste_of(plan.patience))


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

#: The kernels that plan, each calling only those above it and those of ``kernels``.
PLANNING: tuple[Callable[..., Any], ...] = (
    timeline.timeline_of,
    timeline.segment_at,
    timeline.cut,
    timeline.book,
    window.fits_in,
    window.candidates,
    window.warm_us,
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
    choice.longest_boot_us,
    choice.seen_through,
    choice.by_own_policy,
    choice.in_time,
    choice.too_late,
    precedence.note,
    precedence.settle,
    precedence.add,
    precedence.spot_of,
    precedence.is_hurt,
    precedence.behind,
    precedence.blocked_until_us,
    precedence.rows_of,
    precedence.fits_where_it_was,
    precedence.take_out,
    precedence.put_back,
    precedence.push_aside,
    improve,
    by_precedence,
    late_among,
    replan,
    repair,
    not_before,
    take_in,
    room_for,
)
#: The kernels of this policy, each calling only those above it and those of the event loop; the
#: last is the queue policy.
KERNELS: tuple[Callable[..., Any], ...] = (*PLANNING, horizon_of, arrive, due, pick_planned)
