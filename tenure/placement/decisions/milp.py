"""Policy ``milp``: Eq. 16 as the paper states it, by a solver (HiGHS through scipy).

The same optimum as ``exact`` in cost, not in the set of nodes, some thousand times slower: it is
there to hold ``exact`` against, and for the simulator. scipy is loaded with the first question.
"""

from __future__ import annotations

import numpy as np

from tenure.model.errors import Unavailable
from tenure.model.outcome import Done, Refused
from tenure.model.placing import Ask, ClusterView, Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Fleet, Need, fleet_of, need_of
from tenure.placement.decisions.cost import (
    ANYWHERE,
    ON_LOCAL,
    extension_us,
    is_hybrid,
    money,
    offer,
    slots,
    total_nano,
)
from tenure.placement.decisions.decide import EXACT, HYBRID, LOCAL, decide, quickest_us
from tenure.placement.decisions.exact import next_boot_us

#: The paper saw its solver take up to ten minutes for one job.
TIME_LIMIT_S = 600.0


def outcome_of(
    policy: str, view: ClusterView, ask: Ask, now_us: int, limit_s: float
) -> Done | Refused:
    """Return how ``model.effects.Decide`` ends, each solution within ``limit_s``."""
    if policy != "milp":
        return Refused("no_solver", f"policy {policy} needs no solver")
    if not view.names:
        return Done()
    try:
        verdict, counts = decide_milp(fleet_of(view), need_of(ask, now_us), limit_s)
    except Unavailable as error:
        return Refused(error.code, error.detail)
    used = np.flatnonzero(counts).tolist() if verdict > 0 else []
    return Done(counts=tuple((view.names[j], int(counts[j])) for j in used))


def decide_milp(fleet: Fleet, need: Need, limit_s: float = TIME_LIMIT_S) -> tuple[int, Ints]:
    """Return what ``decide.decide`` does, the placement chosen by ``milp``.

    Whether there is any placement, and why not, no more depends on the policy than for ``exact``.
    """
    verdict, counts = decide(EXACT, fleet, need)
    if verdict < 0:
        return verdict, counts
    is_lost = quickest_us(EXACT, fleet, need) >= need.limit_us
    room = slots(fleet.free_cpu_m, fleet.free_memory, need)
    limit_us = FOREVER_US if is_lost else need.limit_us
    counts = milp(fleet, need, room, limit_us, limit_s=limit_s)
    return (HYBRID if is_hybrid(counts, fleet.is_cloud) else LOCAL), counts


def milp(
    fleet: Fleet, need: Need, room: Ints, limit_us: int, *, limit_s: float = TIME_LIMIT_S
) -> Ints:
    """Return executors per node (n,) at the least cost, all zeros if they do not all fit in time.

    ``room`` (n,) is how many fit each node now (``cost.slots``). Solved twice, as T_C is T_C^L if
    local nodes alone are used and T_C^H otherwise (Eq. 5), and for each distinct boot time, as
    all executors start with the slowest; each solution may take ``limit_s`` seconds.
    ``Unavailable``: ``no_solver`` without scipy, ``no_optimum`` in want of time.
    """
    best, counts = FOREVER_US, np.zeros(room.shape[0], dtype=np.int64)
    for sites, run_us in ((ON_LOCAL, need.local_us), (ANYWHERE, need.hybrid_us)):
        usable = offer(fleet, room, sites, run_us, limit_us)
        boot_us = next_boot_us(fleet, usable, -1)
        while boot_us < FOREVER_US:
            usable_now = np.where(fleet.boot_us <= boot_us, usable, 0)
            found = solve(fleet, need, usable_now, boot_us + run_us, limit_s)
            cost_nano = total_nano(fleet, found, boot_us + run_us)
            if np.sum(found) > 0 and cost_nano < best:
                best, counts = cost_nano, found
            boot_us = next_boot_us(fleet, usable, boot_us)
    return counts


def solve(fleet: Fleet, need: Need, usable: Ints, until_us: int, limit_s: float) -> Ints:
    """Return an optimum of Eq. 16 on the nodes with ``usable`` room, all zeros if there is none.

    x_j (Eq. 2, 9) is whether node j is used, u_j the sum of u_ij (Eq. 3, 10) over the executors,
    which are identical. Minimise the sum of x_j P_j delta t_j where the sum of u_j is E (Eq. 14),
    u_j <= x_j E (Eq. 2, 9), u_j C <= x_j C_j and u_j M <= x_j M_j (Eq. 6, 7, 12, 13, by C and M).
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint
        from scipy.optimize import milp as highs
    except ImportError:
        raise Unavailable("policy milp needs the package scipy", code="no_solver") from None
    nodes = np.flatnonzero(usable).tolist()
    k = len(nodes)
    counts = np.zeros(usable.shape[0], dtype=np.int64)
    if k == 0:
        return counts
    cost = [money(fleet.price[j], extension_us(fleet, j, until_us)) for j in nodes]
    rows = [np.concatenate([np.zeros(k), np.ones(k)])]
    lower, upper = [float(need.executors)], [float(need.executors)]
    most = [np.full(k, need.executors, dtype=np.float64)]
    if need.cpu_m > 0:
        most.append(fleet.free_cpu_m[nodes] / need.cpu_m)
    if need.memory_bytes > 0:
        most.append(fleet.free_memory[nodes] / need.memory_bytes)
    for bound in most:
        rows.extend(np.hstack([-np.diag(bound), np.eye(k)]))
        lower.extend([-np.inf] * k)
        upper.extend([0.0] * k)
    answer = highs(
        np.concatenate([np.array(cost, dtype=np.float64), np.zeros(k)]),
        integrality=np.ones(2 * k),
        bounds=Bounds(0, np.concatenate([np.ones(k), np.full(k, need.executors)])),
        constraints=LinearConstraint(np.array(rows), np.array(lower), np.array(upper)),
        options={"mip_rel_gap": 0.0, "time_limit": limit_s},
    )
    if answer.status == 1:
        text = f"policy milp found no proven optimum in {limit_s:g} s"
        raise Unavailable(text, code="no_optimum")
    if answer.x is not None:
        counts[nodes] = np.rint(answer.x[k:]).astype(np.int64)
    return counts
