"""A database that a real cAdvisor fills, as its InfluxDB driver writes it, is the source."""

from pathlib import Path

import pytest

from tenure.model.resources import Resources
from tenure.model.units import US
from tenure.profiling.io.store import StatsUnavailable
from tenure.profiling.readings.sample import Measured, Reading, Sample
from testbed.servers import Influx
from tests.influx.lab import LATE_US, START_US, open_store, row

pytestmark = pytest.mark.influx
LABELS = "com.example.team=search,tenure.container=id1,tenure.incarnation={turn}"


def cadvisor_lines(
    first_s: int,
    last_s: int,
    *,
    seen_s: int | None = None,
    machine: str = "host1",
    turn: int = 1,
    labels: str = LABELS,
) -> list[str]:
    """Return what the driver writes each second: 250 thousandths of a core, 70 bytes/s of net.

    The container starts at ``first_s`` and is seen from ``seen_s`` on (None: from its start).
    Measurements that are not read are there to be passed over.
    """
    lines = []
    extra = "," + labels.format(turn=turn) if labels else ""
    for second in range(first_s if seen_s is None else seen_s, last_s):
        tags = f"container_name=web-1,machine={machine}{extra}"
        passed = second - first_s
        at_ns = (START_US + second * US) * 1000 + 123_456
        values = {
            "cpu_usage_total": passed * 250_000_000,
            "cpu_usage_system": passed * 50_000_000,
            "load_average": 0,
            "rx_bytes": passed * 50,
            "tx_bytes": passed * 20,
            "memory_usage": 9000,
            "memory_working_set": 4096,
        }
        lines += [f"{name},{tags} value={value}i {at_ns}" for name, value in values.items()]
        lines.append(f"fs_usage,{tags},device=/dev/sda1,type=usage value=5i {at_ns}")
        lines.append(f"cpu_usage_per_cpu,{tags},instance=0 value={passed}i {at_ns}")
    return lines


def fill(influx: Influx, *lines: str) -> None:
    influx.ask('CREATE DATABASE "cadvisor"')
    influx.put("\n".join(lines), "cadvisor")


async def test_rates_come_from_counters(influx: Influx, tmp_path: Path) -> None:
    fill(influx, *cadvisor_lines(0, 301))
    store = await open_store(
        tmp_path / "state", influx.url, source="cadvisor", database="cadvisor", interval_us=30 * US
    )
    found = await store.series("id1", 0, LATE_US)
    assert len(found) >= 10
    assert {sample.use for sample in found} == {Resources(250, 4096, 0, 70)}
    assert {sample.observed for sample in found} == {
        ("cpu_m", "memory_bytes", "net_bytes_per_s")  # cAdvisor writes no block I/O
    }
    assert all(27 * US <= sample.span_us <= 31 * US for sample in found)
    by_name = await store.series("web-1", 0, LATE_US)
    assert by_name == found
    part = await store.series("id1", START_US + 100 * US, START_US + 200 * US)
    assert all(START_US + 100 * US <= s.at_us < START_US + 200 * US for s in part)
    assert len(part) >= 3
    await store.close()


async def test_restarts_moves_and_gaps_give_no_false_rates(influx: Influx, tmp_path: Path) -> None:
    fill(
        influx,
        *cadvisor_lines(0, 100),
        *cadvisor_lines(101, 200, turn=2),  # made again on the same machine
        *cadvisor_lines(150, 300, machine="host2", turn=3),  # moved, start-first
        *cadvisor_lines(4000, 4100, turn=4),  # back after an hour
    )
    store = await open_store(tmp_path / "s", influx.url, source="cadvisor", database="cadvisor")
    found = await store.series("id1", 0, LATE_US)
    assert {sample.use.cpu_m for sample in found} == {250}
    assert {sample.use.net_bytes_per_s for sample in found} == {70}
    assert len(found) == 3 + 3 + 5 + 3
    await store.close()


async def test_a_mean_over_a_long_gap_is_no_sample(influx: Influx, tmp_path: Path) -> None:
    fill(influx, *cadvisor_lines(0, 100), *cadvisor_lines(0, 4100, seen_s=4000))
    store = await open_store(tmp_path / "s", influx.url, source="cadvisor", database="cadvisor")
    found = await store.series("id1", 0, LATE_US)
    assert len(found) == 3 + 3
    assert max(sample.span_us for sample in found) < 40 * US


async def test_without_labels_a_counter_that_falls_begins_anew(
    influx: Influx, tmp_path: Path
) -> None:
    fill(influx, *cadvisor_lines(0, 100, labels=""), *cadvisor_lines(100, 200, labels=""))
    store = await open_store(tmp_path / "s", influx.url, source="cadvisor", database="cadvisor")
    found = await store.series("web-1", 0, LATE_US)
    assert {sample.use.cpu_m for sample in found} <= {250}
    assert len(found) >= 5
    assert await store.series("id1", 0, LATE_US) == []
    await store.close()


async def test_profiles_and_apps_come_from_it_and_nothing_is_written(
    influx: Influx, tmp_path: Path
) -> None:
    fill(influx, *cadvisor_lines(0, 301))
    before = influx.ask("SHOW SERIES", "cadvisor")
    store = await open_store(tmp_path / "s", influx.url, source="cadvisor", database="cadvisor")
    sample = Sample(START_US, 30 * US, Resources(1, 1))
    await store.write([Measured("id1", "node1", "shop", sample)])
    made = await store.profiles({"id1": 0, "absent": 0}, LATE_US, min_samples=3)
    assert set(made) == {"id1"}
    assert made["id1"].p90 == Resources(250, 4096, 0, 70)
    assert "disk_bytes_per_s" not in made["id1"].observed
    now_us = START_US + 400 * US
    await store.learn_apps(["shop", "other"], now_us, min_samples=3)
    learned = await store.app_profile("shop")
    assert learned is not None
    assert learned.p90 == Resources(250, 4096, 0, 70)
    assert await store.app_profile("other") is None
    await store.prune(now_us)
    assert influx.ask("SHOW SERIES", "cadvisor") == before
    await store.close()


async def test_only_what_is_new_is_read(influx: Influx, tmp_path: Path) -> None:
    """A profile of what came in parts is that of the whole; what was learned is not read again."""
    fill(influx, *cadvisor_lines(0, 301))
    store = await open_store(tmp_path / "s", influx.url, source="cadvisor", database="cadvisor")
    first = await store.profiles({"id1": START_US}, LATE_US)
    assert await store.profiles({"id1": START_US}, LATE_US) == first
    fill(influx, *cadvisor_lines(0, 601, seen_s=301))
    whole = await store.series("id1", START_US, LATE_US)
    made = (await store.profiles({"id1": START_US}, LATE_US))["id1"]
    assert abs(made.samples - len(whole)) <= 1  # a sample may begin elsewhere
    assert made.p90 == Resources(250, 4096, 0, 70)
    influx.ask('DROP MEASUREMENT "cpu_usage_total"', "cadvisor")
    assert (await store.profiles({"id1": START_US}, LATE_US))["id1"] == made
    await store.close()


async def test_a_missing_database_is_not_made(influx: Influx, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "s", influx.url, source="cadvisor", database="cadvisor")
    with pytest.raises(StatsUnavailable, match="not found"):
        await store.series("id1", 0, LATE_US)
    names = [row[0] for row in influx.ask("SHOW DATABASES")[0].get("values", [])]
    assert "cadvisor" not in names
    await store.close()


async def test_our_own_counters_read_like_cadvisors(influx: Influx, tmp_path: Path) -> None:
    own = await open_store(tmp_path / "own", influx.url)
    rows = []
    for n in range(10):
        at_us = START_US + n * 30 * US
        reading = Reading(at_us, n * 30 * 5_000_000, 100, n * 60, n * 90, n * 30)
        sample = Sample(at_us, 30 * US, Resources(5, 100, 2, 3))
        rows.append(Measured("c", "n", "a", sample, reading))
    await own.write([*rows, row(START_US, 9, container="other")])
    other = await open_store(tmp_path / "s", influx.url, source="cadvisor", database="tenure")
    assert await other.series("c", 0, LATE_US) == [row.sample for row in rows[1:]]
    history = await other.history("container", "c", START_US, START_US + 600 * US)
    assert (history.cpu_m, history.memory_bytes) == ((5, None), (100, None))
    unknown = await other.history("rest", "n", START_US, START_US + 600 * US)
    assert unknown.cpu_m == (None, None), "cAdvisor's database tells of no node's remainder"
    await other.close()
    await own.close()
