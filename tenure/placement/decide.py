"""One decision: place now, or why not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.model.placing import Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Fleet, Need
from tenure.placement.asq import asq
from tenure.placement.cost import delay_us, is_hybrid, slots, total_nano
from tenure.placement.exact import exact
from tenure.placement.ff import ff
from tenure.placement.fifo import fifo
from tenure.placement.fifo_c import fifo_c, fifo_c_free
from tenure.placement.gio import gio

#: Policies for jobs by number: kernels cannot take strings.
POLICIES = ("ff", "gio", "exact", "fifo", "fifo_c", "fifo_c_free", "asq")
FF, GIO, EXACT, FIFO, FIFO_C, FIFO_C_FREE, ASQ = range(len(POLICIES))

LOCAL = 1
HYBRID = 2
NO_ROOM = -1
TOO_LATE = -2
NO_NODE = -3
MODES = {LOCAL: "local", HYBRID: "hybrid"}
REASONS = {NO_ROOM: "no_room", TOO_LATE: "too_late", NO_NODE: "no_node"}


class Answer(NamedTuple):
    """A decision with what it entails; all but ``verdict`` are 0 or empty without a placement.

    ``verdict`` is a mode or a negative reason. ``nodes`` (k,) are the used ones, ascending, and
    ``executors`` (k,) how many each takes. ``wait_us`` is the longest boot among them, ``run_us``
    T_C, ``cost_nano`` Eq. 16.
    """

    verdict: int
    nodes: Ints
    executors: Ints
    wait_us: int
    run_us: int
    cost_nano: int


def choose(policy: int, fleet: Fleet, need: Need, room: Ints, limit_us: int) -> Ints:  # noqa: PLR0911 - one return a policy
    """Return executors per node (n,) by the policy of that number; all zeros if none."""
    if policy == FF:
        return ff(fleet, need, room, limit_us)
    if policy == GIO:
        return gio(fleet, need, room, limit_us)
    if policy == FIFO:
        return fifo(fleet, need, room, limit_us)
    if policy == FIFO_C:
        return fifo_c(fleet, need, room, limit_us)
    if policy == FIFO_C_FREE:
        return fifo_c_free(fleet, need, room, limit_us)
    if policy == ASQ:
        return asq(fleet, need, room, limit_us)
    return exact(fleet, need, room, limit_us)


def until_enough_us(room: Ints, boot_us: Ints, executors: int) -> int:
    """Return the shortest wait until nodes with ``room`` for all are up, FOREVER_US if never."""
    if np.sum(room) < executors:
        return FOREVER_US
    if np.sum(np.where(boot_us == 0, room, 0)) >= executors:
        return 0
    order = np.argsort(boot_us, kind="mergesort")
    last = np.searchsorted(np.cumsum(room[order]), executors)
    return int(boot_us[order[last]])


def soonest_us(policy: int, fleet: Fleet, need: Need, room: Ints) -> int:
    """Return the time the job would need, boot included, if each node had ``room`` (n,) for it.

    FOREVER_US says that the policy could not place it: ``asq`` never uses both sites.
    """
    far = np.where(fleet.is_cloud, room, 0) if policy == ASQ else room
    far_us = until_enough_us(far, fleet.boot_us, need.executors)
    near = np.where(fleet.is_cloud, 0, room)
    near_us = until_enough_us(near, fleet.boot_us, need.executors)
    return min(far_us + need.hybrid_us, near_us + need.local_us, FOREVER_US)


def quickest_us(policy: int, fleet: Fleet, need: Need) -> int:
    """Return the time an empty fleet would need for the job, boot included.

    Empty means that no other job ran; FOREVER_US says that even then it would not fit.
    """
    return soonest_us(policy, fleet, need, slots(fleet.capacity_cpu_m, fleet.capacity_memory, need))


def decide(policy: int, fleet: Fleet, need: Need) -> tuple[int, Ints]:
    """Return a verdict (a mode, or a negative reason) and executors per node (n,).

    A placement that would end at or after the deadline is turned down (Eq. 15) as long as waiting
    can still help, that is while an empty fleet would be in time. After that the deadline is lost
    anyway, and as an admitted job is never dropped it is placed as if it had none.
    """
    room = slots(fleet.free_cpu_m, fleet.free_memory, need)
    counts = choose(policy, fleet, need, room, need.limit_us)
    if np.sum(counts) > 0:
        return (HYBRID if is_hybrid(counts, fleet.is_cloud) else LOCAL), counts
    best_us = quickest_us(policy, fleet, need)
    if best_us >= FOREVER_US:
        return NO_NODE, counts
    whenever = choose(policy, fleet, need, room, FOREVER_US)
    if np.sum(whenever) == 0:
        return NO_ROOM, counts
    if best_us < need.limit_us:
        return TOO_LATE, counts
    return (HYBRID if is_hybrid(whenever, fleet.is_cloud) else LOCAL), whenever


def answer(policy: int, fleet: Fleet, need: Need) -> Answer:
    """Return what ``decide`` decides and what it entails: one call for those outside."""
    verdict, counts = decide(policy, fleet, need)
    return entail(fleet, need, verdict, counts)


def entail(fleet: Fleet, need: Need, verdict: int, counts: Ints) -> Answer:
    """Return a decision with its nodes, times and cost."""
    nodes = np.flatnonzero(counts)
    wait_us, run_us, cost_nano = 0, 0, 0
    if verdict > 0:
        wait_us = delay_us(counts, fleet.boot_us)
        run_us = need.local_us if verdict == LOCAL else need.hybrid_us
        cost_nano = total_nano(fleet, counts, wait_us + run_us)
    return Answer(verdict, nodes, counts[nodes], wait_us, run_us, cost_nano)
