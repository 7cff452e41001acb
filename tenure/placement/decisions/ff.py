"""Policy ``ff``: first fit (Algorithm 1 of the SLA paper)."""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Ints
from tenure.placement.arrays import Fleet, Need
from tenure.placement.decisions.cost import offer_or_local
from tenure.placement.decisions.order import fill

#: 0.8 x cores + 0.2 x GiB, times 5,000 x 2**30, so that it is exact in integers.
WEIGHT_CPU_M = 4 << 30
WEIGHT_BYTE = 1_000


def ff(fleet: Fleet, need: Need, room: Ints, limit_us: int) -> Ints:
    """Return executors per node (n,), all zeros if they do not all fit in time.

    ``room`` (n,) is how many fit each node now (``cost.slots``).

    Active nodes first, then price, then least free by 0.8 CPU + 0.2 memory, then name; each is
    filled to the brim. Slips of the pseudo-code mended: "turn on the cheapest VM, go to 3" is one
    pass over an order that puts unused nodes last, so nothing loops when no unused node fits, and
    nothing is kept when not all executors fit. The deadline (Eq. 15) is ours here: see
    ``cost.offer_or_local``.
    """
    usable = offer_or_local(fleet, need, room, limit_us)
    is_on, free_cpu_m, free_memory = fleet.is_on, fleet.free_cpu_m, fleet.free_memory
    keys = np.empty((3, room.shape[0]), dtype=np.int64)
    keys[1] = fleet.price
    for j in range(room.shape[0]):
        keys[0, j] = 0 if is_on[j] else 1
        keys[2, j] = WEIGHT_CPU_M * free_cpu_m[j] + WEIGHT_BYTE * free_memory[j]
    return fill(keys, usable, need.executors)
