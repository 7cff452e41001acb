"""How long the event loop is held: a histogram of the time between two of its looks for news.

While the loop works off what is ready it hears nobody: no answer of an engine, no request, no
timer. So each round counts, not single callbacks, of which a hundred short ones hold it as long as
a long one. Nothing is woken for it: a round costs two looks at a clock.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from bisect import bisect_left
from dataclasses import dataclass, field

#: Upper bounds of the histogram's parts, in seconds; the last one holds the rest.
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


@dataclass(slots=True)
class HeldTimes:
    """Rounds of the loop by how long they held it: ``counts`` by ``BOUNDS_S``, then the rest."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0

    def add(self, held_s: float) -> None:
        """Count a round."""
        self.counts[bisect_left(BOUNDS_S, held_s)] += 1
        self.total_s += held_s

    def buckets(self) -> list[tuple[str, float]]:
        """Return (upper bound in seconds, rounds that took no longer), as Prometheus has them."""
        found, so_far = [], 0
        names = [*(f"{bound:g}" for bound in BOUNDS_S), "+Inf"]
        for name, count in zip(names, self.counts, strict=True):
            so_far += count
            found.append((name, float(so_far)))
        return found

    def copy(self) -> HeldTimes:
        """Return these counts as they are now."""
        return HeldTimes(list(self.counts), self.total_s)


class TimedSelector(selectors.DefaultSelector):
    """The selector of a loop, which notes when it is asked and when it answers.

    A look that need not wait, because more is ready, belongs to the round: what it takes is the
    wait for other threads to let the interpreter go.
    """

    def __init__(self, held: HeldTimes) -> None:
        super().__init__()
        self._held = held
        self._since_s = time.perf_counter()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for files as ``selectors`` has it; what was since the last look is a round."""
        asked_s = time.perf_counter()
        ready = super().select(timeout)
        told_s = time.perf_counter()
        is_at_once = timeout is not None and timeout <= 0
        self._held.add((told_s if is_at_once else asked_s) - self._since_s)
        self._since_s = told_s
        return ready


def timed_loop(held: HeldTimes) -> asyncio.AbstractEventLoop:
    """Return a new event loop whose rounds are counted."""
    return asyncio.SelectorEventLoop(TimedSelector(held))
