"""Backup and restore on real files: whole or refused, all or nothing, whenever it is cut off.

The file is also the program of the process that is killed amid a restore.
"""

import io
import json
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenure.store import schema
from tenure.store.archive import MANIFEST, unpack
from tenure.store.backup import Source, look, put_back, take
from tenure.store.connection import connect_writer, create_private
from tenure.store.contents import inspect
from tenure.store.errors import (
    BackupDamaged,
    StoreDamaged,
    StoreError,
    StoreLocked,
    StoreMissing,
    StoreTooNew,
    StoreUnavailable,
)
from tenure.store.store import Store, StoredEvent
from testbed import bounded
from tests.unit.store import test_store_crash as crash

ROOT = Path(__file__).parents[3]
STAMP = ("9.9", 1_700_000_000_000_000)


@dataclass(frozen=True, slots=True)
class Thing:
    number: int


KINDS = {"things": Thing}


def source_of(folder: Path) -> Source:
    return Source(folder, folder / "token", (folder.parent / "tenured.yml",))


def fill(folder: Path, number: int) -> Source:
    """Make a state folder whose every file says ``number``."""
    store = Store.open(folder / "state.db", KINDS)
    event = StoredEvent(number, number, "thing.made", "a", {"number": number})
    store.commit({"things": {"a": Thing(number)}}, [event])
    store.save_logs([("log", b"kept")], 1)
    store.close()
    for name in ("stats.db", "uses.db"):
        with closing(connect_writer(folder / name)) as db:
            db.execute("CREATE TABLE IF NOT EXISTS n (n)")
            db.execute("INSERT INTO n VALUES (?)", (number,))
    (folder / "token").write_text(f"token-{number}")
    (folder.parent / "tenured.yml").write_text(f"# {number}")
    return source_of(folder)


def mark(records: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {"things": {"mark": Thing(-1)}}


def number_of(folder: Path) -> int:
    """Return what a state folder says; every file must say the same."""
    thing = inspect(folder / "state.db", KINDS).records["things"]["a"]
    assert isinstance(thing, Thing)
    return thing.number


def others_of(folder: Path) -> tuple[int, str]:
    numbers = []
    for name in ("stats.db", "uses.db"):
        with closing(sqlite3.connect(folder / name)) as db:
            numbers += db.execute("SELECT max(n) FROM n").fetchone()
    assert numbers[0] == numbers[1]
    return numbers[0], (folder / "token").read_text()


def listing(folder: Path) -> dict[str, bytes]:
    ignored = ("state.db-wal", "state.db-shm", "state.db.lock")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ignored
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def backup(tmp_path: Path, folder: Path) -> Path:
    """A backup that says 1, of a folder that says 2 by now."""
    target = tmp_path / "backup"
    take(fill(folder, 1), target, KINDS, stamp=STAMP)
    fill(folder, 2)
    return target


def restored(backup: Path, folder: Path) -> Any:
    return put_back(backup, source_of(folder), KINDS, mark=mark, stamp=STAMP)


def test_a_backup_is_one_private_file_that_tar_opens(backup: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "state", "tenured.yml"]
    with tarfile.open(backup) as tar:
        names = tar.getnames()
    rest = ["configuration/tenured.yml", "state.db", "stats.db", "token", "uses.db"]
    assert names == [MANIFEST, *rest]
    manifest, contents = look(backup, KINDS)
    assert (manifest.tenure, manifest.created_us) == STAMP
    assert manifest.records == contents.counts == {"things": 1}
    assert (contents.first_seq, contents.last_seq, contents.logs) == (1, 1, 1)


def test_a_restore_replaces_everything_and_keeps_what_was(backup: Path, folder: Path) -> None:
    done = restored(backup, folder)
    assert number_of(folder) == 1
    assert others_of(folder) == (1, "token-1")
    assert (folder.parent / "tenured.yml").read_text() == "# 2", "the configuration is yours"
    assert done.aside == folder / f"before-restore-{STAMP[1]}"
    assert number_of(done.aside) == 2
    assert others_of(done.aside) == (2, "token-2")
    store = Store.open(folder / "state.db", KINDS)
    assert store.load()["things"] == {"a": Thing(1), "mark": Thing(-1)}
    assert (store.first_seq(), store.read_log("log")) == (0, b"kept")
    store.close()
    words = [step.what for step in inspect(folder / "state.db", KINDS).history]
    assert words == ["made", "restored"]


def test_a_restore_onto_a_new_machine(backup: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "deep" / "new"
    assert restored(backup, fresh).aside is None
    assert number_of(fresh) == 1
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away: needs root")
def test_what_root_restores_belongs_to_the_daemons_user(backup: Path, folder: Path) -> None:
    os.chown(folder, 10001, 10001)
    restored(backup, folder)
    names = ("state.db", "state.db.lock", "stats.db", "token", f"before-restore-{STAMP[1]}")
    assert {(folder / name).stat().st_uid for name in names} == {10001}


def test_a_database_that_the_backup_lacks_keeps_its_write_ahead_log(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    source = fill(folder, 1)
    for name in ("influx.db", "influx.db-wal", "influx.db-shm"):
        (folder / name).unlink(missing_ok=True)
    take(source, tmp_path / "without", KINDS, stamp=STAMP)
    spool = folder / "influx.db"
    with closing(sqlite3.connect(spool, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE waiting (sample)")
        db.execute("INSERT INTO waiting VALUES (7)")
        # as a kill leaves it: not folded in
        killed = {path: path.read_bytes() for path in folder.glob("influx.db*")}
    for path, content in killed.items():
        path.write_bytes(content)
    put_back(tmp_path / "without", source, KINDS, mark=lambda _: {}, stamp=STAMP)
    with closing(sqlite3.connect(spool)) as db:
        assert db.execute("SELECT sample FROM waiting").fetchall() == [(7,)]


def test_a_restore_while_the_folder_is_in_use_changes_nothing(backup: Path, folder: Path) -> None:
    daemon = Store.open(folder / "state.db", KINDS)
    before = listing(folder)
    with pytest.raises(StoreLocked, match=f"in use by process {os.getpid()}; stop it first"):
        restored(backup, folder)
    assert listing(folder) == before
    daemon.close()
    restored(backup, folder)
    assert number_of(folder) == 1


def test_a_damaged_state_is_replaced_and_kept(backup: Path, folder: Path) -> None:
    damaged = b"not a database" * 100
    (folder / "state.db").write_bytes(damaged)
    with pytest.raises(StoreDamaged, match="tenured restore"):
        inspect(folder / "state.db", KINDS)
    done = restored(backup, folder)
    assert number_of(folder) == 1
    assert (done.aside / "state.db").read_bytes() == damaged


def test_a_backup_beside_a_writer_is_of_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "state" / "state.db"
    with crash.writer(path, "forever") as child:
        for _ in range(20):
            child.line()
        for turn in range(5):
            target = tmp_path / f"b{turn}"
            acknowledged = int(child.line())
            take(Source(path.parent, tmp_path / "no"), target, crash.KINDS, stamp=STAMP)
            unpacked = tmp_path / f"u{turn}"
            unpacked.mkdir()
            unpack(target, unpacked)
            crash.require_whole(unpacked / "state.db", acknowledged)


def test_there_is_nothing_to_back_up(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="is state_dir the right one"):
        take(source_of(tmp_path / "none"), tmp_path / "b", KINDS, stamp=STAMP)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_state_is_not_backed_up(tmp_path: Path, folder: Path) -> None:
    fill(folder, 1)
    with closing(sqlite3.connect(folder / "state.db")) as db:
        db.execute("UPDATE records SET body = '{' WHERE kind = 'things'")
        db.commit()
    (tmp_path / "b").write_text("the backup of yesterday")
    with pytest.raises(
        StoreDamaged, match=r"1 records of .* not what was written to it: things a\."
    ):
        take(source_of(folder), tmp_path / "b", KINDS, stamp=STAMP)
    assert (tmp_path / "b").read_text() == "the backup of yesterday"


def test_a_backup_that_cannot_be_written_leaves_nothing(tmp_path: Path, folder: Path) -> None:
    source = fill(folder, 1)
    (tmp_path / "b").mkdir()
    with pytest.raises(StoreUnavailable, match="cannot write the backup"):
        take(source, tmp_path / "b", KINDS, stamp=STAMP)
    with pytest.raises(StoreUnavailable, match="cannot write to"):
        take(source, tmp_path / "no" / "b", KINDS, stamp=STAMP)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "state", "tenured.yml"]


def test_a_backup_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"cannot read the backup .*/b: No such file"):
        unpack(tmp_path / "b", tmp_path)


# damage


def test_no_cut_and_no_flipped_bit_goes_unnoticed(backup: Path, folder: Path) -> None:
    whole, before = backup.read_bytes(), listing(folder)
    dice, refusals = random.Random(7), 0
    for turn in range(120):
        at = dice.randrange(len(whole))
        changed = bytearray(whole)
        changed[at] ^= 1 << dice.randrange(8)
        backup.write_bytes(whole[:at] if turn % 2 else changed)
        try:
            manifest, contents = look(backup, KINDS)
        except StoreError:
            refusals += 1
            with pytest.raises(StoreError):
                restored(backup, folder)
        else:  # the frame around the members means nothing: they are what they were
            assert (manifest.created_us, contents.last_seq) == (STAMP[1], 1)
    assert refusals > 100
    assert listing(folder) == before


def forged(backup: Path, **changes: Any) -> None:
    """Rewrite a backup with another manifest, or with members that lie elsewhere."""
    with tarfile.open(backup) as tar:
        members = {m.name: (tar.extractfile(m) or io.BytesIO()).read() for m in tar}
    manifest = json.loads(members.pop(MANIFEST)) | changes.get("manifest", {})
    for old, new in changes.get("rename", {}).items():
        members[new] = members.pop(old)
        for row in manifest["members"]:
            row["name"] = new if row["name"] == old else row["name"]
    members = {MANIFEST: json.dumps(manifest).encode(), **members}
    with tarfile.open(backup, "w:gz") as tar:
        for name, body in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            tar.addfile(entry, io.BytesIO(body))


@pytest.mark.parametrize("name", ["../outside", "/tmp/tenure-outside", "a/../../outside"])
def test_nothing_is_written_outside(backup: Path, folder: Path, name: str) -> None:
    forged(backup, rename={"token": name})
    with pytest.raises(BackupDamaged, match="outside"):
        restored(backup, folder)
    assert not (folder.parent / "outside").exists()
    assert number_of(folder) == 2


def test_a_backup_without_a_state(backup: Path, folder: Path) -> None:
    forged(backup, rename={"state.db": "other.db"})
    with pytest.raises(BackupDamaged, match=r"holds no state\.db"):
        restored(backup, folder)


def test_a_backup_of_a_later_tenure_is_refused(backup: Path, folder: Path) -> None:
    forged(backup, manifest={"format": 2, "tenure": "10.0"})
    with pytest.raises(StoreTooNew, match=r"restore it with tenure 10\.0"):
        restored(backup, folder)
    assert number_of(folder) == 2


def test_a_state_of_a_later_schema_is_refused(
    backup: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = len(schema.STEPS)
    monkeypatch.setattr(schema, "STEPS", schema.STEPS[:1])
    with pytest.raises(StoreTooNew, match=f"has schema {now}, this tenure knows 1"):
        restored(backup, folder)


def test_a_backup_of_an_older_schema_is_brought_forward(tmp_path: Path, folder: Path) -> None:
    old = tmp_path / "old"
    create_private(old / "state.db")
    with closing(connect_writer(old / "state.db")) as db:
        schema.migrate(db, schema.STEPS[:1])
        db.execute("""INSERT INTO records VALUES ('things', 'a', 1, '{"number": 5}')""")
    take(source_of(old), tmp_path / "b", KINDS, stamp=STAMP)
    assert look(tmp_path / "b", KINDS)[1].schema == 1
    restored(tmp_path / "b", folder)
    assert number_of(folder) == 5
    assert inspect(folder / "state.db", KINDS).schema == len(schema.STEPS)


# kill -9


def main() -> None:
    """For each number n on standard input: restore in a process that dies at its n-th change."""
    backup, folder = Path(sys.argv[1]), Path(sys.argv[2])
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _die_at(int(line))
            restored(backup, folder)
            os._exit(0)
        status = bounded.wait_pid(child)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _die_at(left: int) -> None:
    """Have this process killed when it is about to change names for the ``left``-th time."""
    watched = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "sqlite3.connect")

    def audit(event: str, args: object) -> None:
        nonlocal left
        if event in watched:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)


def forget_asides(folder: Path) -> None:
    for path in folder.glob("before-restore-*"):
        shutil.rmtree(path)


def test_a_restore_that_is_killed_at_any_step_has_changed_nothing_or_all(
    backup: Path, folder: Path
) -> None:
    argv = [sys.executable, __file__, str(backup), str(folder)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    kills, numbers = 0, set()
    pipe = subprocess.PIPE
    killer = subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, text=True)
    with bounded.ending(killer):
        assert killer.stdin
        while True:
            fill(folder, 2)
            print(kills, file=killer.stdin, flush=True)
            code = int(bounded.line(killer))
            if code == 0:
                break
            assert code == -signal.SIGKILL
            kills += 1
            numbers.add(number := number_of(folder))
            kept = [number_of(path.parent) for path in folder.glob("before-restore-*/state.db")]
            assert number == 2 or 2 in kept, "the state before is never lost"
            forget_asides(folder)
            restored(backup, folder)
            assert number_of(folder) == 1
            forget_asides(folder)
    assert kills > 10
    assert numbers == {1, 2}


if __name__ == "__main__":
    main()
