"""A lean keep-alive HTTP/1.1 connection: the load generator must not be what is measured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchmarks.errors import BenchError

T = TypeVar("T")
LIMIT_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Door:
    """Where a daemon or an engine listens on TCP, and the token to show, "" for none."""

    host: str
    port: int
    token: str = field(default="", repr=False)

    def head(self, method: str, path: str, body: bytes | None, more: Mapping[str, str]) -> bytes:
        """Return the head of a request."""
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            *([f"Authorization: Bearer {self.token}"] if self.token else []),
            *(f"{name}: {value}" for name, value in more.items()),
        ]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode()


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of an answer."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def require(self, *statuses: int) -> Answer:
        """Return itself; raise BenchError if its status is none of these."""
        if self.status not in statuses:
            raise BenchError(f"answered {self.status}: {self.body[:500].decode(errors='replace')}")
        return self


class Connection:
    """One connection, one request at a time; opened at the first, again when it was closed."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Connect, unless it is connected; the daemon closes what was idle for long."""
        if self._reader is not None and self._reader.at_eof():
            await self.close()
        if self._writer is None:
            opened = asyncio.open_connection(self._door.host, self._door.port, limit=LIMIT_BYTES)
            self._reader, self._writer = await opened

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> Answer:
        """Send a request and return its answer; raise BenchError where there is none."""
        try:
            return await self._ask(method, path, body, headers)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise BenchError(f"{method} {path}: {error!r}") from error

    async def _ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        await self.open()
        if self._reader is None or self._writer is None:
            raise BenchError("no connection")
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._writer.write(self._door.head(method, path, body, named) + (body or b""))
        status, fields = _head(await self._reader.readuntil(b"\r\n\r\n"))
        answer = Answer(status, await self._body(self._reader, fields))
        if fields.get("connection", "").lower() == "close":
            await self.close()
        return answer

    async def _body(self, reader: asyncio.StreamReader, fields: Mapping[str, str]) -> bytes:
        if fields.get("transfer-encoding", "").lower() != "chunked":
            return await reader.readexactly(int(fields.get("content-length", "0")))
        body = bytearray()
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return bytes(body)

    async def close(self) -> None:
        """Close it; it may be opened again."""
        writer, self._reader, self._writer = self._writer, None, None
        if writer is not None:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run clients to their end; the first error of several at once is raised alone."""

    async def plainly() -> T:
        try:
            return await work
        except ExceptionGroup as group:
            raise _first(group) from group

    return asyncio.run(plainly())


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _head(raw: bytes) -> tuple[int, dict[str, str]]:
    first, *rest = raw.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in rest if line)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}
