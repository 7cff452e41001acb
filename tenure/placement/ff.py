"""Policy ``ff``: first fit (Algorithm 1 of the SLA paper)."""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Ints
from tenure.placement.arrays import Fleet, Need
from tenure.placement.cost import fill, in_time, sorted_by

#: 0.8 x cores + 0.2 x GiB, times 5,000 x 2**30, so that it is exact in integers.
WEIGHT_CPU_M = 4 << 30
WEIGHT_BYTE = 1_000


def ff(fleet: Fleet, need: Need, room: Ints, limit_us: int) -> Ints:
    """Return executors per node (n,), all zeros if they do not all fit in time.

    ``room`` (n,) is how many fit each node now (``cost.slots``).

    Active nodes first, then price, then least free by 0.8 CPU + 0.2 memory, then name; each is
    filled to the brim. Slips of the pseudo-code mended: "turn on the cheapest VM, go to 3" is one
    pass over an order that puts unused nodes last, so nothing loops when no unused node fits, and
    nothing is kept when not all executors fit. The deadline (ours here, Eq. 15): if cloud nodes
    cannot be in time, or not enough nodes are, local ones with T_C^L are tried alone.
    """
    usable = np.where(in_time(fleet.boot_us, need.hybrid_us, limit_us), room, 0)
    if np.sum(usable) < need.executors:
        is_near = in_time(fleet.boot_us, need.local_us, limit_us) & ~fleet.is_cloud
        usable = np.where(is_near, room, 0)
    if np.sum(usable) < need.executors:
        return np.zeros(room.shape[0], dtype=np.int64)
    order = np.flatnonzero(usable)
    order = sorted_by(order, WEIGHT_CPU_M * fleet.free_cpu_m + WEIGHT_BYTE * fleet.free_memory)
    order = sorted_by(order, fleet.price)
    order = sorted_by(order, np.where(fleet.is_on, 0, 1))
    return fill(order, usable, need.executors)
