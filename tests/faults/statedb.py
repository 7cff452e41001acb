"""The daemon's durable state, read from its database beside it: where it is at any moment."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass
class Delta:
    """What is new since the last look: ``steps`` maps each step entered to the nodes concerned."""

    steps: dict[str, list[str]] = field(default_factory=dict)

    def add(self, step: str, *nodes: str) -> None:
        """Note that something entered a step."""
        self.steps.setdefault(step, []).extend(node for node in nodes if node)


class Watch:
    """Looks at the database in a tight loop; ``look`` costs 10 us while nothing was committed."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
        self._version = -1
        self._seq = self._last_seq()
        self._executors: dict[str, str] = {}
        self._tombstones: set[str] = set()
        self._records(Delta())

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()

    def look(self) -> Delta:
        """Return what was committed since the last look."""
        delta = Delta()
        version = self._db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            self._version = version
            self._events(delta)
            self._records(delta)
        return delta

    def _last_seq(self) -> int:
        return int(self._db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])

    def _events(self, delta: Delta) -> None:
        query = "SELECT seq, type, subject, body FROM events WHERE seq > ? ORDER BY seq"
        for seq, type_, subject, body in self._db.execute(query, (self._seq,)):
            self._seq = seq
            data = json.loads(body)
            if type_.startswith("migration."):
                at_source = type_.endswith(("disarm", "stop", "undo_source", "undo_arm", "sweep"))
                delta.add(type_, data["source" if at_source else "target"])
            elif type_.startswith("node."):
                delta.add(type_, subject)
            else:
                delta.add(type_, data.get("node", ""))

    def _records(self, delta: Delta) -> None:
        states: dict[str, str] = {}
        for key, row in _rows(self._db, "executors"):
            states[key] = f"{row['state']} {row['attempt']}"
            if self._executors.get(key) != states[key]:
                delta.add(f"executor.{row['state']}", row["node"])
        self._executors = states
        tombstones = {key: row["node"] for key, row in _rows(self._db, "tombstones")}
        for key in tombstones.keys() - self._tombstones:
            delta.add("grave.open", tombstones[key])
        self._tombstones = set(tombstones)


def _rows(db: sqlite3.Connection, kind: str) -> Iterator[tuple[str, Json]]:
    for key, body in db.execute("SELECT key, body FROM records WHERE kind = ?", (kind,)):
        yield key, json.loads(body)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database to read."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        yield db


def records(path: Path, kind: str) -> dict[str, Json]:
    """Return all records of a kind as stored."""
    with opened(path) as db:
        return dict(_rows(db, kind))


def events(path: Path, *, after: int = 0) -> list[Json]:
    """Return all public events as stored, or those numbered above ``after``."""
    query = "SELECT seq, at_us, type, subject, body FROM events WHERE seq > ? ORDER BY seq"
    with opened(path) as db:
        rows = db.execute(query, (after,))
        keys = ("seq", "at_us", "type", "subject")
        return [dict(zip(keys, row[:4], strict=True)) | json.loads(row[4]) for row in rows]


def standing(path: Path) -> set[str]:
    """Return the steps that something is in according to the state on the disk."""
    found = {f"executor.{row['state']}" for row in records(path, "executors").values()}
    found |= {f"migration.{row['step']}" for row in records(path, "migrations").values()}
    found |= {f"run.{row['state']}" for row in records(path, "runs").values()}
    found |= {f"job.{row['state']}" for row in records(path, "jobs").values()}
    found |= {f"node.{row['power']}" for row in records(path, "nodes").values()}
    return found | ({"grave.open"} if records(path, "tombstones") else set())
