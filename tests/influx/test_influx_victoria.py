"""A second real server for influxdb-client's v2 writes; it answers no InfluxQL."""

from pathlib import Path

import pytest

from tenure.model.units import US
from testbed.servers import Victoria
from tests.influx.lab import START_US, drained, open_store, row, until

pytestmark = pytest.mark.influx


def kept(victoria: Victoria) -> list[float]:
    victoria.flush()
    found = victoria.export('tenure_usage_cpu_m{container_name="c",machine="n"}')
    return [value for series in found for value in series["values"]]


async def test_client_writes_arrive_and_survive_an_outage(
    victoria: Victoria, tmp_path: Path
) -> None:
    store = await open_store(tmp_path / "state", victoria.url, database="any")
    await store.write([row(START_US + n * US, n) for n in range(5)])
    await drained(store)
    victoria.stop()
    for n in range(5, 10):
        await store.write([row(START_US + n * US, n)])
    assert store.health.spooled_samples == 5
    victoria.start()
    await drained(store)
    await until(lambda: kept(victoria) == list(range(10)))
    assert store.dropped == {}
    await store.close()
