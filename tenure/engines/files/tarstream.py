"""Tar archives as they come and go: a member after the other, each with its bytes, nothing kept."""

from __future__ import annotations

import tarfile
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from tenure.engines.http import paths
from tenure.engines.http.transport import Transport
from tenure.model.errors import EngineUnclear

BLOCK = tarfile.BLOCKSIZE
#: What every archive ends with.
ENDING = b"\0" * (2 * BLOCK)
LONG_NAMES = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
#: No name and no attributes of a file are longer.
MOST_EXTENSION = 1 << 20
#: Headers that say more of the member behind them.
EXTENSIONS = (*LONG_NAMES, tarfile.XHDTYPE, tarfile.XGLTYPE)


def header(name: str, size: int, mode: int) -> bytes:
    """Return what stands before the bytes of a file."""
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size = mode, size
    return entry.tobuf(tarfile.GNU_FORMAT)


def folder(name: str, mode: int) -> bytes:
    """Return the entry of a folder."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    return entry.tobuf(tarfile.GNU_FORMAT)


def padding(size: int) -> bytes:
    """Return what stands behind the ``size`` bytes of a file."""
    return b"\0" * (-size % BLOCK)


async def archive(transport: Transport, ref: str, path: str) -> AsyncGenerator[bytes, None]:
    """Yield the tar archive of a path in a container. Raises EngineError."""
    async with transport.stream(paths.container(ref, "/archive"), {"path": path}) as chunks:
        async for chunk in chunks:
            yield chunk


@dataclass(slots=True)
class Member:
    """One entry; its ``content`` must be read, if at all, before the next member is asked for.

    ``is_cut``: its name is longer than a header holds, and ``name`` is not the whole of it.
    """

    name: str
    size: int
    is_file: bool
    is_folder: bool
    is_cut: bool
    content: AsyncIterator[bytes]


class _Reader:
    """Exact numbers of bytes out of chunks of any size."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = aiter(chunks)
        self._rest = b""

    async def some(self, most: int) -> bytes:
        """Return up to ``most`` bytes, at least one; raise EngineUnclear at the end."""
        while not self._rest:
            try:
                self._rest = await anext(self._chunks)
            except StopAsyncIteration:
                raise EngineUnclear("an archive ends in the middle") from None
        found, self._rest = self._rest[:most], self._rest[most:]
        return found

    async def exactly(self, count: int) -> bytes:
        """Return ``count`` bytes."""
        found = bytearray()
        while len(found) < count:
            found += await self.some(count - len(found))
        return bytes(found)


async def members(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Member, None]:
    """Yield the members of a tar archive. Raises EngineUnclear for what is none, or is cut.

    Of extended headers (pax, GNU long names) nothing is used but that they name the next member.
    """
    reader = _Reader(chunks)
    is_cut = False
    while True:
        block = await reader.exactly(BLOCK)
        if not block.strip(b"\0"):
            return
        try:
            entry = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise EngineUnclear(f"an archive holds what is no header: {error}") from error
        if entry.size < 0 or (entry.type in EXTENSIONS and entry.size > MOST_EXTENSION):
            raise EngineUnclear(f"an archive holds a header of impossible size {entry.size}")
        content = _Content(reader, entry.size)
        if entry.type in EXTENSIONS:
            told = b"".join([piece async for piece in content])
            # a size told there is one that the header cannot hold: what follows would be misread
            is_cut |= entry.type in LONG_NAMES or b"path=" in told or b" size=" in told
        else:
            yield Member(entry.name, entry.size, entry.isreg(), entry.isdir(), is_cut, content)
            is_cut = False
        await content.skip()


class _Content:
    """The bytes of one member."""

    def __init__(self, reader: _Reader, size: int) -> None:
        self._reader = reader
        self._left = size
        self._padding = -size % BLOCK

    def __aiter__(self) -> _Content:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        piece = await self._reader.some(self._left)
        self._left -= len(piece)
        return piece

    async def skip(self) -> None:
        """Pass over what was not read, and over the padding."""
        async for _ in self:
            pass
        if self._padding:
            await self._reader.exactly(self._padding)
            self._padding = 0
