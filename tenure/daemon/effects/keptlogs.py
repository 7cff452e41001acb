"""Logs of containers that are removed go to the disk some at a time, so that it is waited for once.

Each container's log is on the disk before the container is removed. Where thousands are removed, a
transaction for each would have everything else wait for the disk behind them, commits too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from tenure.model.units import MIB

#: Logs of one transaction, and about their bytes: commits of the core wait for it.
MOST, MOST_BYTES = 64, 4 * MIB
Row = tuple[str, bytes, asyncio.Future[None]]


class KeptLogs:
    """Takes logs from whoever removes containers; one transaction is under way at a time.

    ``write`` stores rows of (key, log) in one transaction; it is called in a thread, and what it
    raises all of them are told.
    """

    def __init__(self, write: Callable[[Sequence[tuple[str, bytes]]], None]) -> None:
        self._write = write
        self._due: deque[Row] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def save(self, key: str, body: bytes) -> None:
        """Return once a log is on the disk; raises what ``write`` raises."""
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._due.append((key, body, kept))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all(), name="logs")
        await kept

    async def _write_all(self) -> None:
        try:
            while self._due:
                if rows := self._next():
                    await self._write_some(rows)
        finally:
            self._writing = None

    def _next(self) -> list[Row]:
        """Take what goes into the next transaction; whoever has gone meanwhile is left out."""
        rows: list[Row] = []
        size_bytes = 0
        while self._due and len(rows) < MOST and size_bytes < MOST_BYTES:
            row = self._due.popleft()
            if not row[2].done():
                rows.append(row)
                size_bytes += len(row[1])
        return rows

    async def _write_some(self, rows: Sequence[Row]) -> None:
        try:
            await asyncio.to_thread(self._write, [(key, body) for key, body, _ in rows])
        except Exception as error:  # noqa: BLE001 - each is told, and keeps its container
            for _, _, kept in rows:
                if not kept.done():
                    kept.set_exception(error)
        else:
            for _, _, kept in rows:
                if not kept.done():
                    kept.set_result(None)
