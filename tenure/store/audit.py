"""The audit: who asked for what, and what the daemon did by itself, in a SQLite file of its own.

A thread writes it, so that the event loop never waits; rows that gather meanwhile go in one
transaction. It is not synced at each (WAL, NORMAL): a power cut may cost the last rows, a killed
daemon none that were written, which those of changes are before the answer goes. Acts of the daemon
are read from the public events, after the last one that was: a kill costs none of them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from tenure.model.audit import AuditRow
from tenure.store.connection import connect_writer, create_private
from tenure.store.errors import StoreUnavailable, is_damage
from tenure.store.sums import sum_of

log = logging.getLogger(__name__)
T = TypeVar("T")
FILE = "audit.db"
#: Rows that wait for a disk that is full or away, some 3 MB; more are counted and lost.
MAX_WAITING = 10_000
#: A change is answered so late at most for its row: the disk may be full, or somebody read on.
WRITTEN_S = 0.1
#: Between two tries to write where one failed.
RETRY_S = 1.0
#: Rows that are kept whatever their age, some 300 MB; the oldest go first.
MAX_ROWS = 2_000_000
#: Rows that one statement removes: nobody waits for it for long.
PRUNE_ROWS = 20_000
#: The code of a row that is not what was written: a bit of it flipped on the disk.
DAMAGED = "damaged"
#: No time is as late, some 2,000 years from now.
MAX_US = 1 << 56
_SCHEMA = """
CREATE TABLE IF NOT EXISTS audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    who TEXT NOT NULL,
    role TEXT NOT NULL,
    origin TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    subject TEXT NOT NULL,
    status INTEGER NOT NULL,
    code TEXT NOT NULL
)
"""
#: Rows of an older file are without.
_ADDED = {"act": "TEXT NOT NULL DEFAULT ''", "cause": "TEXT NOT NULL DEFAULT ''"}
_ADDED["detail"] = "TEXT NOT NULL DEFAULT '{}'"
_ADDED["crc"] = "INTEGER"
#: The number of the last event whose acts are here.
_FOLLOWED = "CREATE TABLE IF NOT EXISTS followed (id INTEGER PRIMARY KEY CHECK (id = 1), event)"
_FOLLOW = "INSERT OR REPLACE INTO followed VALUES (1, ?)"
_NAMES = "at_us, kind, who, role, origin, method, path, subject, status, code, act, cause, detail"
_MARKS = ", ".join("?" * len(_NAMES.split(",")))
_INSERT = f"INSERT INTO audit ({_NAMES}, crc) VALUES ({_MARKS}, ?)"
_SELECT = f"""SELECT {_NAMES}, seq, crc FROM audit WHERE seq > :after AND at_us >= :since
    AND (:who = '' OR who = :who OR substr(who, 1, length(:who) + 1) = :who || ' ')
    AND (:about = '' OR cause = :about OR subject = :about OR instr(detail, :quoted) > 0)
    ORDER BY seq LIMIT :limit"""
#: Acts after an event, oldest first, and the number of the event up to which they are all.
Acts = Callable[[int], tuple[Sequence[AuditRow], int]]


class Audit:
    """Make it with ``open``. ``keep_us`` is how long rows are kept, ``acts`` what it follows."""

    def __init__(self, path: Path, keep_us: int, acts: Acts | None) -> None:
        self._path = path
        self._keep_us = keep_us
        self._acts = acts
        self._followed = 0
        self._waiting: deque[AuditRow] = deque()
        self._held: list[AuditRow] = []  # the thread's, until they are written
        self._lost = 0
        self._is_due = self._must_follow = self._is_closed = False
        self._done: asyncio.Future[None] | None = None  # of the flush that was asked for last
        self._failed_s: float | None = None  # when writing last failed; None: it works
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._connection: sqlite3.Connection | None = None

    @classmethod
    def open(cls, path: Path, keep_us: int, acts: Acts | None = None) -> Audit:
        """Open or create the file; one that is damaged is put aside and a new one begun.

        Where that fails, as on a disk that is full, rows wait until it does not.
        """
        audit = cls(path, keep_us, acts)
        try:
            try:
                audit._connect()
            except (sqlite3.Error, OSError) as error:
                if not is_damage(error):
                    raise
                audit._put_aside(error)
                audit._connect()
        except (sqlite3.Error, OSError) as error:
            audit._failed(error)
        return audit

    def _put_aside(self, error: Exception) -> None:
        path = self._path
        aside = path.with_name(f"{path.name}.damaged")
        log.error("%s is damaged (%s): kept as %s, begun anew", path.name, error, aside)
        path.replace(aside)
        for tail in ("-wal", "-shm"):
            path.with_name(path.name + tail).unlink(missing_ok=True)

    def _failed(self, error: Exception) -> None:
        if self._failed_s is None:
            log.error("the audit cannot be written, its rows wait: %s: %s", self._path, error)
        self._failed_s = time.monotonic()

    def _connect(self) -> None:
        create_private(self._path)
        connection = connect_writer(self._path)
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_SCHEMA)
            connection.execute("SELECT max(seq) FROM audit").fetchone()
            known = {name for _, name, *_ in connection.execute("PRAGMA table_info(audit)")}
            for name in _ADDED.keys() - known:
                connection.execute(f"ALTER TABLE audit ADD COLUMN {name} {_ADDED[name]}")
            connection.execute(_FOLLOWED)
            for (event,) in connection.execute("SELECT event FROM followed").fetchall():
                self._followed = event
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    # from the event loop

    def note(self, row: AuditRow) -> None:
        """Have a row written soon; it waits for nothing."""
        if len(self._waiting) + len(self._held) >= MAX_WAITING:
            self._lost += 1
        else:
            self._waiting.append(row)
        self._flush_later()

    def follow(self) -> None:
        """Have what is new written soon, acts of the daemon too; it waits for nothing."""
        self._must_follow = True
        self._flush_later()

    def _flush_later(self) -> None:
        if not self._is_due and not self._is_closed:
            self._is_due = True
            loop = asyncio.get_running_loop()
            self._done = loop.run_in_executor(self._thread, self._flush_soon)

    async def written(self) -> None:
        """Return once what was noted is written, or has not been for ``WRITTEN_S``."""
        if self._done is not None and not self._is_closed:
            await asyncio.wait((self._done,), timeout=WRITTEN_S)

    async def rows(
        self, after: int, since_us: int, who: str, limit: int, about: str = ""
    ) -> list[AuditRow]:
        """Return up to ``limit`` rows after a number and from a time on.

        ``who`` "": of anybody; the first word of an actor stands for all such. ``about`` is what
        they must name: a request, run, drain, node or other subject ("": anything). All that was
        noted before is among them. Raises StoreUnavailable.
        """
        words = {"after": after, "since": since_us, "who": who, "about": about, "limit": limit}
        words["quoted"] = json.dumps(about)

        def read(connection: sqlite3.Connection) -> list[AuditRow]:
            self._flush()
            return [_read(row) for row in connection.execute(_SELECT, words)]

        return await self._run(read)

    async def prune(self, now_us: int) -> None:
        """Remove rows that are too old or too many. Raises StoreUnavailable."""

        def remove(connection: sqlite3.Connection) -> int:
            self._flush()
            (newest,) = connection.execute("SELECT coalesce(max(seq), 0) FROM audit").fetchone()
            done = connection.execute(
                "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit ORDER BY seq LIMIT ?)"
                " AND (at_us < ? OR seq <= ?)",
                (PRUNE_ROWS, now_us - self._keep_us, newest - MAX_ROWS),
            )
            return done.rowcount

        while await self._run(remove) == PRUNE_ROWS:
            pass

    async def close(self) -> None:
        """Write what waits and close the file."""
        self._is_closed = True
        self._thread.submit(self._end)
        await asyncio.to_thread(self._thread.shutdown)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            try:
                if self._connection is None:
                    self._connect()
                return work(self._require_open())
            except (sqlite3.Error, OSError) as error:
                raise StoreUnavailable(f"{self._path}: {error}") from None

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    # in the thread

    def _flush_soon(self) -> None:
        """Write what waits, but not at once again where that failed."""
        self._is_due = False
        if self._failed_s is None or time.monotonic() - self._failed_s > RETRY_S:
            self._flush(with_acts=self._must_follow)

    def _flush(self, *, with_acts: bool = True) -> None:
        """Write what waits, and the acts until now; what cannot be written waits on."""
        while self._write(with_acts=with_acts):
            pass

    def _write(self, *, with_acts: bool) -> bool:
        """Write what waits and a page of acts; return whether there may be more of them."""
        if with_acts:
            self._must_follow = False
        while self._waiting:
            self._held.append(self._waiting.popleft())
        lost = self._lost
        told = [*self._held, _gap(self._held[-1], lost)] if lost else self._held
        try:
            if self._connection is None:
                self._connect()
            read = self._acts if with_acts else None
            acts, followed = read(self._followed) if read else ([], self._followed)
            if not told and followed == self._followed:
                return False
            rows = sorted([*acts, *told], key=attrgetter("at_us"))
            with self._require_open() as connection:
                connection.execute("BEGIN IMMEDIATE")
                plain = [astuple(row)[:-1] for row in rows]
                connection.executemany(_INSERT, [(*row, sum_of(*row)) for row in plain])
                connection.execute(_FOLLOW, (followed,))
        except (sqlite3.Error, OSError) as error:
            self._failed(error)
            return False
        self._failed_s = None
        self._lost -= lost
        self._held = []
        was, self._followed = self._followed, followed
        return followed != was

    def _require_open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.OperationalError("is not open")
        return self._connection

    def _end(self) -> None:
        self._flush()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _read(row: tuple[Any, ...]) -> AuditRow:
    """Return a row, which says so where it is not what was written; older ones have no sum."""
    *told, seq, crc = row
    if crc is None or crc == sum_of(*told):
        return AuditRow(*row[:-1])
    found = dict(zip(_NAMES.split(", "), told, strict=True))
    whole = {name: found.pop(name) for name in ("at_us", "status")}
    kept = {k: v if isinstance(v, int) and 0 <= v < MAX_US else 0 for k, v in whole.items()}
    words: dict[str, Any] = {name: str(word) for name, word in found.items()}
    return AuditRow(**words | kept | {"code": DAMAGED, "detail": "{}", "seq": seq})


def _gap(last: AuditRow, count: int) -> AuditRow:
    """Return the row that tells that others are missing."""
    return AuditRow(last.at_us, "", "", "", "", "", "", f"{count} rows", 0, "not_recorded")
