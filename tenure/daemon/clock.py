"""The inbox's clock: wall time anchored to the monotonic clock, so that it never goes back."""

from __future__ import annotations

import logging
import time

log = logging.getLogger(__name__)

#: A wall clock that differs from ours by more than this was stepped.
STEP_US = 2_000_000


class Clock:
    """UTC microseconds that never decrease, also over restarts (``floor_us`` from the store)."""

    def __init__(self, floor_us: int = 0) -> None:
        self._anchor_mono_ns = time.monotonic_ns()
        self._anchor_us = max(time.time_ns() // 1000, floor_us)

    def now_us(self) -> int:
        """Return the time now."""
        return self._anchor_us + (time.monotonic_ns() - self._anchor_mono_ns) // 1000

    def check(self) -> int:
        """Compare with the wall clock; follow a step forward, wait out a step back.

        Returns the step in microseconds (negative: the wall went back), 0 where there is none.
        """
        ours, wall = self.now_us(), time.time_ns() // 1000
        step = wall - ours
        if abs(step) <= STEP_US:
            return 0
        if step > 0:
            log.warning("the wall clock was stepped forward by %.1f s", step / 1e6)
            self._anchor_mono_ns, self._anchor_us = time.monotonic_ns(), wall
        return step
