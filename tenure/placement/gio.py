"""Policy ``gio``: greedy iterative optimisation (Algorithm 2 of the SLA paper)."""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Ints
from tenure.placement.arrays import Fleet, Need
from tenure.placement.cost import extension_us, fill, in_time, money, sorted_by


def gio(fleet: Fleet, need: Need, room: Ints, limit_us: int) -> Ints:
    """Return executors per node (n,), all zeros if they do not all fit in time.

    ``room`` (n,) is how many fit each node now (``cost.slots``).

    Local nodes alone with T_C^L if they hold all E now and in time (LocalAvailability, line 3),
    else all nodes with T_C^H if that is in time; sorted by Eq. 18 and filled to the brim. Eq. 17
    counts each node's own boot. Ties, which the paper leaves open: the shorter extension (an
    active node before an idle one where both are free of charge), local before cloud, the node
    that takes more executors, name.
    """
    run_us = need.local_us
    usable = np.where(in_time(fleet.boot_us, run_us, limit_us) & ~fleet.is_cloud, room, 0)
    if np.sum(usable) < need.executors:
        run_us = need.hybrid_us
        usable = np.where(in_time(fleet.boot_us, run_us, limit_us), room, 0)
    if np.sum(usable) < need.executors:
        return np.zeros(room.shape[0], dtype=np.int64)
    nodes = np.flatnonzero(usable)
    extension = extension_us(fleet.boot_us[nodes] + run_us, fleet.remaining_us[nodes])
    site = np.where(fleet.is_cloud[nodes], need.executors + 1, 0)
    order = sorted_by(np.arange(nodes.shape[0]), site - usable[nodes])
    order = sorted_by(order, extension)
    order = sorted_by(order, money(fleet.price[nodes], extension))
    return fill(nodes[order], usable, need.executors)
