"""What is read for a task is the file that was allowed, whatever lies in its place later."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tenure.engines.files.carrier import Packing, Piece, _require_room
from tenure.model.errors import EngineRefused, EngineUnclear


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
    with pytest.raises(EngineRefused, match="leads elsewhere"):
        asyncio.run(_packed(piece))


def test_an_output_that_would_fill_the_disk_is_refused_with_the_remedy(tmp_path: Path) -> None:
    partial = tmp_path / ".00000-e1"
    partial.mkdir()
    _require_room(tmp_path, -(1 << 60))
    with pytest.raises(EngineUnclear, match=re.escape(f"on the disk of {tmp_path}: make")):
        _require_room(partial, 1 << 60)
