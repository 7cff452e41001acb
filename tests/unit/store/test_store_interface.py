"""The store's interface on a real file."""

import sqlite3
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from tenure.model.units import HOUR_US
from tenure.store import schema
from tenure.store.backup import Source, take
from tenure.store.errors import (
    StoreDamaged,
    StoreError,
    StoreLocked,
    StoreTooNew,
    StoreUnavailable,
    Unstorable,
)
from tenure.store.pruning import Bounds, Pruned
from tenure.store.store import MAX_LOG_BYTES, Store, StoredEvent

DAY_US = 24 * HOUR_US


@dataclass(frozen=True, slots=True)
class Thing:
    number: int
    words: tuple[str, ...] = ()


KINDS = {"things": Thing, "others": Thing}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "state" / "state.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = Store.open(path, KINDS, bounds=Bounds(events=50, logs_bytes=1000))
    yield store
    store.close()


def event(seq: int, *, at_us: int = 0, type_: str = "thing.made", **more: str) -> StoredEvent:
    return StoredEvent(seq, at_us or seq, type_, "thing", {"number": seq, **more})


def writer_of(store: Store) -> sqlite3.Connection:
    assert store._writer
    return store._writer


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_committed_is_there_after_a_restart(path: Path) -> None:
    store = Store.open(path, KINDS)
    assert store.load() == {"things": {}, "others": {}}
    store.commit({"things": {"b": Thing(2, ("x", "y")), "a": Thing(1)}}, [event(1), event(2)])
    store.commit({"things": {"a": None, "absent": None}, "others": {"a": Thing(3)}})
    store.close()
    store.close()
    again = Store.open(path, KINDS)
    assert again.load() == {"things": {"b": Thing(2, ("x", "y"))}, "others": {"a": Thing(3)}}
    assert again.events_after(0, 10) == [event(1), event(2)]
    again.close()


def test_files_and_folders_are_private(path: Path, store: Store) -> None:
    store.commit({"things": {"a": Thing(1)}})
    assert mode_of(path.parent) == mode_of(path.parent.parent) == 0o700
    for name in ("state.db", "state.db-wal", "state.db-shm", "state.db.lock"):
        assert mode_of(path.with_name(name)) == 0o600, name


def test_a_file_that_others_may_read_is_tightened(path: Path) -> None:
    Store.open(path, KINDS).close()
    path.chmod(0o644)
    Store.open(path, KINDS).close()
    assert mode_of(path) == 0o600


def test_every_commit_waits_for_the_disk(store: Store) -> None:
    pragmas = {name: writer_of(store).execute(f"PRAGMA {name}").fetchone()[0] for name in
               ("journal_mode", "synchronous")}  # fmt: skip
    assert pragmas == {"journal_mode": "wal", "synchronous": 2}


def test_a_second_store_in_the_same_process_is_refused(path: Path, store: Store) -> None:
    with pytest.raises(StoreLocked, match="in use by process"):
        Store.open(path, KINDS)


def test_a_record_that_cannot_be_stored_changes_nothing(store: Store) -> None:
    with pytest.raises(Unstorable):
        store.commit({"things": {"a": Thing(1), "b": cast("Thing", object())}}, [event(1)])
    with pytest.raises(Unstorable, match="Unicode"):
        store.commit({"things": {"a": Thing(1), "\ud800": Thing(2)}}, [event(1)])
    assert store.load()["things"] == {}
    assert store.last_seq() == 0
    store.commit({"things": {"a": Thing(1)}})


# events


def test_events_are_read_in_order_by_number_and_type(store: Store) -> None:
    kinds = ["job.done", "job.made", "node.on"]
    events = [event(n, type_=kinds[n % 3]) for n in range(1, 10)]
    store.commit({}, events)
    assert store.events_after(0, 100) == events
    assert store.events_after(4, 2) == events[4:6]
    assert store.events_after(0, 100, ["node.on"]) == [events[1], events[4], events[7]]
    assert store.events_after(0, 2, ["job.done", "job.made"]) == [events[0], events[2]]
    assert store.events_after(0, 100, []) == []
    assert store.events_after(9, 100) == []
    assert store.events_after(0, -1) == []
    assert (store.first_seq(), store.last_seq()) == (1, 9)


def test_a_commit_may_be_repeated_but_a_number_not_used_twice(store: Store) -> None:
    change = {"things": {"a": Thing(1)}}
    for _ in range(2):
        store.commit(change, [event(1), event(2)])
    with pytest.raises(StoreError, match="an event from 2 to 3 exists"):
        store.commit({"things": {"a": Thing(9)}}, [event(2, colour="red"), event(3)])
    assert store.load()["things"] == {"a": Thing(1)}
    assert store.events_after(0, 10) == [event(1), event(2)]


def test_old_events_go_and_the_newest_stays(store: Store) -> None:
    store.commit({}, [event(n, at_us=n * DAY_US) for n in range(1, 121)])
    assert store.prune(now_us=120 * DAY_US) == Pruned(events=89, logs=0)
    assert (store.first_seq(), store.last_seq()) == (90, 120)
    assert store.prune(now_us=500 * DAY_US) == Pruned(events=30, logs=0)
    assert (store.first_seq(), store.last_seq()) == (120, 120)
    assert store.prune(now_us=900 * DAY_US) == Pruned(0, 0)


def test_pruning_keeps_so_many_events_in_several_steps(store: Store) -> None:
    for start in range(1, 5001, 500):
        store.commit({}, [event(n) for n in range(start, start + 500)])
    assert store.prune(now_us=5001) == Pruned(events=4950, logs=0)
    assert (store.first_seq(), store.last_seq()) == (4951, 5000)


def test_pruning_an_empty_store_is_fine(store: Store) -> None:
    assert store.prune(now_us=DAY_US) == Pruned(0, 0)


# logs


def test_the_end_of_a_log_is_kept(store: Store) -> None:
    assert store.read_log("j/0/1") is None
    store.save_logs([("j/0/1", b"\xff\x00 first")], 1)
    store.save_logs([("j/0/1", b"x" + b"y" * MAX_LOG_BYTES)], 2)
    assert store.read_log("j/0/1") == b"y" * MAX_LOG_BYTES


def test_logs_go_by_age_then_by_size_oldest_first(store: Store) -> None:
    for n in range(30):
        store.save_logs([(f"k{n}", b"x" * 100)], n * HOUR_US)
    assert store.prune(now_us=30 * HOUR_US) == Pruned(events=0, logs=20)
    kept = [n for n in range(30) if store.read_log(f"k{n}") is not None]
    assert kept == list(range(20, 30))
    assert store.prune(now_us=30 * HOUR_US) == Pruned(0, 0)


@pytest.mark.parametrize("wrong", [{"events": 0}, {"logs_us": -1}])
def test_bounds_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="bound"):
        Bounds(**wrong)


# schema


def test_the_schema_moves_forward(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Store.open(path, KINDS)
    old.commit({"things": {"a": Thing(1)}}, [event(1)])
    old.close()
    newest = len(schema.STEPS)
    later = ("ALTER TABLE events ADD COLUMN colour TEXT", "UPDATE records SET body = "
             "json_set(body, '$.number', 7)", "UPDATE records SET crc = "
             "tenure_crc(kind, key, v, body)")  # fmt: skip
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, later))
    new = Store.open(path, KINDS)
    assert new.load()["things"] == {"a": Thing(7)}
    assert new.events_after(0, 10) == [event(1)]
    new.close()
    copied = path.with_name(f"state.db.v{newest}")
    assert mode_of(copied) == 0o600
    monkeypatch.undo()
    with pytest.raises(StoreTooNew, match=f"has schema {newest + 1}, this tenure knows {newest}"):
        Store.open(path, KINDS)
    copied.replace(path)
    back = Store.open(path, KINDS)
    assert back.load()["things"] == {"a": Thing(1)}
    back.close()


def test_a_step_that_fails_leaves_the_version_before_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(path, KINDS).close()
    broken = ("CREATE TABLE half (x)", "CREATE TABLE records (x)")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", (*schema.STEPS, broken))
        with pytest.raises(StoreError, match="already exists"):
            Store.open(path, KINDS)
    store = Store.open(path, KINDS)
    tables = store._reader.execute("SELECT name FROM sqlite_schema WHERE name = 'half'").fetchall()
    store.close()
    assert tables == []


def test_a_record_of_a_kind_that_is_gone_is_named(path: Path) -> None:
    store = Store.open(path, KINDS)
    store.commit({"others": {"a": Thing(1)}})
    store.close()
    store = Store.open(path, {"things": Thing})
    with pytest.raises(StoreTooNew, match="others 'a'"):
        store.load()
    store.close()


# damage


def test_another_programs_database_is_left_alone(path: Path) -> None:
    path.parent.mkdir(parents=True)
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match="another program"):
        Store.open(path, KINDS)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_with_a_remedy(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"once upon a time " * 500)
    for _ in range(2):  # the lock was given back: the same answer, not "in use"
        with pytest.raises(StoreDamaged, match="restore a backup"):
            Store.open(path, KINDS)


def test_a_broken_page_is_found_at_the_start(path: Path) -> None:
    store = Store.open(path, KINDS)
    store.commit({"things": {f"k{n}": Thing(n, ("word",) * 50) for n in range(2000)}})
    store.close()
    pages = path.read_bytes()
    middle = len(pages) // 2 // 4096 * 4096
    path.write_bytes(pages[:middle] + b"\xa5" * 8192 + pages[middle + 8192 :])
    with pytest.raises(StoreDamaged, match="is damaged"):
        Store.open(path, KINDS)


def test_a_path_that_cannot_be_made_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot use the database"):
        Store.open(tmp_path / "file" / "state.db", KINDS)


def test_a_write_behind_a_foreign_lock_fails_clean_and_may_be_repeated(
    path: Path, store: Store
) -> None:
    writer_of(store).execute("PRAGMA busy_timeout = 20")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable) as caught:
        store.commit({"things": {"a": Thing(1)}}, [event(1)])
    assert caught.value.retryable
    other.execute("ROLLBACK")
    other.close()
    store.commit({"things": {"a": Thing(1)}}, [event(1)])
    assert store.load()["things"] == {"a": Thing(1)}


# backup and threads


def test_readers_in_other_threads_see_whole_commits_only(
    store: Store, path: Path, tmp_path: Path
) -> None:
    errors: list[object] = []
    done = threading.Event()

    def read() -> None:
        seen = 0
        while not done.is_set():
            things = store.load()["things"]
            if len({thing.number for thing in things.values() if isinstance(thing, Thing)}) > 1:
                errors.append(things)
            events = store.events_after(seen, 1000)
            if [e.seq for e in events] != list(range(seen + 1, seen + 1 + len(events))):
                errors.append(events)
            seen = store.last_seq()

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(1, 101):
        store.commit({"things": dict.fromkeys("abc", Thing(number))}, [event(number)])
        store.save_logs([(f"k{number}", b"x")], number)
        if number % 25 == 0:
            take(Source(path.parent, path), tmp_path / "backup", KINDS, stamp=("1", 1))
    done.set()
    for reader in readers:
        reader.join(timeout=60)
    assert errors == []
    assert store.load()["things"] == dict.fromkeys("abc", Thing(100))
