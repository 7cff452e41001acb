"""Files of datasets read back: what cannot be read says whether to come again."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import cast

import pytest

from tenure.daemon.effects.hands import Hands
from tenure.daemon.effects.reading_back import Reader
from tenure.model.errors import Conflict, TenureError, Unavailable
from tests.unit.core.shelf import Shelf, with_tiers


def fault_of(shelf: Shelf, folder: Path) -> TenureError:
    """Return why the first file of a dataset cannot be read; no engine is asked for it."""
    [dataset] = shelf.tables.datasets.values()
    reader = shelf.read(Reader, cast(Hands, None), lambda _: None, folder)

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


def test_a_disk_of_the_daemon_that_is_full_or_gone_is_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(*(with_tiers(name) for name in "ab"))
    shelf.put("logs", 1, replicas=2)
    shelf.work()
    gone = fault_of(shelf, tmp_path / "none")
    assert isinstance(gone, Unavailable)
    assert gone.code == "disk_failed"

    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert fault_of(shelf, tmp_path).code == "disk_full"
