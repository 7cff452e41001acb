"""The daemon's side of the queue: trigger runs, and know whether anyone would take them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar

from redis import RedisError
from rq import Queue
from rq.worker import BaseWorker, Worker, WorkerStatus

from tenure.cycles.io.links import QUEUE, connect
from tenure.model.errors import Unavailable

T = TypeVar("T")
JOB = "tenure.cycles.io.jobs.run_cycle"
#: A plan takes seconds; the daemon gives a claim up after two minutes. Forecasts of a large fleet
#: take minutes, and their claims are given up after a quarter of an hour.
TIMEOUT_S = {"generation": 120, "forecast": 900}
#: Nobody took the trigger for so long: another one came since, or the row was missed.
TRIGGER_TTL_S = 600
RESULT_TTL_S = 600
FAILURE_TTL_S = 24 * 3600
#: Our workers send a heartbeat every few seconds while idle; three lost ones mean it is gone.
FRESH_S = 15.0


class CycleQueue:
    """Calls to Redis, in threads of their own, each ending within a few seconds."""

    def __init__(self, url: str) -> None:
        self._redis = connect(url)
        # Two: a call that waits for a dead Redis must not keep the health check waiting.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="redis")

    async def trigger(self, cycle: str, run_id: str = "", *, kind: str = "generation") -> str:
        """Have a worker run ``cycle`` (its run ``run_id``); return the RQ job's id.

        ``kind`` is the cycle's, which says how long a run may take. Raises Unavailable where Redis
        cannot be reached.
        """
        return await self._call(lambda: self._enqueue(cycle, run_id, TIMEOUT_S[kind]))

    async def workers_alive(self) -> int:
        """Return how many workers have sent a fresh heartbeat; raises Unavailable."""
        return await self._call(self._count_workers)

    async def is_up(self) -> bool:
        """Whether Redis answers."""
        try:
            return await self._call(lambda: bool(self._redis.ping()))
        except Unavailable:
            return False

    async def depth(self) -> int:
        """Return how many triggers wait; raises Unavailable."""
        return await self._call(lambda: int(Queue(QUEUE, connection=self._redis).count))

    async def close(self) -> None:
        """Close the connections; calls under way end first."""
        await asyncio.to_thread(self._threads.shutdown)
        self._redis.close()

    def _enqueue(self, cycle: str, run_id: str, timeout_s: int) -> str:
        job = Queue(QUEUE, connection=self._redis).enqueue_call(
            JOB,
            kwargs={"cycle": cycle, "run_id": run_id},
            timeout=timeout_s,
            ttl=TRIGGER_TTL_S,
            result_ttl=RESULT_TTL_S,
            failure_ttl=FAILURE_TTL_S,
            description=f"cycle {cycle}",
        )
        return str(job.id)

    def _count_workers(self) -> int:
        queue = Queue(QUEUE, connection=self._redis)
        return sum(_is_fresh(worker) for worker in Worker.all(queue=queue))

    async def _call(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except (RedisError, OSError) as error:
            raise Unavailable(f"Redis: {error}", code="redis_unavailable") from error


def _is_fresh(worker: BaseWorker) -> bool:
    """Whether a worker's heartbeat is recent; a busy one sends none until its job ends."""
    if worker.last_heartbeat is None:
        return False
    seen = worker.last_heartbeat
    seen = seen if seen.tzinfo else seen.replace(tzinfo=UTC)
    age_s = time.time() - datetime.timestamp(seen)
    is_busy = worker.get_state() == WorkerStatus.BUSY
    return age_s < FRESH_S + (_timeout_s(worker) if is_busy else 0)


def _timeout_s(worker: BaseWorker) -> float:
    """Return how long a busy worker may be with its job; that of a plan where nobody can tell."""
    job = worker.get_current_job()
    stated = None if job is None else job.timeout
    return float(stated) if isinstance(stated, int | float) else TIMEOUT_S["generation"]
