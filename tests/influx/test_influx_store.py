"""The store over a real InfluxDB: written at /write and through influxdb-client."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, US
from tenure.profiling.io.influx.spool import Spool, SpoolBounds
from tenure.profiling.io.influx.stats import SCHEMA, InfluxStats
from tenure.profiling.io.sqlite.database import Database, Schema
from tenure.profiling.io.store import StatsStore, StatsUnavailable
from tenure.profiling.readings.sample import Measured, Reading, Sample
from testbed.servers import Influx
from tests.influx.gateway import Gateway
from tests.influx.lab import LATE_US, START_US, drained, open_store, row

pytestmark = pytest.mark.influx
FIVE = 300 * US


@pytest.fixture(params=["write", "1.8.10", "v2.7.1", "3.0.1"])
async def store(
    influx: Influx, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[InfluxStats]:
    """Return the store on InfluxDB 1.6, plainly and behind what looks like later versions."""
    gateway, url = None, influx.url
    if request.param != "write":
        influx.ask('CREATE DATABASE "tenure"')
        gateway = Gateway(influx.url, request.param)
        await gateway.start()
        url = gateway.url
    opened = await open_store(tmp_path / "state", url)
    yield opened
    await opened.close()
    if gateway is not None:
        assert gateway.v2_writes > 0
        await gateway.close()


async def test_it_is_a_stats_store(store: InfluxStats) -> None:
    kept: StatsStore = store
    rows = [row(START_US + n * 30 * US, n) for n in range(5)]
    await kept.write(rows)
    assert await kept.series("c", START_US, START_US + 60 * US) == [rows[0].sample, rows[1].sample]
    assert await kept.series("other", 0, LATE_US) == []
    assert store.health.spooled_samples == 0
    assert store.dropped == {}


async def test_the_same_sample_twice_is_one(store: InfluxStats) -> None:
    await store.write([row(START_US, 1)])
    await store.write([row(START_US, 2)])
    assert [s.use.cpu_m for s in await store.series("c", 0, LATE_US)] == [2]


async def test_profiles_cover_their_window_alone(store: InfluxStats) -> None:
    since = START_US + 11 * US  # from then on in the next generation
    rows = [row(START_US + n * US, n) for n in range(1, 21)]
    rows = [replace(r, since_us=since) if r.sample.at_us >= since else r for r in rows]
    await store.write([*rows, *(row(START_US + n * US, 7, container=f"d{n}") for n in range(25))])
    since_us = {"c": since, "absent": 0, **{f"d{n}": 0 for n in range(25)}}
    made = await store.profiles(since_us, LATE_US, min_samples=3)
    assert set(made) == {"c"}
    assert (made["c"].samples, made["c"].p90) == (10, Resources(19, 100, 0, 3))
    assert "disk_bytes_per_s" not in made["c"].observed
    every = await store.profiles(since_us, LATE_US, min_samples=1)
    assert set(every) == set(since_us) - {"absent"}
    assert await store.profiles({}, LATE_US) == {}


async def test_profiles_read_no_sample_and_need_no_server(influx: Influx, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "state", influx.url)
    await store.write([row(START_US + n * US, n) for n in range(1, 11)])
    influx.kill()
    await store.write([row(START_US + n * US, n) for n in range(5, 21)])  # some of them again
    made = await store.profiles({"c": 0}, LATE_US, min_samples=20)
    assert (made["c"].samples, made["c"].p90) == (20, Resources(18, 100, 0, 3))
    await store.close()
    again = await open_store(tmp_path / "state", influx.url)
    assert await again.profiles({"c": 0}, LATE_US) == made
    await again.learn_apps(["a"], START_US, min_samples=20)
    learned = await again.app_profile("a")
    assert learned is not None
    assert learned.p90 == made["c"].p90
    await again.prune(START_US + 8 * HOUR_US)  # six hours, and one for a sketch
    assert await again.profiles({"c": 0}, LATE_US) == {}
    await again.close()


async def test_a_spool_of_the_version_before_gets_its_sketches(
    influx: Influx, tmp_path: Path
) -> None:
    old = Schema({1: SCHEMA.steps[1]}, SCHEMA.pragmas)
    database = await Database.open(tmp_path / "state" / "influx.db", old)
    await (await Spool.open(database, SpoolBounds())).append([(b"m value=1i 1", 1)], START_US)
    await database.close()
    store = await open_store(tmp_path / "state", influx.url)
    await store.write([row(START_US + n * US, n) for n in range(1, 11)])
    assert (await store.profiles({"c": 0}, LATE_US))["c"].samples == 10
    await store.close()


async def test_a_moved_container_keeps_its_samples(store: InfluxStats) -> None:
    await store.write([row(START_US), Measured("c", "m", "a", row(START_US + US).sample)])
    assert len(await store.series("c", 0, LATE_US)) == 2


async def test_buckets_are_made_of_samples(store: InfluxStats) -> None:
    await store.write([row(START_US + n * 60 * US, n + 1) for n in range(65)])
    five = await store.rollups("c", START_US, START_US + HOUR_US, width_us=FIVE)
    assert [(b.start_us, b.count) for b in five] == [(START_US + n * FIVE, 5) for n in range(12)]
    assert (five[0].mean.cpu_m, five[0].max.cpu_m, five[0].p90.cpu_m) == (3, 5, 5)
    hours = await store.rollups("c", START_US - 1, START_US + HOUR_US, width_us=HOUR_US)
    assert [(b.count, b.p90.cpu_m, b.max.cpu_m) for b in hours] == [(60, 54, 60)]


async def test_an_app_profile_outlives_the_server(
    store: InfluxStats, influx: Influx, tmp_path: Path
) -> None:
    await store.write([row(START_US + n * US, n, container=f"c{n % 3}") for n in range(1, 31)])
    await store.learn_apps(["a", "none"], START_US, min_samples=3)
    await store.learn_apps(["a"], START_US, min_samples=1_000)  # too few: the old one stays
    influx.kill()
    made = await store.app_profile("a")
    assert made is not None
    assert (made.p90.cpu_m, made.samples) == (27, 30)
    assert await store.app_profile("none") is None
    await store.prune(START_US + 80 * 24 * HOUR_US)
    assert await store.app_profile("a") is not None
    await store.prune(START_US + 91 * 24 * HOUR_US)
    assert await store.app_profile("a") is None
    with pytest.raises(StatsUnavailable):
        await store.series("c1", 0, LATE_US)


@pytest.mark.parametrize(
    "text",
    [
        "a,b=c d",
        "quo\"te's",
        "back\\",
        "line\nbreak\ttab",
        "x' OR 'x'='x",
        "' OR \"container_name\" =~ /.*/ OR 'a'='",
        "ünïcödé 容器",
        "n" * 255,
        "\\' OR 1=1 --",
    ],
)
async def test_any_text_is_one_app_and_one_container(
    influx: Influx, tmp_path: Path, text: str
) -> None:
    store = await open_store(tmp_path / "state", influx.url)
    await store.write([row(START_US + n * US, n, container=text, app=text) for n in range(1, 4)])
    await store.write([row(START_US + n * US, 999, container="other", app="b") for n in range(5)])
    assert [s.use.cpu_m for s in await store.series(text, 0, LATE_US)] == [1, 2, 3]
    await store.learn_apps([text], START_US, min_samples=1)
    made = await store.app_profile(text)
    assert made is not None
    assert (made.samples, made.p90.cpu_m) == (3, 3)
    assert (await store.profiles({text: 0}, LATE_US))[text].samples == 3
    assert store.dropped == {}
    await store.close()


async def test_names_are_those_of_cadvisor(influx: Influx, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "state", influx.url)
    sample = Sample(START_US, 30 * US, Resources(250, 4096, 20, 30))
    reading = Reading(START_US, 7_500_000_000, 4096, disk_bytes=600, net_bytes=900, tx_bytes=400)
    await store.write([Measured("job-1/2", "node1", "web", sample, reading)])
    found = influx.ask("SELECT * FROM /.*/ WHERE \"container_name\" = 'job-1/2'", "tenure")
    cells = {s["name"]: zip(s["columns"], s["values"][0], strict=True) for s in found}
    # The answer names the columns of every measurement in every one.
    values = {name: {k: v for k, v in row if v is not None} for name, row in cells.items()}
    tags = {
        "time": START_US,
        "container_name": "job-1/2",
        "machine": "node1",
        "tenure.app": "web",
        "tenure.job": "job-1",
        "tenure.executor": "2",
    }
    expected = {"cpu_usage_total": 7_500_000_000, "memory_working_set": 4096}
    expected |= {"rx_bytes": 500, "tx_bytes": 400, "diskio_bytes": 600}
    assert {name: values[name] for name in expected} == {
        name: {**tags, "value": value} for name, value in expected.items()
    }
    assert values["tenure_usage"]["cpu_m"] == 250
    assert set(values) == {*expected, "tenure_usage"}
    await store.close()


async def test_histories_of_containers_apps_and_remainders(store: InfluxStats) -> None:
    rows = [row(START_US + n * 100 * US, 10 * n) for n in range(1, 4)]
    rows.append(row(START_US + FIVE + US, 7))
    rows.append(row(START_US + FIVE + US, 15, container="d"))
    rows.append(row(START_US + FIVE + US, 999, container="job/0"))
    rests = [replace(row(START_US + n * US, n, container="", app=""), reading=None) for n in (2, 4)]
    await store.write([*rows, *rests])
    until_us = START_US + 3 * FIVE
    own = await store.history("container", "c", START_US + 1, until_us)
    assert (own.start_us, own.width_us, own.cpu_m) == (START_US, FIVE, (15, 18, None))
    assert own.memory_bytes == (100, 100, None)
    app = await store.history("app", "a", START_US, until_us)
    assert app.cpu_m == (15, 17, None), "of what services used, not executors"
    rest = await store.history("rest", "n", START_US, until_us)
    assert rest.cpu_m == (3, None, None)
    assert await store.series("", 0, LATE_US) == []
    none = await store.history("rest", "nowhere", START_US, until_us)
    assert none.cpu_m == (None, None, None)


async def test_a_missing_database_is_made_with_the_retention(
    influx: Influx, tmp_path: Path
) -> None:
    store = await open_store(tmp_path / "s", influx.url, database='odd "name', retention_us=30 * US)
    await store.write([row(START_US)])
    await drained(store)
    series = influx.ask('SHOW RETENTION POLICIES ON "odd \\"name"')
    assert series[0]["values"][0][1] == "24h0m0s"
    await store.close()


async def test_samples_past_the_retention_are_counted_not_tried_for_ever(
    influx: Influx, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store(tmp_path / "state", influx.url)
    bare = Measured("c", "n", "a", row(START_US - 100 * 24 * HOUR_US).sample)
    await store.write([bare, row(START_US)])
    await drained(store)
    assert store.dropped == {"refused": 1}
    assert "retention policy" in caplog.text
    await store.write([bare])
    await drained(store)
    assert caplog.text.count("refuses points") == 1
    assert len(await store.series("c", 0, LATE_US)) == 1
    await store.close()
    again = await open_store(tmp_path / "state", influx.url)
    assert again.dropped == {"refused": 2}
    await again.close()


async def test_a_body_that_is_too_large_goes_in_parts(
    gateway: Gateway, influx: Influx, tmp_path: Path
) -> None:
    gateway.max_body_bytes = 2_000
    store = await open_store(tmp_path / "state", gateway.url)
    await store.write([row(START_US + n * US, n, app=f"app{n}") for n in range(200)])
    await drained(store)
    assert gateway.v2_writes > 10
    assert len(await store.series("c", 0, LATE_US)) == 200
    assert store.dropped == {}
    await store.close()
