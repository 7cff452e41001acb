"""What is kept for how long, and the removal of the rest in small steps."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from tenure.model.units import HOUR_US, MIB

#: Rows per transaction: about a millisecond, so that no commit waits long behind a pruning step.
_EVENTS_PER_STEP = 1_000
_LOGS_PER_STEP = 16


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many events and logs are kept, and how long: whichever bound is reached first.

    ``events`` newest events and none older than ``events_us``; ``logs_bytes`` over all logs and
    none older than ``logs_us``. The newest event always stays: it tells where numbering goes on.
    """

    events: int = 100_000
    events_us: int = 30 * 24 * HOUR_US
    logs_us: int = 24 * HOUR_US
    logs_bytes: int = 256 * MIB

    def __post_init__(self) -> None:
        if self.events < 1 or min(self.events_us, self.logs_us, self.logs_bytes) < 0:
            raise ValueError("at least one event must be kept, and no bound be negative")


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many events and logs one pruning removed."""

    events: int
    logs: int


def prune_events(db: sqlite3.Connection, bounds: Bounds, now_us: int) -> int:
    """Remove the oldest events beyond the bounds, one step; return how many, 0 at the end."""
    (last,) = db.execute("SELECT max(seq) FROM events").fetchone()
    if last is None:
        return 0
    oldest = "SELECT seq, at_us FROM events ORDER BY seq LIMIT ?"
    doomed = f"SELECT seq FROM ({oldest}) WHERE seq <= ? OR (at_us < ? AND seq < ?)"
    values = (_EVENTS_PER_STEP, last - bounds.events, now_us - bounds.events_us, last)
    return db.execute(f"DELETE FROM events WHERE seq IN ({doomed})", values).rowcount


def prune_logs(db: sqlite3.Connection, bounds: Bounds, now_us: int) -> int:
    """Remove the oldest logs beyond the bounds, one step; return how many, 0 at the end."""
    # length() of a blob is in the row's head: no log is read for this sum
    (size,) = db.execute("SELECT coalesce(sum(length(body)), 0) FROM logs").fetchone()
    doomed = []
    oldest = "SELECT key, at_us, length(body) FROM logs ORDER BY at_us, key LIMIT ?"
    for key, at_us, length in db.execute(oldest, (_LOGS_PER_STEP,)):
        if at_us >= now_us - bounds.logs_us and size <= bounds.logs_bytes:
            break
        doomed.append((key,))
        size -= length
    db.executemany("DELETE FROM logs WHERE key = ?", doomed)
    return len(doomed)
