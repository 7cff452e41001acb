"""Errors of the store.

StoreError                 503
├── StoreUnavailable       disk full, read-only, I/O error, busy: the same commit may be retried
├── StoreLocked            another daemon uses the same state directory
├── StoreMissing           there is no state to read
├── StoreDamaged           the file is not ours or not whole: needs a person
├── BackupDamaged          a backup that is not whole: needs another one
├── StoreTooNew            written by a later version of tenure
└── Unstorable             a record that would not read back equal: a defect of its writer
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.model.errors import TenureError

_DAMAGED = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_REMEDIES = {
    sqlite3.SQLITE_FULL: "make room on the disk; the write is retried",
    sqlite3.SQLITE_READONLY: "make the state directory writable; the write is retried",
    sqlite3.SQLITE_CANTOPEN: "check that the state directory exists and is writable",
    sqlite3.SQLITE_PERM: "check the permissions of the state directory",
    sqlite3.SQLITE_BUSY: "another program holds the database; the write is retried",
    sqlite3.SQLITE_LOCKED: "another program holds the database; the write is retried",
    sqlite3.SQLITE_IOERR: "check the disk and its free space; the write is retried",
}


class StoreError(TenureError):
    code = "store_error"
    http_status = 503


class StoreUnavailable(StoreError):
    code = "store_unavailable"
    retryable = True


class StoreLocked(StoreError):
    code = "store_locked"


class StoreDamaged(StoreError):
    code = "store_damaged"


class StoreMissing(StoreError):
    code = "store_missing"


class BackupDamaged(StoreError):
    code = "backup_damaged"


class StoreTooNew(StoreError):
    code = "store_too_new"


class Unstorable(StoreError):
    code = "unstorable"
    http_status = 500


def damaged(path: Path, why: str) -> StoreDamaged:
    """Return the error for a file that cannot be trusted, with what to do about it."""
    return StoreDamaged(
        f"the database {path} is damaged ({why}): restore a backup (tenured restore FILE), which "
        "keeps the damaged files beside it"
    )


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file is no database, or not a whole one."""
    return _code_of(error) in _DAMAGED


def _code_of(error: Exception) -> int:
    # the low byte is the primary code; the rest says which I/O call failed
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's and the system's errors into a StoreError, by their codes."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"cannot use the database {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise damaged(path, str(error)) from error
        remedy = _REMEDIES.get(_code_of(error))
        if remedy is None:
            raise StoreError(f"the database {path} refused a statement: {error}") from error
        raise StoreUnavailable(f"cannot use the database {path} ({error}): {remedy}") from error
