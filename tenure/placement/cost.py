"""The cost model: Eq. 1-18 of the SLA paper over arrays of nodes.

Local and cloud nodes differ in the paper only by index sets, so Eq. 1 and 8, 4 and 11, 6-7 and
12-13 are one function each; ``is_cloud`` is the set delta^C. Times are integer microseconds,
money integer nano-dollars. Two things are ours: the boot time of nodes that are off comes before
T_C (all executors start together, so the longest boot of the used nodes counts for all), and a
node costs from the moment it is switched on, so its boot is paid for.
"""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import HOUR_US
from tenure.placement.arrays import Fleet, Need

#: HOUR_US is its square; splitting by it keeps every product below 2**63.
ROOT_HOUR = 60_000


def slots(free_cpu_m: Ints, free_memory: Ints, need: Need) -> Ints:
    """Return how many executors fit each node, at most E (Eq. 6, 7, 12, 13), 0 if ineligible."""
    room = np.full(free_cpu_m.shape[0], need.executors, dtype=np.int64)
    if need.cpu_m > 0:
        room = np.minimum(room, free_cpu_m // need.cpu_m)
    if need.memory_bytes > 0:
        room = np.minimum(room, free_memory // need.memory_bytes)
    return np.where(need.eligible, np.maximum(room, 0), 0)


def in_time(boot_us: Ints, run_us: int, limit_us: int) -> Bools:
    """Return which nodes could end a run of ``run_us`` strictly before the limit (Eq. 15).

    T_C < T_D - T_W, where T_D - T_W is ``limit_us``. A placement is in time exactly if each of
    its nodes is, for it starts with the last of them.
    """
    return boot_us + run_us < limit_us


def is_hybrid(counts: Ints, is_cloud: Bools) -> bool:
    """Return whether any executor is on a cloud node (the sums of Eq. 5 and 9)."""
    return bool(np.any(is_cloud & (counts > 0)))


def delay_us(counts: Ints, boot_us: Ints) -> int:
    """Return the longest boot among the used nodes, 0 if none is used."""
    return int(np.max(np.where(counts > 0, boot_us, 0)))


def extension_us(until_us: Ints, remaining_us: Ints) -> Ints:
    """Return how much longer each node stays on: max(0, T - t_j) (Eq. 4, 11, 17).

    ``until_us`` is when the job would leave each node, from now: its delay plus T_C.
    """
    extension: Ints = np.maximum(until_us - remaining_us, 0)
    return extension


def money(price: Ints, on_us: Ints) -> Ints:
    """Return ``price * on_us // HOUR_US`` exactly, as ``units.cost_nano``, without overflow.

    ``price`` is nano-dollars per hour. A plain product leaves int64 at ten dollars an hour after
    a quarter of an hour. With H = K * K, b = price % H and p = on % H, floor(b * p / H) comes from
    splitting p, then b * (p // K), by K. Prices up to $100,000 an hour and a year are safe.
    """
    whole, rest = price // HOUR_US, price % HOUR_US
    hours, part = on_us // HOUR_US, on_us % HOUR_US
    high = rest * (part // ROOT_HOUR)
    low = (high % ROOT_HOUR) * ROOT_HOUR + rest * (part % ROOT_HOUR)
    total: Ints = price * hours + whole * part + high // ROOT_HOUR + low // HOUR_US
    return total


def total_nano(fleet: Fleet, counts: Ints, until_us: int) -> int:
    """Return Cost^total of a placement (Eq. 16: Eq. 1 plus Eq. 8).

    x_j and y_j (Eq. 2, 9) are ``counts > 0``; a node's cost is the same for one executor or many.
    """
    used = np.flatnonzero(counts)
    until = np.full(used.shape[0], until_us, dtype=np.int64)
    extension = extension_us(until, fleet.remaining_us[used])
    return int(np.sum(money(fleet.price[used], extension)))


def fill(order: Ints, room: Ints, executors: int) -> Ints:
    """Return executors per node (n,), taking nodes in ``order`` to the brim until all are placed.

    The sum is ``executors`` (Eq. 14) if ``room`` holds as many.
    """
    offered = room[order]
    before = np.cumsum(offered) - offered
    counts = np.zeros(room.shape[0], dtype=np.int64)
    counts[order] = np.minimum(np.maximum(executors - before, 0), offered)
    return counts


def sorted_by(order: Ints, key: Ints) -> Ints:
    """Return ``order`` sorted stably by ``key`` (n,): last key first makes a lexical order."""
    return order[np.argsort(key[order], kind="mergesort")]
