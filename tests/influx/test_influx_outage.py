"""The server is killed, stopped, frozen and brought back under load: nothing kept is lost."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenure.model.units import US
from tenure.profiling.io.influx import drain as influx_drain
from tenure.profiling.io.influx.spool import SpoolBounds
from tenure.profiling.io.influx.stats import InfluxStats
from tenure.profiling.io.store import StatsUnavailable
from testbed import bounded, tied
from testbed.servers import Influx
from tests.influx.gateway import Gateway
from tests.influx.lab import LATE_US, START_US, LoopLag, drained, open_store, row, until

pytestmark = pytest.mark.influx
#: Below the time-out of a request, far above what was measured: the machine may be busy.
TIMEOUT_S, MAX_LAG_S = 6.0, 5.5


async def write_on(store: InfluxStats, stop: asyncio.Event) -> int:
    """Write ten samples at a time until told to stop; return how many times."""
    turn = 0
    while not stop.is_set():
        at_us = START_US + turn * 10_000
        await store.write([row(at_us, turn, container=f"c{n}") for n in range(10)])
        turn += 1
        await asyncio.sleep(0.01)
    return turn


@pytest.fixture(params=["write", "client"])
async def url(influx: Influx, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    if request.param == "write":
        yield influx.url
        return
    influx.ask('CREATE DATABASE "tenure"')
    gateway = Gateway(influx.url, "1.8.10")
    await gateway.start()
    yield gateway.url
    await gateway.close()


async def test_strikes_under_load_lose_nothing(influx: Influx, url: str, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "state", url, timeout_s=TIMEOUT_S)
    stop = asyncio.Event()
    async with LoopLag() as lag:
        writing = asyncio.create_task(write_on(store, stop))
        for strike in ("kill", "stop", "freeze"):
            await asyncio.sleep(0.3)
            if strike == "freeze":
                influx.signal(signal.SIGSTOP)
            else:
                await asyncio.to_thread(influx.kill if strike == "kill" else influx.stop)
            await until(lambda: store.health.error and store.health.spooled_samples > 100)
            if strike == "freeze":
                influx.signal(signal.SIGCONT)
            else:
                await asyncio.to_thread(influx.start)
            await until(lambda: not store.health.error)
        stop.set()
        turns = await writing
        await drained(store)
    assert store.dropped == {}
    for n in range(10):
        found = await store.series(f"c{n}", 0, LATE_US)
        assert [sample.use.cpu_m for sample in found] == list(range(turns))
    assert lag.worst_s < MAX_LAG_S
    await store.close()


async def test_a_frozen_server_holds_up_no_writer(
    influx: Influx, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(influx_drain, "SETTLE_S", 1e6)  # so that waiting for it would show
    store = await open_store(tmp_path / "state", url, timeout_s=0.5)
    await store.write([row(START_US)])
    influx.signal(signal.SIGSTOP)
    async with asyncio.timeout(100):
        await store.write([row(START_US + US)])  # waits until the time-out is known, and no longer
        await until(lambda: store.health.error)
        for n in range(20):
            await store.write([row(START_US + (2 + n) * US)])
    with pytest.raises(StatsUnavailable):
        await store.series("c", 0, LATE_US)
    influx.signal(signal.SIGCONT)
    await drained(store)
    assert len(await store.series("c", 0, LATE_US)) == 22
    await store.close()


async def test_samples_wait_over_a_restart(
    influx: Influx, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    influx.kill()
    store = await open_store(tmp_path / "state", influx.url)
    for n in range(30):
        await store.write([row(START_US + n * US, n)])
    assert caplog.text.count("samples wait in the spool") == 1
    await store.close()
    await store.close()
    with pytest.raises(StatsUnavailable):
        await store.write([row(START_US)])
    influx.start()
    store = await open_store(tmp_path / "state", influx.url)
    await drained(store)
    assert [s.use.cpu_m for s in await store.series("c", 0, LATE_US)] == list(range(30))
    await store.close()


WRITER = """
import asyncio, sys
from pathlib import Path
from tests.influx.lab import START_US, open_store, row

async def main():
    store = await open_store(Path(sys.argv[1]), sys.argv[2])
    turn, begin_us = int(sys.argv[3]), int(sys.argv[4])
    while True:
        await store.write([row(begin_us + turn * 1000, turn)])
        print(turn, flush=True)
        turn += 1

asyncio.run(main())
"""


def started(argv: list[str]) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    return tied.start(argv, stdout=subprocess.PIPE, text=True, env=env)


async def test_kill_9_of_the_writer_loses_nothing_it_was_told_is_kept(
    influx: Influx, tmp_path: Path
) -> None:
    """Killed while the server is there, and while it is away."""
    begun, folder = 0, tmp_path / "state"
    for is_away in (False, True):
        if is_away:
            influx.kill()
        argv = [sys.executable, "-c", WRITER, str(folder), influx.url, str(begun), str(START_US)]
        child = started(argv)
        assert child.stdout is not None
        told = [int(bounded.line(child)) for _ in range(20)]
        child.send_signal(signal.SIGKILL)
        told += [int(line) for line in child.stdout if line.endswith("\n")]
        child.stdout.close()
        assert child.wait(60) == -signal.SIGKILL
        begun = told[-1] + 1
    influx.start()
    store = await open_store(folder, influx.url)
    await drained(store)
    found = [sample.use.cpu_m for sample in await store.series("c", 0, LATE_US)]
    assert found[:begun] == list(range(begun))
    assert len(found) - begun in (0, 1)
    await store.close()


async def test_what_is_beyond_the_bounds_is_counted_exactly(
    influx: Influx, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    influx.kill()
    bounds = SpoolBounds(max_bytes=20_000)
    store = await open_store(tmp_path / "state", influx.url, spool=bounds)
    for n in range(200):
        rows = [row(START_US + n * US, n, container=f"{os.urandom(8).hex()}") for _ in range(9)]
        await store.write([*rows, row(START_US + n * US, n)])
    assert store.health.spooled_bytes <= 20_000
    dropped = store.dropped["size"]
    assert dropped + store.health.spooled_samples == 2000
    assert dropped > 1000
    assert caplog.text.count("samples were dropped (size)") == 1
    influx.start()
    await drained(store)
    kept = [sample.use.cpu_m for sample in await store.series("c", 0, LATE_US)]
    assert kept == list(range(dropped // 10, 200))  # the newest, without a hole
    assert influx.count("tenure", "tenure_usage", "span_us") == 2000 - dropped
    await store.close()


async def test_old_samples_leave_the_spool_while_nothing_is_written(
    influx: Influx, tmp_path: Path
) -> None:
    influx.kill()
    bounds = SpoolBounds(max_age_us=300_000)
    store = await open_store(tmp_path / "state", influx.url, spool=bounds)
    await store.write([row(START_US)])
    await asyncio.sleep(0.31)
    await store.prune(START_US)
    assert (store.dropped, store.health.spooled_samples) == ({"age": 1}, 0)
    await store.close()


async def test_a_large_write_does_not_hold_up_the_loop(url: str, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "state", url)
    await store.write([row(START_US - US)])  # loads the client
    rows = [row(START_US + n * US, n, container=f"c{n % 500}") for n in range(20_000)]
    begun_s = time.monotonic()
    async with LoopLag() as lag:
        await store.write(rows)
        await drained(store)
        made = await store.profiles({f"c{n}": 0 for n in range(500)}, LATE_US)
    assert sum(profile.samples for profile in made.values()) == 20_000
    assert lag.worst_s < (time.monotonic() - begun_s) / 2
    await store.close()
