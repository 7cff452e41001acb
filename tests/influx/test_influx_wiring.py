"""The configuration makes the store; the metrics tell of it."""

from pathlib import Path

import pytest

from tenure.config.load import load
from tenure.daemon.stats import health_of, open_stats
from tenure.profiling.io.influx.stats import InfluxStats
from tenure.profiling.io.sqlite.embedded import EmbeddedStats
from testbed.servers import Influx
from tests.influx.lab import LATE_US, START_US, drained, row


@pytest.mark.influx
async def test_a_configured_influxdb_is_used(influx: Influx, tmp_path: Path) -> None:
    file = tmp_path / "tenured.yml"
    file.write_text(
        f"state_dir: state\nstats: {{driver: influx, url: '{influx.url}/', database: mine}}\n"
    )
    settings = load(file, {"TENURE_STATS__USERNAME": "op", "TENURE_STATS__PASSWORD": "s3cret"})
    assert "s3cret" not in repr(settings)
    store = await open_stats(settings)
    assert isinstance(store, InfluxStats)
    await store.write([row(START_US)])
    await drained(store)
    assert len(await store.series("c", 0, LATE_US)) == 1
    assert influx.count("mine", "cpu_usage_total") == 1
    health = health_of(store)
    assert health is not None
    assert (health.error, health.server[:3]) == ("", "1.6")
    await store.close()


async def test_the_embedded_store_is_the_default(tmp_path: Path) -> None:
    store = await open_stats(load(None, {"TENURE_STATE_DIR": str(tmp_path)}))
    assert isinstance(store, EmbeddedStats)
    assert health_of(store) is None
    await store.close()


def test_defaults_follow_the_source() -> None:
    env = {
        "TENURE_STATS__DRIVER": "influx",
        "TENURE_STATS__URL": "http://db:8086",
        "TENURE_STATS__SOURCE": "cadvisor",
    }
    influx = load(None, env).stats
    assert (influx.database_name, influx.spool_bytes, influx.is_verified) == (
        "cadvisor",
        256 << 20,
        True,
    )
