"""Policy ``gio``: greedy iterative optimisation (Algorithm 2 of the SLA paper)."""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Ints
from tenure.placement.arrays import Fleet, Need
from tenure.placement.decisions.cost import ANYWHERE, ON_LOCAL, least_on_us, longer_us, money, offer
from tenure.placement.decisions.exact import MS
from tenure.placement.decisions.order import fill

#: More than the free thousandths of a core of any node.
CLOUD_LAST = 1 << 40


def gio(fleet: Fleet, need: Need, room: Ints, limit_us: int) -> Ints:
    """Return executors per node (n,), all zeros if they do not all fit in time.

    ``room`` (n,) is how many fit each node now (``cost.slots``).

    Local nodes alone with T_C^L if they hold all E now and in time (LocalAvailability, line 3),
    else all nodes with T_C^H if that is in time; each set by ``cheapest_first``.
    """
    run_us = need.local_us
    usable = offer(fleet, room, ON_LOCAL, run_us, limit_us)
    if np.sum(usable) < need.executors:
        run_us = need.hybrid_us
        usable = offer(fleet, room, ANYWHERE, run_us, limit_us)
    return cheapest_first(fleet, usable, run_us, need.executors)


def cheapest_first(fleet: Fleet, usable: Ints, run_us: int, executors: int) -> Ints:
    """Return executors per node (n,): nodes by Eq. 18, each to the brim (lines 10-22).

    All zeros if ``usable`` (n,) does not hold them. Eq. 17 counts each node's own boot. Ties,
    which the paper leaves open: the less core-time by which a node is kept on (an active node
    before an idle one, and a small idle one before a large one, where both are free of charge),
    local before cloud, the fewer free cores, the more executors that it takes, name.
    """
    price, boot_us, remaining_us = fleet.price, fleet.boot_us, fleet.remaining_us
    free_cpu_m, capacity_cpu_m = fleet.free_cpu_m, fleet.capacity_cpu_m
    is_cloud, least_us = fleet.is_cloud, least_on_us(fleet)
    keys = np.empty((4, usable.shape[0]), dtype=np.int64)
    for j in range(usable.shape[0]):
        if usable[j] > 0:
            more_us = longer_us(boot_us[j] + run_us, remaining_us[j], least_us[j])
            keys[0, j] = money(price[j], more_us)
            keys[1, j] = more_us // MS * capacity_cpu_m[j]
            keys[2, j] = free_cpu_m[j] + (CLOUD_LAST if is_cloud[j] else 0)
            keys[3, j] = -usable[j]
    return fill(keys, usable, executors)
