"""What is read for a task is the file that was allowed, whatever lies in its place later."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tenure.engines.files import FileRefused, Packing, Piece


async def _packed(piece: Piece) -> bytes:
    return b"".join([part async for part in Packing([piece])])


def test_a_link_in_the_place_of_an_input_is_not_followed(tmp_path: Path) -> None:
    secret, given = tmp_path / "secret", tmp_path / "in.txt"
    for path in (secret, given):
        path.write_text("0123456789")
    piece = Piece("in.txt", given, 0, 10, is_input=True)
    assert b"0123456789" in asyncio.run(_packed(piece))
    given.unlink()
    given.symlink_to(secret)
    with pytest.raises(FileRefused, match="leads elsewhere"):
        asyncio.run(_packed(piece))
