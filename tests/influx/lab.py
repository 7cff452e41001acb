"""Samples and stores for the tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, US
from tenure.profiling.io.influx.params import InfluxParams
from tenure.profiling.io.influx.stats import InfluxStats
from tenure.profiling.readings.sample import Measured, Reading, Sample

#: A whole hour, so that buckets begin with it, and within any retention.
START_US = (time.time_ns() // 1000 // HOUR_US - 2) * HOUR_US
LATE_US = START_US + 10 * HOUR_US
#: Closed after each test, also where it fails before it does so itself.
OPENED: list[InfluxStats] = []


def row(at_us: int, cpu_m: int = 5, container: str = "c", app: str = "a") -> Measured:
    use = Resources(cpu_m, 100, 0, 3)
    observed = ("cpu_m", "memory_bytes", "net_bytes_per_s")
    reading = Reading(at_us, cpu_m * 1000, 100, None, 30, 10)
    return Measured(container, "n", app, Sample(at_us, 30 * US, use, observed), reading)


def params_for(url: str, **changed: Any) -> InfluxParams:
    quick = {"retry_min_s": 0.05, "retry_max_s": 0.3, "timeout_s": 10.0}
    return InfluxParams(url, **{**quick, **changed})


async def open_store(folder: Path, url: str, **changed: Any) -> InfluxStats:
    store = await InfluxStats.open(params_for(url, **changed), folder)
    OPENED.append(store)
    return store


async def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Wait until ``condition`` is true; fails after ``timeout_s``."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "waited in vain"
        await asyncio.sleep(0.01)


async def drained(store: InfluxStats) -> None:
    """Wait until nothing waits in the spool and the server takes writes."""
    await until(lambda: not store.health.error and not store.health.spooled_samples)


class LoopLag:
    """The longest time that the event loop did nothing else, while in the block."""

    def __init__(self) -> None:
        self.worst_s = 0.0

    async def __aenter__(self) -> LoopLag:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        before_s = time.monotonic()
        while True:
            await asyncio.sleep(0.005)
            self.worst_s = max(self.worst_s, time.monotonic() - before_s)
            before_s = time.monotonic()
