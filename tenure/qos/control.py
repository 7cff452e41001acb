"""What every control law sees, keeps and answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tenure.model.qos import QosParams
from tenure.model.resources import Resources

#: Why something is done: the limit is passed; owners entered the margin; the node has no CPU to
#: spare, so that what owners use is only what harvest leaves; readings are missing; PSI.
Reason = Literal["limit", "margin", "saturated", "stale", "pressure"]


@dataclass(frozen=True, slots=True)
class Task:
    """A harvest task on the node: ``started`` orders by start, the larger later (any unit).

    ``memory_bytes`` is what it holds; ``cpu_m`` what it used over the last period (0: not told).
    """

    key: str
    started: int
    memory_bytes: int
    cpu_m: int = 0


@dataclass(frozen=True, slots=True)
class Observation:
    """A node as seen at ``at_us``, a monotonic time. None is a reading that is missing or stale.

    ``capacity`` of the node (0: not known). ``regular_*`` is what all but harvest used,
    ``harvest_*`` what harvest did: thousandths of a core over the last period, and bytes now.
    ``tasks`` may be left out where ``wants_tasks`` says so. ``quota_m`` and ``soft_bytes`` are what
    harvest's parent is held to by now (None: not held); ``memory_pressure`` the share of the last
    period in which tasks of the node stalled for memory.
    """

    at_us: int
    capacity: Resources
    regular_cpu_m: int | None
    harvest_cpu_m: int | None
    regular_memory_bytes: int | None
    harvest_memory_bytes: int | None
    tasks: tuple[Task, ...] = ()
    quota_m: int | None = None
    soft_bytes: int | None = None
    memory_pressure: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What harvest may use: capacity less regular use less margin, and the margins themselves.

    Below 0 owners have entered the margin; None: not known.
    """

    cpu_m: int | None
    memory_bytes: int | None
    cpu_margin_m: int
    memory_margin_bytes: int


@dataclass(frozen=True, slots=True)
class State:
    """What a law keeps from one period to the next.

    ``limits`` the last limits of CPU, oldest first; ``killing`` when each task that is being killed
    was killed; ``known_us`` when memory was last known; ``pressed_us`` the last kill for pressure.
    """

    limits: tuple[int, ...] = ()
    killing: Mapping[str, int] = field(default_factory=dict)
    known_us: int | None = None
    pressed_us: int | None = None


@dataclass(frozen=True, slots=True)
class SetQuota:
    """Hold all of harvest to ``quota_m`` thousandths of a core."""

    quota_m: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class SetSoftMemory:
    """Ask the kernel to take memory back from harvest above ``soft_bytes``."""

    soft_bytes: int
    reason: Reason = "limit"


@dataclass(frozen=True, slots=True)
class Kill:
    """End a task at once."""

    task: Task
    reason: Reason
    resource: Literal["cpu", "memory"] = "memory"


Action = SetQuota | SetSoftMemory | Kill


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, the state to come back with, and the limits that it follows from."""

    actions: tuple[Action, ...]
    state: State
    limits: Limits


Law = Callable[[Observation, State, QosParams], Decision]


def limits_of(seen: Observation, params: QosParams) -> Limits:
    """Return what harvest may use (Algorithm 3, lines 1-2): capacity - regular use - margin.

    Capacity is the smaller of what the node tells and what ``params`` states; a capacity that
    neither knows leaves the limit unknown. Margins are rounded up.
    """
    cpu_m = _smaller(seen.capacity.cpu_m, params.cpu_m)
    memory_bytes = _smaller(seen.capacity.memory_bytes, params.memory_bytes)
    cpu_margin = math.ceil(cpu_m * params.cpu_margin)
    memory_margin = math.ceil(memory_bytes * params.memory_margin)
    return Limits(
        _left(cpu_m, seen.regular_cpu_m, cpu_margin),
        _left(memory_bytes, seen.regular_memory_bytes, memory_margin),
        cpu_margin,
        memory_margin,
    )


def _smaller(told: int, stated: int) -> int:
    return min(told, stated) if told and stated else told or stated


def _left(capacity: int, used: int | None, margin: int) -> int | None:
    return None if used is None or not capacity else capacity - used - margin
