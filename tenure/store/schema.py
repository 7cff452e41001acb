"""The schema of the database as numbered steps; ``user_version`` counts the steps taken.

Step n brings a file from version n-1 to n and is never changed once released: a new need is a new
step at the end. The JSON of single records has a version of its own (``codec.py``). A step that
changes rows sums them again (``sums.py``).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from tenure import __version__
from tenure.store import sums
from tenure.store.errors import StoreTooNew, damaged

#: Marks the file as ours ("tenu"), so that no foreign database is ever written to.
APPLICATION_ID = 0x74656E75

Step = tuple[str, ...]

#: Kinds of records whose name is another since a version.
RENAMED_BY = 3
RENAMED = {"graves": "tombstones", "bookings": "reservations"}

STEPS: tuple[Step, ...] = (
    (
        """CREATE TABLE records (
               kind TEXT NOT NULL, key TEXT NOT NULL, v INTEGER NOT NULL, body TEXT NOT NULL,
               PRIMARY KEY (kind, key)
           ) WITHOUT ROWID""",
        """CREATE TABLE events (
               seq INTEGER PRIMARY KEY, at_us INTEGER NOT NULL,
               type TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL
           )""",
        # with a rowid: bodies are large, and ages and sizes are read without touching them
        "CREATE TABLE logs (key TEXT PRIMARY KEY, at_us INTEGER NOT NULL, body BLOB NOT NULL)",
        "CREATE INDEX logs_by_age ON logs (at_us)",
    ),
    # what became of this file: which version made it, brought it forward, restored it
    ("CREATE TABLE history (at_us INTEGER NOT NULL, what TEXT NOT NULL, detail TEXT NOT NULL)",),
    # kinds by the names that they have now; then what each row is to be (``sums.py``): those that
    # are there are taken as they are
    (
        *(
            f"UPDATE records SET kind = '{new}' WHERE kind = '{old}'"
            for old, new in RENAMED.items()
        ),
        "ALTER TABLE records ADD COLUMN crc INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE events ADD COLUMN crc INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE logs ADD COLUMN crc INTEGER NOT NULL DEFAULT 0",
        "UPDATE records SET crc = tenure_crc(kind, key, v, body)",
        "UPDATE events SET crc = tenure_crc(seq, at_us, type, subject, body)",
        "UPDATE logs SET crc = tenure_crc(key, at_us, body)",
    ),
    # nothing of what is there: a dataset's files may say where their blocks end since, and a
    # version that does not know it would cut them evenly
    (),
    # damaged records and what goes with them, as bytes (``aside.py``); ``seal`` sums the rest
    (
        """CREATE TABLE aside (
               kind TEXT NOT NULL, key TEXT NOT NULL, v, body BLOB, crc,
               root TEXT NOT NULL, why TEXT NOT NULL, is_whole INTEGER NOT NULL,
               seal INTEGER NOT NULL, PRIMARY KEY (kind, key)
           ) WITHOUT ROWID""",
    ),
    # nothing of what is there: containers may be of replicated services since, and a version that
    # does not know these would keep neither their number nor their updates
    (),
)
#: The step that makes the table ``history``.
_HISTORY = 2


def version_of(connection: sqlite3.Connection) -> int:
    """Return how many steps the file has taken; 0 means it is new."""
    row = connection.execute("PRAGMA user_version").fetchone()
    return int(row[0])


def tables_of(connection: sqlite3.Connection) -> int:
    """Return how many tables and indexes the file has."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return int(tables)


def kind_now(kind: str, version: int) -> str:
    """Return the name that a kind of record has now, of a file of this version."""
    return RENAMED.get(kind, kind) if version < RENAMED_BY else kind


def check(connection: sqlite3.Connection, path: Path, steps: Sequence[Step] = STEPS) -> int:
    """Return the file's version; raise StoreDamaged if it is not ours, StoreTooNew if later."""
    version = version_of(connection)
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    is_new = version == 0 and tables_of(connection) == 0
    if not is_new and application != APPLICATION_ID:
        raise damaged(path, "it is the database of another program")
    if version > len(steps):
        raise StoreTooNew(
            f"the database {path} has schema {version}, this tenure knows {len(steps)}: "
            "start the version of tenure that wrote it, or put an older backup in its place"
        )
    return version


def migrate(connection: sqlite3.Connection, steps: Sequence[Step] = STEPS) -> None:
    """Take every step that is missing, each in a transaction of its own."""
    begun = version_of(connection)
    sums.register(connection)
    for number in range(begun, len(steps)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in steps[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number + 1}")
            if number + 1 == max(len(steps), _HISTORY):
                what = "upgraded" if begun else "made"
                note(connection, what, f"schema {begun} to {len(steps)}, tenure {__version__}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def note(connection: sqlite3.Connection, what: str, detail: str) -> None:
    """Write an entry into the file's history, within the caller's transaction."""
    row = (time.time_ns() // 1000, what, detail)
    connection.execute("INSERT INTO history (at_us, what, detail) VALUES (?, ?, ?)", row)


def history(connection: sqlite3.Connection) -> list[tuple[int, str, str]]:
    """Return the file's history, oldest first; empty for a file from before there was one."""
    if version_of(connection) < _HISTORY:
        return []
    return connection.execute("SELECT at_us, what, detail FROM history ORDER BY rowid").fetchall()
