"""The plan of all waiting jobs: state of the policy ``tenure`` between two events.

Each waiting job has a planned start, end, mode and executors per node, kept sparse: job x owns the
rows ``first[x]`` to ``first[x] + used[x]`` of ``node`` and ``executors``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Fleet, Jobs

#: As ``since_us``: not planned yet; as ``start_us``: without a place.
UNSEEN = -1
#: A node that costs nothing is still scarce: it counts as one FREE_SHARE-th of the dearest node
#: per core, else free nodes would be packed carelessly and waited for without end.
FREE_SHARE = 4
#: Jobs up to which the whole queue is planned anew, and starts tried for one job, where time is no
#: matter; a daemon looks at fewer.
REPAIR_JOBS, ALL_STARTS = 200, FOREVER_US
#: What a core counts where nothing has a price, in nano-dollars an hour: only ratios matter.
ANY_PRICE = 1_000_000_000


class Plan(NamedTuple):
    """Where and when each waiting job (q,) is to run.

    ``patience`` is within 0 to 1; ``weight`` (n,) what nodes count, in nano-dollars an hour, and
    ``core_weight`` the least of it per core; ``kind`` (n,) numbers nodes that are alike while
    empty. ``since_us`` is when a job was first seen; ``is_late`` that it misses its deadline.
    ``turn`` (1,) is where improving the plan goes on. ``rank`` (q,) is the precedence, the least
    first; a job that would end at or after its ``guard_us`` is not put off for the sake of another.
    ``starts`` and ``repairs`` bound the work: starts tried for a job, and jobs moved for one.
    """

    patience: float
    starts: int
    repairs: int
    core_weight: int
    weight: Ints
    kind: Ints
    since_us: Ints
    start_us: Ints
    end_us: Ints
    mode: Ints
    is_late: Bools
    first: Ints
    used: Ints
    node: Ints
    executors: Ints
    turn: Ints
    rank: Ints
    guard_us: Ints


def no_plan() -> Plan:
    """Return the plan of policies that make none: of no job on one node."""
    one, off = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
    fleet = Fleet(one, one, one, one, one, one, off, off, one, one, one)
    none = one[:0].copy()
    return open_plan(fleet, Jobs(*(none,) * 7, np.zeros((0, 1), dtype=np.bool_)), 0.0)


def open_plan(
    fleet: Fleet, jobs: Jobs, patience: float, bounds: tuple[int, int] = (ALL_STARTS, REPAIR_JOBS)
) -> Plan:
    """Return a plan in which nobody has a place yet, of jobs of one rank and without guard.

    ``bounds`` are ``Plan.starts`` and ``Plan.repairs``.
    """
    q, n = jobs.eligible.shape
    weight = weights(fleet)
    width = np.minimum(jobs.executors, n)
    rows = int(np.sum(width))
    return Plan(
        patience=float(patience),
        starts=bounds[0],
        repairs=bounds[1],
        core_weight=int(
            np.min(weight * 1000 // np.maximum(fleet.capacity_cpu_m, 1), initial=FOREVER_US)
        ),
        weight=weight,
        kind=kinds(fleet),
        since_us=np.full(q, UNSEEN, dtype=np.int64),
        start_us=np.full(q, UNSEEN, dtype=np.int64),
        end_us=np.full(q, UNSEEN, dtype=np.int64),
        mode=np.zeros(q, dtype=np.int64),
        is_late=np.zeros(q, dtype=np.bool_),
        first=np.cumsum(width) - width,
        used=np.zeros(q, dtype=np.int64),
        node=np.zeros(rows, dtype=np.int64),
        executors=np.zeros(rows, dtype=np.int64),
        turn=np.zeros(1, dtype=np.int64),
        rank=np.zeros(q, dtype=np.int64),
        guard_us=np.full(q, FOREVER_US, dtype=np.int64),
    )


def weights(fleet: Fleet) -> Ints:
    """Return what each node (n,) counts: its price, or a share of the dearest node's per core."""
    cpu_m = np.maximum(fleet.capacity_cpu_m, 1)
    dearest = int(np.max(fleet.price * 1000 // cpu_m, initial=0))
    least = (dearest if dearest > 0 else ANY_PRICE) * cpu_m // (1000 * FREE_SHARE)
    heavy: Ints = np.maximum(np.maximum(fleet.price, least), 1).astype(np.int64)
    return heavy


def kinds(fleet: Fleet) -> Ints:
    """Return a number for each node (n,), equal for nodes that are interchangeable while empty."""
    columns = (
        fleet.capacity_cpu_m,
        fleet.capacity_memory,
        fleet.price,
        fleet.is_cloud.astype(np.int64),
        fleet.reboot_us,
        fleet.min_billing_us,
    )
    _, kind = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return kind.reshape(-1).astype(np.int64)
