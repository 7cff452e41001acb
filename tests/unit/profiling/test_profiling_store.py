"""The embedded statistics store on a real file: contents, retention, restart, kill -9."""

import asyncio
import functools
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.model.container import Profile
from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, US
from tenure.profiling.io.influx import stats as influx
from tenure.profiling.io.sqlite import database, sketches, tables
from tenure.profiling.io.sqlite.database import Database, Schema
from tenure.profiling.io.sqlite.embedded import EmbeddedStats
from tenure.profiling.io.sqlite.learned import LearnedStats
from tenure.profiling.io.sqlite.retention import Retention
from tenure.profiling.io.sqlite.schema import STEPS
from tenure.profiling.io.store import StatsStore, StatsUnavailable
from tenure.profiling.readings.sample import Measured, Sample
from testbed import bounded, tied
from tests.slowed import Slowed, cut_off, until

HOUR = HOUR_US
FIVE = 300 * US
START_US = 500_000 * HOUR


def row(at_us: int, cpu_m: int = 5, container: str = "c", app: str = "a") -> Measured:
    use = Resources(cpu_m, 100, 0, 3)
    observed = ("cpu_m", "memory_bytes", "net_bytes_per_s")
    return Measured(container, "n", app, Sample(at_us, 30 * US, use, observed))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStats]:
    opened = await EmbeddedStats.open(tmp_path / "stats" / "stats.db")
    yield opened
    await opened.close()


async def test_it_is_a_stats_store(store: EmbeddedStats) -> None:
    kept: StatsStore = store
    rows = [row(START_US + n * 30 * US, n) for n in range(5)]
    await kept.write(rows)
    found = await kept.series("c", START_US, START_US + 60 * US)
    assert found == [rows[0].sample, rows[1].sample]
    assert await kept.series("other", 0, 2 * START_US) == []


async def test_the_same_sample_twice_is_one(store: EmbeddedStats) -> None:
    await store.write([row(START_US, 1)])
    await store.write([row(START_US, 2)])
    found = await store.series("c", 0, 2 * START_US)
    assert [sample.use.cpu_m for sample in found] == [2]


async def test_profiles_cover_their_window_alone(store: EmbeddedStats) -> None:
    rows = [row(START_US + n * US, n) for n in range(1, 21)]
    since_us = START_US + 10 * US  # from then on in the next generation
    rows = [replace(r, since_us=since_us) if r.sample.at_us > since_us else r for r in rows]
    await store.write(rows[5:])
    await store.write(rows)  # some of them again
    made = await store.profiles({"c": since_us, "absent": 0}, START_US + HOUR, min_samples=3)
    assert set(made) == {"c"}
    assert made["c"].samples == 10
    assert made["c"].age_us == 39 * US  # from the begin of the first to the end of the last
    assert made["c"].p90 == Resources(19, 100, 0, 3)
    assert "disk_bytes_per_s" not in made["c"].observed
    few = await store.profiles({"c": since_us}, START_US + HOUR, min_samples=11)
    assert few == {}


async def test_a_window_moves_on_by_the_hour(store: EmbeddedStats) -> None:
    await store.write([row(START_US + hour * HOUR + n, hour) for hour in range(3) for n in (1, 2)])
    found = await store.profiles({"c": START_US + HOUR + 1}, START_US + 9 * HOUR)
    assert (found["c"].samples, found["c"].p90.cpu_m) == (4, 2)
    await store.prune(START_US + 8 * HOUR + 2)  # six hours, and one for a sketch
    found = await store.profiles({"c": 0}, START_US + 9 * HOUR)
    assert (found["c"].samples, found["c"].p90.cpu_m) == (4, 2)


async def test_profiles_survive_without_the_samples(store: EmbeddedStats) -> None:
    await store.write([row(START_US + n * US, n) for n in range(1, 11)])
    await store._database.change(lambda db: db.execute("DELETE FROM sample"))
    made = await store.profiles({"c": START_US}, START_US + HOUR)
    assert (made["c"].samples, made["c"].p90.cpu_m) == (10, 9)


async def test_a_container_keeps_its_series_when_it_moves(store: EmbeddedStats) -> None:
    first = row(START_US)
    await store.write([first, Measured("c", "m", "a", row(START_US + US).sample)])
    assert len(await store.series("c", 0, 2 * START_US)) == 2


async def test_an_app_profile_outlives_its_containers(tmp_path: Path) -> None:
    path = tmp_path / "stats.db"
    store = await EmbeddedStats.open(path)
    await store.write([row(START_US + n * US, n, container=f"c{n % 3}") for n in range(1, 31)])
    await store.learn_apps(["a", "none"], START_US, min_samples=3)
    await store.learn_apps(["a"], START_US, min_samples=1_000)  # too few: the old one stays
    for _ in range(3):
        await store.prune(START_US + 80 * 24 * HOUR)
    await store.close()
    store = await EmbeddedStats.open(path)
    made = await store.app_profile("a")
    assert made is not None
    assert (made.p90.cpu_m, made.samples) == (27, 30)
    assert made.observed == ("cpu_m", "memory_bytes", "net_bytes_per_s")
    assert await store.series("c1", 0, 2 * START_US) == []
    assert await store.app_profile("none") is None
    await store.prune(START_US + 91 * 24 * HOUR)
    assert await store.app_profile("a") is None
    await store.close()


async def test_complete_buckets_are_rolled_up_once(store: EmbeddedStats) -> None:
    await store.write([row(START_US + n * 60 * US, n + 1) for n in range(65)])
    now_us = START_US + HOUR + 90 * US
    await store.prune(now_us)
    await store.prune(now_us)
    five = await store.rollups("c", 0, 2 * START_US, width_us=FIVE)
    assert [(b.start_us, b.count) for b in five] == [(START_US + n * FIVE, 5) for n in range(12)]
    assert (five[0].mean.cpu_m, five[0].max.cpu_m, five[0].p90.cpu_m) == (3, 5, 5)
    assert five[0].observed == ("cpu_m", "memory_bytes", "net_bytes_per_s")
    hours = await store.rollups("c", 0, 2 * START_US, width_us=HOUR)
    assert [(b.count, b.p90.cpu_m, b.max.cpu_m) for b in hours] == [(60, 54, 60)]


async def test_the_bucket_under_way_waits(store: EmbeddedStats) -> None:
    await store.write([row(START_US + n * 60 * US) for n in range(6)])
    await store.prune(START_US + FIVE + 59 * US)
    assert await store.rollups("c", 0, 2 * START_US, width_us=FIVE) == []
    await store.prune(START_US + FIVE + 60 * US)
    assert len(await store.rollups("c", 0, 2 * START_US, width_us=FIVE)) == 1


async def test_old_samples_go_and_their_roll_ups_stay(store: EmbeddedStats) -> None:
    await store.write([row(START_US), row(START_US + 48 * HOUR)])
    for _ in range(60):  # each step rolls up an hour at most
        await store.prune(START_US + 48 * HOUR + 1)
    assert [s.at_us for s in await store.series("c", 0, 2 * START_US)] == [START_US + 48 * HOUR]
    assert len(await store.rollups("c", 0, 2 * START_US, width_us=HOUR)) == 1
    await store.prune(START_US + 22 * 24 * HOUR)
    assert await store.rollups("c", 0, START_US + HOUR, width_us=HOUR) == []


async def test_samples_are_bounded_in_number(tmp_path: Path) -> None:
    store = await EmbeddedStats.open(tmp_path / "s.db", Retention(max_samples=100))
    await store.write([row(START_US + n * US, n) for n in range(250)])
    await store.prune(START_US + 250 * US)
    found = await store.series("c", 0, 2 * START_US)
    assert [found[0].use.cpu_m, len(found)] == [150, 100]
    await store.close()


async def test_a_short_retention_holds_for_samples_too(tmp_path: Path) -> None:
    store = await EmbeddedStats.open(tmp_path / "s.db", Retention(rollup_us=24 * HOUR))
    await store.write([row(START_US), row(START_US + 25 * HOUR)])
    await store.prune(START_US + 25 * HOUR)
    assert len(await store.series("c", 0, 2 * START_US)) == 1
    await store.close()
    with pytest.raises(ValueError, match="two hours"):
        Retention(rollup_us=HOUR)


async def test_a_damaged_file_is_put_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "stats.db"
    path.write_bytes(b"no database at all, " * 500)
    store = await EmbeddedStats.open(path)
    await store.write([row(START_US)])
    assert len(await store.series("c", 0, 2 * START_US)) == 1
    await store.close()
    assert path.with_name("stats.db.damaged").exists()
    assert "damaged" in caplog.text


async def test_a_newer_schema_is_refused_not_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "stats.db"
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StatsUnavailable, match="schema 99"):
        await EmbeddedStats.open(path)
    assert path.exists()


async def test_half_a_write_is_none(store: EmbeddedStats) -> None:
    await store.write([row(START_US)])
    bad = row(START_US + US)
    object.__setattr__(bad.sample, "span_us", None)
    with pytest.raises(StatsUnavailable):
        await store.write([row(START_US + 2 * US), bad])
    assert len(await store.series("c", 0, 2 * START_US)) == 1


async def test_closed_is_closed(tmp_path: Path) -> None:
    store = await EmbeddedStats.open(tmp_path / "s.db")
    await store.close()
    await store.close()
    with pytest.raises(StatsUnavailable, match="closed"):
        await store.write([row(START_US)])


async def test_a_file_that_is_opened_for_nobody_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon may be told to end while it starts."""
    opened: list[sqlite3.Connection] = []
    plain = database._connect

    def noted(path: Path, schema: Schema) -> sqlite3.Connection:
        opened.append(plain(path, schema))
        return opened[-1]

    slowed = Slowed(noted)
    monkeypatch.setattr(database, "_connect", slowed)
    await cut_off(EmbeddedStats.open(tmp_path / "s.db"), slowed)
    await until(lambda: bool(opened) and not _open_files(tmp_path))


def _open_files(folder: Path) -> list[str]:
    """Return this process's open files in ``folder``."""
    handles = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    return [path for path in handles if path.startswith(f"{folder}/")]


async def test_a_long_write_does_not_hold_up_the_loop(store: EmbeddedStats) -> None:
    rows = [row(START_US + n * US, n, container=f"c{n % 500}") for n in range(20_000)]
    writing = asyncio.create_task(store.write(rows))
    begun_s, worst_s, before_s = time.process_time(), 0.0, time.thread_time()
    while not writing.done():
        await asyncio.sleep(0.005)
        worst_s = max(worst_s, time.thread_time() - before_s)
        before_s = time.thread_time()
    await writing
    # of its work, that of its thread included: a slow processor takes longer for both
    assert worst_s < max(0.25, (time.process_time() - begun_s) / 3)


WRITER = """
import asyncio, sys
from pathlib import Path
from tests_row import row, START_US, US
from tenure.profiling.io.sqlite.database import Database, Schema
from tenure.profiling.io.sqlite.embedded import EmbeddedStats

async def main():
    store = await EmbeddedStats.open(Path(sys.argv[1]))
    number = int(sys.argv[2])
    while True:
        at_us = START_US + number * US
        await store.write([row(at_us, number, container=f"c{n}") for n in range(10)])
        if number % 7 == 0:
            await store.prune(at_us)
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


def test_kill_9_keeps_every_acknowledged_write_whole(tmp_path: Path) -> None:
    here = Path(__file__)
    (tmp_path / "tests_row.py").symlink_to(here)
    path = tmp_path / "stats.db"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    acknowledged = 0
    for round_ in range(6):
        child = tied.start(
            [sys.executable, "-c", WRITER, str(path), str(acknowledged + 1)],
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        assert child.stdout is not None
        seen = [int(bounded.line(child)) for _ in range(5 + 9 * round_)]
        child.send_signal(signal.SIGKILL)
        seen += [int(line) for line in child.stdout if line.endswith("\n")]
        child.stdout.close()
        assert child.wait(60) == -signal.SIGKILL
        acknowledged = asyncio.run(_check(path, seen[-1]))
    assert acknowledged >= 6 * 5


async def _check(path: Path, acknowledged: int) -> int:
    """Every write up to ``acknowledged`` is whole; one more may be there, whole as well."""
    store = await EmbeddedStats.open(path)
    sets = []
    for n in range(10):
        found = await store.series(f"c{n}", 0, 2 * START_US)
        sets.append([sample.use.cpu_m for sample in found])
    await store.close()
    assert all(numbers == sets[0] for numbers in sets)
    assert sets[0][:acknowledged] == list(range(1, acknowledged + 1))
    assert len(sets[0]) - acknowledged in (0, 1)
    return len(sets[0])


async def test_an_upgrade_loses_no_profile(tmp_path: Path) -> None:
    """Samples of a file of schema 1, which had no sketches, are in its profiles afterwards."""
    path = tmp_path / "stats.db"
    old = await Database.open(path, Schema({1: STEPS[1]}))
    end_us = START_US + 9 * HOUR
    # one every five minutes for nine hours, of which the last six count; and a container beside it
    fields = "(series, at_us, span_us, cpu_usage_m, memory_working_set)"

    def fill(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO series VALUES (1, 'c', 'n', 'a', ?), (2, 'd', 'n', '', ?)", (0, 0))
        for n in range(1, 109):
            at_us = START_US + n * 300 * US
            db.execute(f"INSERT INTO sample {fields} VALUES (1, ?, 1, ?, 7)", (at_us, n))
        db.execute(f"INSERT INTO sample {fields} VALUES (2, ?, 1, 5, 6)", (end_us,))

    await old.change(fill)
    await old.close()
    store = await EmbeddedStats.open(path)
    made = await store.profiles({"c": end_us - 6 * HOUR, "d": 0}, end_us + HOUR)
    assert set(made) == {"c", "d"}
    assert (made["c"].samples, made["c"].p90.cpu_m) == (72, 101)
    assert made["c"].observed == ("cpu_m", "memory_bytes")
    # a generation entered half an hour ago: at most five minutes before it are there too
    recent = await store.profiles({"c": end_us - 1800 * US}, end_us + HOUR)
    assert 6 <= recent["c"].samples <= 7
    await store.learn_apps(["a"], end_us, min_samples=50)
    learned = await store.app_profile("a")
    assert learned is not None
    assert learned.samples == 72
    await store.close()
    again = await EmbeddedStats.open(path)  # not a second time
    assert await again.profiles({"c": end_us - 6 * HOUR, "d": 0}, end_us + HOUR) == made
    await again.close()


async def test_a_cut_upgrade_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "stats.db"
    await (await Database.open(path, Schema({1: STEPS[1]}))).close()

    def fail(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO sketch VALUES ('c', 1, 1, 1, 1, x'')")
        raise sqlite3.OperationalError("cut")

    with pytest.raises(StatsUnavailable, match="cut"):
        await Database.open(path, Schema(STEPS, fills={2: fail}))
    store = await EmbeddedStats.open(path)
    assert await store.profiles({"c": 0}, START_US) == {}
    await store.close()


async def test_an_apps_profile_of_long_is_not_replaced_by_one_of_minutes(tmp_path: Path) -> None:
    """After an upgrade with InfluxDB, where sketches begin empty beside the profiles of apps."""
    database = await Database.open(tmp_path / "influx.db", Schema({1: influx.SCHEMA.steps[1]}))
    long = Profile("", Resources(4000, 9), 5000, 9 * HOUR, ("cpu_m", "memory_bytes"))
    await database.change(lambda db: tables.put_app(db, "a", long, START_US))
    await database.close()
    database = await Database.open(tmp_path / "influx.db", influx.SCHEMA)
    apps = LearnedStats(database)
    found = []
    for at_us in range(START_US, START_US + 7 * HOUR, HOUR // 4):
        one = Measured("c", "n", "a", Sample(at_us, 30 * US, Resources(10, 9)))
        await database.change(functools.partial(sketches.learn, samples=[one]))
        await apps.learn_apps(["a"], at_us, min_samples=3)
        kept = await apps.app_profile("a")
        assert kept is not None
        found.append(kept.p90.cpu_m)
    assert found == [4000] * 24 + [10] * 4
    await database.close()
