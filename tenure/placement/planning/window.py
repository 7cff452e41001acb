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

from tenure.model.placing import Bools, Floats, Ints
from tenure.model.units import FOREVER_US, HOUR_US
from tenure.placement.arrays import Fleet, Jobs, lend
from tenure.placement.decisions.decide import LOCAL
from tenure.placement.decisions.exact import MS
from tenure.placement.planning.timeline import END, Timeline, moments_of
from tenure.placement.queue.plan import Plan

#: Between placements that cost the same, in parts of a core for the run: each node used counts
#: 1/50 (fewer nodes leave fewer rests), an empty one 3/100 of its cores, and what is left free
#: beside the job 1/250 of its core-time. All are far below what differs in cost.
TIE_NODE, TIE_EMPTY, TIE_LEFT = 50, 33, 250
#: So many looks at the room of a start count as one try of it.
LOOKS = 4


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

    Candidates (k,) are numbers of nodes in ``node``, with ``fact`` (k, FACTS) and ``rate`` (k, 3)
    of each. Rows ``first[i]`` to ``first[i + 1]`` of ``at_us``, ``fits``, ``free`` and ``is_busy``
    (s,) are candidate i's steps: since when how many executors fit, how much cpu_m is free, and
    whether anything runs or is planned; the last row of each is FOREVER_US, when there is nothing.
    ``moments`` (b + 1,) are when anything changes, as far as it is looked at, FOREVER_US the last.
    ``need`` executors ask for ``cpu_m`` each.

    The rest is scratch: ``cursor`` (k,) the row that holds the start of the window looked at,
    ``full`` (k,) the row met last in which nothing fits, the last row until one was met; ``fit``
    and ``nano`` (k,) how many executors fit there, at what cost; ``least`` (E + 1,) and ``taken``
    (k, E + 1) the least nano-dollars of e executors, and how many of them the candidate takes in
    the cheapest cover by those up to it.
    """

    cpu_m: int
    need: int
    node: Ints
    fact: Ints
    rate: Floats
    first: Ints
    at_us: Ints
    fits: Ints
    free: Ints
    is_busy: Bools
    moments: Ints
    cursor: Ints
    full: Ints
    fit: Ints
    nano: Ints
    least: Ints
    taken: Ints


#: Columns of ``Grid.fact``: whether the node is cloud, its boot once it is off, the least time it
#: is paid for, until when it stays on whatever is planned (0: it is off), when it can work if it is
#: on, before when it needs no boot (0: it is off).
IS_CLOUD, REBOOT, BILLING, STAYS, READY, WARM = range(6)
FACTS = 6
#: Columns of ``Grid.rate``: nano-dollars a microsecond that the node is on; what ties count, as
#: parts of the window's length and for each thousandth of a core that is left free a millisecond.
PRICE, TIES, LEFT_FREE = range(3)
RATES = 3


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
        fact[i, IS_CLOUD] = fleet.is_cloud[j]
        fact[i, REBOOT] = max(fleet.reboot_us[j], 0)
        fact[i, BILLING] = fleet.min_billing_us[j]
        if fleet.is_on[j]:
            fact[i, STAYS], fact[i, READY] = horizon.off_us[j], horizon.ready_us[j]
            fact[i, WARM] = warm_us(horizon, j)
    return fact


def rates_of(horizon: Horizon, node: Ints) -> Floats:
    """Return ``Grid.rate`` of nodes."""
    rate = np.zeros((node.shape[0], RATES), dtype=np.float64)
    for i in range(node.shape[0]):
        j = node[i]
        cores = max(float(horizon.fleet.capacity_cpu_m[j]), 1.0) / 1000.0
        rate[i, PRICE] = float(horizon.plan.weight[j]) / HOUR_US
        rate[i, TIES] = 1.0 / (TIE_NODE * cores)
        if horizon.line.jobs[j] == 0:
            rate[i, TIES] += 1.0 / TIE_EMPTY
        rate[i, LEFT_FREE] = 1.0 / (TIE_LEFT * cores)
    return rate


def on_anyway_us(horizon: Horizon, j: int, start_us: int, end_us: int) -> int:
    """Return how long node ``j`` is on between two moments for what runs, is planned or is billed.

    O(steps).
    """
    fleet, line = horizon.fleet, horizon.line
    on_us, step = 0, line.head[j]
    while step != END and line.at_us[step] < end_us:
        following = line.after[step]
        following_us = FOREVER_US if following == END else line.at_us[following]
        from_us, until_us = max(line.at_us[step], start_us), min(following_us, end_us)
        is_short = line.cpu_m[step] < line.whole_cpu_m[j]
        if is_short or line.memory[step] < line.whole_memory[j]:
            on_us += max(0, until_us - from_us)
        elif fleet.is_on[j]:
            on_us += max(0, min(until_us, horizon.off_us[j]) - from_us)
        step = following
    return int(on_us)


def rows_before(line: Timeline, node: Ints) -> Ints:
    """Return ``Grid.first`` of nodes."""
    first = np.zeros(node.shape[0] + 1, dtype=np.int64)
    for i in range(node.shape[0]):
        step, count = line.head[node[i]], 1
        while step != END:
            step, count = line.after[step], count + 1
        first[i + 1] = first[i] + count
    return first


def thinned(moments: Ints, most: int) -> Ints:
    """Return at most so many moments, or all if they are no more; the last two in any case.

    Those to come soon are kept, later ones ever fewer: on a large fleet the first fifty changes may
    all lie within some seconds, and a job that waits for minutes has to find its place too.
    """
    last = moments.shape[0] - 1
    if last < most:
        return moments
    kept = np.zeros(most, dtype=np.int64)
    ratio, reach, count = float(last) ** (1.0 / float(most - 3)), 1.0, 1
    while count < most - 2 and kept[count - 1] < last - 2:
        kept[count] = min(max(kept[count - 1] + 1, int(reach)), last - 2)
        reach, count = reach * ratio, count + 1
    kept[count], kept[count + 1] = last - 1, last
    near: Ints = moments[kept[: count + 2]]
    return near


def grid_of(horizon: Horizon, job: int) -> Grid:
    """Return what of the horizon concerns a job. O(nodes + steps of the candidates)."""
    jobs, line = horizon.jobs, horizon.line
    node, need = candidates(horizon, job), jobs.executors[job]
    first = rows_before(line, node)
    at_us = np.full(first[-1], FOREVER_US, dtype=np.int64)
    fits, free = np.zeros(first[-1], dtype=np.int64), np.zeros(first[-1], dtype=np.int64)
    is_busy = np.zeros(first[-1], dtype=np.bool_)
    for i in range(node.shape[0]):
        j, row = node[i], first[i]
        step = line.head[j]
        while step != END:
            cpu, room = line.cpu_m[step], line.memory[step]
            at_us[row], fits[row], free[row] = line.at_us[step], fits_in(jobs, job, cpu, room), cpu
            is_busy[row] = cpu < line.whole_cpu_m[j] or room < line.whole_memory[j]
            step, row = line.after[step], row + 1
    moments = np.append(moments_of(line, node), FOREVER_US)
    moments = thinned(moments, horizon.plan.starts * LOOKS)
    k = node.shape[0]
    return Grid(
        jobs.cpu_m[job],
        need,
        node,
        facts_of(horizon, node),
        rates_of(horizon, node),
        first,
        at_us,
        fits,
        free,
        is_busy,
        moments,
        first[:k].copy(),
        first[1:] - 1,
        np.zeros(k, dtype=np.int64),
        np.zeros(k, dtype=np.int64),
        np.zeros(need + 1, dtype=np.int64),
        np.zeros((k, need + 1), dtype=np.int64),
    )


def lent_grid(grid: Grid) -> Grid:
    """Return a grid of which every array is lent."""
    return Grid(
        grid.cpu_m,
        grid.need,
        lend(grid.node),
        lend(grid.fact),
        lend(grid.rate),
        lend(grid.first),
        lend(grid.at_us),
        lend(grid.fits),
        lend(grid.free),
        lend(grid.is_busy),
        lend(grid.moments),
        lend(grid.cursor),
        lend(grid.full),
        lend(grid.fit),
        lend(grid.nano),
        lend(grid.least),
        lend(grid.taken),
    )


def room_of(grid: Grid, i: int, window: Window) -> tuple[int, int, int]:
    """Return (executors that fit, time already on, free cpu_m times milliseconds) in a window.

    Nothing else is told where nothing fits, and the full row is noted. Windows are asked about in
    order of their start.
    """
    at_us, stays_us = grid.at_us, grid.fact[i, STAYS]
    from_us, stop_us = window.start_us, window.start_us + window.hold_us
    row = grid.cursor[i]
    while at_us[row + 1] <= from_us:
        row += 1
    grid.cursor[i] = row
    fits, on_us, free = grid.need, 0, 0
    while from_us < stop_us:
        until_us = min(at_us[row + 1], stop_us)
        fits = min(fits, grid.fits[row])
        if fits == 0:
            grid.full[i] = row
            break
        if grid.is_busy[row]:
            on_us += until_us - from_us
        elif stays_us > from_us:
            on_us += min(until_us, stays_us) - from_us
        free += grid.free[row] * ((until_us - from_us) // MS)
        from_us, row = until_us, row + 1
    return fits, on_us, free


def is_full(grid: Grid, i: int, window: Window) -> bool:
    """Return whether the window meets the full row that candidate ``i`` met last.

    Windows one after another meet the same: most are told so, without a walk over their rows.
    """
    row = grid.full[i]
    is_ahead = grid.at_us[row] >= window.start_us + window.hold_us
    return bool(not is_ahead and grid.at_us[row + 1] > window.start_us)


def can_begin(grid: Grid, i: int, window: Window) -> bool:
    """Return whether a window's mode and wait for boots allow candidate ``i``."""
    if grid.fact[i, IS_CLOUD] and window.mode == LOCAL:
        return False
    boot_us = grid.fact[i, REBOOT]
    if grid.fact[i, WARM] > window.start_us:
        boot_us = max(0, grid.fact[i, READY] - window.start_us)
    return bool(boot_us <= window.wait_us)


def weigh(grid: Grid, window: Window) -> tuple[int, float]:
    """Write into ``grid`` how many executors fit each candidate, and what using it costs.

    Ties are part of it. Return how many fit in all, 0 if no cloud node is among them where the
    mode is hybrid, and nano-dollars that no cover of all executors costs less than. O(steps).
    """
    fit, nano, rate, hold_us = grid.fit, grid.nano, grid.rate, window.hold_us
    busy_left = grid.cpu_m * (hold_us // MS)
    total, each_nano, cloud_nano = 0, np.inf, 0.0 if window.mode == LOCAL else np.inf
    for i in range(fit.shape[0]):
        fit[i] = 0
        if is_full(grid, i, window) or not can_begin(grid, i, window):
            continue
        fits, on_us, free = room_of(grid, i, window)
        if fits == 0:
            continue
        more_us = hold_us - on_us
        if on_us == 0:
            more_us = max(more_us, grid.fact[i, BILLING])
        left = float(max(0, free - fits * busy_left))
        tie_us = float(hold_us) * rate[i, TIES] + left * rate[i, LEFT_FREE]
        fit[i], nano[i] = fits, int((float(more_us) + tie_us) * rate[i, PRICE])
        total += fits
        each_nano = min(each_nano, float(nano[i]) / float(fits))
        if grid.fact[i, IS_CLOUD]:
            cloud_nano = min(cloud_nano, float(nano[i]))
    if cloud_nano == np.inf:
        return 0, np.inf
    return total, max(float(grid.need) * each_nano, cloud_nano)


def cover(grid: Grid) -> int:
    """Return the least cost of all executors on the candidates as weighed, which hold them.

    ``grid.taken`` holds then how. O(candidates x E).
    """
    least, taken, fit, nano = grid.least, grid.taken, grid.fit, grid.nano
    need = grid.need
    for e in range(1, need + 1):
        least[e] = FOREVER_US
    for i in range(fit.shape[0]):
        fits, more = fit[i], nano[i]
        if fits == 0:
            continue
        for e in range(need, 0, -1):
            rest = max(e - fits, 0)
            taken[i, e] = 0
            if least[rest] + more < least[e]:
                least[e] = least[rest] + more
                taken[i, e] = e - rest
    return int(least[need])


def counts_of(grid: Grid, nodes: int) -> Ints:
    """Return the executors per node (n,) of the cover found last."""
    counts = np.zeros(nodes, dtype=np.int64)
    rest = grid.need
    for i in range(grid.node.shape[0] - 1, -1, -1):
        if grid.fit[i] > 0:
            counts[grid.node[i]] = grid.taken[i, rest]
            rest -= grid.taken[i, rest]
    return counts


def has_cloud(grid: Grid) -> bool:
    """Return whether a candidate is a cloud node: else no placement is hybrid."""
    return bool(np.any(grid.fact[:, IS_CLOUD] != 0))


def rewind(grid: Grid) -> None:
    """Let windows be asked about from the beginning on again."""
    for i in range(grid.cursor.shape[0]):
        grid.cursor[i] = grid.first[i]


def next_wait_us(grid: Grid, above_us: int) -> int:
    """Return the shortest boot above ``above_us`` among the candidates, FOREVER_US if none is."""
    wait_us = FOREVER_US
    for i in range(grid.node.shape[0]):
        if grid.fact[i, REBOOT] > above_us:
            wait_us = min(wait_us, grid.fact[i, REBOOT])
    return int(wait_us)
