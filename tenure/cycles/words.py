"""Amounts in the words of a decision record."""

from __future__ import annotations

from tenure.model.resources import Resources
from tenure.model.units import MIB


def shown(amounts: Resources) -> str:
    """Return the amounts for people, without the disk and net that are 0."""
    words = [amount("cpu_m", amounts.cpu_m), amount("memory_bytes", amounts.memory_bytes)]
    for name in ("disk_bytes_per_s", "net_bytes_per_s"):
        if getattr(amounts, name):
            words.append(amount(name, getattr(amounts, name)))
    return ", ".join(words)


def amount(name: str, value: int) -> str:
    """Return one amount of dimension ``name`` for people."""
    if name == "cpu_m":
        return f"{value / 1000:.3f} cores"
    if name == "memory_bytes":
        return f"{value / MIB:.1f} MiB memory"
    return f"{value / MIB:.2f} MiB/s {name.split('_', 1)[0]}"
