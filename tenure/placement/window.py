"""Where all executors of one job cost least, for a start at a given moment of the plan.

For a window [s, s + hold) each node offers the room that it has all through, and costs the time by
which the plan's on-time grows: Eq. 4 and 11 read as the growth of the union of the node's busy
intervals. Covering the E executors is the knapsack of ``exact``, by dynamic programming (ours).

A node is taken to be warm at s only if what runs or its billing keeps it on until then, or if it
is on and s is now; not if another planned job would keep it on: that one may be moved. So a job
starts at its planned start or earlier.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Fleet, Jobs
from tenure.placement.cost import money
from tenure.placement.decide import LOCAL
from tenure.placement.exact import MS
from tenure.placement.plan import Plan
from tenure.placement.timeline import Timeline

#: Between placements that cost the same, in parts of a core for the run: each node used counts
#: 1/50 (fewer nodes leave fewer rests), an empty one 3/100 of its cores, and what is left free
#: beside the job 1/250 of its core-time. All are far below what differs in cost.
TIE_NODE, TIE_EMPTY, TIE_LEFT = 50, 33, 250


class Horizon(NamedTuple):
    """What planning looks at. ``off_us`` (n,) is until when a node stays on whatever is planned,
    ``ready_us`` (n,) when it can work, both of nodes that are on.
    """

    fleet: Fleet
    off_us: Ints
    ready_us: Ints
    jobs: Jobs
    plan: Plan
    line: Timeline
    now_us: int


class Window(NamedTuple):
    """Start from ``start_us``, hold for ``hold_us``: a wait of ``wait_us`` for boots, then T_C."""

    mode: int
    start_us: int
    wait_us: int
    hold_us: int


class Grid(NamedTuple):
    """All of a horizon that concerns one job: few arrays, as kernels hand them on again and again.

    Candidates (k,) are numbers of nodes in ``node``, with ``fact`` (k, FACTS) of each. ``fits``,
    ``free`` and ``is_busy`` (k, b) say for each segment of the timeline how many executors fit, how
    much cpu_m is free, and whether anything runs or is planned. ``at_us`` (b + 1,) are the
    breakpoints, FOREVER_US the last. ``cpu_m`` is what one executor asks for.

    ``least`` (E + 1,) and ``taken`` (k, E + 1) are scratch: the least nano-dollars of e executors,
    and how many of them the candidate takes in the cheapest cover by those up to it.
    """

    cpu_m: int
    node: Ints
    fact: Ints
    at_us: Ints
    fits: Ints
    free: Ints
    is_busy: Bools
    least: Ints
    taken: Ints


#: Columns of ``Grid.fact``: what the node counts, its cpu_m, whether it is cloud, its boot once it
#: is off, the least time it is paid for, until when it stays on whatever is planned (0: it is off),
#: when it can work if it is on, whether nothing runs or is planned on it, before when it needs no
#: boot (0: it is off).
WEIGHT, CAPACITY, IS_CLOUD, REBOOT, BILLING, STAYS, READY, IS_EMPTY, WARM = range(9)
FACTS = 9


def fits_in(jobs: Jobs, job: int, cpu_m: int, memory: int) -> int:
    """Return how many executors of a job fit so much room, at most all."""
    count = jobs.executors[job]
    if jobs.cpu_m[job] > 0:
        count = min(count, cpu_m // jobs.cpu_m[job])
    if jobs.memory_bytes[job] > 0:
        count = min(count, memory // jobs.memory_bytes[job])
    return int(max(count, 0))


def candidates(horizon: Horizon, job: int) -> Ints:
    """Return the nodes (k,) that may be of use to a job, in order of name.

    Of empty nodes of one kind as many as could hold all executors: the others are no better.
    """
    fleet, jobs, line, kind = horizon.fleet, horizon.jobs, horizon.line, horizon.plan.kind
    node = np.zeros(kind.shape[0], dtype=np.int64)
    offered = np.zeros(kind.shape[0], dtype=np.int64)
    count = 0
    for j in range(kind.shape[0]):
        fits = fits_in(jobs, job, line.whole_cpu_m[j], line.whole_memory[j])
        if fits == 0 or not jobs.eligible[job, j]:
            continue
        is_like_its_kind = line.jobs[j] == 0 and not fleet.is_on[j]
        is_like_its_kind = is_like_its_kind and line.whole_cpu_m[j] == fleet.capacity_cpu_m[j]
        if is_like_its_kind and line.whole_memory[j] == fleet.capacity_memory[j]:
            if offered[kind[j]] >= jobs.executors[job]:
                continue
            offered[kind[j]] += fits
        node[count] = j
        count += 1
    return node[:count].copy()


def warm_us(horizon: Horizon, j: int) -> int:
    """Return before when a start on node ``j``, which is on, needs no boot: at once in any case."""
    return int(max(horizon.off_us[j], horizon.now_us + 1))


def facts_of(horizon: Horizon, node: Ints) -> Ints:
    """Return ``Grid.fact`` of nodes."""
    fleet = horizon.fleet
    fact = np.zeros((node.shape[0], FACTS), dtype=np.int64)
    for i in range(node.shape[0]):
        j = node[i]
        fact[i, WEIGHT] = horizon.plan.weight[j]
        fact[i, CAPACITY] = max(fleet.capacity_cpu_m[j], 1)
        fact[i, IS_CLOUD] = fleet.is_cloud[j]
        fact[i, REBOOT] = max(fleet.reboot_us[j], 0)
        fact[i, BILLING] = fleet.min_billing_us[j]
        fact[i, IS_EMPTY] = horizon.line.jobs[j] == 0
        if fleet.is_on[j]:
            fact[i, STAYS], fact[i, READY] = horizon.off_us[j], horizon.ready_us[j]
            fact[i, WARM] = warm_us(horizon, j)
    return fact


def grid_of(horizon: Horizon, job: int) -> Grid:
    """Return what of the horizon concerns a job. O(nodes + candidates x segments)."""
    jobs, line = horizon.jobs, horizon.line
    node, segments = candidates(horizon, job), line.size[0]
    at_us = np.full(segments + 1, FOREVER_US, dtype=np.int64)
    at_us[:segments] = line.at_us[:segments]
    shape = (node.shape[0], segments)
    fits, free = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    is_busy = np.zeros(shape, dtype=np.bool_)
    cpu_m, memory, row = line.cpu_m, line.memory, line.row
    whole_cpu_m, whole_memory = line.whole_cpu_m, line.whole_memory
    for i in range(shape[0]):
        j = node[i]
        for b in range(segments):
            cpu, room = cpu_m[row[b], j], memory[row[b], j]
            fits[i, b], free[i, b] = fits_in(jobs, job, cpu, room), cpu
            is_busy[i, b] = cpu < whole_cpu_m[j] or room < whole_memory[j]
    least = np.zeros(jobs.executors[job] + 1, dtype=np.int64)
    taken = np.zeros((shape[0], least.shape[0]), dtype=np.int64)
    fact = facts_of(horizon, node)
    return Grid(jobs.cpu_m[job], node, fact, at_us, fits, free, is_busy, least, taken)


def room_of(grid: Grid, i: int, window: Window, segment: int) -> tuple[int, int, int]:
    """Return (executors that fit, time already on, free cpu_m times milliseconds) in a window.

    ``segment`` is the one that holds its start. Nothing else is told where nothing fits.
    """
    at_us, all_fits, all_free, is_busy = grid.at_us, grid.fits, grid.free, grid.is_busy
    from_us, stop_us = window.start_us, window.start_us + window.hold_us
    stays_us = grid.fact[i, STAYS]
    fits, on_us, free = grid.least.shape[0] - 1, 0, 0
    while from_us < stop_us and fits > 0:
        until_us = min(at_us[segment + 1], stop_us)
        fits = min(fits, all_fits[i, segment])
        if is_busy[i, segment]:
            on_us += until_us - from_us
        else:
            on_us += max(0, min(until_us, stays_us) - from_us)
        free += all_free[i, segment] * ((until_us - from_us) // MS)
        from_us = until_us
        segment += 1
    return fits, on_us, free


def share_nano(grid: Grid, i: int, window: Window, segment: int) -> tuple[int, int]:
    """Return (executors that fit candidate ``i``, what using it costs, ties included)."""
    fact, hold_us = grid.fact, window.hold_us
    if fact[i, IS_CLOUD] and window.mode == LOCAL:
        return 0, 0
    boot_us = fact[i, REBOOT]
    if fact[i, WARM] > window.start_us:
        boot_us = max(0, fact[i, READY] - window.start_us)
    if boot_us > window.wait_us:
        return 0, 0
    fits, on_us, free = room_of(grid, i, window, segment)
    if fits == 0:
        return 0, 0
    more_us = hold_us - on_us
    if on_us == 0:
        more_us = max(more_us, fact[i, BILLING])
    left = max(0, free - fits * grid.cpu_m * (hold_us // MS)) // TIE_LEFT
    tie_us = left // fact[i, CAPACITY] * MS + hold_us // TIE_NODE * MS // fact[i, CAPACITY]
    if fact[i, IS_EMPTY]:
        tie_us += hold_us // TIE_EMPTY
    return fits, money(fact[i, WEIGHT], more_us + tie_us)


def segment_of(at_us: Ints, when_us: int) -> int:
    """Return the segment of ``Grid.at_us`` that holds a moment, the first if that is before it."""
    low, high = 0, at_us.shape[0] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if at_us[middle] <= when_us:
            low = middle
        else:
            high = middle
    return low


def least_nano(grid: Grid, window: Window) -> int:
    """Return the least cost of all executors in a window, FOREVER_US if they do not fit.

    ``grid.taken`` holds then how. O(candidates x (segments + E)).
    """
    least, taken = grid.least, grid.taken
    need = least.shape[0] - 1
    segment = segment_of(grid.at_us, window.start_us)
    for e in range(1, need + 1):
        least[e] = FOREVER_US
    for i in range(taken.shape[0]):
        fits, nano = share_nano(grid, i, window, segment)
        for e in range(need, 0, -1):
            taken[i, e] = 0
            rest = max(e - fits, 0)
            if fits > 0 and least[rest] < FOREVER_US and least[rest] + nano < least[e]:
                least[e] = least[rest] + nano
                taken[i, e] = e - rest
    return int(least[need])


def counts_of(grid: Grid, nodes: int) -> Ints:
    """Return the executors per node (n,) of the cover found last."""
    counts = np.zeros(nodes, dtype=np.int64)
    rest = grid.least.shape[0] - 1
    for i in range(grid.node.shape[0] - 1, -1, -1):
        counts[grid.node[i]] = grid.taken[i, rest]
        rest -= grid.taken[i, rest]
    return counts


def next_start_us(at_us: Ints, after_us: int, hold_us: int) -> int:
    """Return the next start after ``after_us`` that is worth a look, FOREVER_US if there is none.

    That is a breakpoint (room is given back, or a neighbour starts), or where the end of the window
    meets one (nodes empty together).
    """
    start_us = at_us[segment_of(at_us, after_us) + 1]
    end_us = at_us[segment_of(at_us, after_us + hold_us) + 1]
    return int(start_us if end_us >= FOREVER_US else min(start_us, end_us - hold_us))


def next_wait_us(grid: Grid, above_us: int) -> int:
    """Return the shortest boot above ``above_us`` among the candidates, FOREVER_US if none is."""
    wait_us = FOREVER_US
    for i in range(grid.node.shape[0]):
        if grid.fact[i, REBOOT] > above_us:
            wait_us = min(wait_us, grid.fact[i, REBOOT])
    return int(wait_us)
