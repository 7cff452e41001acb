"""Damaged records, and what goes with them: kept as bytes in a table of their own.

What may be set aside, and what goes with it, is not for the store to say.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from tenure.model.aside import Aside
from tenure.store.errors import StoreDamaged
from tenure.store.sums import sum_of

#: The schema that brought the table.
SINCE = 5
_COLUMNS = "kind, key, v, body, crc, root, why, is_whole"
_TAKE = "SELECT kind, key, v, CAST(body AS BLOB), crc FROM records WHERE kind = ? AND key = ?"
_INSERT = f"INSERT OR REPLACE INTO aside ({_COLUMNS}, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
#: As bytes, whatever a flipped bit has made of them.
_ROWS = (
    "SELECT CAST(kind AS BLOB), CAST(key AS BLOB), v, body, crc, CAST(root AS BLOB), "
    "CAST(why AS BLOB), is_whole, seal FROM aside ORDER BY is_whole, kind, key"
)


def put(db: sqlite3.Connection, rows: Sequence[Aside]) -> None:
    """Move records to the table, within the caller's transaction."""
    for one in rows:
        for found in db.execute(_TAKE, (one.kind, one.key)).fetchall():
            row = (*found, one.root, one.why, int(one.is_whole))
            db.execute(_INSERT, (*row, sum_of(*row)))
            db.execute("DELETE FROM records WHERE kind = ? AND key = ?", (one.kind, one.key))


def rows(db: sqlite3.Connection, path: Path, version: int) -> list[Aside]:
    """Return what is set aside, damaged ones first. Raises StoreDamaged for damage in this table.

    That is for a person: nothing else says any more what must not be touched.
    """
    if version < SINCE:
        return []
    found = db.execute(_ROWS).fetchall()
    if any(sum_of(*row[:-1]) != row[-1] for row in found):
        raise StoreDamaged(
            f"what {path} has set aside is damaged itself: restore a backup (tenured restore FILE)"
        )
    return [
        Aside(kind.decode(), key.decode(), root.decode(), why.decode(), bool(is_whole), body)
        for kind, key, _, body, _, root, why, is_whole, _ in found
    ]


def drop(db: sqlite3.Connection, root: str) -> None:
    """Forget what is set aside of a family, within the caller's transaction."""
    db.execute("DELETE FROM aside WHERE root = ?", (root,))
