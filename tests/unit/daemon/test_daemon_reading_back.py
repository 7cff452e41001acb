"""Files of datasets read back: what cannot be read says whether to come again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from tenure.daemon.datasets import Reader
from tenure.daemon.hands import Hands
from tenure.model.errors import Conflict, TenureError, Unavailable
from tests.unit.core.shelf import Shelf, with_tiers


def fault_of(shelf: Shelf, folder: Path) -> TenureError:
    """Return why the first file of a dataset cannot be read; no engine is asked for it."""
    [dataset] = shelf.tables.datasets.values()
    reader = Reader(shelf.state.ctx, cast(Hands, None), lambda _: None, folder)

    async def read() -> bytes:
        return await anext(reader.read(dataset, 0), b"")

    with pytest.raises(TenureError) as told:
        asyncio.run(read())
    return told.value


def test_who_reads_before_the_first_look_is_asked_to_come_again(tmp_path: Path) -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    shelf.put("logs", 1, replicas=2)
    shelf.work()
    for name in "ab":
        shelf.lose(name)
    early = fault_of(shelf, tmp_path)
    assert isinstance(early, Unavailable)
    assert early.code == "not_looked_at"
    assert "looked at: a, b" in early.detail
    shelf.wait(11)
    late = fault_of(shelf, tmp_path)
    assert isinstance(late, Conflict)
    assert late.code == "unreadable", "they do not come"
