"""The four resource dimensions: CPU, memory, disk and network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

DIMENSIONS = ("cpu_m", "memory_bytes", "disk_bytes_per_s", "net_bytes_per_s")


@dataclass(frozen=True, slots=True)
class Resources:
    """An amount of each resource.

    ``cpu_m`` thousandths of a core, ``memory_bytes`` bytes, ``disk_bytes_per_s`` and
    ``net_bytes_per_s`` bytes per second. In a capacity, 0 for disk or net means "not stated":
    that dimension is left out of every fit.
    """

    cpu_m: int = 0
    memory_bytes: int = 0
    disk_bytes_per_s: int = 0
    net_bytes_per_s: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_m + other.cpu_m,
            self.memory_bytes + other.memory_bytes,
            self.disk_bytes_per_s + other.disk_bytes_per_s,
            self.net_bytes_per_s + other.net_bytes_per_s,
        )

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_m - other.cpu_m,
            self.memory_bytes - other.memory_bytes,
            self.disk_bytes_per_s - other.disk_bytes_per_s,
            self.net_bytes_per_s - other.net_bytes_per_s,
        )

    def scaled(self, factor: float) -> Resources:
        """Return every dimension times ``factor``, rounded up to a whole unit."""
        return Resources(*[-int(-value * factor // 1) for value in self.values()])

    def values(self) -> tuple[int, int, int, int]:
        """Return the four amounts in the order of ``DIMENSIONS``."""
        return (self.cpu_m, self.memory_bytes, self.disk_bytes_per_s, self.net_bytes_per_s)

    def clamped(self) -> Resources:
        """Return the amounts with negative ones raised to 0."""
        return Resources(*(max(0, value) for value in self.values()))


def larger(a: Resources, b: Resources) -> Resources:
    """Return the larger amount of each dimension."""
    return Resources(
        max(a.cpu_m, b.cpu_m),
        max(a.memory_bytes, b.memory_bytes),
        max(a.disk_bytes_per_s, b.disk_bytes_per_s),
        max(a.net_bytes_per_s, b.net_bytes_per_s),
    )


def smaller(a: Resources, b: Resources) -> Resources:
    """Return the smaller amount of each dimension."""
    return Resources(*map(min, a.values(), b.values()))


def total(parts: Iterable[Resources]) -> Resources:
    """Return the sum of ``parts``; nothing sums to zero."""
    cpu_m = memory_bytes = disk_bytes_per_s = net_bytes_per_s = 0
    for part in parts:
        cpu_m += part.cpu_m
        memory_bytes += part.memory_bytes
        disk_bytes_per_s += part.disk_bytes_per_s
        net_bytes_per_s += part.net_bytes_per_s
    return Resources(cpu_m, memory_bytes, disk_bytes_per_s, net_bytes_per_s)


def exhausted(need: Resources, free: Resources, capacity: Resources) -> tuple[str, ...]:
    """Return the dimensions in which ``need`` does not fit into ``free``.

    CPU and memory always count; disk and net only where ``capacity`` states them.
    """
    short = []
    rows = zip(DIMENSIONS, need.values(), free.values(), capacity.values(), strict=True)
    for name, want, have, cap in rows:
        is_stated = cap > 0 or name in ("cpu_m", "memory_bytes")
        if is_stated and want > have:
            short.append(name)
    return tuple(short)
