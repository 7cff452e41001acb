"""The audit's file: kept over restarts, bounded, whole after a kill, apart from the event loop."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import stat
import time
from collections.abc import Callable, Coroutine
from contextlib import closing
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tenure.model.audit import AuditRow, act_row
from tenure.store import audit as module
from tenure.store.audit import FILE, Audit
from tenure.store.errors import StoreUnavailable

T = TypeVar("T")
ROW = AuditRow(5, "token", "ann", "read", "127.0.0.1", "POST", "/v1/jobs", "j-1", 201)
KEEP_US = 100


def with_audit(path: Path, work: Callable[[Audit], Coroutine[Any, Any, T]]) -> T:
    """Open the audit, do the work, close it."""

    async def run() -> T:
        audit = Audit.open(path, KEEP_US)
        try:
            return await work(audit)
        finally:
            await audit.close()

    return asyncio.run(run())


def noted(path: Path, *rows: AuditRow) -> None:
    async def work(audit: Audit) -> None:
        for row in rows:
            audit.note(row)

    with_audit(path, work)


def kept(
    path: Path, *, after: int = 0, since_us: int = 0, who: str = "", about: str = ""
) -> list[AuditRow]:
    return with_audit(path, lambda audit: audit.rows(after, since_us, who, 1000, about))


def test_rows_are_kept_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / FILE
    noted(path, ROW, replace(ROW, who="bob", at_us=7))
    assert kept(path) == [replace(ROW, seq=1), replace(ROW, who="bob", at_us=7, seq=2)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_rows_are_found_by_number_time_and_name(tmp_path: Path) -> None:
    path = tmp_path / FILE
    noted(path, *(replace(ROW, at_us=at, who="ann" if at % 2 else "bob") for at in range(10)))
    assert [row.at_us for row in kept(path, after=7)] == [7, 8, 9]
    assert [row.at_us for row in kept(path, since_us=8)] == [8, 9]
    assert [row.at_us for row in kept(path, who="bob")] == [0, 2, 4, 6, 8]
    assert kept(path, who="' OR 1=1 --") == []
    two = with_audit(path, lambda audit: audit.rows(0, 0, "", 2))
    assert [row.seq for row in two] == [1, 2]


@pytest.mark.parametrize(
    ("column", "value"),
    [("who", "bnn"), ("who", b"\xff\xfe"), ("at_us", 1 << 62), ("status", None), ("detail", "")],
)
def test_a_row_that_is_not_what_was_written_says_so(
    tmp_path: Path, column: str, value: object
) -> None:
    path = tmp_path / FILE
    noted(path, ROW, ROW)
    with closing(sqlite3.connect(path)) as db, db:
        (schema,) = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'audit'").fetchone()
        db.execute("PRAGMA writable_schema = ON")  # what a bit of a page can do, SQL may not
        db.execute(
            "UPDATE sqlite_schema SET sql = ? WHERE name = 'audit'",
            (schema.replace("NOT NULL", ""),),
        )
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE audit SET {column} = ? WHERE seq = 2", (value,))
    whole, wrong = kept(path)
    assert whole == replace(ROW, seq=1)
    assert (wrong.code, wrong.seq, wrong.detail) == ("damaged", 2, "{}")
    assert (wrong.at_us, wrong.status) == (
        0 if column == "at_us" else ROW.at_us,
        0 if column == "status" else ROW.status,
    )
    assert json.dumps(astuple(wrong))


def test_what_was_noted_a_moment_ago_is_read(tmp_path: Path) -> None:
    async def work(audit: Audit) -> int:
        for count in range(1, 200):
            audit.note(ROW)
            assert len(await audit.rows(0, 0, "", 1000)) == count
        return count

    assert with_audit(tmp_path / FILE, work) == 199


def test_old_rows_go(tmp_path: Path) -> None:
    path = tmp_path / FILE
    noted(path, *(replace(ROW, at_us=at) for at in range(0, 300, 50)))
    with_audit(path, lambda audit: audit.prune(250))
    assert [row.at_us for row in kept(path)] == [150, 200, 250]
    noted(path, ROW)
    assert kept(path)[-1].seq == 7  # numbers are not used again


def test_their_number_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 3)
    monkeypatch.setattr(module, "PRUNE_ROWS", 2)
    path = tmp_path / FILE
    noted(path, *[ROW] * 10)
    with_audit(path, lambda audit: audit.prune(5))
    assert [row.seq for row in kept(path)] == [8, 9, 10]


def test_a_file_that_is_held_loses_nothing_and_holds_up_nobody(tmp_path: Path) -> None:
    path = tmp_path / FILE
    noted(path, ROW)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def work(audit: Audit) -> float:
        begun = time.monotonic()
        for _ in range(100):
            audit.note(ROW)
        return time.monotonic() - begun

    async def run() -> float:
        audit = Audit.open(path, KEEP_US)
        held_s = await work(audit)
        other.execute("ROLLBACK")
        await audit.close()
        return held_s

    held_s = asyncio.run(run())
    other.close()
    assert held_s < 2.5  # far less than SQLite waits for another program
    assert len(kept(path)) == 101


def test_what_cannot_be_written_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 10)
    path = tmp_path / FILE

    async def work(audit: Audit) -> None:
        await audit.rows(0, 0, "", 1)
        assert audit._connection is not None
        audit._connection.execute("PRAGMA query_only = ON")  # as on a disk that is full
        for _ in range(25):
            audit.note(ROW)
        with pytest.raises(StoreUnavailable):
            await audit._run(lambda db: db.execute("DELETE FROM audit"))
        audit._connection.execute("PRAGMA query_only = OFF")
        assert len(await audit.rows(0, 0, "", 1000)) == 11

    with_audit(path, work)
    *rows, gap = kept(path)
    assert len(rows) == 10
    assert (gap.code, gap.subject) == ("not_recorded", "15 rows")


def test_rows_are_written_once_the_disk_is_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where so many wait that no more are taken: the next request brings the next try."""
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    monkeypatch.setattr(module, "RETRY_S", 0.0)

    async def work(audit: Audit) -> None:
        await audit.rows(0, 0, "", 1)
        assert audit._connection is not None
        audit._connection.execute("PRAGMA query_only = ON")
        for _ in range(3):
            audit.note(ROW)
        await audit.rows(0, 0, "", 1)  # a try that fails
        audit._connection.execute("PRAGMA query_only = OFF")
        deadline = time.monotonic() + 60
        while audit._held or audit._waiting:
            assert time.monotonic() < deadline
            audit.note(ROW)
            await asyncio.sleep(0.01)

    with_audit(tmp_path / FILE, work)
    assert len([row for row in kept(tmp_path / FILE) if not row.code]) >= 3


def test_a_file_that_cannot_be_opened_yet_is_no_damage(tmp_path: Path) -> None:
    """As on a disk that is full: the daemon starts, the rows wait, the file stays what it is."""
    folder = tmp_path / "state"
    folder.mkdir()
    noted(folder / FILE, ROW)
    folder.rename(tmp_path / "away")
    (tmp_path / "state").write_text("")  # so that nothing can be made in it

    async def work() -> None:
        audit = Audit.open(folder / FILE, KEEP_US)
        audit.note(ROW)
        with pytest.raises(StoreUnavailable):
            await audit.rows(0, 0, "", 10)
        folder.unlink()
        (tmp_path / "away").rename(folder)
        assert len(await audit.rows(0, 0, "", 10)) == 2
        await audit.close()
        audit.note(ROW)  # a request that ends late

    asyncio.run(work())
    assert sorted(path.name for path in folder.iterdir()) == [FILE]


def test_a_damaged_file_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_bytes(b"no database" * 100)
    noted(path, ROW)
    assert len(kept(path)) == 1
    assert (tmp_path / f"{FILE}.damaged").read_bytes().startswith(b"no database")


def test_a_damaged_file_that_cannot_be_put_aside_keeps_no_daemon_from_its_start(
    tmp_path: Path,
) -> None:
    path = tmp_path / FILE
    path.write_bytes(b"no database at all" * 1000)
    (tmp_path / f"{FILE}.damaged" / "in the way").mkdir(parents=True)

    async def run() -> None:
        audit = Audit.open(path, KEEP_US)
        audit.note(ROW)
        with pytest.raises(StoreUnavailable):
            await audit.rows(0, 0, "", 1)
        await audit.close()

    asyncio.run(run())


def test_acts_are_followed_once_and_over_restarts(tmp_path: Path) -> None:
    """By the number of the last event; from the begin where numbers began anew (``run --new``)."""
    log = [act_row(at, "node.on", f"n{at}", {}) for at in (1, 2, 3)]

    def acts(followed: int) -> tuple[list[AuditRow], int]:
        begin = followed if followed <= len(log) else 0
        page = log[begin : begin + 2]
        return page, begin + len(page)

    def read() -> list[AuditRow]:
        async def work() -> list[AuditRow]:
            audit = Audit.open(tmp_path / FILE, KEEP_US, acts)
            audit.note(replace(ROW, at_us=0))
            try:
                return await audit.rows(0, 0, "", 1000)
            finally:
                await audit.close()

        return asyncio.run(work())

    assert [row.at_us for row in read()] == [0, 1, 2, 3]
    log.append(act_row(4, "node.off", "n4", {"run": "up@1", "source": "n9"}))
    assert [row.at_us for row in read()] == [0, 1, 2, 3, 0, 4]
    log[:] = [act_row(9, "node.on", "n9", {})]
    assert [row.at_us for row in read()][-2:] == [0, 9]
    for about in ("up@1", "n4", "n9"):
        assert [row.at_us for row in kept(tmp_path / FILE, about=about)][:1] == [4]
    assert [row.at_us for row in kept(tmp_path / FILE, who="policy")] == [1, 2, 3, 9]


def test_a_file_without_acts_gets_them(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as old:
        old.execute(module._SCHEMA)
        old.execute("INSERT INTO audit VALUES (1, 5, '', 'ann', '', '', '', '', '', 0, '')")
    noted(tmp_path / FILE, replace(ROW, cause="r-1"))
    assert [(row.who, row.cause) for row in kept(tmp_path / FILE)] == [("ann", ""), ("ann", "r-1")]


def test_what_was_waited_for_is_in_the_file(tmp_path: Path) -> None:
    """So that a kill after the answer costs nothing."""

    async def work(audit: Audit) -> None:
        with sqlite3.connect(tmp_path / FILE) as other:
            for count in range(1, 100):
                audit.note(ROW)
                await audit.written()
                assert other.execute("SELECT count(*) FROM audit").fetchone() == (count,)

    with_audit(tmp_path / FILE, work)


def test_nobody_waits_for_long_for_a_file_that_is_held(tmp_path: Path) -> None:
    noted(tmp_path / FILE, ROW)
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def work(audit: Audit) -> int:
        audit.note(ROW)
        await audit.written()
        (rows,) = other.execute("SELECT count(*) FROM audit").fetchone()
        other.execute("ROLLBACK")
        return int(rows)

    assert with_audit(tmp_path / FILE, work) == 1
    other.close()
