"""A gate that lets so much through at once, in the order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Gate:
    """At most ``limit`` is held at once; what alone is more than that is let through alone.

    A semaphore counts users; here each has a weight. First come, first served, so that a heavy one
    is not passed by light ones for ever.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, weight: int) -> AsyncIterator[None]:
        """Wait for room, and take ``weight`` of it for the block."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((weight, turn))
        self._admit()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._held -= weight
            self._admit()

    def _admit(self) -> None:
        while self._waiting:
            weight, turn = self._waiting[0]
            if turn.cancelled():
                self._waiting.popleft()
            elif self._held and self._held + weight > self._limit:
                return
            else:
                self._waiting.popleft()
                self._held += weight
                turn.set_result(None)
