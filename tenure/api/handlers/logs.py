"""Logs as plain text, whole or followed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from tenure.api.requests.call import Call
from tenure.api.requests.streams import open_stream
from tenure.api.schemas.queries import LogsQuery

HEADERS = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}

#: Bytes written before the next wait for the reader; a slow one is told from a dead one by these.
PART_BYTES = 1 << 16


async def log_response(call: Call, ref: str, query: LogsQuery) -> web.StreamResponse:
    """Answer with the log of ``ref`` (container id or executor key)."""
    if not query.follow:
        found = await call.backend.container_logs(ref, tail=query.tail, follow=False)
        data = found if isinstance(found, bytes) else b"".join([part async for part in found])
        return await _whole(call, last_lines(data, query.tail))
    async with open_stream(call):
        found = await call.backend.container_logs(ref, tail=query.tail, follow=True)
        response = web.StreamResponse(headers=HEADERS)
        await response.prepare(call.request)
        await _copy(found, response)
    return response


async def _whole(call: Call, data: bytes) -> web.StreamResponse:
    """Answer with a log in parts, each of which waits for its reader."""
    if len(data) <= PART_BYTES:
        return web.Response(body=data, headers=HEADERS)
    response = web.StreamResponse(headers={**HEADERS, "Content-Length": str(len(data))})
    view = memoryview(data)
    with contextlib.suppress(ConnectionError):  # the reader has gone; there is no one to tell
        await response.prepare(call.request)
        for start in range(0, len(data), PART_BYTES):
            await response.write(view[start : start + PART_BYTES])
        await response.write_eof()
    return response


async def _copy(source: bytes | AsyncIterator[bytes], response: web.StreamResponse) -> None:
    try:
        if isinstance(source, bytes):
            await response.write(source)
        else:
            async for part in source:
                await response.write(part)
        await response.write_eof()
    except ConnectionError:
        pass  # the reader has gone; there is no one to tell
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            await asyncio.shield(close())


def last_lines(data: bytes, count: int | None) -> bytes:
    """Return the last ``count`` lines of ``data`` (None: all of it)."""
    if count is None:
        return data
    if count == 0:
        return b""
    return b"".join(data.splitlines(keepends=True)[-count:])
