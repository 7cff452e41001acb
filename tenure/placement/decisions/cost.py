"""The cost model: Eq. 1-18 of the SLA paper over arrays of nodes.

Local and cloud nodes differ in the paper only by index sets, so Eq. 1 and 8, 4 and 11, 6-7 and
12-13 are one function each; ``is_cloud`` is the set delta^C. Times are integer microseconds,
money integer nano-dollars. Two things are ours: the boot time of nodes that are off comes before
T_C (all executors start together, so the longest boot of the used nodes counts for all), and a
node costs from the moment it is switched on, so its boot is paid for. A node that is switched on
is paid for its minimum billing period at least (0 in the paper), and stays on that long.

The kernels go node by node: compiled, a loop over scalars makes no arrays on the way, which is
most of the time of a decision over 60 nodes. For the same reason loops take the arrays they need
out of their tuple beforehand, and what they call takes numbers.
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
#: To multiply with, which takes a third of the time of a division.
HOURS_PER_US = 1 / HOUR_US


def slots(free_cpu_m: Ints, free_memory: Ints, need: Need) -> Ints:
    """Return how many executors fit each node, at most E (Eq. 6, 7, 12, 13), 0 if ineligible.

    Divides as floats, which is ten times as fast and exact below 2**52, that is 4 PiB.
    """
    executors, cpu_m, memory_bytes = need.executors, need.cpu_m, need.memory_bytes
    eligible = need.eligible
    room = np.zeros(free_cpu_m.shape[0], dtype=np.int64)
    for j in range(room.shape[0]):
        fit = executors if eligible[j] else 0
        if cpu_m > 0:
            fit = min(fit, int(free_cpu_m[j] / cpu_m))
        if memory_bytes > 0:
            fit = min(fit, int(free_memory[j] / memory_bytes))
        room[j] = max(fit, 0)
    return room


def offer(fleet: Fleet, room: Ints, sites: int, run_us: int, limit_us: int) -> Ints:
    """Return ``room`` (n,) on nodes of ``sites`` that could end a run in time, 0 on the others.

    In time means strictly before the limit (Eq. 15: T_C < T_D - T_W, where T_D - T_W is
    ``limit_us``). A placement is in time exactly if each of its nodes is, for it starts with the
    last of them.
    """
    is_cloud, boot_us = fleet.is_cloud, fleet.boot_us
    usable = np.zeros(room.shape[0], dtype=np.int64)
    for j in range(room.shape[0]):
        is_there = sites == ANYWHERE or is_cloud[j] == (sites == ON_CLOUD)
        if is_there and boot_us[j] + run_us < limit_us:
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
    return int(longest_us)


def longer_us(until_us: int, remaining_us: int, least_us: int) -> int:
    """Return how much longer a node stays on: max(0, T - t_j) (Eq. 4, 11, 17).

    ``until_us`` is T, when the job would leave it, from now: its delay plus T_C; ``remaining_us``
    is t_j. ``least_us`` is how long the node is paid for at least once it is switched on (0 where
    it is on, which has it in t_j).
    """
    return int(max(0, max(until_us, least_us) - remaining_us))


def extension_us(fleet: Fleet, j: int, until_us: int) -> int:
    """Return the same for node ``j``; loops take the numbers out of the fleet themselves."""
    least_us = 0 if fleet.is_on[j] else fleet.min_billing_us[j]
    return longer_us(until_us, fleet.remaining_us[j], least_us)


def least_on_us(fleet: Fleet) -> Ints:
    """Return how long each node (n,) is paid for at least, from now, if it is used."""
    is_on, min_billing_us = fleet.is_on, fleet.min_billing_us
    least_us = np.zeros(is_on.shape[0], dtype=np.int64)
    for j in range(is_on.shape[0]):
        if not is_on[j]:
            least_us[j] = min_billing_us[j]
    return least_us


def money(price: int, on_us: int) -> int:
    """Return ``price * on_us // HOUR_US`` exactly, as ``units.cost_nano``.

    ``price`` is nano-dollars per hour. The product leaves 64 bits at ten dollars an hour after a
    quarter of an hour. So the quotient is guessed with floats, and put right by the remainder,
    which fits: compiled, product and difference wrap around and cancel out. Up to $100,000 an hour
    and a year the guess is off by some hundreds at most, mostly by none.
    """
    price, on_us = int(price), int(on_us)
    nano = int(float(price) * float(on_us) * HOURS_PER_US)
    rest = price * on_us - nano * HOUR_US
    while rest < 0:
        nano, rest = nano - 1, rest + HOUR_US
    while rest >= HOUR_US:
        nano, rest = nano + 1, rest - HOUR_US
    return nano


def total_nano(fleet: Fleet, counts: Ints, until_us: int) -> int:
    """Return Cost^total of a placement (Eq. 16: Eq. 1 plus Eq. 8).

    x_j and y_j (Eq. 2, 9) are ``counts > 0``; a node's cost is the same for one executor or many.
    """
    price, remaining_us, least_us = fleet.price, fleet.remaining_us, least_on_us(fleet)
    total = 0
    for j in range(counts.shape[0]):
        if counts[j] > 0:
            total += money(price[j], longer_us(until_us, remaining_us[j], least_us[j]))
    return total
