"""The embedded statistics store: one SQLite file, written by one thread of its own.

A write is one transaction in WAL mode: a killed process leaves whole writes or none. It is not
synced to the disk at each write, so a power cut may cost the last seconds; statistics may.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tenure.model.container import Profile
from tenure.profiling.io import retention, tables
from tenure.profiling.io.retention import Retention
from tenure.profiling.io.schema import migrate
from tenure.profiling.io.store import StatsUnavailable
from tenure.profiling.percentile import profile_of
from tenure.profiling.sample import Bucket, Measured, Sample

log = logging.getLogger(__name__)
T = TypeVar("T")
#: Another process (a backup, a curious person) may hold the file for this long.
BUSY_S = 5.0


class EmbeddedStats:
    """A ``StatsStore`` in a SQLite file. Make it with ``open``."""

    def __init__(self, path: Path, keep: Retention) -> None:
        self._path = path
        self._keep = keep
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stats")
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    @classmethod
    async def open(cls, path: Path, keep: Retention | None = None) -> EmbeddedStats:
        """Open or create the store; a damaged file is put aside and a new one begun.

        Raises StatsUnavailable where the file cannot be used.
        """
        store = cls(path, keep or Retention())
        try:
            await store._in_thread(store._connect)
        except BaseException:
            store._thread.shutdown(wait=False)
            raise
        return store

    async def write(self, samples: Sequence[Measured]) -> None:
        """Keep the samples, all or none."""
        if samples:
            await self._change(lambda db: tables.insert(db, samples))

    async def series(self, container: str, since_us: int, until_us: int) -> list[Sample]:
        """Return the kept samples that end in [``since_us``, ``until_us``), oldest first."""
        return await self._read(lambda db: tables.samples_of(db, container, since_us, until_us))

    async def rollups(
        self, container: str, since_us: int, until_us: int, *, width_us: int
    ) -> list[Bucket]:
        """Return the buckets of ``width_us`` (300 s or 1 h) that start in the time given."""
        return await self._read(
            lambda db: tables.rollups_of(db, container, width_us, since_us, until_us)
        )

    async def profiles(
        self, since_us: Mapping[str, int], until_us: int, *, min_samples: int = 1
    ) -> dict[str, Profile]:
        """Return p90 profiles over [each container's time, ``until_us``); too few: left out."""

        def compute(db: sqlite3.Connection) -> dict[str, Profile]:
            made: dict[str, Profile] = {}
            for container, start_us in since_us.items():
                found = tables.samples_of(db, container, start_us, until_us)
                profile = profile_of(container, found, min_samples=min_samples) if found else None
                if profile is not None:
                    made[container] = profile
            return made

        return await self._read(compute)

    async def learn_apps(self, apps: Collection[str], now_us: int, *, min_samples: int) -> None:
        """Make and keep the profiles of ``apps`` from the samples of all their containers."""
        if apps:
            await self._change(lambda db: tables.learn_apps(db, apps, now_us, min_samples))

    async def app_profile(self, app: str) -> Profile | None:
        """Return the kept profile of an app, or None."""
        return await self._read(lambda db: tables.app_profile(db, app))

    async def prune(self, now_us: int) -> None:
        """Roll complete buckets up and forget what is past its retention, one bounded step."""
        await self._change(lambda db: retention.roll_up_complete(db, now_us))
        await self._change(lambda db: retention.forget(db, now_us, self._keep))

    async def close(self) -> None:
        """Close after the writes under way; twice is fine."""
        if self._is_closed:
            return
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=True)

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        return await self._in_thread(lambda: read(self._open_connection()))

    async def _change(self, change: Callable[[sqlite3.Connection], None]) -> None:
        def run() -> None:
            db = self._open_connection()
            db.execute("BEGIN IMMEDIATE")
            try:
                change(db)
            except BaseException:
                if db.in_transaction:  # SQLite ends it itself where the disk is full
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

        await self._in_thread(run)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._is_closed:
            raise StatsUnavailable("the statistics store is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError) as error:
            raise StatsUnavailable(f"statistics store {self._path.name}: {error}") from error

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connect()
        assert self._connection is not None
        return self._connection

    def _connect(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._connection = _connect(self._path)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorname", "") not in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
                raise
            aside = _put_aside(self._path)
            log.error("statistics store is damaged (%s): kept as %s, begun anew", error, aside)
            self._connection = _connect(self._path)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connect(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        # Bounds the file that readers may keep from being checkpointed away.
        connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _put_aside(path: Path) -> str:
    """Rename a damaged file (the newest damage is kept) and drop its journal."""
    aside = path.with_name(path.name + ".damaged")
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return aside.name
