"""Cron, queue and worker over a real Redis: they work, fail, and recover."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenure.cycles.io.cron import MAX_WAITING, AlignedScheduler, cron_child
from tenure.cycles.io.links import connect
from tenure.cycles.io.queue import FRESH_S, CycleQueue
from tenure.cycles.io.redis_server import RedisServer
from tenure.cycles.io.worker import CycleWorker, Stop
from tenure.model.errors import Unavailable
from tenure.model.plan import CycleSpec
from tenure.model.units import US
from testbed import bounded
from tests.redis.lab import SPEC, Files, is_running, stop, until

pytestmark = pytest.mark.redis
Worker = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
async def queue(server: RedisServer) -> AsyncIterator[CycleQueue]:
    made = CycleQueue(server.url)
    yield made
    await made.close()


async def workers(queue: CycleQueue, number: int, timeout_s: float = 60) -> None:
    async with asyncio.timeout(timeout_s):
        while await queue.workers_alive() != number:  # noqa: ASYNC110 - another process's doing
            await asyncio.sleep(0.05)


async def fired(queue: CycleQueue) -> None:
    async with asyncio.timeout(60):
        while await queue.depth() == 0:  # noqa: ASYNC110 - another process's doing
            await asyncio.sleep(0.05)


async def reaches(condition: Callable[[], object], timeout_s: float = 60) -> None:
    await asyncio.to_thread(until, condition, timeout_s)


async def test_a_triggered_run_is_planned_by_a_worker(
    queue: CycleQueue, worker: Worker, files: Files
) -> None:
    process = worker()
    await workers(queue, 1)
    await queue.trigger(SPEC.name, "promote@manual-1")
    await reaches(lambda: files.all("plan"))
    made = files.all("plan")[0]
    assert (made["run_id"], made["generation"]) == ("promote@manual-1", "nursery")
    assert made["pid"] == process.pid  # no work horse
    assert await queue.depth() == 0
    assert await asyncio.to_thread(stop, process) == 0
    await workers(queue, 0)


async def test_a_killed_worker_is_counted_no_more_and_another_takes_over(
    queue: CycleQueue, worker: Worker, files: Files
) -> None:
    first = worker()
    await workers(queue, 1)
    first.kill()
    bounded.wait(first)
    await queue.trigger(SPEC.name, "r")
    worker()
    await reaches(lambda: files.all("plan"))
    await workers(queue, 1)  # its last heartbeat has grown old


async def test_sigterm_lets_the_run_under_way_end(
    queue: CycleQueue, worker: Worker, files: Files
) -> None:
    (files.folder / "slow").write_text("1.5")
    process = worker()
    await queue.trigger(SPEC.name, "r")
    await reaches((files.folder / "began").exists)
    assert await queue.workers_alive() == 1  # busy, and known to be
    assert await asyncio.to_thread(stop, process) == 0
    assert [made["run_id"] for made in files.all("plan")] == ["r"]


async def test_a_worker_that_ends_a_long_run_is_alive(
    queue: CycleQueue, server: RedisServer
) -> None:
    connection = connect(server.url)
    worker = CycleWorker(connection, Stop())
    worker.heartbeat()
    worker.set_state("busy")
    begun = datetime.now(UTC) - timedelta(seconds=2 * FRESH_S)
    connection.hset(worker.key, "last_heartbeat", begun.isoformat())
    assert await queue.workers_alive() == 1
    worker.set_state("idle")
    assert await queue.workers_alive() == 1
    connection.close()


async def test_redis_down_is_said_quickly_and_a_worker_comes_back(
    queue: CycleQueue, server: RedisServer, worker: Worker, files: Files
) -> None:
    process = worker()
    await workers(queue, 1)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await reaches(lambda: not server.is_alive)
    async with asyncio.timeout(30):
        assert not await queue.is_up()
        with pytest.raises(Unavailable, match="Redis"):
            await queue.trigger(SPEC.name)
        with pytest.raises(Unavailable):
            await queue.workers_alive()
    server.start()
    assert await queue.is_up()
    await workers(queue, 1)  # the same worker, known again to an empty Redis
    await queue.trigger(SPEC.name, "after")
    await reaches(lambda: files.all("plan"))
    assert files.all("plan")[0]["pid"] == process.pid


async def test_a_frozen_redis_is_down_within_seconds(
    queue: CycleQueue, server: RedisServer
) -> None:
    assert await queue.is_up()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(30):
            assert not await queue.is_up()
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert await queue.is_up()


async def test_a_worker_waits_for_a_redis_that_is_not_there_yet(
    queue: CycleQueue, server: RedisServer, worker: Worker
) -> None:
    server.stop()
    process = worker()
    await asyncio.sleep(1)  # it has tried in vain at least once
    assert process.poll() is None
    server.start()
    await workers(queue, 1)
    server.stop()
    assert await asyncio.to_thread(stop, process) == 0  # also while Redis is away


async def test_cron_fires_an_interval_that_a_worker_runs(
    queue: CycleQueue, server: RedisServer, worker: Worker, files: Files, tmp_path: Path
) -> None:
    worker()
    await workers(queue, 1)
    cron = cron_child(server.url, [SPEC], log_file=tmp_path / "cron.log")
    cron.start()
    try:
        await reaches(lambda: len(files.all("plan")) >= 3)
    finally:
        code = cron.stop()
    assert code == 0


async def test_an_interval_does_not_drift_from_its_multiples(server: RedisServer) -> None:
    connection = connect(server.url)
    scheduler = AlignedScheduler(connection)
    job = scheduler.add(CycleSpec("c", "nursery", "young", interval_us=7 * US))
    scheduler.align()
    assert scheduler.enqueue_jobs() == []
    job.next_enqueue_time = datetime.fromtimestamp(0, UTC)
    assert scheduler.enqueue_jobs() == [job]
    assert job.next_enqueue_time.timestamp() % 7 == 0
    assert 0 < job.next_enqueue_time.timestamp() - time.time() <= 7
    connection.close()


async def test_cron_ends_with_an_error_when_redis_does_and_starts_again(
    queue: CycleQueue, server: RedisServer, tmp_path: Path
) -> None:
    log = tmp_path / "cron.log"
    cron = cron_child(server.url, [SPEC], log_file=log)
    cron.start()
    await fired(queue)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await reaches(lambda: not cron.is_alive)
    assert cron.exit_code == 1
    assert "cron stops" in log.read_text()
    server.start()
    cron.start()
    await fired(queue)
    assert cron.stop() == 0


async def test_triggers_that_nobody_takes_do_not_pile_up(
    queue: CycleQueue, server: RedisServer, tmp_path: Path
) -> None:
    await asyncio.gather(*(queue.trigger("x") for _ in range(MAX_WAITING)))
    log = tmp_path / "cron.log"
    cron = cron_child(server.url, [SPEC], log_file=log)
    cron.start()
    await reaches(lambda: log.exists() and log.read_text().count("none added") >= 2)
    cron.stop()
    assert await queue.depth() == MAX_WAITING


async def test_what_is_off_or_not_due_does_not_fire(
    queue: CycleQueue, server: RedisServer, tmp_path: Path
) -> None:
    off = CycleSpec("off", "nursery", "young", interval_us=US, mode="off")
    yearly = CycleSpec("yearly", "nursery", "young", cron="0 0 1 1 *")
    # RQ alone would fire an interval once at its start.
    rare = CycleSpec("rare", "nursery", "young", interval_us=1_000_003 * US)
    cron = cron_child(server.url, [off, yearly, rare], log_file=tmp_path / "cron.log")
    cron.start()
    client = connect(server.url)
    await reaches(lambda: client.zcard("rq:cron_schedulers"))
    names = str(client.hget(client.keys("rq:cron_scheduler:*")[0], "cron_jobs"))
    assert "yearly" in names
    assert "off" not in names
    await asyncio.sleep(1.2)  # longer than the interval of the one that is off
    assert await queue.depth() == 0
    client.close()
    assert cron.stop() == 0
    assert cron.pid is not None
    assert not is_running(cron.pid)
