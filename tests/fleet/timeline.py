"""Virtual time: what happens when, in an order that depends on the seed alone."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Act = Callable[[], None]


class Timeline:
    """A heap of (time, sequence, act): acts of the same instant happen in the order of asking."""

    def __init__(self, start_us: int) -> None:
        self.now_us = start_us
        self._heap: list[tuple[int, int, Act]] = []
        self._sequence = 0

    def after(self, delay_us: int, act: Act) -> None:
        """Have ``act`` called ``delay_us`` from now."""
        self.at(self.now_us + delay_us, act)

    def at(self, at_us: int, act: Act) -> None:
        """Have ``act`` called at ``at_us``, or now if that is past."""
        self._sequence += 1
        heapq.heappush(self._heap, (max(at_us, self.now_us), self._sequence, act))

    def step(self, until_us: int) -> bool:
        """Let the next thing happen; False when nothing is due by ``until_us``."""
        if not self._heap or self._heap[0][0] > until_us:
            self.now_us = max(self.now_us, until_us)
            return False
        self.now_us, _, act = heapq.heappop(self._heap)
        act()
        return True
