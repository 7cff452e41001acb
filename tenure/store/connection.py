"""Connections to the one database file: created private, durable, checked."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from tenure.store.errors import damaged

#: How long a statement waits for another program (a backup by hand), in milliseconds.
_BUSY_MS = 5_000
#: The write-ahead log is cut back to this after a burst.
_WAL_BYTES = 64 << 20


def create_private(path: Path) -> None:
    """Create missing folders with mode 0700 and the file with 0600; tighten an existing file."""
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, 0o600)
    finally:
        os.close(fd)


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open the connection that writes: WAL, every commit on the disk before it returns."""
    connection = _connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that refuses to write; it never waits for the writer, nor it for this."""
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def require_whole(connection: sqlite3.Connection, path: Path, tables: Sequence[str]) -> None:
    """Raise StoreDamaged unless ``tables`` are structurally sound; O(their size)."""
    for table in tables:
        (verdict,) = connection.execute(f"PRAGMA quick_check({table})").fetchone()
        if verdict != "ok":
            raise damaged(path, f"{table}: {verdict}")


def copy(source: sqlite3.Connection, target: Path) -> None:
    """Copy the database as of one moment to ``target`` (mode 0600), all of it or nothing."""
    partial = target.with_name(target.name + ".partial")
    partial.unlink(missing_ok=True)
    create_private(partial)
    into = sqlite3.connect(partial, isolation_level=None)
    try:
        source.backup(into)
        # one file: a copy that is carried elsewhere must not need a -wal beside it
        into.execute("PRAGMA journal_mode = DELETE")
    finally:
        into.close()
    os.replace(partial, target)
    fd = os.open(target.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _connect(path: Path) -> sqlite3.Connection:
    # calls come from several threads, one at a time under the store's locks
    connection = sqlite3.connect(
        path, timeout=_BUSY_MS / 1000, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection
