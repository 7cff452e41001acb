"""Reading logs: their end, or as they grow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from tenure.engines.containers.listing import Lister
from tenure.engines.http import paths
from tenure.engines.http.errors import HTTP_CONFLICT, HTTP_NOT_FOUND, EngineAnswer
from tenure.engines.http.frames import FrameReader, RawReader, Tail
from tenure.engines.http.transport import Transport
from tenure.model.document import at
from tenure.model.errors import EngineUnclear

SaveLog = Callable[[str, bytes], Awaitable[None]]
"""Keeps the end of a container's log under a key before the container is removed."""

LOG_TAIL_BYTES = 1 << 20
"""How much of a log is read and kept."""

FIRST_ENTRIES = 2_000
MOST_GROWTH = 16
MARGIN = 1.3
"""The engine counts a log's end in entries, not bytes: ask again for as many as should be enough.

The size of the entries seen so far tells how many; with a margin, because older ones may be
shorter, and a bound, because they may be longer (16 KiB at most). As many entries as bytes are
wanted are always enough.
"""


class Logs:
    """Logs of one engine's containers, both streams in one, without Docker's frames."""

    def __init__(self, transport: Transport, lister: Lister) -> None:
        self._transport = transport
        self._lister = lister

    async def tail(self, ref: str, tail_bytes: int, *, is_stamped: bool) -> bytes:
        """Return at most the last ``tail_bytes``.

        Raises EngineAnswer if there is no log to read, EngineUnclear if that takes too long.
        """
        params = _params(is_stamped=is_stamped)
        limit_s = self._transport.timeouts.logs_s
        try:
            async with asyncio.timeout(limit_s):
                is_terminal = await self._is_terminal(ref)
                entries = min(FIRST_ENTRIES, max(1, tail_bytes))
                while True:
                    params["tail"] = str(entries)
                    tail = await self._round(ref, params, tail_bytes, is_terminal=is_terminal)
                    is_whole = 2 * tail.entries < entries
                    if is_whole or tail.total_bytes >= tail_bytes or entries >= tail_bytes:
                        return tail.content()
                    growth = min(MOST_GROWTH, MARGIN * tail_bytes / max(1, tail.total_bytes))
                    entries = min(tail_bytes, int(entries * growth) + 1)
        except TimeoutError as error:
            raise EngineUnclear(f"logs of {ref}: not read in {limit_s:g} s") from error
        except EngineAnswer as error:
            raise _as_gone(error) from error

    async def _round(
        self, ref: str, params: dict[str, str], tail_bytes: int, *, is_terminal: bool
    ) -> Tail:
        tail = Tail(tail_bytes)
        reader = RawReader() if is_terminal else FrameReader()
        async with self._transport.stream(paths.container(ref, "/logs"), params) as chunks:
            async for chunk in chunks:
                for piece in _pieces(reader, chunk):
                    tail.add(piece)
        return tail

    async def follow(
        self, ref: str, tail_lines: int | None, *, is_stamped: bool
    ) -> AsyncGenerator[bytes, None]:
        """Yield the log until the container has ended.

        Raises EngineAnswer if there is no log to read, EngineUnclear if the engine has ended.
        """
        reader = RawReader() if await self._is_terminal(ref) else FrameReader()
        params = _params(is_stamped=is_stamped) | {"follow": "1"}
        params["tail"] = "all" if tail_lines is None else str(tail_lines)
        try:
            async with self._transport.stream(paths.container(ref, "/logs"), params) as chunks:
                async for chunk in chunks:
                    for piece in _pieces(reader, chunk):
                        yield piece
        except EngineAnswer as error:
            raise _as_gone(error) from error
        await self._confirm_end(ref)

    async def _confirm_end(self, ref: str) -> None:
        """Raise EngineUnclear if the log ended though its container runs.

        An engine that is shut down ends its streams as properly as a container does.
        """
        if at(await self._lister.inspect_raw(ref), "State", "Running"):
            raise EngineUnclear(f"the log of {ref} ended while it runs")

    async def _is_terminal(self, ref: str) -> bool:
        document = await self._lister.inspect_raw(ref)
        if document is None:
            raise EngineAnswer(HTTP_NOT_FOUND, f"no such container: {ref}")
        return bool(at(document, "Config", "Tty"))


def _as_gone(error: EngineAnswer) -> EngineAnswer:
    """Return the answer for a container that its engine is removing as of one that is gone."""
    is_dead = error.status == HTTP_CONFLICT
    return EngineAnswer(HTTP_NOT_FOUND, error.detail) if is_dead else error


def _params(*, is_stamped: bool) -> dict[str, str]:
    return {"stdout": "1", "stderr": "1", "timestamps": "1" if is_stamped else "0"}


def _pieces(reader: FrameReader | RawReader, chunk: bytes) -> list[bytes]:
    try:
        return list(reader.feed(chunk))
    except ValueError as error:
        raise EngineUnclear(f"logs: {error}") from error
