"""The daemon's side of the queue: trigger runs, and know whether anyone would take them."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar

from redis import RedisError
from rq.job import Job
from rq.worker import WorkerStatus
from rq.worker_registration import WORKERS_BY_QUEUE_KEY

from tenure.cycles.io.links import QUEUE, Fields, connect, read_fields
from tenure.cycles.io.triggers import enqueue, timeout_of, trigger_queue
from tenure.model.errors import Unavailable

T = TypeVar("T")
#: Our workers send a heartbeat every few seconds while idle; three lost ones mean it is gone.
FRESH_S = 15.0
#: More workers than anyone runs; who writes to Redis may have entered more.
MAX_WORKERS = 1000
_WORKER_KEY = re.compile(rb"rq:worker:[A-Za-z0-9_.:-]{1,200}")
_SEEN, _STATE, _JOB = "last_heartbeat", "state", "current_job"


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
        return await self._call(lambda: enqueue(self._redis, cycle, run_id, kind=kind).id)

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
        return await self._call(lambda: int(trigger_queue(self._redis).count))

    async def close(self) -> None:
        """Close the connections; calls under way end first."""
        await asyncio.to_thread(self._threads.shutdown)
        self._redis.close()

    def _count_workers(self) -> int:
        """Count by plain fields; RQ's own classes would un-serialise the jobs of workers."""
        found = self._redis.srandmember(WORKERS_BY_QUEUE_KEY % QUEUE, MAX_WORKERS)
        names = found if isinstance(found, list) else []
        keys = [name for name in names if isinstance(name, bytes) and _WORKER_KEY.fullmatch(name)]
        workers = read_fields(self._redis, keys, (_SEEN, _STATE, _JOB))
        jobs = [Job.key_for("").encode() + worker.values.get(_JOB, b"") for worker in workers]
        stated = read_fields(self._redis, jobs, ("timeout",))
        return sum(map(_is_fresh, workers, stated))

    async def _call(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except (RedisError, OSError) as error:
            raise Unavailable(f"Redis: {error}", code="redis_unavailable") from error


def _is_fresh(worker: Fields, job: Fields) -> bool:
    """Whether a worker's heartbeat is recent; a busy one sends none until its job ends."""
    try:
        seen = datetime.fromisoformat(worker.values.get(_SEEN, b"").decode())
    except ValueError:
        return False
    age_s = time.time() - (seen if seen.tzinfo else seen.replace(tzinfo=UTC)).timestamp()
    is_busy = worker.values.get(_STATE) == WorkerStatus.BUSY.value.encode()
    return age_s < FRESH_S + (timeout_of(job.values.get("timeout")) if is_busy else 0)
