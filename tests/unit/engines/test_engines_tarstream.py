"""Tar archives as they arrive, in pieces of any size."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.engines.files.tarstream import members
from tenure.model.errors import EngineUnclear

NAMES = st.text("abc/", min_size=1, max_size=120).map(lambda name: f"x{name}")
FILES = st.lists(st.tuples(NAMES, st.binary(max_size=1500)), max_size=5)


def packed(files: list[tuple[str, bytes]], form: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


async def _in_pieces(text: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


async def _read(text: bytes, size: int, *, every: int = 1) -> list[tuple[str, bool, bytes]]:
    """Return what is in an archive; of some members the content is not looked at."""
    found: list[tuple[str, bool, bytes]] = []
    async for member in members(_in_pieces(text, size)):
        is_read = len(found) % every == 0
        content = b"".join([piece async for piece in member.content]) if is_read else b"?"
        found.append((member.name, member.is_cut, content))
    return found


@settings(max_examples=150, deadline=None)
@given(
    files=FILES,
    size=st.integers(1, 2000),
    form=st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
    every=st.integers(1, 2),
)
def test_members_are_those_that_were_packed(
    files: list[tuple[str, bytes]], size: int, form: int, every: int
) -> None:
    found = asyncio.run(_read(packed(files, form), size, every=every))
    assert found[0][0] == "folder"
    assert len(found) == 1 + len(files)
    for number, ((name, is_cut, content), (true_name, true)) in enumerate(
        zip(found[1:], files, strict=True), 1
    ):
        assert content == (true if number % every == 0 else b"?")
        assert is_cut or name.rstrip("/") == true_name.rstrip("/")
        assert is_cut <= (len(true_name) > 100)


@pytest.mark.parametrize("size", [100, 511, 700, 1600])
def test_an_archive_that_is_cut_says_so(size: int) -> None:
    text = packed([("a", b"x" * 700)], tarfile.GNU_FORMAT)
    with pytest.raises(EngineUnclear):
        asyncio.run(_read(text[:size], 64))


def test_what_is_no_archive_is_told() -> None:
    with pytest.raises(EngineUnclear):
        asyncio.run(_read(b"not a tar archive" * 100, 64))


def header(kind: bytes, size: int) -> bytes:
    entry = tarfile.TarInfo("h")
    entry.type, entry.size = kind, size
    return entry.tobuf(tarfile.GNU_FORMAT)


def test_a_header_that_says_it_is_huge_is_not_read() -> None:
    text = header(tarfile.XHDTYPE, 7 << 30) + b"x" * 4096
    with pytest.raises(EngineUnclear, match="impossible size"):
        asyncio.run(_read(text, 64))


def test_a_size_in_an_extended_header_is_not_believed_to_be_the_headers() -> None:
    told = b"20 size=10737418240\n"
    text = header(tarfile.XHDTYPE, len(told)) + told.ljust(512, b"\0")
    text += packed([("a", b"")], tarfile.GNU_FORMAT)
    assert asyncio.run(_read(text, 64))[0][1]
