"""The sampler over InfluxDB: counters as the engines tell them, profiles, and an outage."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tenure.model.events import UsageObserved
from tenure.model.resources import Resources
from tenure.model.units import US, iso
from tenure.profiling.intake.intake import Target
from tenure.profiling.io.sampler import Sampler, SamplerParams, SamplerPorts, Sweep
from testbed.servers import Influx
from tests.influx.lab import LATE_US, START_US, drained, open_store

pytestmark = pytest.mark.influx


class Fleet:
    """One node with one container, and a clock that the test moves."""

    def __init__(self) -> None:
        self.now_us = START_US
        self.seen: list[UsageObserved] = []

    async def stats(self, node: str, engine_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        ran_s = (self.now_us - START_US) // US
        raw = {
            "read": iso(self.now_us),
            "cpu_stats": {"cpu_usage": {"total_usage": ran_s * 250_000_000}},
            "memory_stats": {"usage": 1000, "stats": {"total_inactive_file": 0}},
            "blkio_stats": {"io_service_bytes_recursive": [{"op": "Write", "value": ran_s * 5}]},
            "networks": {"eth0": {"rx_bytes": ran_s * 7, "tx_bytes": ran_s * 2}},
        }
        return dict.fromkeys(engine_ids, raw)

    def targets(self) -> Iterable[tuple[str, Sequence[Target]]]:
        return [("n", [Target("e1", "service", "c1", "app", START_US)])]

    async def sweep(self, sampler: Sampler, times: int) -> Sweep:
        for _ in range(times):
            self.now_us += 10 * US
            last = await sampler.sweep()
        return last


async def test_profiles_and_counters(influx: Influx, tmp_path: Path) -> None:
    fleet = Fleet()
    store = await open_store(tmp_path / "state", influx.url)
    ports = SamplerPorts(fleet.stats, fleet.targets, fleet.seen.append, lambda: fleet.now_us)
    sampler = Sampler(store, ports, SamplerParams(apps_us=US))
    last = await fleet.sweep(sampler, 4)
    assert (last.store_error, last.profiles) == ("", 1)
    profile = fleet.seen[-1].profiles[0]
    assert (profile.container, profile.samples) == ("c1", 3)
    assert profile.p90 == Resources(250, 1000, 5, 9)
    learned = await store.app_profile("app")
    assert learned is not None
    assert learned.p90 == profile.p90

    influx.kill()
    last = await fleet.sweep(sampler, 3)
    assert store.health.error
    # profiles come from sketches beside the spool
    assert (last.store_error, last.samples, last.profiles) == ("", 1, 1)
    assert fleet.seen[-1].profiles[0].samples == 6
    influx.start()
    await drained(store)
    last = await fleet.sweep(sampler, 1)
    assert last.store_error == ""
    assert fleet.seen[-1].profiles[0].samples == 7
    assert len(await store.series("c1", 0, LATE_US)) == 7  # those of the outage are there too

    counters = {}
    for name in ("cpu_usage_total", "memory_working_set", "rx_bytes", "tx_bytes", "diskio_bytes"):
        rows = influx.ask(f'SELECT last("value") FROM "{name}"', "tenure")[0]["values"]
        counters[name] = rows[0][1]
    ran_s = 80
    assert counters == {
        "cpu_usage_total": ran_s * 250_000_000,
        "memory_working_set": 1000,
        "rx_bytes": ran_s * 7,
        "tx_bytes": ran_s * 2,
        "diskio_bytes": ran_s * 5,
    }
