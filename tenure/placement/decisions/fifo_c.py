"""Policies ``fifo_c`` and ``fifo_c_free``: FIFO that consolidates (SLA paper, section 6.2)."""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Ints
from tenure.placement.arrays import Fleet, Need
from tenure.placement.decisions.cost import offer_or_local
from tenure.placement.decisions.order import fill


def fifo_c(fleet: Fleet, need: Need, room: Ints, limit_us: int) -> Ints:
    """Return executors per node (n,), all zeros if they do not all fit in time.

    ``room`` (n,) is how many fit each node now (``cost.slots``).

    The paper's words: "packing executors on the already running VMs to avoid choosing the unused
    VMs". Active nodes come first, each filled to the brim, then unused ones, by name.
    """
    usable = offer_or_local(fleet, need, room, limit_us)
    keys = np.empty((1, room.shape[0]), dtype=np.int64)
    keys[0] = np.where(fleet.is_on, 0, 1)
    return fill(keys, usable, need.executors)


def fifo_c_free(fleet: Fleet, need: Need, room: Ints, limit_us: int) -> Ints:
    """Return executors per node (n,) as the authors' simulator does, all zeros if none fit in time.

    ``room`` (n,) is how many fit each node now (``cost.slots``).

    What its FIFO-C does is not what the paper says: the node with the fewest free cores comes
    first, so a small idle node comes before a large active one.
    """
    usable = offer_or_local(fleet, need, room, limit_us)
    keys = np.empty((1, room.shape[0]), dtype=np.int64)
    keys[0] = fleet.free_cpu_m
    return fill(keys, usable, need.executors)
