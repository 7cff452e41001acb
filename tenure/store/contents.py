"""Look into a database without changing it: is it whole, what does it hold, can it be read back."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tenure.model.aside import Aside
from tenure.store import aside, schema
from tenure.store.codec import Codec, Upgrades
from tenure.store.connection import connect_reader
from tenure.store.errors import StoreMissing, damaged, translated
from tenure.store.sums import SINCE, require_whole_rest, whole_records


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of a database's history: made, brought to a newer schema, or restored."""

    at_us: int
    what: str
    detail: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What a database holds: ``counts`` of records by kind, the numbers of its events.

    ``first_seq`` and ``last_seq`` are 0 where it holds no event; ``aside`` is what is set aside.
    """

    schema: int
    counts: dict[str, int]
    first_seq: int
    last_seq: int
    logs: int
    size_bytes: int
    history: tuple[Step, ...]
    records: dict[str, dict[str, object]] = field(repr=False)
    aside: tuple[Aside, ...] = ()


def inspect(
    path: Path, kinds: Mapping[str, object], *, upgrades: Upgrades | None = None
) -> Contents:
    """Check every page and read every record of a database; O(its size).

    Nothing is changed, and a daemon may be writing meanwhile. Raises StoreMissing, StoreDamaged,
    StoreTooNew or StoreUnavailable.
    """
    if not path.is_file():
        raise StoreMissing(f"there is no database {path}; is state_dir the right one?")
    codec = Codec(kinds, upgrades)
    with translated(path), closing(connect_reader(path)) as db:
        db.execute("BEGIN")  # one moment for everything that follows
        version = schema.check(db, path)
        if version == 0:
            raise StoreMissing(f"the database {path} is empty")
        _require_whole(db, path)
        return _contents(db, path, codec, version)


def is_blank(path: Path) -> bool:
    """Whether there is no database at a path, or one that nothing was ever written to.

    What is no database is not blank: it is for who opens it to say what it is.
    """
    if not path.exists() or (path.is_file() and path.stat().st_size == 0):
        return True
    try:
        with closing(connect_reader(path)) as db:
            return schema.version_of(db) == 0 and not schema.tables_of(db)
    except sqlite3.Error:
        return False


def _require_whole(db: sqlite3.Connection, path: Path) -> None:
    (verdict,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        raise damaged(path, str(verdict))


def _contents(db: sqlite3.Connection, path: Path, codec: Codec, version: int) -> Contents:
    records: dict[str, dict[str, object]] = {kind: {} for kind in codec.kinds}
    for old, key, v, body in whole_records(db, path, version):
        kind = schema.kind_now(old, version)
        record = codec.decode(kind, key, v, body)
        records[kind][key] = record
    if version >= SINCE:
        require_whole_rest(db, path)
    first, last = db.execute("SELECT min(seq), max(seq) FROM events").fetchone()
    (logs,) = db.execute("SELECT count(*) FROM logs").fetchone()
    return Contents(
        schema=version,
        counts={kind: len(rows) for kind, rows in records.items()},
        first_seq=first or 0,
        last_seq=last or 0,
        logs=logs,
        size_bytes=path.stat().st_size,
        history=tuple(Step(*row) for row in schema.history(db)),
        records=records,
        aside=tuple(aside.rows(db, path, version)),
    )
