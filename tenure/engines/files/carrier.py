"""Input into the container of a task, and output out of it, over the engine's API alone.

Files go as tar archives into a container that was created and not started, and come out of one
that has ended; nothing else is needed on the node. What was sent is read back and compared by
SHA-256: that is the one way to know what is on the other machine's disk that asks nothing of the
image. What did not arrive as it was sent is sent again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter
from pathlib import Path

from tenure.engines.files.held import held
from tenure.engines.files.tarstream import ENDING, Member, archive, folder, header, members, padding
from tenure.engines.http import paths
from tenure.engines.http.errors import HTTP_NOT_FOUND, EngineAnswer
from tenure.engines.http.outcomes import outcome_of
from tenure.engines.http.transport import Transport
from tenure.model.batch import INPUT_FOLDER, OUTPUT_FOLDER, InputFile, Part
from tenure.model.effects import CollectOutput, FileEffect, SendInput
from tenure.model.errors import EngineRefused, EngineUnclear
from tenure.model.outcome import Done, Outcome, Refused

#: What is read from a disk, and written to one, at a time: in a thread, off the loop.
PIECE_BYTES = 1 << 20
#: A link that spoils the same input so often will not be trusted with it.
ROUNDS = 3
#: Members of an output that are counted at most: one for each task of the next stage.
MAX_FILES = 100_000
#: What an output leaves free of the daemon's disk.
FREE_BYTES = 1 << 30
Digests = dict[str, str]


@dataclass(frozen=True, slots=True)
class Carrier:
    """Carries files between the daemon's ``folder`` of outputs and one engine."""

    transport: Transport
    folder: Path

    async def perform(self, effect: FileEffect) -> Outcome:
        """Carry out ``effect``; every way it can go is an outcome."""
        if isinstance(effect, SendInput):
            return await outcome_of(self._send(effect))
        return await outcome_of(self._collect(effect))

    async def _send(self, effect: SendInput) -> Outcome:
        pieces = await asyncio.to_thread(located, effect, self.folder)
        moved = 0
        for number in range(ROUNDS):
            packing = Packing(pieces)
            path = paths.container(effect.engine_id, "/archive")
            await self.transport.upload("PUT", path, {"path": "/"}, packing)
            moved += packing.moved_bytes
            # nothing was sent where a block of a dataset is mounted, which is not to be read
            if not pieces or await self._arrived(effect.engine_id) == packing.digests:
                return Done(moved_bytes=moved, resent=number)
        text = f"its input did not arrive as it was sent, {ROUNDS} times"
        return Refused("corrupted", text)

    async def _arrived(self, engine_id: str) -> Digests:
        """Return the digests of what is in the input folder of a container."""
        found: Digests = {}
        source = archive(self.transport, engine_id, INPUT_FOLDER)
        async with aclosing(source) as chunks, aclosing(members(chunks)) as entries:
            async for member in entries:
                if member.is_file:
                    digest = hashlib.sha256()
                    async for piece in member.content:
                        digest.update(piece)
                    found[member.name.rsplit("/", 1)[-1]] = digest.hexdigest()
        return found

    async def _collect(self, effect: CollectOutput) -> Outcome:
        final = self.folder / effect.folder
        partial = final.with_name(f".{final.name}-{effect.id}")
        await asyncio.to_thread(_empty, partial)
        try:
            total = await self._fetch(effect, partial)
            await asyncio.to_thread(_replace, partial, final)
        except OSError as error:
            raise EngineUnclear(f"the daemon cannot keep an output: {error}") from error
        finally:
            await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
        return Done(moved_bytes=total)

    async def _fetch(self, effect: CollectOutput, partial: Path) -> int:
        total = files = 0
        source = archive(self.transport, effect.engine_id, OUTPUT_FOLDER)
        present = self._present(source, effect.engine_id)
        async with aclosing(present) as chunks, aclosing(members(chunks)) as entries:
            async for member in entries:
                name = _plain_name(member)
                if not name:
                    continue
                total, files = total + member.size, files + 1
                if total > effect.limit_bytes:
                    limit = f"it put out more than {effect.limit_bytes} bytes"
                    raise EngineRefused(limit, code="too_large")
                if files > MAX_FILES:
                    raise EngineRefused(
                        f"it put out more than {MAX_FILES} files", code="bad_output"
                    )
                await asyncio.to_thread(_require_room, partial, member.size)
                await _write(partial / name, member.content)
        return total

    async def _present(
        self, chunks: AsyncGenerator[bytes, None], engine_id: str
    ) -> AsyncGenerator[bytes, None]:
        """Yield an output; a container that is there and has no output folder is to blame."""
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk
        except EngineAnswer as answer:
            if answer.status == HTTP_NOT_FOUND:
                await self.transport.read(paths.container(engine_id, "/json"))
                raise EngineRefused(
                    f"it has removed {OUTPUT_FOLDER}", code="bad_output"
                ) from answer
            raise


@dataclass(frozen=True, slots=True)
class Piece:
    """A file on its way: ``length`` bytes from ``offset`` of ``file``, as ``name``."""

    name: str
    file: Path
    offset: int
    length: int
    is_input: bool = False


def located(effect: SendInput, folder: Path) -> list[Piece]:
    """Return what is to be sent. Raises EngineRefused where it is not what it was, or not there."""
    if effect.source is not None:
        require_unchanged(effect.source)
    return [piece for part in effect.parts if (piece := _located(part, folder)) is not None]


def require_unchanged(source: InputFile) -> None:
    """Raise EngineRefused unless an input file is as it was at submission."""
    try:
        found = os.stat(source.path)
    except OSError as error:
        told = f"the input {source.path} cannot be read any more: {error.strerror}"
        raise EngineRefused(told, code="no_input") from error
    if (found.st_size, found.st_mtime_ns) != (source.size_bytes, source.mtime_ns):
        told = f"the input {source.path} was changed after the batch was submitted"
        raise EngineRefused(told, code="input_changed")


def _located(part: Part, folder: Path) -> Piece | None:
    """Return a part with its length, None for a partition into which nothing was put."""
    file = folder / part.file  # an absolute one stays what it is
    if part.length >= 0:
        return Piece(part.name, file, part.offset, part.length, is_input=True)
    try:
        return Piece(part.name, file, 0, file.stat().st_size)
    except FileNotFoundError:
        if file.parent.is_dir():
            return None
        told = f"the output {file.parent} of an earlier stage is gone from the daemon's disk"
        raise EngineRefused(told, code="no_input") from None


class Packing:
    """A tar archive of a task's folders as it is read; ``digests`` are those of its files."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self.digests: Digests = {}
        self.moved_bytes = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"".join(folder(name, mode) for name, mode in _FOLDERS)
        for piece in self._pieces:
            yield header(f"{INPUT_FOLDER.strip('/')}/{piece.name}", piece.length, 0o644)
            digest = hashlib.sha256()
            async with aclosing(read_piece(piece)) as blocks:
                async for block in blocks:
                    digest.update(block)
                    self.moved_bytes += len(block)
                    yield block
            self.digests[piece.name] = digest.hexdigest()
            yield padding(piece.length)
        yield ENDING


#: Whoever a task runs as may write its output.
_FOLDERS = (("tenure", 0o755), ("tenure/in", 0o755), ("tenure/out", 0o777))


async def read_piece(piece: Piece) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a piece. Raises EngineRefused where there are fewer."""
    left = piece.length
    async with held(_opened, piece) as file:
        while left:
            block = await file.use(BufferedReader.read, min(PIECE_BYTES, left))
            if not block:
                raise EngineRefused(f"{piece.file} has become shorter", code="input_changed")
            left -= len(block)
            yield block


def _opened(piece: Piece) -> BufferedReader:
    try:
        file = piece.file.open("rb")
    except OSError as error:
        told = f"{piece.file} cannot be read: {error.strerror}"
        raise EngineRefused(told, code="no_input") from error
    # what was allowed is the file, not where a link leads that was put in its place
    if piece.is_input and os.readlink(f"/proc/self/fd/{file.fileno()}") != str(piece.file):
        file.close()
        raise EngineRefused(f"{piece.file} leads elsewhere now", code="input_changed")
    file.seek(piece.offset)
    return file


def _require_room(folder: Path, size_bytes: int) -> None:
    """Raise EngineUnclear where an output would fill the disk that the daemon's state lies on."""
    if shutil.disk_usage(folder).free - size_bytes < FREE_BYTES:
        told = f"less than {FREE_BYTES >> 30} GiB would be left on the disk of {folder.parent}"
        raise EngineUnclear(f"{told}: make room there")


def _plain_name(member: Member) -> str:
    """Return the name of a file of an output, "" for the folder; raise EngineRefused for others."""
    inner = member.name.partition("/")[2].rstrip("/")
    if member.is_folder and not inner:
        return ""
    is_plain = member.is_file and inner and "/" not in inner and not inner.startswith(".")
    if not is_plain or member.is_cut:
        told = f"{OUTPUT_FOLDER}/{inner[:80]} is no plain file with a short name directly in there"
        raise EngineRefused(told, code="bad_output")
    return inner


async def _write(path: Path, content: AsyncIterator[bytes]) -> None:
    async with held(path.open, "wb") as file:
        waiting = bytearray()
        async for piece in content:
            waiting += piece
            if len(waiting) >= PIECE_BYTES:
                full, waiting = waiting, bytearray()
                await file.use(BufferedWriter.write, full)
        await file.use(BufferedWriter.write, waiting)
        await file.use(BufferedWriter.close)  # off the loop: what is still buffered is written


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)


def _replace(partial: Path, final: Path) -> None:
    """Put a whole output in its place; it is on the disk before anybody is told."""
    for path in partial.iterdir():
        _sync(path)
    _sync(partial)
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    _sync(final.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
