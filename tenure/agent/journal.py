"""The latest readings of a node, bounded, for a daemon that asks for those after one it has."""

from __future__ import annotations

from collections import deque

from tenure.profiling.readings.sample import NodeReading

#: Containers' readings kept in all: half an hour of 50 containers every 5 s, some 10 MB.
ROWS = 20_000


class Journal:
    """Readings in the order of their numbers; the oldest go where there are too many."""

    def __init__(self, rows: int = ROWS) -> None:
        self._bound = rows
        self._rows = 0
        self._kept: deque[NodeReading] = deque()

    @property
    def newest(self) -> NodeReading | None:
        """The latest reading."""
        return self._kept[-1] if self._kept else None

    def add(self, reading: NodeReading) -> None:
        """Keep a reading; the newest is kept whatever its size."""
        self._kept.append(reading)
        self._rows += _weight(reading)
        while self._rows > self._bound and len(self._kept) > 1:
            self._rows -= _weight(self._kept.popleft())

    def after(self, seq: int, every_us: int = 0) -> list[NodeReading]:
        """Return the readings after number ``seq``, oldest first; the newest is among them.

        They are at least ``every_us`` apart, from each other and from the one numbered ``seq``
        where that is still there; where it is not, the oldest after it is among them too, however
        near: who asks has nothing else to compare the next one with. A number that is higher than
        all, from before a clock was set back, is as good as none.
        """
        newest = self.newest
        if newest is None or seq == newest.seq:
            return []
        seq = 0 if seq > newest.seq else seq
        last = next((reading for reading in reversed(self._kept) if reading.seq == seq), None)
        chosen = [newest]
        for reading in reversed(self._kept):
            if reading.seq <= seq:
                break
            if chosen[-1].at_us - reading.at_us >= max(1, every_us):
                chosen.append(reading)
        first = next(reading for reading in self._kept if reading.seq > seq)
        if seq and last is None and chosen[-1] is not first:
            chosen.append(first)
        if len(chosen) > 1 and last is not None and chosen[-1].at_us - last.at_us < every_us:
            chosen.pop()
        return chosen[::-1]


def _weight(reading: NodeReading) -> int:
    return 1 + len(reading.containers)
