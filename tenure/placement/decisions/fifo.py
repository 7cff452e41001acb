"""Policy ``fifo``: Spark's default, round robin over all nodes (section 6.2 of the SLA paper)."""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Ints
from tenure.placement.arrays import Fleet, Need
from tenure.placement.decisions.cost import offer_or_local


def fifo(fleet: Fleet, need: Need, room: Ints, limit_us: int) -> Ints:
    """Return executors per node (n,), all zeros if they do not all fit in time.

    ``room`` (n,) is how many fit each node now (``cost.slots``).

    One executor a node and pass, beginning with the first name for every job, while passes place
    something; neither prices nor sites count. O(n) a pass, at most E passes.
    """
    usable = offer_or_local(fleet, need, room, limit_us)
    counts = np.zeros(room.shape[0], dtype=np.int64)
    left = need.executors if np.sum(usable) >= need.executors else 0
    while left > 0:
        for j in range(room.shape[0]):
            if left > 0 and counts[j] < usable[j]:
                counts[j] += 1
                left -= 1
    return counts
