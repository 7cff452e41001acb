"""What of a node is there to lend in the time to come."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.model.units import US

#: Salamander, Table I: 24 hours with 3 minutes sampling are 480 points.
STEP_US = 180 * US


@dataclass(frozen=True, slots=True)
class SpareSteps:
    """What of a node can be lent over time: step i is [from_us + i * step_us, + step_us).

    ``cpu_m`` and ``memory_bytes`` hold one amount for each step, at least 0: A(k, m, t) of
    Salamander's Eq. 1 in thousandths of a core and bytes. Tasks of batches are not taken off.
    """

    from_us: int
    step_us: int
    cpu_m: tuple[int, ...]
    memory_bytes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.cpu_m)
