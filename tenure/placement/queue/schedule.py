"""The simulated schedule: what would become of the queue if every estimate held.

Theory of operation. Time jumps from one end of executors to the next. At each stop, room is given
back and the head of the queue is decided on by the very function that decides for real; the
head is placed whole or blocks all behind it (no backfill). A head that would not fit an empty
fleet is passed over. A head that waits only because a start now would be too late (Eq. 15) is
also looked at when waiting stops helping. A node whose last executor ended is still on at that
instant and off after it, unless something keeps it on or it is never switched: then it needs its
boot again, and its next use is paid from the start (t_j = 0).

What becomes of a job depends on nothing behind it. So the state of the fleet is kept at every few
heads (``Marks``), and the schedule of a queue that begins like another goes on from the last mark
that both share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.model.placing import NEVER, Bools, Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Ends, Fleet, Jobs, Need
from tenure.placement.decisions.cost import delay_us, extension_us, slots, total_nano
from tenure.placement.decisions.decide import (
    LOCAL,
    NO_NODE,
    NO_ROOM,
    TOO_LATE,
    decide,
    quickest_us,
)
from tenure.placement.queue.course import need_now


class Schedule(NamedTuple):
    """When and where each job (q,) would run; ``counts`` is (q, n), mode 0 means never.

    Position k is the k-th job of the queue.

    ``placed_us`` is the moment of the decision, ``start_us`` when all its nodes are up.
    """

    mode: Ints
    placed_us: Ints
    start_us: Ints
    end_us: Ints
    cost_nano: Ints
    counts: Ints


class Line(NamedTuple):
    """A queue: the k-th job is number ``order[k]`` of ``jobs``."""

    jobs: Jobs
    order: Ints


class Course(NamedTuple):
    """The fleet while it is simulated, each array (n,); ``pending_us`` (q,) job ends to come.

    ``room`` is how many executors of the present head fit each node.

    ``off_us`` is when the last executor leaves, ``ready_us`` when a node that is on can work.
    """

    free_cpu_m: Ints
    free_memory: Ints
    off_us: Ints
    ready_us: Ints
    is_on: Bools
    pending_us: Ints
    room: Ints


class Marks(NamedTuple):
    """The course as it was when every ``stride``-th job became the head: (m,), (m, n), (m, q).

    ``at_us`` is when it became the head; ``pending_us`` as in ``Course``.
    """

    at_us: Ints
    free_cpu_m: Ints
    free_memory: Ints
    off_us: Ints
    ready_us: Ints
    is_on: Bools
    pending_us: Ints


class Record(NamedTuple):
    """What is known of the schedule of one queue."""

    plan: Schedule
    marks: Marks


def begin(fleet: Fleet, jobs: int, now_us: int) -> Course:
    """Return the state at ``now_us`` with ``jobs`` jobs waiting."""
    return Course(
        fleet.free_cpu_m.copy(),
        fleet.free_memory.copy(),
        now_us + fleet.remaining_us,
        now_us + fleet.boot_us,
        fleet.is_on.copy(),
        np.full(jobs, FOREVER_US, dtype=np.int64),
        np.zeros(fleet.price.shape[0], dtype=np.int64),
    )


def set_mark(marks: Marks, index: int, course: Course, at_us: int) -> None:
    """Keep the course, as it is now, as mark number ``index``."""
    marks.at_us[index] = at_us
    marks.free_cpu_m[index] = course.free_cpu_m
    marks.free_memory[index] = course.free_memory
    marks.off_us[index] = course.off_us
    marks.ready_us[index] = course.ready_us
    marks.is_on[index] = course.is_on
    marks.pending_us[index] = course.pending_us


def go_back(marks: Marks, index: int, course: Course) -> int:
    """Bring the course to mark number ``index`` and return its time."""
    course.free_cpu_m[:] = marks.free_cpu_m[index]
    course.free_memory[:] = marks.free_memory[index]
    course.off_us[:] = marks.off_us[index]
    course.ready_us[:] = marks.ready_us[index]
    course.is_on[:] = marks.is_on[index]
    course.pending_us[:] = marks.pending_us[index]
    return int(marks.at_us[index])


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


def commit(line: Line, k: int, course: Course, plan: Schedule, fleet: Fleet) -> None:
    """Take the room of the k-th job, whose mode, time and counts are in ``plan``."""
    jobs, job, counts = line.jobs, line.order[k], plan.counts[k]
    wait_us = delay_us(counts, fleet.boot_us)
    run_us = jobs.local_us[job] if plan.mode[k] == LOCAL else jobs.hybrid_us[job]
    at_us = plan.placed_us[k]
    plan.start_us[k] = at_us + wait_us
    plan.end_us[k] = at_us + wait_us + run_us
    plan.cost_nano[k] = total_nano(fleet, counts, wait_us + run_us)
    course.pending_us[k] = plan.end_us[k]
    cpu_m, memory_bytes = jobs.cpu_m[job], jobs.memory_bytes[job]
    for j in range(counts.shape[0]):
        if counts[j] > 0:
            course.free_cpu_m[j] -= counts[j] * cpu_m
            course.free_memory[j] -= counts[j] * memory_bytes
            more_us = extension_us(fleet, j, wait_us + run_us)
            course.off_us[j] = at_us + fleet.remaining_us[j] + more_us
            course.ready_us[j] = at_us + fleet.boot_us[j]
            course.is_on[j] = True


def release(line: Line, course: Course, plan: Schedule, at_us: int) -> None:
    """Give back the room of jobs that end by ``at_us``."""
    for k in np.flatnonzero(course.pending_us <= at_us):
        job, counts = line.order[k], plan.counts[k]
        cpu_m, memory_bytes = line.jobs.cpu_m[job], line.jobs.memory_bytes[job]
        for j in range(counts.shape[0]):
            if counts[j] > 0:
                course.free_cpu_m[j] += counts[j] * cpu_m
                course.free_memory[j] += counts[j] * memory_bytes
        course.pending_us[k] = FOREVER_US


def switch_off(fleet: Fleet, course: Course, at_us: int) -> None:
    """Note which nodes were left before ``at_us`` and are off since: nothing else kept them on."""
    course.is_on[:] &= (course.off_us >= at_us) | (fleet.reboot_us == NEVER)


def fit_on(course: Course, need: Need, node: int) -> int:
    """Return how many executors of the head fit one node (as ``slots``)."""
    if not need.eligible[node]:
        return 0
    count = need.executors
    if need.cpu_m > 0:
        count = min(count, course.free_cpu_m[node] // need.cpu_m)
    if need.memory_bytes > 0:
        count = min(count, course.free_memory[node] // need.memory_bytes)
    return max(int(count), 0)


def advance(ends: Ends, first: int, course: Course, need: Need, to_us: int) -> int:
    """Give back what running executors free until ``to_us``, from number ``first`` on.

    Counts ``course.room`` anew where room was given back. Returns the number of the next end.
    """
    end = first
    while end < ends.end_us.shape[0] and ends.end_us[end] <= to_us:
        node = ends.node[end]
        course.free_cpu_m[node] += ends.cpu_m[end]
        course.free_memory[node] += ends.memory_bytes[end]
        course.room[node] = fit_on(course, need, node)
        end += 1
    return end


def next_stop_us(ends: Ends, following: int, course: Course) -> int:
    """Return when room is given back next, FOREVER_US if never; ``following`` is the next end."""
    stop_us = np.min(course.pending_us)
    if following < ends.end_us.shape[0]:
        stop_us = min(stop_us, ends.end_us[following])
    return int(stop_us)


def resume(
    fleet: Fleet, ends: Ends, line: Line, record: Record, span: tuple[int, int, int]
) -> None:
    """Simulate a queue from a mark on and write the rest of its ``record``.

    ``span`` is (now_us, the mark to begin at, the stride of the marks). ``record`` holds what came
    before that mark, and the mark; mark 0 is the beginning and need not be set. Deterministic; of
    what is given only ``record`` changes. Every turn of the loop settles a job, passes an end, or
    is the one stop between two ends at which a head that could still be in time becomes late: at
    most 4 q + 2 r turns, of which those that cannot place anything look only at the nodes that
    were given room.
    """
    now_us, mark, stride = span
    jobs, order = line.jobs, line.order
    plan, marks = record.plan, record.marks
    course = begin(fleet, order.shape[0], now_us)
    at_us = go_back(marks, mark, course) if mark > 0 else now_us
    following = int(np.searchsorted(ends.end_us, at_us, side="right"))
    head, seen = mark * stride, -1
    may_wake, could_fit = True, True
    while head < order.shape[0]:
        job = order[head]
        need = need_now(jobs, job, at_us, True)
        if seen != head:
            if head % stride == 0:
                set_mark(marks, head // stride, course, at_us)
            seen, may_wake = head, True
            could_fit = quickest_us(jobs.policy[job], fleet, need) < FOREVER_US
            course.room[:] = slots(course.free_cpu_m, course.free_memory, need)
        verdict, lost_us = NO_ROOM if could_fit else NO_NODE, at_us
        if could_fit and np.sum(course.room) >= need.executors:
            switch_off(fleet, course, at_us)
            now_fleet = fleet_at(fleet, course, at_us)
            verdict, counts = decide(jobs.policy[job], now_fleet, need)
            if verdict > 0:
                plan.mode[head] = verdict
                plan.placed_us[head] = at_us
                plan.counts[head] = counts
                commit(line, head, course, plan, now_fleet)
            elif verdict == TOO_LATE and may_wake:
                lost_us = jobs.deadline_us[job] - quickest_us(jobs.policy[job], now_fleet, need)
        stop_us = next_stop_us(ends, following, course)
        is_wake = at_us < lost_us < stop_us
        may_wake = not is_wake
        stop_us = lost_us if is_wake else stop_us
        if verdict > 0 or verdict == NO_NODE or stop_us >= FOREVER_US:
            head += 1
            continue
        if np.min(course.pending_us) <= stop_us:
            release(line, course, plan, stop_us)
            course.room[:] = slots(course.free_cpu_m, course.free_memory, need)
        following = advance(ends, following, course, need, stop_us)
        at_us = stop_us


def blank(jobs: int, nodes: int, stride: int) -> Record:
    """Return a record for a queue of ``jobs`` in which nothing is known yet."""
    count = -(-jobs // stride)
    plan = Schedule(
        np.zeros(jobs, dtype=np.int64),
        np.zeros(jobs, dtype=np.int64),
        np.zeros(jobs, dtype=np.int64),
        np.zeros(jobs, dtype=np.int64),
        np.zeros(jobs, dtype=np.int64),
        np.zeros((jobs, nodes), dtype=np.int64),
    )
    marks = Marks(
        np.zeros(count, dtype=np.int64),
        np.zeros((count, nodes), dtype=np.int64),
        np.zeros((count, nodes), dtype=np.int64),
        np.zeros((count, nodes), dtype=np.int64),
        np.zeros((count, nodes), dtype=np.int64),
        np.zeros((count, nodes), dtype=np.bool_),
        np.full((count, jobs), FOREVER_US, dtype=np.int64),
    )
    return Record(plan, marks)


def simulate(fleet: Fleet, ends: Ends, jobs: Jobs, now_us: int) -> Schedule:
    """Simulate ``jobs`` in their order from ``now_us``, all of them from the beginning."""
    count, nodes = jobs.eligible.shape
    stride = max(1, count)
    record = blank(count, nodes, stride)
    resume(fleet, ends, Line(jobs, np.arange(count)), record, (now_us, 0, stride))
    return record.plan
