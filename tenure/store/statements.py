"""What a commit tells the database: statements over many rows at a time.

``executemany`` hands the interpreter to another thread at each row and waits to get it back, up to
the switch interval each time beside a busy event loop. So rows go in groups.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache

UPSERT = """INSERT INTO records (kind, key, v, body, crc) VALUES {rows}
    ON CONFLICT (kind, key) DO UPDATE
    SET v = excluded.v, body = excluded.body, crc = excluded.crc"""
DELETE = "DELETE FROM records WHERE {rows}"
# the repeat of a commit whose answer was lost changes nothing; another event of this number fails
APPEND = """INSERT INTO events (seq, at_us, type, subject, body, crc) VALUES {rows}
    ON CONFLICT (seq) DO UPDATE SET body = body WHERE (at_us, type, subject, body)
    = (excluded.at_us, excluded.type, excluded.subject, excluded.body)"""
# how each says one row, and what stands between two
_ROWS = {
    UPSERT: ("(?, ?, ?, ?, ?)", ", "),
    DELETE: ("(kind = ? AND key = ?)", " OR "),
    APPEND: ("(?, ?, ?, ?, ?, ?)", ", "),
}
# rows of one statement: few sizes, so that sqlite3 finds each prepared
_GROUPS = (64, 8, 1)


def execute(db: sqlite3.Connection, statement: str, rows: Sequence[tuple[object, ...]]) -> int:
    """Execute a statement over ``rows``, many at a time; return how many rows it changed."""
    changed = begun = 0
    for size in _GROUPS:
        while len(rows) - begun >= size:
            group = rows[begun : begun + size]
            values = [value for one in group for value in one]
            changed += db.execute(_stated(statement, size), values).rowcount
            begun += size
    return changed


@cache
def _stated(statement: str, count: int) -> str:
    """Return a statement for ``count`` rows."""
    row, between = _ROWS[statement]
    return statement.format(rows=between.join([row] * count))
