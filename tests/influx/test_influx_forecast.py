"""A past that a real InfluxDB keeps is read as a worker reads it, and forecast."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from math import pi, sin
from pathlib import Path
from typing import Any

import pytest

from tenure.api.views.lazy import Pairs, Rows
from tenure.daemon.answers.pasts import Pasts
from tenure.harvest.io.cycle import PAST_DAYS, forecast_fleet
from tenure.model.forecast import ForecastOptions, NodeForecast
from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, MIB, US
from tenure.profiling.io.store import HISTORY_US
from tenure.profiling.readings.sample import Measured, Sample
from testbed.servers import Influx
from tests.influx.lab import drained, open_store
from tests.unit.core.bench import Bench, node

pytestmark = pytest.mark.influx
DAY_US = 24 * HOUR_US
OBSERVED = ("cpu_m", "memory_bytes")


class Answered:
    """A daemon that has answered already."""

    def __init__(self, usage: Mapping[str, Any]) -> None:
        self._usage = usage
        self.made: list[NodeForecast] = []

    def node_usage(self, node: str, *, days: int, until_us: int) -> Mapping[str, Any]:
        return self._usage

    def submit_forecasts(
        self, run_id: str, forecasts: Sequence[NodeForecast], *, is_last: bool
    ) -> Mapping[str, Any]:
        self.made += forecasts
        return {}


def used(at_us: int, container: str, chance: random.Random) -> list[Measured]:
    share = 0.5 + 0.3 * sin(2 * pi * (at_us % DAY_US) / DAY_US) + chance.uniform(-0.05, 0.05)
    own = Resources(round(1000 * share), round(200 * MIB * share))
    rest = Resources(50, 30 * MIB)
    return [
        Measured(container, "n", "web", Sample(at_us, 30 * US, own, OBSERVED)),
        Measured("", "n", "", Sample(at_us, 30 * US, rest, OBSERVED)),
    ]


def plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document as it comes over the wire."""
    made: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, Rows):
            made[key] = list(value.values)
        else:
            made[key] = dict(value.members) if isinstance(value, Pairs) else value
    answer: dict[str, Any] = json.loads(json.dumps(made))
    return answer


async def test_a_node_is_forecast_from_its_past_in_influxdb(influx: Influx, tmp_path: Path) -> None:
    bench = Bench(node("n", "nursery"))
    bench.connect("n")
    web = bench.create("web")
    now_us = time.time_ns() // 1000
    until_us = now_us // (3 * HISTORY_US) * 3 * HISTORY_US
    chance = random.Random(3)
    times = range(until_us - 5 * DAY_US + US, until_us, HISTORY_US)
    store = await open_store(tmp_path / "state", influx.url)
    await store.write([row for at_us in times for row in used(at_us, web.id, chance)])
    await drained(store)
    pasts = bench.read(Pasts, store)
    usage = await pasts.usage_of("n", (until_us - PAST_DAYS * DAY_US, until_us))
    daemon = Answered(plain(usage))
    found = forecast_fleet(
        daemon, ["n"], run_id="r", now_us=now_us, options=ForecastOptions(model="linear")
    )
    assert found == {"forecast": 1, "cold": 0}
    (made,) = daemon.made
    assert made.containers == (web.id,)
    assert made.history_days > 4.9
    assert 800 < max(made.cpu_m) < 1300
    assert max(made.memory_bytes) < 250 * MIB
    await store.close()
