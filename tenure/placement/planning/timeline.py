"""Free room over time, with what runs and what is planned taken out.

Theory of operation. Each node has a list of steps, for a job touches few nodes: step s lasts from
``at_us[s]`` to that of the step ``after[s]``, the last one (``after`` is END) for ever. Where
reservation leaves two steps in a row with the same room they become one, so that a timeline in
which a job was put and taken out again is what it was.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.model.placing import Ints
from tenure.placement.arrays import Ends, Fleet, Jobs, lend
from tenure.placement.queue.plan import Plan

#: There is no such step.
END = -1
#: What ``Timeline.spare`` counts: steps used so far, the first of the list of those given back.
USED, GIVEN_BACK = range(2)


class Timeline(NamedTuple):
    """``head`` (n,) is each node's first step; ``after``, ``at_us``, ``cpu_m``, ``memory`` (s,).

    ``whole_cpu_m`` and ``whole_memory`` (n,) are the room once everything has ended, ``jobs`` (n,)
    how many run or are planned on each node. ``spare`` (2,): see USED.
    """

    head: Ints
    after: Ints
    at_us: Ints
    cpu_m: Ints
    memory: Ints
    whole_cpu_m: Ints
    whole_memory: Ints
    jobs: Ints
    spare: Ints


def blank_line(nodes: int, steps: int) -> Timeline:
    """Return a timeline without any room, for at most so many steps; ``fill`` it."""
    return Timeline(
        np.arange(nodes),
        np.empty(steps, dtype=np.int64),
        np.empty(steps, dtype=np.int64),
        np.empty(steps, dtype=np.int64),
        np.empty(steps, dtype=np.int64),
        np.zeros(nodes, dtype=np.int64),
        np.zeros(nodes, dtype=np.int64),
        np.zeros(nodes, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
    )


def fill(line: Timeline, fleet: Fleet, ends: Ends, now_us: int) -> None:
    """Have a blank timeline hold the room from ``now_us`` on as ``ends`` give it back.

    These are ascending, and later. One that gives nothing back changes no room, and is no moment
    to start at. O(nodes + ends).
    """
    n, rows = fleet.price.shape[0], ends.end_us.shape[0]
    at_us, after, cpu_m, memory = line.at_us, line.after, line.cpu_m, line.memory
    jobs, last, used = line.jobs, np.arange(n), n
    after[: n + rows] = END
    at_us[:n], cpu_m[:n], memory[:n] = now_us, fleet.free_cpu_m, fleet.free_memory
    for end in range(rows):
        j = ends.node[end]
        jobs[j] += 1
        if ends.cpu_m[end] == 0 and ends.memory_bytes[end] == 0:
            continue
        step = last[j]
        if ends.end_us[end] > at_us[step]:
            at_us[used], cpu_m[used], memory[used] = ends.end_us[end], cpu_m[step], memory[step]
            after[step], last[j] = used, used
            step = used
            used += 1
        cpu_m[step] += ends.cpu_m[end]
        memory[step] += ends.memory_bytes[end]
    line.spare[USED], line.spare[GIVEN_BACK] = used, END
    line.whole_cpu_m[:], line.whole_memory[:] = cpu_m[last], memory[last]


def timeline_of(fleet: Fleet, ends: Ends, now_us: int, more: int) -> Timeline:
    """Return the room from ``now_us`` on as ``ends`` (ascending, later) give it back.

    At most ``more`` steps may be added to it. O(nodes + ends + more).
    """
    n = fleet.price.shape[0]
    line = blank_line(n, n + ends.end_us.shape[0] + more)
    fill(line, fleet, ends, now_us)
    return line


def lent_line(line: Timeline) -> Timeline:
    """Return a timeline of which every array is lent."""
    return Timeline(
        lend(line.head),
        lend(line.after),
        lend(line.at_us),
        lend(line.cpu_m),
        lend(line.memory),
        lend(line.whole_cpu_m),
        lend(line.whole_memory),
        lend(line.jobs),
        lend(line.spare),
    )


def cut(line: Timeline, step: int, at_us: int) -> int:
    """Have a step end at ``at_us``, which is in it, and return the one that follows it."""
    fresh = line.spare[GIVEN_BACK]
    if fresh == END:
        fresh = line.spare[USED]
        line.spare[USED] = fresh + 1
    else:
        line.spare[GIVEN_BACK] = line.after[fresh]
    line.at_us[fresh], line.after[fresh] = at_us, line.after[step]
    line.cpu_m[fresh], line.memory[fresh] = line.cpu_m[step], line.memory[step]
    line.after[step] = fresh
    return int(fresh)


def heal(line: Timeline, before: int, step: int) -> None:
    """Make a step part of the one before it if both have the same room; END is no step."""
    if END in (before, step) or line.cpu_m[before] != line.cpu_m[step]:
        return
    if line.memory[before] == line.memory[step]:
        line.after[before], line.after[step] = line.after[step], line.spare[GIVEN_BACK]
        line.spare[GIVEN_BACK] = step


def change(line: Timeline, j: int, span: tuple[int, int], taken: tuple[int, int]) -> None:
    """Take room off node ``j`` from a moment to another; ``taken`` is cpu_m and bytes."""
    at_us, after = line.at_us, line.after
    start_us, end_us = span
    before, step = END, line.head[j]
    while after[step] != END and at_us[after[step]] <= start_us:
        before, step = step, after[step]
    if at_us[step] < start_us:
        before, step = step, cut(line, step, start_us)
    outside, first = before, step
    while step != END and at_us[step] < end_us:
        if after[step] == END or at_us[after[step]] > end_us:
            cut(line, step, end_us)
        line.cpu_m[step] -= taken[0]
        line.memory[step] -= taken[1]
        before, step = step, after[step]
    heal(line, before, step)
    heal(line, outside, first)


def book(line: Timeline, plan: Plan, jobs: Jobs, job: int, sign: int) -> None:
    """Take (1) or give back (-1) the room of a job at its planned place."""
    line, span = lent_line(line), (plan.start_us[job], plan.end_us[job])
    for used in range(plan.first[job], plan.first[job] + plan.used[job]):
        j, count = plan.node[used], sign * plan.executors[used]
        line.jobs[j] += sign
        change(line, j, span, (count * jobs.cpu_m[job], count * jobs.memory_bytes[job]))


def moments_of(line: Timeline, node: Ints) -> Ints:
    """Return when the room on nodes changes, ascending and each once, from the beginning on."""
    count = 1
    for j in node:
        step = line.after[line.head[j]]
        while step != END:
            step, count = line.after[step], count + 1
    found = np.empty(count, dtype=np.int64)
    found[0], count = line.at_us[0], 1
    for j in node:
        step = line.after[line.head[j]]
        while step != END:
            found[count], count = line.at_us[step], count + 1
            step = line.after[step]
    found[1:].sort()
    kept = 0
    for k in range(1, count):
        if found[k] > found[kept]:
            kept += 1
            found[kept] = found[k]
    return found[: kept + 1].copy()
