"""Who used how much CPU where, and what nodes were measured to draw: the record of energy.

A file of its own, whatever keeps the samples: sums by container, node and bucket of time, added to
as samples come and merged into wider buckets as they age. So a report reads few rows, and its past
does not end with that of the samples.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tenure.model.energy import MAX_SPAN_US, Metered, Use
from tenure.model.units import HOUR_US, US
from tenure.profiling.io.sqlite.database import Database, Schema

DAY_US = 24 * HOUR_US
#: Width of buckets, and for how long they stay so: then they are merged into the next wider ones.
TIERS = ((300 * US, 3 * HOUR_US), (HOUR_US, 3 * DAY_US), (DAY_US, 400 * DAY_US))
#: Amounts end here (3 MW, or 3,000 cores, for a day), so that a day's hours sum within 64 bits.
MOST = 1 << 58
#: Bounds of one step of upkeep: wider buckets made of each tier, and days forgotten.
STEP_BUCKETS = 4

SCHEMA = Schema(
    {
        1: """
        CREATE TABLE series (
            id INTEGER PRIMARY KEY,
            node TEXT NOT NULL,
            container TEXT NOT NULL,
            last_us INTEGER NOT NULL,
            UNIQUE (node, container)
        );
        -- "use": CPU of a container (cpu_us, reserved_us); "meter": of a node (energy_uj)
        CREATE TABLE bucket (
            kind TEXT NOT NULL,
            width_us INTEGER NOT NULL,
            start_us INTEGER NOT NULL,
            series INTEGER NOT NULL,
            begin_us INTEGER NOT NULL,
            end_us INTEGER NOT NULL,
            amount INTEGER NOT NULL,
            reserved_us INTEGER NOT NULL,
            PRIMARY KEY (width_us, start_us, kind, series)
        ) WITHOUT ROWID;
    """
    },
    (f"journal_size_limit = {64 << 20}",),
)
_ADD = (
    "ON CONFLICT DO UPDATE SET begin_us = min(begin_us, excluded.begin_us), "
    f"end_us = max(end_us, excluded.end_us), amount = min(amount + excluded.amount, {MOST}), "
    f"reserved_us = min(reserved_us + excluded.reserved_us, {MOST})"
)
_COLUMNS = "kind, width_us, start_us, series, begin_us, end_us, amount, reserved_us"


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a span of time: uses by node, and measurements by node."""

    uses: dict[str, list[Use]]
    metered: dict[str, list[Metered]]


class UseStore:
    """The record in a SQLite file. Make it with ``open``; methods raise StatsUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def open(cls, path: Path) -> UseStore:
        """Open or create the file; a damaged one is put aside and a new one begun."""
        return cls(await Database.open(path, SCHEMA))

    async def add(self, uses: Sequence[Use], metered: Sequence[Metered] = ()) -> None:
        """Add to the record, all or none; each use and measurement is to be added once.

        None spans more than ``MAX_SPAN_US``: so far, and no farther, one reaches back into earlier
        buckets.
        """
        if uses or metered:
            await self._database.change(lambda db: _add(db, uses, metered))

    async def read(self, since_us: int, until_us: int, nodes: Collection[str]) -> Record:
        """Return the measurements of ``nodes`` that touch [``since_us``, ``until_us``) and the uses
        that they and the time need.

        Some 300 bytes for each container and bucket: ask for few nodes at a time.
        """
        return await self._database.read(lambda db: _read(db, (since_us, until_us), nodes))

    async def prune(self, now_us: int) -> None:
        """Merge buckets that are old and forget those that are too old, one bounded step."""
        await self._database.change(lambda db: _prune(db, now_us))

    async def close(self) -> None:
        """Close after the work under way; twice is fine."""
        await self._database.close()


def _add(db: sqlite3.Connection, uses: Sequence[Use], metered: Sequence[Metered]) -> None:
    rows = [
        ("use", (u.node, u.container), u.begin_us, u.end_us, *_bounded(u.cpu_us, u.reserved_us))
        for u in uses
    ]
    rows += [
        ("meter", (m.node, ""), m.begin_us, m.end_us, *_bounded(m.energy_uj, 0)) for m in metered
    ]
    last_us: dict[tuple[str, str], int] = {}
    for _, key, _, end_us, _, _ in rows:
        last_us[key] = max(last_us.get(key, 0), end_us)
    db.executemany(
        "INSERT INTO series (node, container, last_us) VALUES (?, ?, ?) "
        "ON CONFLICT DO UPDATE SET last_us = max(last_us, excluded.last_us)",
        [(*key, at_us) for key, at_us in last_us.items()],
    )
    ids = {key: _series(db, key) for key in last_us}
    width_us = TIERS[0][0]
    db.executemany(
        f"INSERT INTO bucket ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) {_ADD}",
        [
            # of the last microsecond, so that a span ending with a bucket belongs to it
            (kind, width_us, (end - 1) // width_us * width_us, ids[key], begin, end, amount, held)
            for kind, key, begin, end, amount, held in rows
        ],
    )


def _bounded(amount: int, held: int) -> tuple[int, int]:
    return min(amount, MOST), min(held, MOST)


def _series(db: sqlite3.Connection, key: tuple[str, str]) -> int:
    found = db.execute("SELECT id FROM series WHERE node = ? AND container = ?", key)
    return int(found.fetchone()[0])


def _read(db: sqlite3.Connection, window: tuple[int, int], nodes: Collection[str]) -> Record:
    metered: dict[str, list[Metered]] = {}
    low, high = window
    for node, _, begin, end, amount, _ in _touching(db, "meter", window, nodes):
        metered.setdefault(node, []).append(Metered(node, begin, end, amount))
        low, high = min(low, begin), max(high, end)
    uses: dict[str, list[Use]] = {}
    for node, container, begin, end, amount, held in _touching(db, "use", (low, high), nodes):
        uses.setdefault(node, []).append(Use(node, container, begin, end, amount, held))
    return Record(uses, metered)


def _touching(
    db: sqlite3.Connection, kind: str, window: tuple[int, int], nodes: Collection[str]
) -> Iterable[tuple[str, str, int, int, int, int]]:
    (since_us, until_us), names = window, json.dumps(list(nodes))
    last_us = until_us + MAX_SPAN_US
    for width_us, _ in TIERS:
        yield from db.execute(
            "SELECT node, container, begin_us, end_us, amount, reserved_us FROM bucket "
            "JOIN series ON series.id = bucket.series WHERE width_us = ? AND start_us > ? "
            "AND start_us < ? AND kind = ? AND end_us > ? AND begin_us < ? AND bucket.series IN "
            "(SELECT id FROM series WHERE node IN (SELECT value FROM json_each(?)))",
            (width_us, since_us - width_us, last_us, kind, since_us, until_us, names),
        )


def _prune(db: sqlite3.Connection, now_us: int) -> None:
    for (width_us, kept_us), (wide_us, _) in pairwise(TIERS):
        for _ in range(STEP_BUCKETS):
            if not _merge_oldest(db, width_us, wide_us, now_us - kept_us):
                break
    width_us, kept_us = TIERS[-1]
    db.execute(
        "DELETE FROM bucket WHERE width_us = ? AND start_us IN (SELECT DISTINCT start_us FROM "
        "bucket WHERE width_us = ? AND start_us < ? LIMIT ?)",
        (width_us, width_us, now_us - kept_us, STEP_BUCKETS),
    )
    # one that has been silent for so long that all its buckets are gone
    db.execute("DELETE FROM series WHERE last_us < ?", (now_us - kept_us - 2 * width_us,))


def _merge_oldest(db: sqlite3.Connection, width_us: int, wide_us: int, before_us: int) -> bool:
    """Merge the oldest buckets into one wide one; return whether there were any old enough."""
    oldest = db.execute("SELECT min(start_us) FROM bucket WHERE width_us = ?", (width_us,))
    (first_us,) = oldest.fetchone()
    if first_us is None:
        return False
    start_us = first_us // wide_us * wide_us
    if start_us + wide_us > before_us:
        return False
    span = (width_us, start_us, start_us + wide_us)
    db.execute(
        f"INSERT INTO bucket ({_COLUMNS}) SELECT kind, ?, ?, series, min(begin_us), max(end_us), "
        f"min(sum(amount), {MOST}), min(sum(reserved_us), {MOST}) FROM bucket WHERE width_us = ? "
        f"AND start_us >= ? AND start_us < ? GROUP BY kind, series {_ADD}",
        (wide_us, start_us, *span),
    )
    db.execute("DELETE FROM bucket WHERE width_us = ? AND start_us >= ? AND start_us < ?", span)
    return True
