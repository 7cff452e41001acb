"""Small fleets and jobs in seconds, dollars, cores and GiB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tenure.model.placing import NEVER, Ask, ClusterView, Ints, Queued
from tenure.model.units import FOREVER_US, US, usd_to_nano
from tenure.placement.arrays import Jobs

GIB = 1 << 30


@dataclass(frozen=True)
class N:
    """A node: free and total cores and GiB, dollars per hour, seconds.

    ``reboot_s`` None: as ``boot_s``, and never switched off where that is 0.
    """

    name: str
    cores: float = 4
    gib: float = 16
    free_cores: float | None = None
    free_gib: float | None = None
    usd_per_h: float = 0.0
    remaining_s: float | None = 0
    is_on: bool = True
    is_cloud: bool = False
    boot_s: float = 0
    reboot_s: float | None = None
    min_billing_s: float = 0

    def reboot_us(self) -> int:
        if self.reboot_s is not None:
            return round(US * self.reboot_s)
        return round(US * self.boot_s) if self.boot_s else NEVER


def view_of(nodes: Iterable[N]) -> ClusterView:
    rows = sorted(nodes, key=lambda node: node.name)

    def ints(values: Iterable[float]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([round(value) for value in values], dtype=np.int64)

    def bools(values: Iterable[bool]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.array(list(values), dtype=np.bool_)

    return ClusterView(
        names=tuple(row.name for row in rows),
        free_cpu_m=ints(
            1000 * (row.cores if row.free_cores is None else row.free_cores) for row in rows
        ),
        free_memory=ints(GIB * (row.gib if row.free_gib is None else row.free_gib) for row in rows),
        capacity_cpu_m=ints(1000 * row.cores for row in rows),
        capacity_memory=ints(GIB * row.gib for row in rows),
        price=ints(usd_to_nano(row.usd_per_h) for row in rows),
        remaining_us=np.array(
            [FOREVER_US if r.remaining_s is None else round(r.remaining_s * US) for r in rows],
            dtype=np.int64,
        ),
        is_on=bools(row.is_on for row in rows),
        is_cloud=bools(row.is_cloud for row in rows),
        boot_us=ints(US * row.boot_s for row in rows),
        reboot_us=ints(row.reboot_us() for row in rows),
        min_billing_us=ints(US * row.min_billing_s for row in rows),
    )


def ask_of(
    view: ClusterView,
    executors: int = 1,
    *,
    id: str = "job",
    cores: float = 1,
    gib: float = 1,
    local_s: float = 100,
    hybrid_s: float | None = None,
    deadline_s: float | None = None,
    only: Iterable[str] | None = None,
) -> Ask:
    names = view.names if only is None else tuple(only)
    return Ask(
        id=id,
        executors=executors,
        cpu_m=round(1000 * cores),
        memory_bytes=round(GIB * gib),
        local_us=round(local_s * US),
        hybrid_us=round((local_s * 1.3 if hybrid_s is None else hybrid_s) * US),
        deadline_us=None if deadline_s is None else round(deadline_s * US),
        eligible=np.array([name in names for name in view.names], dtype=np.bool_),
    )


def queued(ask: Ask, policy: str = "gio") -> Queued:
    return Queued(ask, policy)


def jobs_of(queue: Sequence[Queued], codes: Sequence[int], nodes: int) -> Jobs:
    """Return the queue as arrays; ``codes`` are the numbers of its policies, (q,)."""

    def ints(values: Sequence[int]) -> Ints:
        return np.array(values, dtype=np.int64)

    asks = [queued.ask for queued in queue]
    eligible = np.array([ask.eligible for ask in asks], dtype=np.bool_)
    return Jobs(
        policy=ints(codes),
        executors=ints([ask.executors for ask in asks]),
        cpu_m=ints([ask.cpu_m for ask in asks]),
        memory_bytes=ints([ask.memory_bytes for ask in asks]),
        local_us=ints([ask.local_us for ask in asks]),
        hybrid_us=ints([max(ask.local_us, ask.hybrid_us) for ask in asks]),
        deadline_us=ints(
            [FOREVER_US if ask.deadline_us is None else ask.deadline_us for ask in asks]
        ),
        eligible=eligible.reshape(len(asks), nodes),
    )
