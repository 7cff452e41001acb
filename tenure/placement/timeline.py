"""Free room over time, with what runs and what is planned taken out.

Segment b lasts from ``at_us[b]`` to ``at_us[b + 1]``, the last one for ever. Its room is row
``row[b]`` of ``cpu_m`` and ``memory``, so that a new breakpoint moves no room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.model.placing import Ints
from tenure.placement.arrays import Ends, Fleet, Jobs
from tenure.placement.plan import Plan


class Timeline(NamedTuple):
    """``at_us`` and ``row`` (b,), ``cpu_m`` and ``memory`` (b, n); ``size`` (1,) segments count.

    ``whole_cpu_m`` and ``whole_memory`` (n,) are the room once everything has ended, ``jobs`` (n,)
    how many run or are planned on each node.
    """

    at_us: Ints
    row: Ints
    cpu_m: Ints
    memory: Ints
    whole_cpu_m: Ints
    whole_memory: Ints
    jobs: Ints
    size: Ints


def timeline_of(fleet: Fleet, ends: Ends, now_us: int, more: int) -> Timeline:
    """Return the room from ``now_us`` on as ``ends`` (ascending, later) give it back.

    At most ``more`` breakpoints may be added to it.
    """
    rows, n = 1 + ends.end_us.shape[0] + more, fleet.price.shape[0]
    at_us, row = np.zeros(rows, dtype=np.int64), np.arange(rows)
    cpu_m, memory = np.zeros((rows, n), dtype=np.int64), np.zeros((rows, n), dtype=np.int64)
    jobs = np.zeros(n, dtype=np.int64)
    at_us[0], cpu_m[0], memory[0] = now_us, fleet.free_cpu_m, fleet.free_memory
    last = 0
    for end in range(ends.end_us.shape[0]):
        if ends.end_us[end] > at_us[last]:
            cpu_m[last + 1], memory[last + 1] = cpu_m[last], memory[last]
            last += 1
            at_us[last] = ends.end_us[end]
        node = ends.node[end]
        cpu_m[last, node] += ends.cpu_m[end]
        memory[last, node] += ends.memory_bytes[end]
        jobs[node] += 1
    size = np.full(1, last + 1, dtype=np.int64)
    return Timeline(at_us, row, cpu_m, memory, cpu_m[last].copy(), memory[last].copy(), jobs, size)


def segment_at(line: Timeline, at_us: int) -> int:
    """Return the segment that holds ``at_us``, the first if that is before it."""
    low, high = 0, line.size[0]
    while high - low > 1:
        middle = (low + high) // 2
        if line.at_us[middle] <= at_us:
            low = middle
        else:
            high = middle
    return int(low)


def cut(line: Timeline, at_us: int) -> int:
    """Make ``at_us`` a breakpoint and return the segment that begins there."""
    segment, size = segment_at(line, at_us), line.size[0]
    if line.at_us[segment] >= at_us:
        return segment
    fresh, old = line.row[size], line.row[segment]
    line.cpu_m[fresh], line.memory[fresh] = line.cpu_m[old], line.memory[old]
    for later in range(size, segment + 1, -1):
        line.at_us[later], line.row[later] = line.at_us[later - 1], line.row[later - 1]
    line.at_us[segment + 1], line.row[segment + 1] = at_us, fresh
    line.size[0] = size + 1
    return segment + 1


def book(line: Timeline, plan: Plan, jobs: Jobs, job: int, sign: int) -> None:
    """Take (1) or give back (-1) the room of a job at its planned place."""
    first = cut(line, plan.start_us[job])
    last = cut(line, plan.end_us[job])
    for used in range(plan.first[job], plan.first[job] + plan.used[job]):
        j, count = plan.node[used], sign * plan.executors[used]
        line.jobs[j] += sign
        for segment in range(first, last):
            line.cpu_m[line.row[segment], j] -= count * jobs.cpu_m[job]
            line.memory[line.row[segment], j] -= count * jobs.memory_bytes[job]
