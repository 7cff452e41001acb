"""What threads open is closed, also where the coroutine that waits for them is cut off."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import pytest

from tenure.daemon.effects import outputs
from tenure.engines.files import carrier as files
from tenure.engines.files.carrier import Packing, Piece
from tenure.engines.files.held import held
from tenure.engines.moves import layers
from tenure.engines.moves.images import _thinned
from tenure.model.errors import EngineUnclear
from tests.slowed import Slowed, cut_off, until

WORDS = b"0123456789"


async def closed(file: IO[bytes]) -> None:
    """Wait for a file to be closed by a thread."""
    await until(lambda: file.closed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(WORDS)
    return path


async def test_what_is_opened_is_used_and_closed(path: Path) -> None:
    async with held(path.open, "rb") as file:
        assert await file.use(BufferedReader.read, 4) == WORDS[:4]
        inner = file.thing
    assert inner.closed
    with pytest.raises(ValueError, match="let go"):
        await file.use(BufferedReader.read, 4)


async def test_who_is_cut_off_while_a_thread_reads_does_not_wait_for_it(path: Path) -> None:
    reading: list[BufferedReader] = []
    slowed = Slowed(BufferedReader.read)

    async def read() -> None:
        async with held(path.open, "rb") as file:
            reading.append(file.thing)
            await file.use(slowed)

    await cut_off(read(), slowed)
    await closed(reading[0])


async def _sent(path: Path) -> None:
    assert [part async for part in Packing([Piece("file", path, 0, len(WORDS))])]


async def _downloaded(path: Path) -> None:
    assert [part async for part in outputs.read([path])]


async def _fetched(path: Path) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield WORDS

    await files._write(path, content())


@pytest.mark.parametrize("work", [_sent, _downloaded, _fetched])
async def test_a_file_that_is_opened_for_nobody_is_closed(
    path: Path, work: Callable[[Path], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an engine has no such container, and says so while the input is opened."""
    opened: list[IO[bytes]] = []
    plain: Callable[..., IO[bytes]] = Path.open

    def noted(*args: Any) -> IO[bytes]:
        opened.append(plain(*args))
        return opened[-1]

    slowed = Slowed(noted)
    monkeypatch.setattr(Path, "open", lambda *args: slowed(*args))  # noqa: PLW0108 - a method
    await cut_off(work(path), slowed)
    await until(lambda: bool(opened))
    await closed(opened[0])


@pytest.fixture
def archives(monkeypatch: pytest.MonkeyPatch) -> list[IO[bytes]]:
    """The archives that are written, on the disk."""
    made: list[IO[bytes]] = []

    def noted(size: int) -> IO[bytes]:
        made.append(tempfile.TemporaryFile())  # noqa: SIM115 - who is tested is to
        return made[-1]

    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", noted)
    return made


def saved(**contents: object) -> io.BytesIO:
    """An image's archive that lacks something: its manifest, or its lower layer's file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as out:
        for name, content in contents.items():
            text = content if isinstance(content, bytes) else json.dumps(content).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            out.addfile(entry, io.BytesIO(text))
    return made


def layer() -> bytes:
    return saved(file=b"x").getvalue()


def test_an_archive_that_cannot_be_written_is_closed(archives: list[IO[bytes]]) -> None:
    with pytest.raises(EngineUnclear, match="no manifest"):
        _thinned(saved(), 1)
    manifest = [{"Config": "c", "Layers": ["lower", "upper"]}]
    config = {"rootfs": {"diff_ids": ["sha256:1", "sha256:2"]}}
    image = saved(**{"manifest.json": manifest, "c": config, "upper": layer()})
    with pytest.raises(EngineUnclear, match="no lower"):
        layers.squashed(image, 1, 0)
    assert [archive.closed for archive in archives] == [True] * 3


async def test_an_archive_that_is_written_for_nobody_is_closed(archives: list[IO[bytes]]) -> None:
    """Where the image that it is made of is let go of at once."""
    slowed = Slowed(io.BytesIO.read)

    class Saved(io.BytesIO):
        def read(self, *args: Any) -> bytes:
            found: bytes = slowed(self, *args)
            return found

    async def thin() -> None:
        with Saved(saved().getvalue()) as image:
            async with held(_thinned, image, 1):
                raise AssertionError("it was cut off before")

    await cut_off(thin(), slowed)
    await closed(archives[0])
