"""The plan of all waiting jobs: state of the policy ``tenure`` between two events.

Each waiting job has a planned start, end, mode and executors per node, kept sparse: job x owns the
rows ``first[x]`` to ``first[x] + used[x]`` of ``node`` and ``executors``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tenure.model.placing import Ask, Bools, Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Fleet, Jobs

#: As ``since_us``: not planned yet; as ``start_us``: without a place.
UNSEEN = -1
#: A node that costs nothing is still scarce: it counts as one FREE_SHARE-th of the dearest node
#: per core, else free nodes would be packed carelessly and waited for without end.
FREE_SHARE = 4
#: Where ``Plan.rotation`` holds what.
TURN, LEFT, DUE, LAST, SPENT, PROMPT, HEAD = range(7)
#: What a core counts where nothing has a price, in nano-dollars an hour: only ratios matter.
ANY_PRICE = 1_000_000_000


class Bounds(NamedTuple):
    """How much work plans are worth: starts tried for one job and mode, jobs moved for one.

    ``rounds`` are put where they are best now at one moment; if only one is, then alone.
    """

    starts: int
    repairs: int
    rounds: int


#: Where time is no matter, as in a simulation; a daemon looks at fewer.
NO_BOUNDS = Bounds(1 << 40, 200, 8)


class Plan(NamedTuple):
    """Where and when each waiting job (q,) is to run.

    ``patience`` is within 0 to 1; ``weight`` (n,) what nodes count, in nano-dollars an hour, and
    ``core_weight`` the least of it per core; ``kind`` (n,) numbers nodes that are alike while
    empty. ``since_us`` is when a job was first seen; ``is_late`` that it misses its deadline.
    ``soon_us`` is when it could have started first, as the last search for it found.
    ``rotation`` (7,) is ``model.placing.Rotation``. ``rank`` (q,) is the precedence, the least
    first; a job that would end at or after its ``guard_us`` is not put off for the sake of another.
    ``starts``, ``repairs`` and ``rounds`` are ``Bounds``.
    """

    patience: float
    starts: int
    repairs: int
    rounds: int
    core_weight: int
    weight: Ints
    kind: Ints
    since_us: Ints
    start_us: Ints
    end_us: Ints
    mode: Ints
    is_late: Bools
    soon_us: Ints
    first: Ints
    used: Ints
    node: Ints
    executors: Ints
    rotation: Ints
    rank: Ints
    guard_us: Ints


def no_plan() -> Plan:
    """Return the plan of policies that make none: of no job on one node."""
    return blank_plan(0, 0)._replace(weight=np.zeros(1, dtype=np.int64))


def blank_jobs(slots: int, nodes: int) -> Jobs:
    """Return room for so many jobs."""
    columns: list[Any] = [np.zeros(slots, dtype=np.int64) for _ in range(7)]
    columns.append(np.zeros((slots, nodes), dtype=np.bool_))
    return Jobs(*columns)


def write_job(jobs: Jobs, slot: int, ask: Ask, policy: int) -> None:
    """Write a job down, and the number of its policy."""
    jobs.policy[slot], jobs.executors[slot], jobs.cpu_m[slot] = policy, ask.executors, ask.cpu_m
    jobs.memory_bytes[slot], jobs.local_us[slot] = ask.memory_bytes, ask.local_us
    jobs.hybrid_us[slot] = max(ask.local_us, ask.hybrid_us)
    jobs.deadline_us[slot] = FOREVER_US if ask.deadline_us is None else ask.deadline_us
    jobs.eligible[slot] = ask.eligible


def blank_plan(slots: int, rows: int) -> Plan:
    """Return a plan of so many jobs, with places on so many nodes in all, where nobody has any.

    It is of no fleet yet (``with_fleet``), and its jobs own no rows.
    """
    return Plan(
        patience=0.0,
        starts=NO_BOUNDS.starts,
        repairs=NO_BOUNDS.repairs,
        rounds=NO_BOUNDS.rounds,
        core_weight=0,
        weight=np.zeros(0, dtype=np.int64),
        kind=np.zeros(0, dtype=np.int64),
        since_us=np.full(slots, UNSEEN, dtype=np.int64),
        start_us=np.full(slots, UNSEEN, dtype=np.int64),
        end_us=np.full(slots, UNSEEN, dtype=np.int64),
        mode=np.zeros(slots, dtype=np.int64),
        is_late=np.zeros(slots, dtype=np.bool_),
        soon_us=np.zeros(slots, dtype=np.int64),
        first=np.zeros(slots, dtype=np.int64),
        used=np.zeros(slots, dtype=np.int64),
        node=np.zeros(rows, dtype=np.int64),
        executors=np.zeros(rows, dtype=np.int64),
        rotation=np.zeros(7, dtype=np.int64),
        rank=np.zeros(slots, dtype=np.int64),
        guard_us=np.full(slots, FOREVER_US, dtype=np.int64),
    )


def with_fleet(plan: Plan, fleet: Fleet) -> Plan:
    """Return the plan as one on a fleet."""
    weight = weights(fleet)
    cores = np.maximum(fleet.capacity_cpu_m, 1)
    core_weight = int(np.min(weight * 1000 // cores, initial=FOREVER_US))
    return plan._replace(core_weight=core_weight, weight=weight, kind=kinds(fleet))


def open_plan(fleet: Fleet, jobs: Jobs, patience: float, bounds: Bounds = NO_BOUNDS) -> Plan:
    """Return a plan in which nobody has a place yet, of jobs of one rank and without guard."""
    q, n = jobs.eligible.shape
    width = np.minimum(jobs.executors, n)
    plan = blank_plan(q, int(np.sum(width)))._replace(
        patience=float(patience),
        **bounds._asdict(),
        first=np.cumsum(width) - width,
    )
    return with_fleet(plan, fleet)


def weights(fleet: Fleet) -> Ints:
    """Return what each node (n,) counts: its price, or a share of the dearest node's per core."""
    cpu_m = np.maximum(fleet.capacity_cpu_m, 1)
    dearest = int(np.max(fleet.price * 1000 // cpu_m, initial=0))
    least = (dearest if dearest > 0 else ANY_PRICE) * cpu_m // (1000 * FREE_SHARE)
    heavy: Ints = np.maximum(np.maximum(fleet.price, least), 1).astype(np.int64)
    return heavy


def kinds(fleet: Fleet) -> Ints:
    """Return a number for each node (n,), equal for nodes that are interchangeable while empty."""
    _, kind = np.unique(np.stack(columns_of(fleet), axis=1), axis=0, return_inverse=True)
    return kind.reshape(-1).astype(np.int64)


def columns_of(fleet: Fleet) -> tuple[Ints, ...]:
    """Return what tells empty nodes apart, each array (n,)."""
    return (
        fleet.capacity_cpu_m,
        fleet.capacity_memory,
        fleet.price,
        fleet.is_cloud.astype(np.int64),
        fleet.reboot_us,
        fleet.min_billing_us,
    )
