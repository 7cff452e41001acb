"""What a control law is set to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tenure.model.errors import FieldError, InvalidInput
from tenure.model.units import US

#: ``act`` enacts, ``advise`` decides and records only, ``off`` leaves harvest alone.
Mode = Literal["act", "advise", "off"]
MODES: tuple[Mode, ...] = ("act", "advise", "off")
#: The paper's period, and the kernel's own between two refills of a CPU quota.
PERIOD_US = 100_000
#: The kernel takes no quota below 1 ms of its period, so no share below this of one core.
LEAST_M = 10
MIN_PERIOD_US, MAX_PERIOD_US = 20_000, 10 * US


@dataclass(frozen=True, slots=True)
class QosParams:
    """Parameters of a node's controller; ``checked`` ones are within their bounds.

    ``controller`` names the law; ``period_us`` between two looks. ``cpu_margin`` and
    ``memory_margin`` are shares of the node's capacity that harvest leaves free (the paper's safety
    margin, 0 to 0.3 there); ``threshold`` is the share of a margin that owners may enter before
    something is done (the paper's 50 %). ``floor_m`` thousandths of a core that harvest always has.

    Ours: ``calm_periods`` the quota is the least of so many limits, so that it falls at once and
    rises late; ``raise_m`` a smaller rise is left out (each write of a quota refills it);
    ``stale_us`` after so long without a reading of memory every task ends; ``kill_timeout_us`` a
    killed task that is still there by then counts again; ``pressure`` the share of time that tasks
    of the node stalled for memory (PSI) from which the latest ends, 0: not looked at, at most one
    in ``pressure_hold_us``; ``has_soft_memory`` states the memory limit to the kernel as well, so
    that it reclaims before a task is killed. ``cpu_m`` and ``memory_bytes`` are the capacity where
    it is stated (0: as the node itself tells; the smaller counts).
    """

    mode: Mode = "act"
    controller: str = "salamander"
    period_us: int = PERIOD_US
    cpu_margin: float = 0.1
    memory_margin: float = 0.1
    threshold: float = 0.5
    floor_m: int = LEAST_M
    calm_periods: int = 5
    raise_m: int = 20
    stale_us: int = 1 * US
    kill_timeout_us: int = 5 * US
    pressure: float = 0.0
    pressure_hold_us: int = 1 * US
    has_soft_memory: bool = False
    cpu_m: int = 0
    memory_bytes: int = 0


def checked(params: QosParams) -> QosParams:
    """Return the parameters; raises InvalidInput with every fault of theirs."""
    faults = [FieldError(name, text) for name, text in _faults(params)]
    if faults:
        told = "; ".join(f"{fault.path} {fault.message}" for fault in faults)
        raise InvalidInput(f"harvest: {told}", fields=tuple(faults))
    return params


def _faults(params: QosParams) -> list[tuple[str, str]]:
    ratios = ("cpu_margin", "memory_margin", "threshold", "pressure")
    found = [
        (name, "must be a share from 0 to 1, such as 0.1")
        for name in ratios
        if not (math.isfinite(getattr(params, name)) and 0 <= getattr(params, name) <= 1)
    ]
    counts = ("raise_m", "kill_timeout_us", "pressure_hold_us", "cpu_m", "memory_bytes")
    found += [(name, "may not be below 0") for name in counts if getattr(params, name) < 0]
    if params.mode not in MODES:
        found.append(("mode", f"must be one of {', '.join(MODES)}"))
    if not MIN_PERIOD_US <= params.period_us <= MAX_PERIOD_US:
        found.append(("period_us", f"must be from {MIN_PERIOD_US} to {MAX_PERIOD_US}"))
    if params.floor_m < LEAST_M:
        found.append(("floor_m", f"must be at least {LEAST_M}: the kernel takes no less"))
    if not 1 <= params.calm_periods <= 600:
        found.append(("calm_periods", "must be from 1 to 600"))
    if params.stale_us < params.period_us:
        found.append(("stale_us", "must be at least period_us"))
    return found
