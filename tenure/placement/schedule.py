"""The simulated schedule: what would become of the queue if every estimate held.

Theory of operation. Time jumps from one end of executors to the next. At each stop, room is given
back and the head of the queue is decided on by the very function that decides for real; the
head is placed whole or blocks all behind it (no backfill). A head that would not fit an empty
fleet is passed over. A head that waits only because a start now would be too late (Eq. 15) is
also looked at when waiting stops helping. A node whose last executor ended is still on at that
instant and off after it, unless something keeps it on or it is never switched: then it needs its
boot again, and its next use is paid from the start (t_j = 0).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.model.placing import NEVER, Bools, Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Ends, Fleet, Jobs, Need
from tenure.placement.cost import delay_us, extension_us, total_nano
from tenure.placement.decide import LOCAL, NO_NODE, TOO_LATE, decide, quickest_us


class Schedule(NamedTuple):
    """When and where each job (q,) would run; ``counts`` is (q, n), mode 0 means never.

    ``placed_us`` is the moment of the decision, ``start_us`` when all its nodes are up.
    """

    mode: Ints
    placed_us: Ints
    start_us: Ints
    end_us: Ints
    cost_nano: Ints
    counts: Ints


class Course(NamedTuple):
    """The fleet while it is simulated, each array (n,); ``pending_us`` (q,) job ends to come.

    ``off_us`` is when the last executor leaves, ``ready_us`` when a node that is on can work.
    """

    free_cpu_m: Ints
    free_memory: Ints
    off_us: Ints
    ready_us: Ints
    is_on: Bools
    pending_us: Ints


def begin(fleet: Fleet, jobs: int, now_us: int) -> Course:
    """Return the state at ``now_us`` with ``jobs`` jobs waiting."""
    return Course(
        fleet.free_cpu_m.copy(),
        fleet.free_memory.copy(),
        now_us + fleet.remaining_us,
        now_us + fleet.boot_us,
        fleet.is_on.copy(),
        np.full(jobs, FOREVER_US, dtype=np.int64),
    )


def fleet_at(fleet: Fleet, course: Course, at_us: int) -> Fleet:
    """Return the nodes as a policy would see them at ``at_us``."""
    boot_us = np.where(course.is_on, np.maximum(course.ready_us - at_us, 0), fleet.reboot_us)
    return Fleet(
        course.free_cpu_m,
        course.free_memory,
        fleet.capacity_cpu_m,
        fleet.capacity_memory,
        fleet.price,
        np.maximum(course.off_us - at_us, 0),
        course.is_on,
        fleet.is_cloud,
        boot_us,
        fleet.reboot_us,
        fleet.min_billing_us,
    )


def need_at(jobs: Jobs, job: int, at_us: int) -> Need:
    """Return the waiting job as a policy would see it at ``at_us``."""
    deadline_us = jobs.deadline_us[job]
    return Need(
        jobs.executors[job],
        jobs.cpu_m[job],
        jobs.memory_bytes[job],
        jobs.local_us[job],
        jobs.hybrid_us[job],
        FOREVER_US if deadline_us >= FOREVER_US else deadline_us - at_us,
        jobs.eligible[job],
    )


def commit(jobs: Jobs, course: Course, plan: Schedule, job: int, fleet: Fleet) -> None:
    """Take the room of a job whose mode, placement time and counts are in ``plan``."""
    counts = plan.counts[job]
    wait_us = delay_us(counts, fleet.boot_us)
    run_us = jobs.local_us[job] if plan.mode[job] == LOCAL else jobs.hybrid_us[job]
    at_us = plan.placed_us[job]
    plan.start_us[job] = at_us + wait_us
    plan.end_us[job] = at_us + wait_us + run_us
    plan.cost_nano[job] = total_nano(fleet, counts, wait_us + run_us)
    course.pending_us[job] = plan.end_us[job]
    course.free_cpu_m[:] -= counts * jobs.cpu_m[job]
    course.free_memory[:] -= counts * jobs.memory_bytes[job]
    for j in np.flatnonzero(counts):
        more_us = extension_us(fleet, int(j), wait_us + run_us)
        course.off_us[j] = at_us + fleet.remaining_us[j] + more_us
        course.ready_us[j] = at_us + fleet.boot_us[j]
        course.is_on[j] = True


def release(jobs: Jobs, course: Course, plan: Schedule, at_us: int) -> None:
    """Give back the room of jobs that end by ``at_us``."""
    for job in np.flatnonzero(course.pending_us <= at_us):
        course.free_cpu_m[:] += plan.counts[job] * jobs.cpu_m[job]
        course.free_memory[:] += plan.counts[job] * jobs.memory_bytes[job]
        course.pending_us[job] = FOREVER_US


def advance(ends: Ends, course: Course, fleet: Fleet, from_us: int, to_us: int) -> None:
    """Give back what running executors free in (from_us, to_us]; switch off nodes left before."""
    first = np.searchsorted(ends.end_us, from_us, side="right")
    last = np.searchsorted(ends.end_us, to_us, side="right")
    for end in range(first, last):
        course.free_cpu_m[ends.node[end]] += ends.cpu_m[end]
        course.free_memory[ends.node[end]] += ends.memory_bytes[end]
    course.is_on[:] &= (course.off_us >= to_us) | (fleet.reboot_us == NEVER)


def next_stop_us(ends: Ends, course: Course, at_us: int) -> int:
    """Return when room is given back next after ``at_us``, FOREVER_US if never."""
    stop_us = np.min(course.pending_us)
    index = np.searchsorted(ends.end_us, at_us, side="right")
    if index < ends.end_us.shape[0]:
        stop_us = min(stop_us, ends.end_us[index])
    return int(stop_us)


def simulate(fleet: Fleet, ends: Ends, jobs: Jobs, now_us: int) -> Schedule:
    """Simulate the queue in its order from ``now_us``; deterministic, nothing given is changed.

    Every turn of the loop settles a job, passes an end, or is the one stop between two ends at
    which a head that could still be in time becomes late: at most 4 q + 2 r turns.
    """
    q, n = jobs.eligible.shape
    plan = Schedule(
        np.zeros(q, dtype=np.int64),
        np.zeros(q, dtype=np.int64),
        np.zeros(q, dtype=np.int64),
        np.zeros(q, dtype=np.int64),
        np.zeros(q, dtype=np.int64),
        np.zeros((q, n), dtype=np.int64),
    )
    course = begin(fleet, q, now_us)
    at_us = now_us
    head = 0
    may_wake = True
    while head < q:
        now_fleet = fleet_at(fleet, course, at_us)
        need = need_at(jobs, head, at_us)
        verdict, counts = decide(jobs.policy[head], now_fleet, need)
        if verdict > 0:
            plan.mode[head] = verdict
            plan.placed_us[head] = at_us
            plan.counts[head] = counts
            commit(jobs, course, plan, head, now_fleet)
        stop_us = next_stop_us(ends, course, at_us)
        lost_us = at_us
        if verdict == TOO_LATE and may_wake:
            lost_us = jobs.deadline_us[head] - quickest_us(jobs.policy[head], now_fleet, need)
        is_wake = at_us < lost_us < stop_us
        may_wake = not is_wake
        stop_us = lost_us if is_wake else stop_us
        if verdict > 0 or verdict == NO_NODE or stop_us >= FOREVER_US:
            head += 1
            may_wake = True
            continue
        release(jobs, course, plan, stop_us)
        advance(ends, course, fleet, at_us, stop_us)
        at_us = stop_us
    return plan
