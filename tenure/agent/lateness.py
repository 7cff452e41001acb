"""When a control loop is due, and how late it came."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass

#: Upper bounds of the histogram, microseconds; what is later counts beyond the last.
BOUNDS_US = (100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000)
#: Latenesses kept for percentiles: ten minutes of ten a second.
KEPT = 6000


def next_due_us(due_us: int, now_us: int, period_us: int) -> int:
    """Return when the loop is due next on the schedule ``due_us`` + n x ``period_us``.

    At least half a period from ``now_us``: after a late look the next one would see a moment, not
    a period. Looks that were missed are left out, never made up for.
    """
    ahead = max(1, -(-(now_us + period_us // 2 - due_us) // period_us))
    return due_us + ahead * period_us


@dataclass(frozen=True, slots=True)
class LatenessView:
    """``counts`` by ``BOUNDS_US`` and beyond, since the start; percentiles of the last ones, us."""

    counts: tuple[int, ...]
    total_us: int
    p50_us: int
    p99_us: int
    max_us: int


class Lateness:
    """Counts how late each look came."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_US) + 1)
        self._kept = array("I", bytes(4 * KEPT))
        self._seen = 0
        self._total_us = 0
        self._max_us = 0

    def add(self, late_us: int) -> None:
        """Count one look; what came before its time was in time."""
        late_us = min(max(0, late_us), 0xFFFFFFFF)
        self._counts[bisect_left(BOUNDS_US, late_us)] += 1
        self._kept[self._seen % KEPT] = late_us
        self._seen += 1
        self._total_us += late_us
        self._max_us = max(self._max_us, late_us)

    def view(self) -> LatenessView:
        """Return what was counted."""
        kept = sorted(self._kept[: min(self._seen, KEPT)])
        return LatenessView(
            tuple(self._counts),
            self._total_us,
            _rank(kept, 0.5),
            _rank(kept, 0.99),
            self._max_us,
        )


def _rank(kept: list[int], share: float) -> int:
    """Return the nearest-rank percentile of sorted values, 0 of none."""
    return kept[max(0, -(-int(share * 1000) * len(kept) // 1000) - 1)] if kept else 0
