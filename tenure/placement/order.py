"""The order of the queue."""

from __future__ import annotations

from tenure.model.units import FOREVER_US


def order_key(priority: int, deadline_us: int | None, seq: int) -> tuple[int, int, int]:
    """Return what waiting jobs are sorted by: higher priority, earlier deadline, earlier arrival.

    ``deadline_us`` is absolute, None comes last; ``seq`` counts arrivals, so no two keys are equal
    (DESIGN.md section 6: earliest deadline first).
    """
    return (-priority, FOREVER_US if deadline_us is None else deadline_us, seq)
