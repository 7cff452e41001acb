"""Queue policies: which of the waiting jobs start now, and where.

The seam. A queue policy is a kernel ``(course, history, jobs, rules) -> Picks`` that ``pick``
calls for jobs of its number. It sees everything that a scheduler may know at ``marks[NOW]``: the
fleet with free room and t_j (``course.fleet``), the jobs that have arrived and wait, in queue order
(``line_of``), with their true deadlines (``jobs.deadline_us``), and what the running ones give back
and when (``ends_to_come``). It must not look at jobs that are not in line: ``jobs`` holds those
that have not arrived too. It answers jobs of the line with a mode and executors per node, or with
a reason (they are dropped), and when to ask again if nothing happens before. All picks of one
answer start at once; then it is asked again, until it picks nothing. It must not ask to be woken
at, or before, the present moment.

``head_of_line``, which serves the paper's policies and ``exact``, is one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.model.placing import Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Ends, Jobs, lent
from tenure.placement.decisions.decide import NO_NODE, TOO_LATE, decide, quickest_us
from tenure.placement.queue.course import (
    BLOCKED,
    DROPPED,
    ENDED,
    NOW,
    RUNNING,
    WAITING,
    WAKE,
    WOKEN,
    Course,
    History,
    Rules,
    need_now,
)

#: As a verdict for ``picked``: nothing is picked.
PICK_NONE = 0


class Picks(NamedTuple):
    """Jobs (k,) to take out of the line, with the verdict (k,) and executors (k, n) of each.

    A verdict is a mode (the job starts now) or a reason (it never will). ``wake_us`` is when to
    ask again where k is 0, FOREVER_US for the next arrival or end.
    """

    job: Ints
    verdict: Ints
    counts: Ints
    wake_us: int


def pick(course: Course, history: History, jobs: Jobs, rules: Rules) -> Picks:
    """Return what the queue policy of the first waiting job picks; someone waits."""
    return head_of_line(course, history, jobs, rules)


def head_of_line(course: Course, history: History, jobs: Jobs, rules: Rules) -> Picks:
    """Try the first waiting job alone: all or nothing, no backfill (section 5 of the SLA paper).

    The head that did not fit is not tried again before room was given back or its time came. One
    that waits only because a start now would be too late (Eq. 15) is tried once more when waiting
    stops helping. One that would not fit an empty fleet is turned away.
    """
    job, at_us = course.waiting[0], course.marks[NOW]
    if job == course.marks[BLOCKED]:
        return picked(job, PICK_NONE, np.zeros(0, dtype=np.int64), course.marks[WAKE])
    if rules.drops and at_us + jobs.local_us[job] > jobs.deadline_us[job]:
        return picked(job, DROPPED, np.zeros(jobs.eligible.shape[1], dtype=np.int64), FOREVER_US)
    need = need_now(jobs, job, at_us, rules.is_strict)
    verdict, counts = decide(jobs.policy[job], lent(course.fleet), need)
    if verdict > 0 or verdict == NO_NODE:
        return picked(job, verdict, counts, FOREVER_US)
    course.marks[BLOCKED] = job
    wake_us = FOREVER_US
    if verdict == TOO_LATE and course.marks[WOKEN] == 0:
        lost_us = at_us + need.limit_us - quickest_us(jobs.policy[job], course.fleet, need)
        wake_us = lost_us if lost_us > at_us else FOREVER_US
    return picked(job, PICK_NONE, counts, wake_us)


def picked(job: int, verdict: int, counts: Ints, wake_us: int) -> Picks:
    """Return one pick, or none."""
    size = 0 if verdict == PICK_NONE else 1
    one = np.full(size, job, dtype=np.int64)
    return Picks(one, np.full(size, verdict, dtype=np.int64), counts.reshape(1, -1), wake_us)


def line_of(course: Course) -> Ints:
    """Return the waiting jobs in queue order; a view."""
    return course.waiting[: course.marks[WAITING]]


def ends_to_come(course: Course, history: History, jobs: Jobs) -> Ends:
    """Return what everything that runs will give back, sorted by end (then rank and node)."""
    running = np.sort(course.running[: course.marks[RUNNING]])
    running = running[np.argsort(history.end_us[running], kind="mergesort")]
    first = course.marks[ENDED]
    older = course.ends.end_us.shape[0] - first
    size = older + np.sum(history.used[running])
    node, cpu_m = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    memory, end_us = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    node[:older], cpu_m[:older] = course.ends.node[first:], course.ends.cpu_m[first:]
    memory[:older], end_us[:older] = course.ends.memory_bytes[first:], course.ends.end_us[first:]
    row = older
    for job in running:
        for used in range(history.first[job], history.first[job] + history.used[job]):
            node[row] = history.on[used]
            cpu_m[row] = history.executors[used] * jobs.cpu_m[job]
            memory[row] = history.executors[used] * jobs.memory_bytes[job]
            end_us[row] = history.end_us[job]
            row += 1
    order = np.argsort(end_us, kind="mergesort")
    return Ends(node[order], cpu_m[order], memory[order], end_us[order])
