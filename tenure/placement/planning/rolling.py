"""Policy ``tenure``: a rolling plan of all waiting jobs (ours).

Theory of operation. Not "what starts now?" is decided, but when and where every waiting job will
run. A job that comes is put where its value is least (``value``); the others keep their places, so
nobody is passed over (conservative backfilling, Mu'alem and Feitelson 2001), and a plan that meets
its deadlines goes on meeting them while estimates hold. A job starts when its planned start comes.

Who comes waits for one search, his own. A moment later a few waiting jobs are taken out in turn and
put back where they are best then: an event of its own, so that many who come together do not pay
for it one by one, and the same in a simulation and in a daemon.

A job that fits no start before its deadline, though it would without the others, first drives out
the late jobs, then has the whole queue planned again by deadline as early as can be; whichever
leaves fewer late jobs is kept. Late jobs take the earliest room left over.
"""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Jobs
from tenure.placement.binding import Kernel
from tenure.placement.decisions.decide import NO_NODE
from tenure.placement.planning import timeline, value, window
from tenure.placement.planning.budget import count_in, within_budget
from tenure.placement.planning.choice import in_time, too_late
from tenure.placement.planning.precedence import (
    add,
    behind,
    go_before,
    is_hurt,
    push_aside,
    settle,
    spot_of,
    take_out,
)
from tenure.placement.planning.regroup import regroup
from tenure.placement.planning.timeline import book, timeline_of
from tenure.placement.planning.value import CALM, Taste, spendable, taste_of
from tenure.placement.planning.window import Horizon
from tenure.placement.queue.course import DROPPED, NOW, Course, History, Rules
from tenure.placement.queue.plan import DUE, LAST, LEFT, SPENT, TURN, UNSEEN, Plan
from tenure.placement.queue.waiting import Picks, ends_to_come, line_of, picked

#: The charge that makes a plan as early as possible.
HURRY = 50.0
#: Jobs put back anew for each that came.
ROUNDS = 4
#: The time to that from an arrival, and from one such moment to the next.
SOON_US, PAUSE_US = 1_000, 100_000


def call_for(plan: Plan, jobs: int, at_us: int) -> None:
    """Have so many jobs more put where they are best, from ``at_us`` on."""
    rotation = plan.rotation
    due_us = max(at_us, rotation[LAST] + PAUSE_US)
    rotation[DUE] = min(rotation[DUE], due_us) if rotation[LEFT] > 0 else due_us
    rotation[LEFT] += jobs


def call_by_rank(plan: Plan, line: Ints, at_us: int) -> Ints:
    """Have all of ``line`` put where they are best, for room has come back; return them by rank.

    Where ranks differ the first of them is looked at first: else room that came early would go to
    whoever has his turn, and who goes before him would look at what is left.
    """
    call_for(plan, line.shape[0], at_us)
    by_rank: Ints = line[np.argsort(plan.rank[line], kind="mergesort")]
    if line.shape[0] > 0 and plan.rank[by_rank[0]] < plan.rank[by_rank[-1]]:
        plan.rotation[TURN] = 0
    return by_rank


def call_first(plan: Plan, line: Ints, job: int, at_us: int) -> None:
    """Have a job of ``line`` put where it is best, as the next; nothing if he is not in it."""
    for k in range(line.shape[0]):
        if line[k] == job:
            call_for(plan, 1, at_us)
            plan.rotation[TURN] = k


def improve(horizon: Horizon, line: Ints) -> None:
    """If it is time, take a few jobs of the plan out in turn, and put each where it is best now."""
    plan, count, now_us = horizon.plan, line.shape[0], horizon.now_us
    rotation = plan.rotation
    if count == 0 or rotation[LEFT] == 0 or rotation[DUE] > now_us:
        return
    patience = spendable(horizon, line)
    rounds = min(rotation[LEFT], plan.rounds, count)
    for k in range(rounds):
        job = line[(rotation[TURN] + k) % count]
        taste = within_budget(plan, horizon.jobs, job, taste_of(patience))
        was_end_us = plan.end_us[job]
        put_anew(horizon, line, job, taste)
        rotation[SPENT] += plan.end_us[job] - was_end_us
        if patience > CALM and plan.rounds > 1:
            regroup(horizon, line, job, taste)
    rotation[TURN] += rounds
    rotation[LEFT] = min(rotation[LEFT] - rounds, count)
    rotation[LAST], rotation[DUE] = now_us, now_us + PAUSE_US


def put_anew(horizon: Horizon, line: Ints, job: int, taste: Taste) -> None:
    """Take a job out of the plan and put it back where it is best now, before its lessers."""
    plan = horizon.plan
    take_out(horizon, job)
    if go_before(horizon, line, job, taste):
        return
    spot = in_time(horizon, job, taste)
    is_late = spot.mode == 0
    if is_late and plan.is_late[job]:
        spot = too_late(horizon, job)
    if spot.mode == 0:
        book(horizon.line, plan, horizon.jobs, job, 1)
    else:
        settle(horizon, job, spot, is_late)


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


def replan(horizon: Horizon, line: Ints, taste: Taste, most: int) -> Bools:
    """Plan jobs, which have no place, in their order; those that would be late come last.

    Return who has a place: not all, and none who is late, once ``most`` would be.
    """
    is_placed, late = np.zeros(line.shape[0], dtype=np.bool_), 0
    for k in range(line.shape[0]):
        spot = in_time(horizon, line[k], taste)
        is_placed[k] = spot.mode > 0
        if spot.mode > 0:
            settle(horizon, line[k], spot, False)
        else:
            late += 1
        if late >= most:
            return is_placed
    for job in line[~is_placed]:
        settle(horizon, job, too_late(horizon, job), True)
    return np.ones(line.shape[0], dtype=np.bool_)


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
        is_placed = replan(horizon, some, Taste(HURRY, 0.0) if is_whole else taste, before)
        is_fine = bool(np.all(is_placed))
        for k in range(some.shape[0]):
            is_fine = is_fine and not is_hurt(plan, some[k], old[k].end_us)
        if is_fine:
            continue
        for job in some[is_placed]:
            take_out(horizon, job)
        for k in range(some.shape[0]):
            settle(horizon, some[k], old[k], was_late[k])


def is_in_vain(horizon: Horizon, movable: Ints, job: int) -> bool:
    """Return whether a job would be late even if nobody of ``movable`` had a place; he has one too.

    Then to plan them again is of no use to him. One search.
    """
    for one in movable:
        take_out(horizon, one)
    spot = in_time(horizon, job, Taste(HURRY, 0.0))
    for one in movable:
        book(horizon.line, horizon.plan, horizon.jobs, one, 1)
    return bool(spot.mode == 0)


def not_before(plan: Plan, line: Ints, job: int) -> Ints:
    """Return the jobs of ``line`` that do not go before ``job`` by their rank."""
    movable: Ints = line[plan.rank[line] >= plan.rank[job]]
    return movable


def take_in(horizon: Horizon, others: Ints, job: int) -> bool:
    """Plan a job beside ``others``, who are to be looked at soon; False if it never fits."""
    plan = horizon.plan
    taste = taste_of(spendable(horizon, np.append(others, job)))
    taste = within_budget(plan, horizon.jobs, job, taste)
    lesser = behind(horizon, others, job)[: plan.repairs]
    is_in = lesser.shape[0] > 0 and push_aside(horizon, lesser, job, taste)
    if not is_in and not add(horizon, job, taste):
        return False
    count_in(plan, horizon.jobs, job)
    if plan.is_late[job]:
        movable = not_before(plan, np.append(others, job), job)
        if movable.shape[0] <= plan.repairs and not is_in_vain(horizon, movable, job):
            repair(horizon, movable, taste)
    call_for(plan, ROUNDS, horizon.now_us + SOON_US)
    return True


def steps_for(jobs: Jobs, line: Ints) -> int:
    """Return how many steps the places of jobs may add to a timeline: two for each node."""
    total = 0
    for job in line:
        total += min(jobs.executors[job], jobs.eligible.shape[1])
    return 2 * int(total)


def horizon_of(course: Course, history: History, jobs: Jobs, line: Ints) -> Horizon:
    """Return the room from now on, with all that runs and ``line`` at their places taken out.

    Nobody but those who wait may be planned in it.
    """
    now_us, more = course.marks[NOW], steps_for(jobs, line_of(course))
    room = timeline_of(course.fleet, ends_to_come(course, history, jobs), now_us, more)
    for job in line:
        book(room, course.plan, jobs, job, 1)
    return Horizon(course.fleet, course.off_us, course.ready_us, jobs, course.plan, room, now_us)


def arrive(course: Course, history: History, jobs: Jobs, job: int) -> bool:
    """Plan a job that has come; False if it never fits."""
    plan, line = course.plan, line_of(course)
    others = line[plan.start_us[line] != UNSEEN]
    plan.since_us[job] = course.marks[NOW]
    horizon = horizon_of(course, history, jobs, others)
    return take_in(horizon, others, job)


def due_us(plan: Plan) -> int:
    """Return when jobs are to be put where they are best, FOREVER_US if none are."""
    return int(plan.rotation[DUE] if plan.rotation[LEFT] > 0 else FOREVER_US)


def due(plan: Plan, line: Ints, now_us: int, nodes: int) -> Picks:
    """Return the jobs whose planned start has come, else when to look again."""
    ready = line[plan.start_us[line] <= now_us]
    wake_us = FOREVER_US
    if ready.shape[0] == 0:
        wake_us = min(int(np.min(plan.start_us[line])), due_us(plan))
    counts = np.zeros((ready.shape[0], nodes), dtype=np.int64)
    for k in range(ready.shape[0]):
        counts[k] = spot_of(plan, ready[k], nodes).counts
    return Picks(ready, plan.mode[ready], counts, wake_us)


def pick_planned(course: Course, history: History, jobs: Jobs, rules: Rules) -> Picks:
    """Plan who has come since, and return whose start has come; a queue policy (``waiting``).

    Where it is time, some are put where they are best now before.

    Where ``rules`` drop jobs, one is dropped as soon as a start now would be too late.
    """
    line, now_us, nodes = line_of(course), course.marks[NOW], jobs.eligible.shape[1]
    for job in line:
        if rules.drops and now_us + jobs.local_us[job] > jobs.deadline_us[job]:
            return picked(job, DROPPED, np.zeros(nodes, dtype=np.int64), FOREVER_US)
    for job in line:
        if course.plan.since_us[job] == UNSEEN and not arrive(course, history, jobs, job):
            return picked(job, NO_NODE, np.zeros(nodes, dtype=np.int64), FOREVER_US)
    if due_us(course.plan) <= now_us:
        horizon = horizon_of(course, history, jobs, line)
        improve(horizon, line)
    return due(course.plan, line, now_us, nodes)


#: Put into their callers, as ``kernels.INLINED``: what is asked for each node and start.
INLINED: frozenset[Kernel] = frozenset(
    (
        timeline.lent_line,
        timeline.cut,
        timeline.heal,
        timeline.change,
        window.fits_in,
        window.room_of,
        window.is_full,
        window.can_begin,
        window.weigh,
        window.cover,
        window.lent_grid,
        value.natural_log,
        value.charge_of,
        value.value_of,
        value.with_soonest,
    )
)
