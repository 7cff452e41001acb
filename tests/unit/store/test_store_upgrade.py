"""An old database is brought forward: nothing is lost, also when the upgrade is killed.

The file is also the program of the process that is killed.
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tenure.core.state.tables import KINDS, Meta
from tenure.model.dataset import Dataset
from tenure.model.job import Job, JobState
from tenure.store import schema
from tenure.store.connection import connect_writer, create_private
from tenure.store.contents import inspect
from tenure.store.errors import StoreTooNew
from tenure.store.store import Store
from testbed import bounded

ROOT = Path(__file__).resolve().parents[3]
ROWS = 20_000
#: What version 1 of the schema held, written down as the first version of tenure wrote it.
META_V1 = {
    "fleet": "f-old",
    "next_seq": 7,
    "next_effect": 40,
    "next_event": 90,
    "revision": 89,
    "clock_us": 1_700_000_000_000_000,
}
JOB_V1 = {
    "id": "j1",
    "seq": 6,
    "spec": {
        "name": "old",
        "app": "old",
        "image": "busybox",
        "command": ["true"],
        "executors": 1,
        "request": {"cpu_m": 500, "memory_bytes": 1024},
    },
    "arrival_us": 1_690_000_000_000_000,
    "state": "waiting",
}
#: A step that takes long enough to be killed in its middle.
SLOW = (
    "CREATE TABLE copied AS SELECT * FROM records",
    "UPDATE copied SET body = body || hex(randomblob(200))",
    "CREATE INDEX copied_by_body ON copied (body)",
    "ALTER TABLE events ADD COLUMN colour TEXT",
)


def write_v1(path: Path, rows: int = 0) -> None:
    """Make a database as the first version of the schema left it."""
    create_private(path)
    with closing(connect_writer(path)) as db:
        schema.migrate(db, schema.STEPS[:1])
        db.execute("BEGIN")
        insert = "INSERT INTO records (kind, key, v, body) VALUES (?, ?, 1, ?)"
        db.execute(insert, ("meta", "meta", json.dumps(META_V1)))
        db.execute(insert, ("jobs", "j1", json.dumps(JOB_V1)))
        for row in range(rows):
            db.execute(insert, ("jobs", f"x{row}", json.dumps(JOB_V1 | {"id": f"x{row}"})))
        body = json.dumps({"name": "old"})
        event = (89, META_V1["clock_us"], "job.waiting", "j1", body)
        db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", event)
        db.execute("INSERT INTO logs VALUES ('j0/0/1', 5, x'73616964')")
        db.execute("COMMIT")


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return schema.version_of(db)


def test_the_first_versions_database_opens_with_all_it_held(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    write_v1(path)
    store = Store.open(path, KINDS)
    records = store.load()
    assert records["meta"]["meta"] == Meta(**META_V1)  # type: ignore[arg-type]
    job = records["jobs"]["j1"]
    assert isinstance(job, Job)
    assert (job.state, job.seq) == (JobState.WAITING, 6)
    assert [event.seq for event in store.events_after(0, 10)] == [89]
    assert store.read_log("j0/0/1") == b"said"
    store.close()
    (step,) = inspect(path, KINDS).history
    assert step.what == "upgraded"
    assert step.detail.startswith(f"schema 1 to {len(schema.STEPS)}, tenure ")
    beside = tmp_path / "state.db.v1"
    assert inspect(beside, KINDS).schema == 1, "the copy from before is as it was"
    beside.replace(path)
    Store.open(path, KINDS).close()


def test_a_dataset_from_before_its_blocks_could_be_uneven_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    write_v1(path)
    with closing(connect_writer(path)) as db:
        schema.migrate(db, schema.STEPS[:3])
        spec = {
            "name": "logs",
            "root": "/in/logs",
            "files": [{"name": "", "size_bytes": 10, "mtime_ns": 1}],
            "block_bytes": 4,
        }
        body = json.dumps({"id": "d-1", "seq": 5, "spec": spec, "created_us": 1, "made": 3})
        db.execute(
            "INSERT INTO records (kind, key, v, body, crc) "
            "VALUES ('datasets', 'd-1', 1, ?1, tenure_crc('datasets', 'd-1', 1, ?1))",
            (body,),
        )
    store = Store.open(path, KINDS)
    dataset = store.load()["datasets"]["d-1"]
    assert isinstance(dataset, Dataset)
    assert dataset.spec.split == "size"
    assert list(dataset.spec.lengths_of(dataset.spec.files[0])) == [4, 4, 2]
    store.close()
    assert version_of(path) >= 4, "a version that would cut uneven blocks evenly must refuse it"


def test_an_older_tenure_refuses_what_a_later_one_wrote_and_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    Store.open(path, KINDS).close()
    before = path.read_bytes()
    monkeypatch.setattr(schema, "STEPS", schema.STEPS[:1])
    with pytest.raises(StoreTooNew, match="start the version of tenure that wrote it"):
        Store.open(path, KINDS)
    assert path.read_bytes() == before


def main() -> None:
    schema.STEPS = (*schema.STEPS, SLOW)
    print("upgrading", flush=True)
    Store.open(Path(sys.argv[1]), KINDS).close()
    print("done", flush=True)


def upgrade_and_kill(path: Path, after_s: float) -> bool:
    """Upgrade in a process that is killed after a time; return whether it was done before."""
    argv = [sys.executable, __file__, str(path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env)
    with bounded.ending(process):
        assert process.stdout
        assert bounded.line(process) == "upgrading\n"
        time.sleep(after_s)
        os.kill(process.pid, signal.SIGKILL)
        return "done" in process.stdout.read()


def copies_beside(path: Path) -> list[Path]:
    return [file for file in path.parent.glob("state.db.v?") if version_of(file) in (1, 2)]


def test_an_upgrade_that_is_killed_goes_on_from_a_whole_version(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    write_v1(path, ROWS)
    dice, versions = random.Random(3), set()
    begun, after_s = time.monotonic(), 0.0  # at once first: a fast machine needs little longer
    while not upgrade_and_kill(path, after_s):
        after_s = dice.uniform(0.0, 0.6 + (time.monotonic() - begun) / 10)  # later where it is slow
        version = version_of(path)
        if version > len(schema.STEPS):
            break  # the slow step was taken just before
        versions.add(version)
        with closing(sqlite3.connect(path)) as db:
            names = [row[0] for row in db.execute("SELECT name FROM sqlite_schema")]
            assert "copied" not in names
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if time.monotonic() - begun > (8 if copies_beside(path) else 60):
            break
    assert versions
    assert copies_beside(path), "the copy from before stands beside it"
    store = Store.open(path, KINDS) if version_of(path) == len(schema.STEPS) else None
    if store is not None:
        assert len(store.load()["jobs"]) == ROWS + 1
        store.close()


if __name__ == "__main__":
    main()
