"""Checksums of rows: SQLite finds a broken page, not a flipped bit in a text that is one still.

Each row of records, events and logs carries the CRC-32 of its other columns. It guards against
disks and memory, not against people: who may write the file may write the sum.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from tenure.model.aside import Damaged
from tenure.store.errors import StoreDamaged

#: What the schema's step calls to sum rows that were written before there were sums.
FUNCTION = "tenure_crc"
#: The schema that brought them.
SINCE = 3
#: Of damaged rows so many are named.
NAMED = 10
WRONG = "it is not what was written"

#: As bytes, whatever a flipped bit has made of them: text that is no UTF-8 cannot be fetched.
RECORDS = (
    "SELECT CAST(kind AS BLOB), CAST(key AS BLOB), v, CAST(body AS BLOB), {crc} FROM records "
    "ORDER BY kind, key"
)
EVENTS = (
    "SELECT seq, at_us, CAST(type AS BLOB), CAST(subject AS BLOB), CAST(body AS BLOB), crc "
    "FROM events"
)
_LOGS = "SELECT CAST(key AS BLOB), at_us, body, crc FROM logs"


def sum_of(*values: str | bytes | float | None) -> int:
    """Return the CRC-32 of a row's columns; a text and its bytes have the same."""
    found = 0
    for value in values:
        raw = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        found = crc32(raw, crc32(b"%d:" % len(raw), found))
    return found


def register(connection: sqlite3.Connection) -> None:
    """Let statements of a connection call ``FUNCTION``."""
    connection.create_function(FUNCTION, -1, sum_of, deterministic=True)


def records(
    db: sqlite3.Connection, version: int
) -> tuple[list[tuple[str, str, int, str]], list[Damaged]]:
    """Return kind, key, version and body of every whole record, and the damaged ones, by key."""
    has_sums = version >= SINCE
    whole, wrong = [], []
    for row in db.execute(RECORDS.format(crc="crc" if has_sums else "NULL")):
        kind, key, v, body, crc = row
        if has_sums and sum_of(*row[:-1]) != crc:
            wrong.append(Damaged(_shown(kind), _shown(key), bytes(body or b""), WRONG))
        else:
            whole.append((kind.decode(), key.decode(), v, body.decode()))
    return whole, wrong


def whole_records(
    db: sqlite3.Connection, path: Path, version: int
) -> list[tuple[str, str, int, str]]:
    """Return kind, key, version and body of every record, in order of keys.

    Raises StoreDamaged, naming them, where some are not what was written.
    """
    whole, wrong = records(db, version)
    require_none(path, "records", [f"{row.kind} {row.key}" for row in wrong])
    return whole


def require_whole_rest(db: sqlite3.Connection, path: Path) -> None:
    """Raise StoreDamaged where events or logs are not what was written, naming them."""
    for what, query in (("events", EVENTS), ("logs", _LOGS)):
        wrong = [row for row in db.execute(query) if sum_of(*row[:-1]) != row[-1]]
        require_none(path, what, [_shown(row[0]) for row in wrong])


def _shown(value: object) -> str:
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return text if text.isprintable() else repr(text)


def require_none(path: Path, what: str, wrong: Sequence[str]) -> None:
    """Raise StoreDamaged, naming the first of them, where rows are ``wrong``."""
    if wrong:
        more = f" and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        raise StoreDamaged(
            f"{len(wrong)} {what} of {path} are not what was written to it: "
            f"{', '.join(wrong[:NAMED])}{more}. The disk or memory of this machine is at fault: "
            "restore a backup (tenured restore FILE), which keeps the damaged files beside it"
        )
