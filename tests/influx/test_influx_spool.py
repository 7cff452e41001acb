"""The spool on a real file: order, bounds, kill -9, a full disk, a damaged file."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenure.profiling.io.influx import spool as spool_module
from tenure.profiling.io.influx.drain import Drain
from tenure.profiling.io.influx.params import InfluxParams
from tenure.profiling.io.influx.server import InfluxServer
from tenure.profiling.io.influx.spool import Spool, SpoolBounds
from tenure.profiling.io.sqlite.database import Database, Schema
from tenure.profiling.io.store import StatsUnavailable
from testbed import bounded, tied
from tests.influx.lab import START_US, row, until

SCHEMA = Schema({1: spool_module.TABLES}, pragmas=("auto_vacuum = FULL",))
BOUNDS = SpoolBounds(max_bytes=20_000, max_age_us=1_000)


def noise(number: int) -> bytes:
    """Return 1,000 bytes that do not compress, with their number in front."""
    return b"%d " % number + os.urandom(1_000)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "state" / "influx.db", SCHEMA)
    yield opened
    await opened.close()


async def numbers(spool: Spool, now_us: int = 0) -> list[int]:
    """Take everything out of the spool and return the numbers, in order."""
    found = []
    while (record := await spool.first(now_us)) is not None:
        found.append(int(record.body.split()[0]))
        await spool.remove(record)
    return found


async def test_a_writer_that_is_cancelled_as_its_samples_are_sent_ends(database: Database) -> None:
    params = InfluxParams("http://127.0.0.1:9")
    drain = Drain(await Spool.open(database, BOUNDS), InfluxServer(params), params)
    writing = asyncio.create_task(drain.put([row(START_US)]))
    await until(lambda: drain.health.spooled_samples)
    await until(lambda: drain._waiters)
    await drain.close()  # nobody is left waiting
    writing.cancel()
    await asyncio.wait((writing,))
    assert writing.cancelled()


async def test_records_come_out_in_order_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "influx.db"
    first = await Database.open(path, SCHEMA)
    spool = await Spool.open(first, BOUNDS)
    assert await spool.append([(noise(1), 10), (noise(2), 20)], 0) == 2
    assert await spool.append([(noise(3), 5)], 0) == 3
    await first.close()
    second = await Database.open(path, SCHEMA)
    spool = await Spool.open(second, BOUNDS)
    assert spool.size.samples == 35
    assert spool.size.bytes > 3_000
    assert await numbers(spool) == [1, 2, 3]
    assert (spool.size.samples, spool.size.bytes, spool.dropped) == (0, 0, {})
    assert await spool.append([(b"", 1)], 0) == 4  # numbers are not used again
    await second.close()


async def test_the_oldest_go_where_it_is_full(database: Database, tmp_path: Path) -> None:
    spool = await Spool.open(database, BOUNDS)
    for number in range(100):
        await spool.append([(noise(number), 2)], 0)
        assert spool.size.bytes <= BOUNDS.max_bytes
    left = await numbers(spool)
    assert left == list(range(100 - len(left), 100))
    assert 15 <= len(left) < 20
    assert spool.dropped == {"size": 2 * (100 - len(left))}
    size = sum(path.stat().st_size for path in (tmp_path / "state").iterdir())
    assert size < 6_000_000  # the journal beside it is bounded too


async def test_one_record_larger_than_the_spool_is_dropped(database: Database) -> None:
    spool = await Spool.open(database, BOUNDS)
    await spool.append([(os.urandom(30_000), 7)], 0)
    assert await spool.first(0) is None
    assert spool.dropped == {"size": 7}


async def test_the_old_go_and_are_counted(database: Database) -> None:
    spool = await Spool.open(database, BOUNDS)
    await spool.append([(noise(1), 3)], 100)
    await spool.append([(noise(2), 4)], 600)
    await spool.trim(1_100)
    assert spool.dropped == {}
    await spool.trim(1_101)
    assert (spool.dropped, spool.size.samples) == ({"age": 3}, 4)
    assert await numbers(spool, 1_601) == []
    assert spool.dropped == {"age": 7}
    again = await Spool.open(database, BOUNDS)
    assert again.dropped == {"age": 7}


async def test_refused_samples_are_counted(database: Database) -> None:
    spool = await Spool.open(database, BOUNDS)
    await spool.append([(noise(1), 3)], 0)
    record = await spool.first(0)
    assert record is not None
    await spool.remove(record, refused=2)
    await spool.remove(record, refused=0)  # sent twice: harmless
    assert (spool.dropped, spool.size.samples) == ({"refused": 2}, 0)


async def test_a_damaged_record_does_not_stop_the_others(database: Database) -> None:
    spool = await Spool.open(database, BOUNDS)
    await spool.append([(noise(1), 3), (noise(2), 1)], 0)
    await database.change(lambda db: db.execute("UPDATE spool SET body = x'00' WHERE id = 1"))
    assert await numbers(spool) == [2]
    assert spool.dropped == {"damaged": 3}


async def test_a_full_disk_is_told_and_nothing_is_half_done(
    database: Database, tmp_path: Path
) -> None:
    spool = await Spool.open(database, SpoolBounds())
    await spool.append([(noise(1), 1)], 0)
    await database.read(lambda db: db.execute("PRAGMA max_page_count = 12").fetchone())
    with pytest.raises(StatsUnavailable, match="full"):
        await spool.append([(noise(2), 1), (os.urandom(100_000), 1)], 0)
    assert spool.size.samples == 1
    assert await numbers(spool) == [1]


async def test_a_damaged_file_is_put_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "influx.db"
    path.write_bytes(b"no database at all, " * 500)
    database = await Database.open(path, SCHEMA)
    await (await Spool.open(database, BOUNDS)).append([(noise(1), 1)], 0)
    await database.close()
    assert path.with_name("influx.db.damaged").exists()
    assert "damaged" in caplog.text


async def test_a_newer_file_is_refused_and_closed_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "influx.db"
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StatsUnavailable, match="schema 99"):
        await Database.open(path, SCHEMA)
    database = await Database.open(tmp_path / "other.db", SCHEMA)
    await database.close()
    await database.close()
    with pytest.raises(StatsUnavailable, match="closed"):
        await database.read(lambda db: None)


def test_bounds_are_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        SpoolBounds(max_bytes=0)


WRITER = """
import asyncio, sys
from pathlib import Path
from tenure.profiling.io.sqlite.database import Database
from tenure.profiling.io.influx.spool import Spool, SpoolBounds
from tests.influx.test_influx_spool import SCHEMA

async def main():
    spool = await Spool.open(await Database.open(Path(sys.argv[1]), SCHEMA), SpoolBounds())
    number = int(sys.argv[2])
    while True:
        await spool.append([(b"%d first" % number, 1), (b"%d second" % number, 1)], 0)
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


def started(argv: list[str]) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    return tied.start(argv, stdout=subprocess.PIPE, text=True, env=env)


async def test_kill_9_keeps_every_acknowledged_record_whole(tmp_path: Path) -> None:
    path = tmp_path / "influx.db"
    last = 0
    for round_ in range(4):
        argv = [sys.executable, "-c", WRITER, str(path), str(last + 1)]
        child = started(argv)
        assert child.stdout is not None
        seen = [int(bounded.line(child)) for _ in range(5 + 9 * round_)]
        child.send_signal(signal.SIGKILL)
        seen += [int(line) for line in child.stdout if line.endswith("\n")]
        child.stdout.close()
        assert child.wait(60) == -signal.SIGKILL
        database = await Database.open(path, SCHEMA)
        spool = await Spool.open(database, SpoolBounds())
        # The last may have been kept without having been told.
        assert spool.size.samples // 2 - seen[-1] in (0, 1)
        last = spool.size.samples // 2
        await database.close()
    database = await Database.open(path, SCHEMA)
    found = await numbers(await Spool.open(database, SpoolBounds()))
    assert found == [number for number in range(1, last + 1) for _ in range(2)]
    await database.close()
