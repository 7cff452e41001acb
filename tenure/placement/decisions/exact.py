"""Policy ``exact``: the optimum of Eq. 16 for one job, by dynamic programming (ours).

Theory of operation. Executors are identical, so a node offers ``room`` slots at one marginal cost,
however many are used: the optimum is a minimum-cost knapsack cover of E. Its key is lexical and
adds up over nodes: cost; the core-time for which nodes are kept on longer, which decides where
nodes are free of charge; the free cores of the used nodes, whose least leaves the fewest over.
Names decide the rest. Executors left to choose among the nodes of the set go where the node is off
soonest, so that the room left over is on the node that stays on longest.

All executors start with the slowest boot B, so the time on a node is B + T_C: the cover is solved
for each distinct boot time with the nodes that need no longer. A cover that did not need its B is
found again, no dearer, at a smaller one. Likewise one over both sites, with T_C^H, that uses local
nodes alone is found no dearer over local nodes with T_C^L, which is never longer.

A node that alone costs more than a cover that is known cannot be in the optimum; to know one, a
node that holds all is looked for, or the cheapest nodes are taken greedily.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Fleet, Need, lend
from tenure.placement.decisions.cost import longer_us, money
from tenure.placement.decisions.order import fill

#: Cost in nano-dollars, core-time in thousandths of a core times milliseconds (a year of 250,000
#: cores fits), free thousandths of cores.
KEYS = 3
MS = 1_000
#: The cost of a node that may not be used: more than the least known, whatever that is.
OUT = FOREVER_US + 1


class Trial(NamedTuple):
    """One problem of covering: ``executors`` on nodes that boot in ``boot_us``, local or any.

    ``until_us`` is when they would end, from now.
    """

    executors: int
    is_local: bool
    boot_us: int
    until_us: int


def exact(fleet: Fleet, need: Need, room: Ints, limit_us: int) -> Ints:
    """Return executors per node (n,) at the least cost, all zeros if they do not all fit in time.

    ``room`` (n,) is how many fit each node now (``cost.slots``). O(n x E) for each boot time.
    """
    counts = np.zeros(room.shape[0], dtype=np.int64)
    best = np.full(KEYS, FOREVER_US, dtype=np.int64)
    boot_us = next_boot_us(fleet, room, -1)
    while boot_us < FOREVER_US:
        for is_local in (True, False):
            until_us = boot_us + (need.local_us if is_local else need.hybrid_us)
            if until_us < limit_us:  # Eq. 15
                trial = Trial(need.executors, is_local, boot_us, until_us)
                cover(fleet, room, trial, best, counts)
        boot_us = next_boot_us(fleet, room, boot_us)
    return counts


def next_boot_us(fleet: Fleet, room: Ints, after_us: int) -> int:
    """Return the shortest boot over ``after_us`` of nodes with room, FOREVER_US if none."""
    least_us = FOREVER_US
    boot_us = fleet.boot_us
    for j in range(room.shape[0]):
        if room[j] > 0 and after_us < boot_us[j] < least_us:
            least_us = boot_us[j]
    return int(least_us)


def cover(fleet: Fleet, room: Ints, trial: Trial, best: Ints, counts: Ints) -> None:
    """Find the cover with the least key; if that is less than ``best``, change both (3,), (n,)."""
    executors = trial.executors
    keys = np.empty((KEYS, room.shape[0]), dtype=np.int64)
    most_nano = weigh(fleet, room, trial, best[0], keys)
    if most_nano < 0:
        return
    least = np.full((KEYS, executors + 1), FOREVER_US, dtype=np.int64)
    for row in range(KEYS):
        least[row, 0] = 0
    is_taken = np.zeros((room.shape[0], executors + 1), dtype=np.bool_)
    take_all_in(keys, room, most_nano, least, is_taken)
    if not is_less(least, best):
        return
    for row in range(KEYS):
        best[row] = least[row, executors]
    left = executors
    for j in range(room.shape[0]):
        counts[j] = room[j] if is_taken[j, left] else 0
        left = max(0, left - counts[j])
    spare(fleet, trial, counts)


def weigh(fleet: Fleet, room: Ints, trial: Trial, most_nano: int, keys: Ints) -> int:
    """Write what each node adds to the key of a cover (KEYS, n), OUT if it may not be in one.

    Return the cost of a cover that is known, at most ``most_nano``: of the cheapest node that holds
    all, else of the cheapest nodes. It is -1 if there is no cover so cheap: the nodes do not hold
    E, or none of them is a cloud node where any may be used, as local nodes alone cost no more with
    T_C^L.
    """
    price, remaining_us, boot_us = fleet.price, fleet.remaining_us, fleet.boot_us
    is_on, is_cloud, min_billing_us = fleet.is_on, fleet.is_cloud, fleet.min_billing_us
    free_cpu_m, capacity_cpu_m = fleet.free_cpu_m, fleet.capacity_cpu_m
    executors, is_local, slowest_us, until_us = trial
    has_site, is_one_enough = is_local, False
    for j in range(room.shape[0]):
        keys[0, j] = OUT
        if room[j] == 0 or boot_us[j] > slowest_us or (is_local and is_cloud[j]):
            continue
        least_us = 0 if is_on[j] else min_billing_us[j]
        more_us = longer_us(until_us, remaining_us[j], least_us)
        nano = money(price[j], more_us)
        if nano <= most_nano:
            keys[0, j], keys[1, j] = nano, more_us // MS * capacity_cpu_m[j]
            keys[2, j] = free_cpu_m[j]
            has_site = has_site or is_cloud[j]
            if room[j] == executors:
                most_nano, is_one_enough = nano, True
    if not has_site:
        return -1
    return most_nano if is_one_enough else cheapest_nano(room, executors, most_nano, keys)


def cheapest_nano(room: Ints, executors: int, most_nano: int, keys: Ints) -> int:
    """Return the cost of the cheapest nodes that hold all, at most ``most_nano``; -1 for none.

    ``keys`` (KEYS, n) are what nodes add, OUT for those that do not count.
    """
    offered = np.zeros(room.shape[0], dtype=np.int64)
    for j in range(room.shape[0]):
        offered[j] = room[j] if keys[0, j] != OUT else 0
    held, total_nano, used = 0, 0, fill(keys[:1], offered, executors)
    for j in range(room.shape[0]):
        if used[j] > 0:
            held, total_nano = held + room[j], total_nano + keys[0, j]
    return -1 if held < executors else min(most_nano, total_nano)


def take_all_in(keys: Ints, room: Ints, most_nano: int, least: Ints, is_taken: Bools) -> None:
    """Let the nodes that cost no more than ``most_nano`` into the least keys, the last name first.

    ``least`` (KEYS, E + 1) are those of covers of e executors, ``is_taken`` (n, E + 1) becomes
    whether a node is in the cover of e that it came to.
    """
    keys, least, is_taken = lend(keys), lend(least), lend(is_taken)
    executors = least.shape[1] - 1
    for j in range(room.shape[0] - 1, -1, -1):
        if keys[0, j] <= min(most_nano, least[0, executors]):
            take_in((keys[0, j], keys[1, j], keys[2, j]), room[j], least, is_taken[j])


def take_in(key: tuple[int, int, int], slots: int, least: Ints, is_taken: Bools) -> None:
    """Let a node with ``slots`` into the least keys (KEYS, E + 1) of covers of e executors.

    ``is_taken`` (E + 1,) becomes whether the cover of e uses it, as it does where that is as good:
    nodes come in from the last name to the first. What has no cover yet stays FOREVER_US or over.
    """
    costs, core_times, cores = least[0], least[1], least[2]
    cost_j, core_time_j, cores_j = key
    for e in range(costs.shape[0] - 1, 0, -1):
        rest = max(0, e - slots)
        cost = costs[rest] + cost_j
        if cost > costs[e]:
            continue
        core_time, core = core_times[rest] + core_time_j, cores[rest] + cores_j
        if cost == costs[e] and (core_time, core) > (core_times[e], cores[e]):
            continue
        costs[e], core_times[e], cores[e] = cost, core_time, core
        is_taken[e] = True


def is_less(least: Ints, best: Ints) -> bool:
    """Return whether the key of the cover of all, of ``least``, is lexically less than ``best``."""
    every = least.shape[1] - 1
    return (least[0, every], least[1, every], least[2, every]) < (best[0], best[1], best[2])


def spare(fleet: Fleet, trial: Trial, counts: Ints) -> None:
    """Take the executors that are too many off the nodes that stay on longest, last name first."""
    remaining_us = fleet.remaining_us
    surplus = np.sum(counts) - trial.executors
    while surplus > 0:
        longest, longest_us = 0, -1
        for j in range(counts.shape[0]):
            if counts[j] > 0:
                off_us = max(trial.until_us, remaining_us[j])
                if off_us >= longest_us:
                    longest, longest_us = j, off_us
        fewer = min(surplus, counts[longest])
        counts[longest] -= fewer
        surplus -= fewer
