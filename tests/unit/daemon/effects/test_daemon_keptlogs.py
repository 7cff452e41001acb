"""Logs go to the disk in groups; whoever saves one goes on when it is there, or hears why not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tenure.core.state.tables import KINDS
from tenure.daemon.effects.keptlogs import MOST, MOST_BYTES, KeptLogs
from tenure.model.errors import TenureError, Unavailable
from tenure.store.store import Store


class Book:
    """Stores logs in a real store, once it may; notes each transaction's keys."""

    def __init__(self, path: Path) -> None:
        self.store = Store.open(path / "state.db", KINDS)
        self.groups: list[list[str]] = []
        self.may_write = threading.Event()
        self.error: TenureError | None = None

    def write(self, logs: Sequence[tuple[str, bytes]]) -> None:
        assert self.may_write.wait(20)
        self.groups.append([key for key, _ in logs])
        if self.error is not None:
            raise self.error
        self.store.save_logs(logs, 7)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


async def test_logs_that_come_while_one_is_written_go_together(book: Book) -> None:
    logs = KeptLogs(book.write)
    saves = [asyncio.create_task(logs.save(f"k{n}", b"text %d" % n)) for n in range(MOST + 2)]
    await asyncio.sleep(0)
    gone = asyncio.create_task(logs.save("gone", b"nobody waits for it"))
    await asyncio.sleep(0)
    gone.cancel()
    book.may_write.set()
    await asyncio.gather(*saves)
    assert [len(group) for group in book.groups] == [MOST, 2]
    assert book.store.read_log(f"k{MOST + 1}") == b"text %d" % (MOST + 1)
    assert book.store.read_log("gone") is None
    book.store.close()


async def test_long_logs_are_few_in_a_transaction(book: Book) -> None:
    book.may_write.set()
    logs = KeptLogs(book.write)
    await asyncio.gather(*(logs.save(f"k{n}", bytes(MOST_BYTES // 2)) for n in range(5)))
    assert [len(group) for group in book.groups] == [2, 2, 1]
    book.store.close()


async def test_a_disk_that_is_full_is_told_to_all_and_later_ones_are_kept(book: Book) -> None:
    book.may_write.set()
    book.error = Unavailable("disk full")
    logs = KeptLogs(book.write)
    told = await asyncio.gather(
        *(logs.save(f"k{n}", b"x") for n in range(3)), return_exceptions=True
    )
    assert [str(error) for error in told] == ["disk full"] * 3
    book.error = None
    await logs.save("k0", b"again")
    assert book.store.read_log("k0") == b"again"
    book.store.close()
