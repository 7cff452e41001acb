"""Long work on the event loop in short slices, so that the control loop is never kept waiting.

A listing of 20,000 records takes tenths of a second; the core, the engines and every other caller
share its loop. Work is done for ``SLICE_S`` at a time, and of all long answers under way only one
has a slice per turn of the loop. Callers copy the list of records first: records are frozen, so
what is shown is the state of one moment however long the showing takes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Generator, Iterable
from typing import TypeVar

from aiohttp import web

T = TypeVar("T")
#: What is done with a slice (rows chosen, text joined) takes as long again: some 5 ms in all.
SLICE_S = 0.002
#: Work shorter than this gives nobody else cause to wait for the next turn.
BRIEF_S = 0.001


class Turns:
    """Whose turn it is: one slice of long work per turn of the loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def batches(self, rows: Iterable[T]) -> AsyncIterator[list[T]]:
        """Yield ``rows`` in lists; making one (a lazy iterable's work) takes one slice."""
        source, is_more = iter(rows), True
        while is_more:
            async with self._lock:
                begun = time.perf_counter()
                found, is_more = _slice(source, begun + SLICE_S)
                if time.perf_counter() - begun > BRIEF_S:
                    # whoever waits for the lock has its slice in the loop's next turn, not in this
                    await asyncio.sleep(0)
            yield found

    async def finish(self, work: Generator[None, None, T]) -> T:
        """Return what ``work`` returns; it may be interrupted at each of its yields."""
        result: list[T] = []
        async for _ in self.batches(_drive(work, result)):
            pass
        return result[0]


TURNS = web.AppKey("turns", Turns)


def _drive(work: Generator[None, None, T], result: list[T]) -> Generator[None, None, None]:
    result.append((yield from work))


def _slice(source: Iterable[T], until: float) -> tuple[list[T], bool]:
    """Return the next rows and whether there may be more."""
    found: list[T] = []
    for row in source:
        found.append(row)
        if time.perf_counter() > until:
            return found, True
    return found, False
