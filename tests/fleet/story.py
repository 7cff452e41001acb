"""The story of a run: what happened when, for people who replay a seed, and its digest."""

from __future__ import annotations

import zlib
from collections import Counter, deque

from tenure.model.units import US

#: Lines kept for a failure's report; a whole run has a few thousand.
KEPT_LINES = 4000


class LawBroken(AssertionError):
    """A law of the fleet does not hold: the core (or the simulator) has a defect."""

    def __init__(self, law: str, text: str) -> None:
        super().__init__(f"{law}: {text}")
        self.law = law
        self.text = text


class Story:
    """Lines with virtual times; ``struck`` counts the faults and steps that occurred."""

    def __init__(self, start_us: int, *, is_loud: bool = False) -> None:
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.struck: Counter[str] = Counter()
        self.digest = 0
        self._start_us = start_us
        self._is_loud = is_loud

    def tell(self, at_us: int, text: str) -> None:
        """Add a line."""
        line = f"{(at_us - self._start_us) / US:11.6f} {text}"
        self.digest = zlib.crc32(line.encode(), self.digest)
        self.lines.append(line)
        if self._is_loud:
            print(line)

    def strike(self, what: str) -> None:
        """Count a fault or a step that occurred."""
        self.struck[what] += 1

    def tail(self, count: int) -> str:
        """Return the last lines."""
        return "\n".join(list(self.lines)[-count:])
