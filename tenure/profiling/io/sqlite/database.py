"""A SQLite file that one thread of its own reads and writes, so that the event loop never waits.

A change is one transaction in WAL mode: a killed process leaves whole changes or none. It is not
synced at each change, so a power cut may cost the last seconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tenure.profiling.io.store import StatsUnavailable

log = logging.getLogger(__name__)
T = TypeVar("T")
#: Another process (a backup, a curious person) may hold the file for this long.
BUSY_S = 5.0


@dataclass(frozen=True, slots=True)
class Schema:
    """``steps[n]`` makes version n out of n - 1; ``pragmas`` go before the first table.

    ``fills[n]`` is run after it, in the same transaction: what SQL alone cannot bring over.
    """

    steps: dict[int, str]
    pragmas: tuple[str, ...] = ()
    fills: Mapping[int, Callable[[sqlite3.Connection], None]] = field(default_factory=dict)


class Database:
    """Make it with ``open``; every method raises StatsUnavailable where the file fails."""

    def __init__(self, path: Path, schema: Schema) -> None:
        self._path = path
        self._schema = schema
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=path.stem)
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    @classmethod
    async def open(cls, path: Path, schema: Schema) -> Database:
        """Open or create the file; a damaged one is put aside and a new one begun."""
        database = cls(path, schema)
        try:
            await database._in_thread(database._connect)
        except BaseException:
            database._thread.submit(database._disconnect)  # from what it was cut off in
            database._thread.shutdown(wait=False)
            raise
        return database

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what ``work`` reads."""
        return await self._in_thread(lambda: work(self._open_connection()))

    async def change(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what ``work`` returns; all that it changes is kept, or none where it raises."""

        def run() -> T:
            db = self._open_connection()
            db.execute("BEGIN IMMEDIATE")
            try:
                result = work(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # SQLite ends it itself where the disk is full
                    db.execute("ROLLBACK")
                raise
            return result

        return await self._in_thread(run)

    async def close(self) -> None:
        """Close after the work under way; twice is fine."""
        if self._is_closed:
            return
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=True)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._is_closed:
            raise StatsUnavailable("the statistics store is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError) as error:
            raise StatsUnavailable(f"{self._path.name}: {error}") from error

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connect()
        assert self._connection is not None
        return self._connection

    def _connect(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._connection = _connect(self._path, self._schema)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorname", "") not in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
                raise
            aside = _put_aside(self._path)
            log.error("%s is damaged (%s): kept as %s, begun anew", self._path.name, error, aside)
            self._connection = _connect(self._path, self._schema)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connect(path: Path, schema: Schema) -> sqlite3.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        for pragma in (*schema.pragmas, "journal_mode = WAL", "synchronous = NORMAL"):
            connection.execute(f"PRAGMA {pragma}")
        _migrate(connection, schema)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, schema: Schema) -> None:
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    newest = max(schema.steps)
    if found > newest:
        raise sqlite3.DatabaseError(f"the file has schema {found}, this program knows {newest}")
    for version in range(found + 1, newest + 1):
        step = schema.steps[version]
        try:
            connection.executescript(f"BEGIN IMMEDIATE; {step}; PRAGMA user_version = {version};")
            if version in schema.fills:
                schema.fills[version](connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _put_aside(path: Path) -> str:
    """Rename a damaged file (the newest damage is kept) and drop its journal."""
    aside = path.with_name(path.name + ".damaged")
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return aside.name
