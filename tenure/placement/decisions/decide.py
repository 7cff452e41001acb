"""One decision: place now, or why not."""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Ask, Bools, Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Fleet, Need, lend, unpack
from tenure.placement.decisions.asq import asq
from tenure.placement.decisions.cost import delay_us, is_hybrid, slots, total_nano
from tenure.placement.decisions.exact import exact
from tenure.placement.decisions.ff import ff
from tenure.placement.decisions.fifo import fifo
from tenure.placement.decisions.fifo_c import fifo_c, fifo_c_free
from tenure.placement.decisions.gio import gio
from tenure.placement.names import POLICIES

#: The numbers of ``POLICIES``.
FF, GIO, EXACT, FIFO, FIFO_C, FIFO_C_FREE, ASQ = range(len(POLICIES))
PLANNED = len(POLICIES)

#: A policy's number, then the numbers of a ``Need`` in their order.
Question = tuple[int, int, int, int, int, int, int]
#: What comes before the nodes in an answer (``entail``).
TOLD = 4

LOCAL = 1
HYBRID = 2
NO_ROOM = -1
TOO_LATE = -2
NO_NODE = -3
MODES = {LOCAL: "local", HYBRID: "hybrid"}
REASONS = {NO_ROOM: "no_room", TOO_LATE: "too_late", NO_NODE: "no_node"}


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
    return decide_late(policy, fleet, need, room)


def decide_late(policy: int, fleet: Fleet, need: Need, room: Ints) -> tuple[int, Ints]:
    """Return the verdict on a job that is not placed in time: why it waits, or where it is late."""
    best_us = quickest_us(policy, fleet, need)
    counts = choose(policy, fleet, need, room, FOREVER_US)
    if best_us >= FOREVER_US:
        return NO_NODE, counts
    if np.sum(counts) == 0:
        return NO_ROOM, counts
    if best_us < need.limit_us:
        return TOO_LATE, np.zeros(room.shape[0], dtype=np.int64)
    return (HYBRID if is_hybrid(counts, fleet.is_cloud) else LOCAL), counts


def question_of(policy: int, ask: Ask, now_us: int) -> Question:
    """Return ``ask`` as seen at ``now_us``, for ``answer``."""
    limit_us = FOREVER_US if ask.deadline_us is None else ask.deadline_us - now_us
    hybrid_us = max(ask.local_us, ask.hybrid_us)
    return (
        policy,
        ask.executors,
        ask.cpu_m,
        ask.memory_bytes,
        ask.local_us,
        hybrid_us,
        limit_us,
    )


def answer(question: Question, table: Ints, flags: Bools, eligible: Bools) -> Ints:
    """Return what ``entail`` does of what ``decide`` decides: one call for those outside.

    ``table`` and ``flags`` are a packed fleet. Few arguments and one array to answer with, because
    to hand over an array costs compiled code more than a node does. They are lent on, for the
    caller holds them.
    """
    policy, executors, cpu_m, memory_bytes, local_us, hybrid_us, limit_us = question
    fleet = unpack(lend(table), lend(flags))
    need = Need(executors, cpu_m, memory_bytes, local_us, hybrid_us, limit_us, lend(eligible))
    verdict, counts = decide(policy, fleet, need)
    return entail(fleet, need, verdict, counts)


def entail(fleet: Fleet, need: Need, verdict: int, counts: Ints) -> Ints:
    """Return a decision with its times and cost, (4 + 2 k,) for a placement on k nodes.

    The verdict, the longest boot among the nodes, T_C and Eq. 16's cost, then the nodes with how
    many executors each takes; for what is not placed the verdict and zeros.
    """
    used = 0
    for j in range(counts.shape[0]):
        used += 1 if verdict > 0 and counts[j] > 0 else 0
    told = np.zeros(TOLD + 2 * used, dtype=np.int64)
    told[0] = verdict
    if verdict > 0:
        wait_us = delay_us(counts, fleet.boot_us)
        run_us = need.local_us if verdict == LOCAL else need.hybrid_us
        told[1], told[2], told[3] = wait_us, run_us, total_nano(fleet, counts, wait_us + run_us)
        place = TOLD
        for j in range(counts.shape[0]):
            if counts[j] > 0:
                told[place], told[place + 1] = j, counts[j]
                place += 2
    return told
