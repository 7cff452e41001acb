"""The store: one writing connection, one reading connection, every commit durable.

Any thread may call any method. Writers (``commit``, ``save_logs``, ``prune``) take turns; readers
use a connection of their own and see the last commit without waiting for one under way. A failed
``commit`` has changed nothing and may be repeated as it is.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from tenure.model.aside import Aside, Damaged
from tenure.model.units import MIB
from tenure.store import aside, schema, sums
from tenure.store.codec import Codec, Upgrades, encode_event
from tenure.store.connection import (
    connect_reader,
    connect_writer,
    copy,
    create_private,
    require_whole,
)
from tenure.store.errors import StoreDamaged, StoreError, Unstorable, translated
from tenure.store.lock import DirectoryLock
from tenure.store.pruning import Bounds, Pruned, prune_events, prune_logs
from tenure.store.statements import APPEND, DELETE, UPSERT, execute
from tenure.store.sums import EVENTS, sum_of, whole_records
from tenure.store.wal import require_whole_log

T = TypeVar("T")
#: A kept log is the end of what a container wrote, at most this.
MAX_LOG_BYTES = MIB
#: The most events one call returns.
MAX_EVENTS_READ = 10_000

#: What the history calls a file that was put back from a backup.
RESTORED = "restored"

# checked at every start; logs may be large, and losing one loses no job
_VITAL_TABLES = ("records", "events")

_SAVE_LOG = """INSERT INTO logs (key, at_us, body, crc) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE
    SET at_us = excluded.at_us, body = excluded.body, crc = excluded.crc"""


#: What is to be set aside for damaged records beside whole ones, and which cannot be.
Spread = Callable[
    [Sequence[Damaged], Mapping[str, Mapping[str, object]]], tuple[list[Aside], list[str]]
]


def _refuse_all(wrong: Sequence[Damaged], _: object) -> tuple[list[Aside], list[str]]:
    return [], [f"{row.kind} {row.key}" for row in wrong]


class PublicEventLike(Protocol):
    """What the store keeps of a public event; ``data`` is JSON data."""

    @property
    def seq(self) -> int: ...
    @property
    def at_us(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def data(self) -> Mapping[str, object]: ...


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A public event read back; the fields are those of ``PublicEventLike``."""

    seq: int
    at_us: int
    type: str
    subject: str
    data: dict[str, object]


class Store:
    """The daemon's durable state. Made by ``open``; ``close`` gives the directory up."""

    def __init__(self, path: Path, codec: Codec, bounds: Bounds, lock: DirectoryLock) -> None:
        self._path = path
        self._codec = codec
        self._bounds = bounds
        self._lock_file = lock
        self._write_lock = threading.Lock()
        self._read_lock, self._browse_lock = threading.Lock(), threading.Lock()
        self._writer: sqlite3.Connection | None = connect_writer(path)
        self._reader = connect_reader(path)
        # for what takes long and is asked for in threads: what is quick must not wait for it
        self._browser = connect_reader(path)

    @classmethod
    def open(
        cls,
        path: Path,
        kinds: Mapping[str, object],
        *,
        bounds: Bounds | None = None,
        upgrades: Upgrades | None = None,
    ) -> Store:
        """Open or create the database at ``path`` and take its directory for this process.

        ``kinds`` maps each kind of record to its type. Missing folders are made with mode 0700. An
        older schema is brought forward after a copy was put beside it as ``<name>.v<version>``.
        Raises StoreLocked, StoreTooNew, StoreDamaged or StoreUnavailable.
        """
        with translated(path):
            create_private(path)
        lock = DirectoryLock(path.with_name(path.name + ".lock"))
        try:
            with translated(path):
                _prepare(path)
                return cls(path, Codec(kinds, upgrades), bounds or Bounds(), lock)
        except BaseException:
            lock.release()
            raise

    def load(self, spread: Spread = _refuse_all) -> dict[str, dict[str, object]]:
        """Return every record by kind and key, keys in ascending order, for all kinds.

        ``spread`` says of damaged records what is to be set aside for them, and which ones cannot
        be: what it returns first is moved out of the records before they are returned. Raises
        StoreDamaged, naming them, for those that cannot be set aside; StoreTooNew for one of a
        later version of tenure.
        """
        found: dict[str, dict[str, object]] = {kind: {} for kind in self._codec.kinds}
        with self._reading() as db:
            rows, wrong = sums.records(db, sums.SINCE)
        for kind, key, version, body in rows:
            try:
                found[kind][key] = self._codec.decode(kind, key, version, body)
            except StoreDamaged as error:
                wrong.append(Damaged(kind, key, body.encode(), error.detail))
        if wrong:
            gone, refused = spread(wrong, found)
            sums.require_none(self._path, "records", refused)
            with self._writing() as db:
                aside.put(db, gone)
            for one in gone:
                found[one.kind].pop(one.key, None)
        return found

    def set_aside(self) -> list[Aside]:
        """Return what is set aside, damaged records first. Raises StoreDamaged."""
        with self._reading() as db:
            return aside.rows(db, self._path, aside.SINCE)

    def resolve(self, root: str, records: Mapping[str, Mapping[str, object | None]]) -> None:
        """Forget what is set aside of a family, and put ``records`` in its place."""
        puts, drops = self._encoded(records)
        with self._writing() as db:
            aside.drop(db, root)
            execute(db, DELETE, drops)
            execute(db, UPSERT, puts)

    def commit(
        self,
        records: Mapping[str, Mapping[str, object | None]],
        events: Sequence[PublicEventLike] = (),
    ) -> None:
        """Write changed records (None: removed) and new events in one durable transaction.

        Returns only once it is on the disk. On StoreUnavailable nothing has changed and the same
        call may be repeated, also after one that did succeed. Raises Unstorable for a record that
        would not read back equal and StoreError for an event number that was used before.
        """
        puts, drops = self._encoded(records)
        told = [(e.seq, e.at_us, e.type, e.subject, encode_event(e.data, e.seq)) for e in events]
        rows = [(*row, sum_of(*row)) for row in told]
        with self._writing() as db:
            execute(db, DELETE, drops)
            execute(db, UPSERT, puts)
            if execute(db, APPEND, rows) != len(rows):
                raise StoreError(
                    f"an event from {rows[0][0]} to {rows[-1][0]} exists with another content"
                )

    def _encoded(
        self, records: Mapping[str, Mapping[str, object | None]]
    ) -> tuple[list[tuple[str, str, int, str, int]], list[tuple[str, str]]]:
        puts, drops = [], []
        for kind, rows in records.items():
            version = self._codec.version(kind)
            for key, record in rows.items():
                if record is None:
                    drops.append((kind, key))
                else:
                    row = (kind, key, version, self._codec.encode(kind, key, record))
                    puts.append((*row, sum_of(*row)))
        return puts, drops

    # events

    def events_after(
        self, seq: int, limit: int, types: Sequence[str] | None = None
    ) -> list[StoredEvent]:
        """Return at most ``limit`` (and MAX_EVENTS_READ) events numbered above ``seq``, in order.

        ``types`` None means all. A first result above ``seq + 1`` without ``types`` is a gap: the
        events between were pruned.
        """
        marks = ", ".join("?" * len(types)) if types is not None else ""
        only = f"AND type IN ({marks})" if types is not None else ""
        query = f"{EVENTS} WHERE seq > ? {only}"
        values = (seq, *(types or ()), max(0, min(limit, MAX_EVENTS_READ)))
        with self._browsing() as db:
            rows = db.execute(f"{query} ORDER BY seq LIMIT ?", values).fetchall()
        return [_event_of(row) for row in rows]

    def first_seq(self) -> int:
        """Return the number of the oldest event kept, 0 if there is none."""
        return self._one("SELECT min(seq) FROM events")

    def last_seq(self) -> int:
        """Return the number of the newest event, 0 if there was none; pruning keeps it."""
        return self._one("SELECT max(seq) FROM events")

    # logs

    def save_logs(self, logs: Sequence[tuple[str, bytes]], at_us: int) -> None:
        """Keep the last MAX_LOG_BYTES of each log under its key, all in one transaction."""
        with self._writing() as db:
            for key, body in logs:
                kept = body[-MAX_LOG_BYTES:]
                db.execute(_SAVE_LOG, (key, at_us, kept, sum_of(key, at_us, kept)))

    def read_log(self, key: str) -> bytes | None:
        """Return a kept log, None if there is none (any more). Raises StoreDamaged."""
        with self._browsing() as db:
            query = "SELECT at_us, body, crc FROM logs WHERE key = ?"
            row = db.execute(query, (key,)).fetchone()
        if row is not None and sum_of(key, *row[:-1]) != row[-1]:
            raise StoreDamaged(f"the kept log {key} is not what was written: it is lost")
        return None if row is None else bytes(row[1])

    # upkeep

    def prune(self, now_us: int) -> Pruned:
        """Remove events and logs beyond the bounds, in steps between which commits go ahead."""
        events = logs = 0
        while step := self._in_write(lambda db: prune_events(db, self._bounds, now_us)):
            events += step
        while step := self._in_write(lambda db: prune_logs(db, self._bounds, now_us)):
            logs += step
        return Pruned(events, logs)

    def begin_anew(self, records: Mapping[str, Mapping[str, object | None]], origin: str) -> None:
        """Take a restored copy into use: change ``records`` and forget every event.

        Numbering goes on elsewhere, and readers of events are told of the gap only where the
        events before it are gone. ``origin`` is noted in the file's history.
        """
        puts, drops = self._encoded(records)
        with self._writing() as db:
            execute(db, DELETE, drops)
            execute(db, UPSERT, puts)
            db.execute("DELETE FROM events")
            schema.note(db, RESTORED, origin)

    def notes(self, what: str) -> set[str]:
        """Return what the file's history says of ``what`` since it was restored last."""
        with self._reading() as db:
            entries = schema.history(db)
        marks = [n for n, entry in enumerate(entries) if entry[1] == RESTORED]
        begin = marks[-1] + 1 if marks else 0
        return {detail for _, name, detail in entries[begin:] if name == what}

    def note(self, what: str, detail: str) -> None:
        """Write an entry into the file's history. Raises StoreUnavailable."""
        self._in_write(lambda db: schema.note(db, what, detail))

    def close(self) -> None:
        """Fold the write-ahead log into the file and give the directory up; twice is a no-op."""
        with self._write_lock, self._read_lock, self._browse_lock:
            self._reader.close()
            self._browser.close()
            if self._writer is not None:
                with suppress(sqlite3.Error):  # a full disk: it is folded in at the next start
                    self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._writer.close()
            self._lock_file.release()

    def _one(self, query: str) -> int:
        with self._reading() as db:
            row = db.execute(query).fetchone()
        return int(row[0] or 0)

    def _in_write(self, step: Callable[[sqlite3.Connection], T]) -> T:
        with self._writing() as db:
            return step(db)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._read_lock, translated(self._path):
            yield self._reader

    @contextmanager
    def _browsing(self) -> Iterator[sqlite3.Connection]:
        with self._browse_lock, translated(self._path):
            yield self._browser

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Run the body as one transaction: committed at its end, undone by any error."""
        with self._write_lock, translated(self._path):
            db = self._writer = self._writer or connect_writer(self._path)
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            except UnicodeEncodeError as error:
                self._undo(db)
                raise Unstorable(f"text that is not valid Unicode: {error}") from error
            except BaseException:
                self._undo(db)
                raise

    def _undo(self, db: sqlite3.Connection) -> None:
        """Leave no transaction open, whatever state the error left the connection in."""
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except sqlite3.Error:
            db.close()  # this undoes it too; the next write connects anew
            self._writer = None


def _event_of(row: tuple[int, int, bytes, bytes, bytes, int]) -> StoredEvent:
    """Return a stored event; of a damaged one the number, for readers are told of gaps."""
    seq, at_us, word, subject, body, crc = row
    if sum_of(*row[:-1]) != crc:
        return StoredEvent(seq, 0, "event.damaged", "", {})
    return StoredEvent(seq, at_us, word.decode(), subject.decode(), json.loads(body))


def _prepare(path: Path) -> None:
    """Check the file, copy it if its schema is old, and bring it to the newest schema."""
    require_whole_log(path)
    with closing(connect_reader(path)) as reader:
        version = schema.check(reader, path, schema.STEPS)
        require_whole(reader, path, _VITAL_TABLES if version else ())
        if sums.SINCE <= version < len(schema.STEPS):
            # before a step writes sums of its own: a flipped bit must not become what is right
            list(whole_records(reader, path, version))
            sums.require_whole_rest(reader, path)
        if 0 < version < len(schema.STEPS):
            copy(reader, path.with_name(f"{path.name}.v{version}"))
    with closing(connect_writer(path)) as writer:
        schema.migrate(writer, schema.STEPS)
