"""RAPL's energy counters, which wrap, to one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tenure.profiling.readings.sample import EnergyReading


@dataclass(frozen=True, slots=True)
class Domain:
    """A meter: ``energy_uj`` microjoules, which begins anew after ``range_uj`` (0: not told)."""

    energy_uj: int
    range_uj: int


def is_counted(name: str) -> bool:
    """Whether a zone of this name is part of the sum: packages, and memory beside them.

    Cores and graphics are within their package; ``psys`` is the platform, packages included.
    """
    return name.startswith("package") or name == "dram"


class Meter:
    """Sums the counters of a node's domains since its begin.

    A counter that is lower than before has wrapped, once: a package takes a minute at least, and
    mostly many. A domain that appears later counts from then on.
    """

    def __init__(self) -> None:
        self._since_us: int | None = None
        self._sum_uj = 0
        self._last: dict[str, int] = {}

    def read(self, domains: Mapping[str, Domain], at_us: int) -> EnergyReading | None:
        """Add what the counters have moved on; None where there is no domain."""
        if not domains:
            return None
        if self._since_us is None:
            self._since_us = at_us
        for name, domain in domains.items():
            before = self._last.get(name)
            self._last[name] = domain.energy_uj
            if before is None:
                continue
            step_uj = domain.energy_uj - before
            if step_uj < 0:
                step_uj = domain.energy_uj + max(0, domain.range_uj - before)
            self._sum_uj += step_uj
        return EnergyReading(at_us, self._since_us, self._sum_uj, tuple(sorted(domains)))
