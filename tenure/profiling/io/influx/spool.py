"""Samples on their way to a server: kept on disk in order, bounded, and what is lost is counted.

Every write goes through the spool, also when the server is well: what ``append`` has returned for
survives a kill, and sending a record twice is harmless (a point of the same series and time
replaces itself). A record is dropped for its ``age``, for the ``size`` of the spool (oldest first),
or because the server ``refused`` it for good.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tenure.model.units import HOUR_US, MIB
from tenure.profiling.io.sqlite.database import Database

T = TypeVar("T")

TABLES = """
    -- AUTOINCREMENT: the number of a record is never used again, so waiting for it is safe.
    CREATE TABLE spool (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at_us INTEGER NOT NULL,
        samples INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        body BLOB NOT NULL
    );
    CREATE TABLE dropped (reason TEXT PRIMARY KEY, samples INTEGER NOT NULL) WITHOUT ROWID;
"""
#: Why samples are lost; ``disk``: the spool itself could not be written.
REASONS = ("age", "size", "refused", "damaged", "disk")
#: Fast, and line protocol still shrinks to about a tenth.
COMPRESSION = 1


@dataclass(frozen=True, slots=True)
class SpoolBounds:
    """``max_bytes`` of compressed points; ``max_age_us`` since a record was made."""

    max_bytes: int = 256 * MIB
    max_age_us: int = 24 * HOUR_US

    def __post_init__(self) -> None:
        if min(self.max_bytes, self.max_age_us) <= 0:
            raise ValueError("the bounds of the spool must be positive")


@dataclass(frozen=True, slots=True)
class Record:
    """A body of points to be sent as one; ``id`` rises in the order of sending."""

    id: int
    samples: int
    body: bytes


@dataclass(frozen=True, slots=True)
class SpoolSize:
    """What waits in the spool."""

    samples: int = 0
    bytes: int = 0


class Spool:
    """The queue of records in a ``Database`` that holds ``TABLES``; open it with ``open``."""

    def __init__(self, database: Database, bounds: SpoolBounds) -> None:
        self._db = database
        self._bounds = bounds
        self.size = SpoolSize()
        self.dropped: dict[str, int] = {}

    @classmethod
    async def open(cls, database: Database, bounds: SpoolBounds) -> Spool:
        """Return the spool with what an earlier process left in it."""
        spool = cls(database, bounds)
        spool.size = await database.read(_size)
        spool.dropped = await database.read(_dropped)
        return spool

    async def append(self, bodies: Sequence[tuple[bytes, int]], now_us: int) -> int:
        """Keep bodies with their numbers of samples, all or none; return the last record's id.

        What is beyond the bounds then is dropped, oldest first. Raises StatsUnavailable where the
        disk takes no more.
        """

        def run(db: sqlite3.Connection, tally: _Tally) -> int:
            last = 0
            for body, samples in bodies:
                packed = zlib.compress(body, COMPRESSION)
                cells = (now_us, samples, len(packed), packed)
                done = db.execute(
                    "INSERT INTO spool (at_us, samples, bytes, body) VALUES (?, ?, ?, ?)", cells
                )
                tally.samples += samples
                tally.bytes += len(packed)
                last = done.lastrowid or 0
            self._trim(db, tally, now_us)
            return last

        return await self._change(run)

    async def trim(self, now_us: int) -> None:
        """Drop what is too old by now."""
        await self._change(lambda db, tally: self._trim(db, tally, now_us))

    async def first(self, now_us: int) -> Record | None:
        """Return the oldest record that is not too old, None where nothing waits."""

        def run(db: sqlite3.Connection, tally: _Tally) -> Record | None:
            self._trim(db, tally, now_us)
            while True:
                row = db.execute("SELECT id, samples, body FROM spool ORDER BY id LIMIT 1")
                found = row.fetchone()
                if found is None:
                    return None
                try:
                    return Record(found[0], found[1], zlib.decompress(found[2]))
                except zlib.error:
                    _drop(db, tally, found[0], "damaged")

        return await self._change(run)

    async def remove(self, record: Record, *, refused: int = 0) -> None:
        """Forget a record that was sent; ``refused`` of its samples were lost for good."""

        def run(db: sqlite3.Connection, tally: _Tally) -> None:
            _drop(db, tally, record.id, "")
            tally.lost["refused"] += refused

        await self._change(run)

    def count_lost(self, reason: str, samples: int) -> None:
        """Count samples that could not even be kept here (the disk takes no more)."""
        self.dropped[reason] = self.dropped.get(reason, 0) + samples

    async def _change(self, work: Callable[[sqlite3.Connection, _Tally], T]) -> T:
        """Do one change, with what it drops counted in the same transaction."""

        def run(db: sqlite3.Connection) -> tuple[T, _Tally]:
            tally = _Tally()
            result = work(db, tally)
            db.executemany(
                "INSERT INTO dropped (reason, samples) VALUES (?, ?) "
                "ON CONFLICT DO UPDATE SET samples = samples + excluded.samples",
                [(reason, samples) for reason, samples in tally.lost.items() if samples],
            )
            return result, tally

        result, tally = await self._db.change(run)
        self.size = SpoolSize(self.size.samples + tally.samples, self.size.bytes + tally.bytes)
        self.dropped = dict(Counter(self.dropped) + tally.lost)
        return result

    def _trim(self, db: sqlite3.Connection, tally: _Tally, now_us: int) -> None:
        """Drop what is beyond the bounds, oldest first."""
        surplus = self.size.bytes + tally.bytes - self._bounds.max_bytes
        oldest = "SELECT id, at_us, bytes FROM spool ORDER BY id LIMIT 1"
        while (row := db.execute(oldest).fetchone()) is not None:
            key, at_us, size = row
            is_old = at_us < now_us - self._bounds.max_age_us
            if not is_old and surplus <= 0:
                return
            _drop(db, tally, key, "age" if is_old else "size")
            surplus -= size


class _Tally:
    """What one change adds to the spool, and the samples it drops by reason."""

    def __init__(self) -> None:
        self.samples = 0
        self.bytes = 0
        self.lost: Counter[str] = Counter()


def _drop(db: sqlite3.Connection, tally: _Tally, key: int, reason: str) -> None:
    """Delete a record; its samples are lost where there is a ``reason``."""
    gone = "DELETE FROM spool WHERE id = ? RETURNING samples, bytes"
    for samples, size in db.execute(gone, (key,)).fetchall():
        tally.samples -= samples
        tally.bytes -= size
        if reason:
            tally.lost[reason] += samples


def _size(db: sqlite3.Connection) -> SpoolSize:
    samples, size = db.execute("SELECT total(samples), total(bytes) FROM spool").fetchone()
    return SpoolSize(int(samples), int(size))


def _dropped(db: sqlite3.Connection) -> dict[str, int]:
    return dict(db.execute("SELECT reason, samples FROM dropped").fetchall())
