"""Policy ``asq``: one site or the other (the AsQ baseline of the SLA paper, section 6.2)."""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Ints
from tenure.placement.arrays import Fleet, Need
from tenure.placement.decisions.cost import ON_CLOUD, ON_LOCAL, offer
from tenure.placement.decisions.gio import cheapest_first


def asq(fleet: Fleet, need: Need, room: Ints, limit_us: int) -> Ints:
    """Return executors per node (n,), all zeros if they do not all fit in time.

    ``room`` (n,) is how many fit each node now (``cost.slots``).

    All executors on local nodes if those hold them now and in time with T_C^L, else all on cloud
    nodes with T_C^H, never on both: a job that fits neither site waits, or never runs. The paper
    says no more; within the site nodes are taken as ``gio`` does, as in the authors' simulator.
    """
    run_us = need.local_us
    usable = offer(fleet, room, ON_LOCAL, run_us, limit_us)
    if np.sum(usable) < need.executors:
        run_us = need.hybrid_us
        usable = offer(fleet, room, ON_CLOUD, run_us, limit_us)
    return cheapest_first(fleet, usable, run_us, need.executors)
