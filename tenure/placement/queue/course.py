"""The course of events: arrays that hold a fleet while jobs arrive, wait, run and end.

Theory of operation. ``Course`` is the state between two events, ``History`` what has happened.
Both are arrays that the kernels change in place, so that an event costs O(nodes) and allocates
next to nothing. Jobs come in the order of the queue: the index of a job is its rank, and the
waiting jobs are an ascending list of indices.

A node is on from the placement that needs it until its scheduled switch-off ``off_us``, the end of
its last executor (later where a minimum billing period runs), plus a grace. A negative grace means
that at the very instant of its last end it is already off, as in the authors' simulator; zero that
it is off right after that instant, as in the daemon, which places before it switches off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.model.placing import Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Ends, Fleet, Jobs, Need
from tenure.placement.decisions.cost import delay_us, extension_us, total_nano
from tenure.placement.decisions.decide import LOCAL
from tenure.placement.queue.plan import Plan, no_plan

#: What ``Course.marks`` counts: the present moment, jobs waiting and running, arrivals and earlier
#: executors' ends passed, rows and spans written, the blocked head of the queue (-1: none), when
#: to look at the queue again although nothing ends, whether that was done since the last change.
NOW, WAITING, RUNNING, ARRIVED, ENDED, ROWS, SPANS, BLOCKED, WAKE, WOKEN = range(10)
#: And, at the end: placing decisions asked for, and the nanoseconds they took by the clock given.
ASKED, SPENT_NS = 10, 11
MARKS = 12

#: Verdicts of a simulation beside those of ``decide``: still to come, dropped from the queue by
#: Eq. 15, and refused at its arrival by the admission test.
PENDING = 0
DROPPED = -4
REFUSED = -5


class Rules(NamedTuple):
    """How a queue is served; part of what a simulation states about itself.

    ``drops``: the head is dropped once it could not end by its deadline even if it started now and
    locally (section 4.4's test before scheduling). ``is_strict``: placements must end before the
    deadline (Eq. 15), else the head waits. ``holds``: no node goes off while anyone waits, because
    a promise may count on it. ``grace_us``: see above.
    """

    drops: bool
    is_strict: bool
    holds: bool
    grace_us: int


class Course(NamedTuple):
    """The state at one moment. ``fleet`` is what policies see, its arrays (n,) changed in place.

    ``off_us`` (n,) is each node's scheduled switch-off, ``ready_us`` (n,) when it can work,
    ``span`` (n,) the row of its open span in the history, -1 when off. ``waiting`` (q,) begins
    with the waiting jobs, ascending; ``running`` (q,) with a heap of the running ones by end.
    ``ends`` are executors that ran before the simulation began. ``marks`` (MARKS,): see above.
    ``plan`` is that of a queue policy that makes one.
    """

    fleet: Fleet
    off_us: Ints
    ready_us: Ints
    span: Ints
    waiting: Ints
    running: Ints
    ends: Ends
    marks: Ints
    plan: Plan


class History(NamedTuple):
    """What became of each job (q,), where its executors ran, and when nodes were on.

    ``verdict`` is a mode of ``decide`` (> 0: it ran), a reason (< 0: it never did) or PENDING.
    Times are absolute: ``placed_us`` the decision, ``start_us`` when all its nodes are up,
    ``end_us``. ``cost_nano`` is Eq. 16 at the decision. Its executors are rows ``first`` to
    ``first + used`` of ``on`` and ``executors``. The first
    ``marks[SPANS]`` rows of ``span_*`` are spans; an open one has ``span_off_us`` FOREVER_US.
    """

    verdict: Ints
    placed_us: Ints
    start_us: Ints
    end_us: Ints
    cost_nano: Ints
    first: Ints
    used: Ints
    on: Ints
    executors: Ints
    span_node: Ints
    span_on_us: Ints
    span_off_us: Ints


def open_course(
    fleet: Fleet, ends: Ends, jobs: int, now_us: int, plan: Plan | None = None
) -> Course:
    """Return the state at ``now_us`` before any of ``jobs`` jobs came; ``fleet`` is copied.

    ``plan`` is an empty one where the queue policy makes plans, None where it does not.
    """
    own = Fleet._make(column.copy() for column in fleet)
    marks = np.zeros(MARKS, dtype=np.int64)
    marks[NOW], marks[BLOCKED], marks[WAKE] = now_us, -1, FOREVER_US
    marks[ENDED] = np.searchsorted(ends.end_us, now_us, side="right")
    return Course(
        fleet=own,
        off_us=now_us + own.remaining_us,
        ready_us=now_us + own.boot_us,
        span=np.full(own.price.shape[0], -1, dtype=np.int64),
        waiting=np.zeros(jobs, dtype=np.int64),
        running=np.zeros(jobs, dtype=np.int64),
        ends=ends,
        marks=marks,
        plan=no_plan() if plan is None else plan,
    )


def open_history(course: Course, jobs: Jobs) -> History:
    """Return empty records for ``jobs``, with a span for each node that is on already."""
    q, n = jobs.executors.shape[0], course.fleet.price.shape[0]
    rows = int(np.sum(np.minimum(jobs.executors, n)))
    sizes = (q,) * 7 + (rows,) * 2 + (rows + n,) * 3
    made = History(*(np.zeros(size, dtype=np.int64) for size in sizes))
    for j in np.flatnonzero(course.fleet.is_on):
        open_span(course, made, int(j), int(course.marks[NOW]))
    return made


def open_span(course: Course, history: History, j: int, at_us: int) -> None:
    """Note that node ``j`` is on from ``at_us``."""
    row = course.marks[SPANS]
    history.span_node[row] = j
    history.span_on_us[row] = at_us
    history.span_off_us[row] = FOREVER_US
    course.span[j] = row
    course.marks[SPANS] = row + 1
    course.fleet.is_on[j] = True


def pass_time(course: Course, history: History, at_us: int, rules: Rules) -> None:
    """Let time pass until ``at_us``: nodes go off, boot on, and their t_j runs down."""
    fleet, grace_us = course.fleet, rules.grace_us
    is_held = rules.holds and course.marks[WAITING] > 0
    for j in range(fleet.price.shape[0]):
        if fleet.is_on[j] and is_held:
            course.off_us[j] = max(course.off_us[j], at_us - max(grace_us, 0))
        if fleet.is_on[j] and course.off_us[j] + grace_us < at_us:
            history.span_off_us[course.span[j]] = course.off_us[j] + max(grace_us, 0)
            course.span[j] = -1
            fleet.is_on[j] = False
        if fleet.is_on[j]:
            fleet.remaining_us[j] = max(course.off_us[j] - at_us, 0)
            fleet.boot_us[j] = max(course.ready_us[j] - at_us, 0)
        else:
            fleet.remaining_us[j] = 0
            fleet.boot_us[j] = fleet.reboot_us[j]
    course.marks[NOW] = at_us


def start_job(  # noqa: PLR0913, PLR0917 - the job, its placement, and where both are noted
    course: Course, history: History, jobs: Jobs, job: int, mode: int, counts: Ints
) -> None:
    """Let a job take its executors (n,) now; its nodes go on and stay as long as it needs them."""
    fleet, at_us, row = course.fleet, course.marks[NOW], course.marks[ROWS]
    wait_us = delay_us(counts, fleet.boot_us)
    until_us = wait_us + (jobs.local_us[job] if mode == LOCAL else jobs.hybrid_us[job])
    history.verdict[job] = mode
    history.placed_us[job] = at_us
    history.start_us[job] = at_us + wait_us
    history.end_us[job] = at_us + until_us
    history.cost_nano[job] = total_nano(fleet, counts, until_us)
    history.first[job] = row
    for j in range(counts.shape[0]):
        if counts[j] == 0:
            continue
        history.on[row] = j
        history.executors[row] = counts[j]
        row += 1
        fleet.free_cpu_m[j] -= counts[j] * jobs.cpu_m[job]
        fleet.free_memory[j] -= counts[j] * jobs.memory_bytes[job]
        course.ready_us[j] = at_us + fleet.boot_us[j]
        fleet.remaining_us[j] += extension_us(fleet, j, until_us)
        course.off_us[j] = at_us + fleet.remaining_us[j]
        if not fleet.is_on[j]:
            open_span(course, history, j, at_us)
    history.used[job] = row - history.first[job]
    course.marks[ROWS] = row
    push_running(course, history.end_us, job)


def push_running(course: Course, end_us: Ints, job: int) -> None:
    """Put a job into the heap of running ones: the earliest end on top, equal ends by rank."""
    heap, child = course.running, course.marks[RUNNING]
    course.marks[RUNNING] += 1
    while child > 0:
        parent = (child - 1) // 2
        if not ends_before(end_us, job, heap[parent]):
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = job


def pop_running(course: Course, end_us: Ints) -> int:
    """Take the running job that ends first out of the heap and return it."""
    heap = course.running
    course.marks[RUNNING] -= 1
    size = course.marks[RUNNING]
    first, last = heap[0], heap[size]
    top, child = 0, 1
    while child < size:
        if child + 1 < size and ends_before(end_us, heap[child + 1], heap[child]):
            child += 1
        if not ends_before(end_us, heap[child], last):
            break
        heap[top] = heap[child]
        top, child = child, 2 * child + 1
    heap[top] = last
    return int(first)


def ends_before(end_us: Ints, one: int, other: int) -> bool:
    """Return whether job ``one`` ends before ``other``, equal ends by rank."""
    return end_us[one] < end_us[other] or (end_us[one] == end_us[other] and one < other)


def give_back(course: Course, history: History, jobs: Jobs) -> bool:
    """Give back the room of everything that has ended by now; return whether anything had."""
    fleet, at_us = course.fleet, course.marks[NOW]
    has_ended = False
    while course.marks[RUNNING] > 0 and history.end_us[course.running[0]] <= at_us:
        job = pop_running(course, history.end_us)
        for row in range(history.first[job], history.first[job] + history.used[job]):
            j, count = history.on[row], history.executors[row]
            fleet.free_cpu_m[j] += count * jobs.cpu_m[job]
            fleet.free_memory[j] += count * jobs.memory_bytes[job]
        has_ended = True
    ends = course.ends
    while course.marks[ENDED] < ends.end_us.shape[0] and ends.end_us[course.marks[ENDED]] <= at_us:
        end = course.marks[ENDED]
        fleet.free_cpu_m[ends.node[end]] += ends.cpu_m[end]
        fleet.free_memory[ends.node[end]] += ends.memory_bytes[end]
        course.marks[ENDED] = end + 1
        has_ended = True
    return has_ended


def next_end_us(course: Course, history: History) -> int:
    """Return when room is given back next, FOREVER_US if never."""
    next_us = FOREVER_US
    if course.marks[RUNNING] > 0:
        next_us = history.end_us[course.running[0]]
    if course.marks[ENDED] < course.ends.end_us.shape[0]:
        next_us = min(next_us, course.ends.end_us[course.marks[ENDED]])
    return next_us


def line_up(course: Course, job: int) -> None:
    """Put a job among the waiting, where its rank belongs."""
    place = course.marks[WAITING]
    course.marks[WAITING] += 1
    while place > 0 and course.waiting[place - 1] > job:
        course.waiting[place] = course.waiting[place - 1]
        place -= 1
    course.waiting[place] = job


def leave_line(course: Course, job: int) -> None:
    """Take a job out of the waiting ones."""
    course.marks[WAITING] -= 1
    size = course.marks[WAITING]
    place = np.searchsorted(course.waiting[: size + 1], job)
    for later in range(place, size):
        course.waiting[later] = course.waiting[later + 1]


def need_now(jobs: Jobs, job: int, at_us: int, is_strict: bool) -> Need:
    """Return a job as a placing policy sees it at ``at_us``; without a deadline if not strict."""
    deadline_us = jobs.deadline_us[job] if is_strict else FOREVER_US
    return Need(
        jobs.executors[job],
        jobs.cpu_m[job],
        jobs.memory_bytes[job],
        jobs.local_us[job],
        jobs.hybrid_us[job],
        FOREVER_US if deadline_us >= FOREVER_US else deadline_us - at_us,
        jobs.eligible[job],
    )


def close_spans(course: Course, history: History, grace_us: int) -> None:
    """End every open span when its node goes off; nodes that never do stay FOREVER_US."""
    for j in range(course.span.shape[0]):
        if course.span[j] >= 0 and course.off_us[j] < FOREVER_US:
            history.span_off_us[course.span[j]] = course.off_us[j] + max(grace_us, 0)
