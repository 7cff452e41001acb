"""The cost model: Eq. 1-18 of the SLA paper over arrays of nodes.

Local and cloud nodes differ in the paper only by index sets, so Eq. 1 and 8, 4 and 11, 6-7 and
12-13 are one function each; ``is_cloud`` is the set delta^C. Times are integer microseconds,
money integer nano-dollars. Two things are ours: the boot time of nodes that are off comes before
T_C (all executors start together, so the longest boot of the used nodes counts for all), and a
node costs from the moment it is switched on, so its boot is paid for. A node that is switched on
is paid for its minimum billing period at least (0 in the paper), and stays on that long.

The kernels go node by node: compiled, a loop over scalars makes no arrays on the way, which is
most of the time of a decision over 60 nodes.
"""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import HOUR_US
from tenure.placement.arrays import Fleet, Need

#: Sets of sites: delta^L, delta^C and both.
ON_LOCAL = 1
ON_CLOUD = 2
ANYWHERE = 3

#: HOUR_US is its square; splitting by it keeps every product below 2**63.
ROOT_HOUR = 60_000


def slots(free_cpu_m: Ints, free_memory: Ints, need: Need) -> Ints:
    """Return how many executors fit each node, at most E (Eq. 6, 7, 12, 13), 0 if ineligible."""
    room = np.zeros(free_cpu_m.shape[0], dtype=np.int64)
    for j in range(room.shape[0]):
        fit = need.executors if need.eligible[j] else 0
        if need.cpu_m > 0 and fit > 0:
            fit = min(fit, free_cpu_m[j] // need.cpu_m)
        if need.memory_bytes > 0 and fit > 0:
            fit = min(fit, free_memory[j] // need.memory_bytes)
        room[j] = max(fit, 0)
    return room


def offer(fleet: Fleet, room: Ints, sites: int, run_us: int, limit_us: int) -> Ints:
    """Return ``room`` (n,) on nodes of ``sites`` that could end a run in time, 0 on the others.

    In time means strictly before the limit (Eq. 15: T_C < T_D - T_W, where T_D - T_W is
    ``limit_us``). A placement is in time exactly if each of its nodes is, for it starts with the
    last of them.
    """
    usable = np.zeros(room.shape[0], dtype=np.int64)
    for j in range(room.shape[0]):
        is_there = sites == ANYWHERE or fleet.is_cloud[j] == (sites == ON_CLOUD)
        if is_there and fleet.boot_us[j] + run_us < limit_us:
            usable[j] = room[j]
    return usable


def offer_or_local(fleet: Fleet, need: Need, room: Ints, limit_us: int) -> Ints:
    """Return the room on all nodes if enough of it is in time with T_C^H, else on local nodes.

    For the policies that do not prefer a site: where cloud nodes cannot be in time, or not enough
    nodes are, local ones alone may be, with T_C^L.
    """
    usable = offer(fleet, room, ANYWHERE, need.hybrid_us, limit_us)
    if np.sum(usable) < need.executors:
        usable = offer(fleet, room, ON_LOCAL, need.local_us, limit_us)
    return usable


def is_hybrid(counts: Ints, is_cloud: Bools) -> bool:
    """Return whether any executor is on a cloud node (the sums of Eq. 5 and 9)."""
    is_used = False
    for j in range(counts.shape[0]):
        is_used = is_used or (counts[j] > 0 and is_cloud[j])
    return bool(is_used)


def delay_us(counts: Ints, boot_us: Ints) -> int:
    """Return the longest boot among the used nodes, 0 if none is used."""
    longest_us = 0
    for j in range(counts.shape[0]):
        if counts[j] > 0 and boot_us[j] > longest_us:
            longest_us = boot_us[j]
    return longest_us


def extension_us(fleet: Fleet, j: int, until_us: int) -> int:
    """Return how much longer node ``j`` stays on: max(0, T - t_j) (Eq. 4, 11, 17).

    ``until_us`` is when the job would leave it, from now: its delay plus T_C. A node that must be
    switched on stays for its minimum billing period; one that is on has it in t_j.
    """
    if not fleet.is_on[j]:
        until_us = max(until_us, fleet.min_billing_us[j])
    return int(max(0, until_us - fleet.remaining_us[j]))


def money(price: int, on_us: int) -> int:
    """Return ``price * on_us // HOUR_US`` exactly, as ``units.cost_nano``, without overflow.

    ``price`` is nano-dollars per hour. A plain product leaves int64 at ten dollars an hour after
    a quarter of an hour. With H = K * K, b = price % H and p = on % H, floor(b * p / H) comes from
    splitting p, then b * (p // K), by K. Prices up to $100,000 an hour and a year are safe.
    """
    whole, rest = price // HOUR_US, price % HOUR_US
    hours, part = on_us // HOUR_US, on_us % HOUR_US
    high = rest * (part // ROOT_HOUR)
    low = (high % ROOT_HOUR) * ROOT_HOUR + rest * (part % ROOT_HOUR)
    return price * hours + whole * part + high // ROOT_HOUR + low // HOUR_US


def total_nano(fleet: Fleet, counts: Ints, until_us: int) -> int:
    """Return Cost^total of a placement (Eq. 16: Eq. 1 plus Eq. 8).

    x_j and y_j (Eq. 2, 9) are ``counts > 0``; a node's cost is the same for one executor or many.
    """
    total = 0
    for j in range(counts.shape[0]):
        if counts[j] > 0:
            total += money(fleet.price[j], extension_us(fleet, j, until_us))
    return total
