"""An operator's Redis by URL and workers of their own; Redis goes away and comes back."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure.cycles.io.redis_server import RedisServer
from tenure.model.errors import Unavailable
from testbed import bounded
from tests.faults.rig import Rig, now_us, rigged
from tests.faults.share import Share
from tests.faults.statedb import records
from tests.faults.tenured import kill, spawn_module, until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.strikes("operator_redis"),
    pytest.mark.timeout(900),
]


@contextmanager
def worker(rig: Rig) -> Iterator[subprocess.Popen[bytes]]:
    """Run one ``tenured worker``."""
    words = ("worker", "--config", str(rig.tenured.config_file))
    process = spawn_module("tenure.cli.daemon", *words, log=rig.tenured.folder / "worker.log")
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        bounded.wait(process)


def test_operator_redis(folder: Path, share: Share) -> None:
    redis = RedisServer(folder / "redis", transport="tcp")
    redis.start()

    def use_redis(config: dict[str, Any]) -> None:
        config["redis"] = {"url": redis.url}

    try:
        with rigged(folder, share, "operator_redis", change=use_redis) as rig:
            rig.begin()
            with worker(rig) as first, worker(rig) as second:
                _work_is_shared(rig, first)
                _redis_goes_and_comes(rig, redis)
                _no_worker_is_said(rig, second)
            rig.drain()
            assert not (found := rig.verdict()), "\n".join(found)
    finally:
        redis.stop()


def _work_is_shared(rig: Rig, first: subprocess.Popen[bytes]) -> None:
    """Cycles run; with one worker killed the other one goes on."""
    until(lambda: _done(rig, 0), 60, "a first cycle")
    assert "redis" not in rig.tenured.health()["parts"]["children"]
    kill(first.pid)
    at_us = now_us()
    until(lambda: _done(rig, at_us), 60, "a cycle of the worker that is left")


def _done(rig: Rig, since_us: int) -> list[dict[str, Any]]:
    rows = records(rig.tenured.database, "runs").values()
    return [row for row in rows if row["state"] == "done" and row["due_us"] > since_us]


def _redis_goes_and_comes(rig: Rig, redis: RedisServer) -> None:
    """Jobs go on without Redis; of what fell due meanwhile, at most the latest is caught up."""
    assert redis.pid is not None
    kill(redis.pid)
    gone_us = now_us()
    health = until(lambda: _degraded(rig, "redis"), 15, "readyz to say that Redis is away")
    assert health["status"] == "degraded"
    before = len(rig.load.expected)
    until(lambda: len(rig.load.expected) >= before + 4, 40, "jobs without Redis")
    job = rig.load.expected[before]
    until(lambda: rig.tenured.client.job(job.id)["finished_at"], 60, "a job without Redis")
    until(lambda: now_us() > gone_us + 10_000_000, 15, "several cycles to fall due")
    back_us = now_us()
    redis.start()
    until(lambda: _done(rig, back_us), 60, "a cycle after the outage")
    until(lambda: not _degraded(rig, "redis"), 15, "readyz to say that all is well")
    for name in rig.tenured.cycles:
        _caught_up_once(rig, name, gone_us, back_us)


def _caught_up_once(rig: Rig, cycle: str, gone_us: int, back_us: int) -> None:
    rows = records(rig.tenured.database, "runs").values()
    fallen = [row for row in rows if row["cycle"] == cycle and gone_us < row["due_us"] <= back_us]
    assert len(fallen) >= 2, fallen
    # a worker that had its order from Redis before that went claims the latest run all the same
    early = [row["due_us"] for row in fallen if 0 < (row["claimed_us"] or 0) <= back_us]
    assert len(early) <= 1, early
    claimed = [row["due_us"] for row in fallen if (row["claimed_us"] or 0) > back_us]
    assert claimed in ([], [max(row["due_us"] for row in fallen)]), claimed
    others = [row["state"] for row in fallen if row["due_us"] not in (*claimed, *early)]
    assert set(others) <= {"missed", "skipped"}, others


def _degraded(rig: Rig, part: str) -> dict[str, Any] | None:
    health = rig.tenured.health()
    return health if part in health.get("degraded", {}) else None


def _no_worker_is_said(rig: Rig, worker: subprocess.Popen[bytes]) -> None:
    """A worker ends on SIGTERM; with none alive a person who asks for a run is told."""
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    until(lambda: _degraded(rig, "worker"), 30, "readyz to say that no worker is alive")
    with pytest.raises(Unavailable) as refused:
        rig.tenured.make_client().run_cycle("promote")
    assert refused.value.code == "no_worker"
