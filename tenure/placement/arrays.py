"""The arrays that kernels work on: named tuples, because compiled code can take them apart.

All arrays are int64 or bool and C-contiguous; n is the number of nodes in the order of their
names, q the number of waiting jobs in queue order, r the number of running occupations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from tenure.model.placing import (
    Ask,
    Bools,
    ClusterView,
    Floats,
    Ints,
    Occupation,
    Occupied,
    Running,
)
from tenure.model.units import FOREVER_US

INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)
Array = TypeVar("Array", Ints, Bools, Floats)


class Fleet(NamedTuple):
    """The nodes at one moment, each array (n,); see ``ClusterView`` for the units.

    ``reboot_us`` is the time to boot again once it was switched off, NEVER if it is not;
    ``min_billing_us`` the least time that is paid for from each switch-on.
    """

    free_cpu_m: Ints
    free_memory: Ints
    capacity_cpu_m: Ints
    capacity_memory: Ints
    price: Ints
    remaining_us: Ints
    is_on: Bools
    is_cloud: Bools
    boot_us: Ints
    reboot_us: Ints
    min_billing_us: Ints


class Need(NamedTuple):
    """One job at one moment; ``limit_us`` is the time left to its deadline (may be negative).

    ``FOREVER_US`` stands for no deadline. ``hybrid_us`` is never below ``local_us``.
    """

    executors: int
    cpu_m: int
    memory_bytes: int
    local_us: int
    hybrid_us: int
    limit_us: int
    eligible: Bools


class Jobs(NamedTuple):
    """The waiting jobs, each array (q,), ``eligible`` (q, n); ``deadline_us`` is absolute."""

    policy: Ints
    executors: Ints
    cpu_m: Ints
    memory_bytes: Ints
    local_us: Ints
    hybrid_us: Ints
    deadline_us: Ints
    eligible: Bools


class Ends(NamedTuple):
    """What running executors will give back and when, each array (r,), sorted by ``end_us``."""

    node: Ints
    cpu_m: Ints
    memory_bytes: Ints
    end_us: Ints


def fleet_of(view: ClusterView) -> Fleet:
    """Return the arrays of ``view``; those of another layout than kernels take are copied.

    The view does not say how long a node that is on would take to boot once switched off. So a
    node that is off now counts as needing its boot time again after each use, and a node that is
    on now as staying on.
    """
    return Fleet(
        free_cpu_m=_ints(view.free_cpu_m),
        free_memory=_ints(view.free_memory),
        capacity_cpu_m=_ints(view.capacity_cpu_m),
        capacity_memory=_ints(view.capacity_memory),
        price=_ints(view.price),
        remaining_us=_ints(view.remaining_us),
        is_on=mask_of(view.is_on),
        is_cloud=mask_of(view.is_cloud),
        boot_us=_ints(view.boot_us),
        reboot_us=_ints(view.reboot_us),
        min_billing_us=_ints(view.min_billing_us),
    )


def pack(view: ClusterView) -> tuple[Ints, Bools]:
    """Return the numbers (9, n) and flags (2, n) of ``view``, for ``unpack``."""
    f = fleet_of(view)
    numbers = (f.free_cpu_m, f.free_memory, f.capacity_cpu_m, f.capacity_memory, f.price)
    times = (f.remaining_us, f.boot_us, f.reboot_us, f.min_billing_us)
    return np.array((*numbers, *times)), np.array((f.is_on, f.is_cloud))


def unpack(table: Ints, flags: Bools) -> Fleet:
    """Return the fleet that was packed; nothing is copied."""
    return Fleet(
        table[0],
        table[1],
        table[2],
        table[3],
        table[4],
        table[5],
        flags[0],
        flags[1],
        table[6],
        table[7],
        table[8],
    )


def lend(array: Array) -> Array:
    """Return ``array`` as it is; compiled, without a share in its memory.

    Compiled code counts who holds an array, with two locked instructions for each of a fleet's
    eleven whenever a function is handed it: most of the time of a decision over few nodes. Of what
    is lent nobody keeps count (``kernels.lender``). So the caller must hold the array itself, and
    nothing that is lent or a part of it may be kept or returned.
    """
    return array


def lent(fleet: Fleet) -> Fleet:
    """Return a fleet of which every array is lent."""
    return Fleet(
        lend(fleet.free_cpu_m),
        lend(fleet.free_memory),
        lend(fleet.capacity_cpu_m),
        lend(fleet.capacity_memory),
        lend(fleet.price),
        lend(fleet.remaining_us),
        lend(fleet.is_on),
        lend(fleet.is_cloud),
        lend(fleet.boot_us),
        lend(fleet.reboot_us),
        lend(fleet.min_billing_us),
    )


def need_of(ask: Ask, now_us: int) -> Need:
    """Return ``ask`` as seen at ``now_us``."""
    limit_us = FOREVER_US if ask.deadline_us is None else ask.deadline_us - now_us
    return Need(
        executors=ask.executors,
        cpu_m=ask.cpu_m,
        memory_bytes=ask.memory_bytes,
        local_us=ask.local_us,
        hybrid_us=max(ask.local_us, ask.hybrid_us),
        limit_us=limit_us,
        eligible=mask_of(ask.eligible),
    )


def ends_of(running: Occupation, now_us: int) -> Ends:
    """Return the occupations sorted by end, then node and size: in no order they are told in.

    One that is overdue still holds its room: it counts as ending right after ``now_us``.
    """
    rows = running if isinstance(running, Running) else _columns(running)
    end_us = np.maximum(rows.end_us, now_us + 1)
    order = np.lexsort((rows.memory_bytes, rows.cpu_m, rows.node, end_us))
    return Ends(
        node=_ints(rows.node[order]),
        cpu_m=_ints(rows.cpu_m[order]),
        memory_bytes=_ints(rows.memory_bytes[order]),
        end_us=_ints(end_us[order]),
    )


def _columns(running: Sequence[Occupied]) -> Running:
    return Running(
        node=_ints([one.node for one in running]),
        cpu_m=_ints([one.cpu_m for one in running]),
        memory_bytes=_ints([one.memory_bytes for one in running]),
        end_us=_ints([one.end_us for one in running]),
    )


def _ints(values: Ints | Sequence[int]) -> Ints:
    """Return int64 in one piece and writable, for compiled code has a type for each layout."""
    if isinstance(values, np.ndarray) and values.dtype is INT64 and values.flags.carray:
        return values
    return np.array(values, dtype=np.int64)


def mask_of(values: Bools) -> Bools:
    """Return a mask in one piece and writable."""
    if values.dtype is BOOL and values.flags.carray:
        return values
    return np.array(values, dtype=np.bool_)
