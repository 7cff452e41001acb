"""The worker: RQ's ``SimpleWorker`` in the main thread, kept going over Redis failures.

SimpleWorker, because a cycle takes milliseconds: no fork beside threads, no interpreter start per
job, unix sockets work, and a killed worker leaves no work horse behind. Its job time-outs work in
the main thread (SIGALRM). More workers are more processes.
"""

from __future__ import annotations

import logging
import random
import signal
import time
from types import FrameType

import redis.exceptions
from redis import Redis
from redis.client import Pipeline
from rq import Queue, SimpleWorker
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.utils import now
from rq.worker import WorkerStatus

from tenure.cycles.io.jobs import GatewayFactory, use_gateway
from tenure.cycles.io.links import connect
from tenure.cycles.io.triggers import TriggerJob, TriggerQueue, trigger_queue

log = logging.getLogger(__name__)
#: RQ blocks for the time-to-live less 15 s between heartbeats: 4 s here.
WORKER_TTL_S = 19
RETRY_S = (0.2, 5.0)
SIGNALS = (signal.SIGTERM, signal.SIGINT)
POLL_S = 0.05


class Stop:
    """Whether SIGTERM or SIGINT came. Its handlers only note it; RQ's raise out of a wait."""

    def __init__(self) -> None:
        self.is_set = False

    def note(self, signum: int, frame: FrameType | None) -> None:
        """Take the signal."""
        self.is_set = True

    def install(self) -> None:
        """Handle the signals in place of RQ."""
        for sign in SIGNALS:
            signal.signal(sign, self.note)

    def wait(self, seconds: float) -> None:
        """Wait, at most until a signal comes."""
        end_s = time.monotonic() + seconds
        while not self.is_set and time.monotonic() < end_s:
            time.sleep(POLL_S)


class CycleWorker(SimpleWorker):
    """A worker that is known again after Redis came back empty, and that a signal ends at once.

    It makes the calls of ``triggers.FUNCTIONS`` alone; every other entry is reported and removed.
    """

    # RQ's own waits between attempts grow to a minute; a cycle may be due every few seconds.
    max_connection_wait_time = RETRY_S[1]

    def __init__(self, connection: Redis, stop: Stop) -> None:
        super().__init__(
            [trigger_queue(connection)],
            connection=connection,
            job_class=TriggerJob,
            queue_class=TriggerQueue,
            serializer=JSONSerializer,
            worker_ttl=WORKER_TTL_S,
            log_job_description=False,
        )
        self._stop = stop

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Make the call of a trigger; what is none is never handed to RQ."""
        refusal = job.refusal if isinstance(job, TriggerJob) else "RQ read it as a job of its own"
        if not refusal:
            super().execute_job(job, queue)
            return
        log.error(
            "refused job %s of the queue in Redis: %s; who wrote it can write to Redis",
            job.id,
            refusal,
        )
        if isinstance(job, TriggerJob):
            job.forget()

    def run_maintenance_tasks(self) -> None:
        """Tidy the registries of our queue, whatever somebody else has put there."""
        try:
            self.clean_registries()
        except (ValueError, redis.exceptions.ResponseError) as error:
            log.warning("the registries of the queue in Redis hold what RQ cannot read: %s", error)
            self.last_cleaned_at = now()  # type: ignore[assignment]

    def _install_signal_handlers(self) -> None:
        super()._install_signal_handlers()
        # A signal that came while we registered was only noted.
        self._stop_requested = self._stop.is_set

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """End now when idle, after the job under way otherwise."""
        self._stop.is_set = True
        super().request_stop(signum, frame)

    def subscribe(self) -> None:
        """Listen to no commands: a thread and a connection less, and none of ours sends any."""

    def unsubscribe(self) -> None:
        """Undo ``subscribe``."""

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """Send a heartbeat; register again where Redis lost us."""
        if pipeline is None and not self.connection.hexists(self.key, "birth"):
            self.connection.delete(self.key)
            self.register_birth()
        super().heartbeat(timeout, pipeline)

    def set_state(self, state: str, pipeline: Pipeline | None = None) -> None:
        """Tell the state; idle with a heartbeat, for the last one is as old as the run was long."""
        if state == WorkerStatus.IDLE and pipeline is None:
            self.heartbeat()
        super().set_state(state, pipeline)

    def teardown(self) -> None:
        """Unregister if Redis is there; if not, our entry ends by its time-to-live."""
        self._stop.install()
        try:
            super().teardown()
        except redis.exceptions.RedisError as error:
            log.warning("worker could not unregister: %s", error)


def run_worker(redis_url: str, factory: GatewayFactory) -> int:
    """Take cycles from the queue until SIGTERM or SIGINT; return 0.

    ``factory`` makes the gateway to the daemon for each job. Redis away: tried again with a delay
    that grows from ``RETRY_S[0]`` to ``RETRY_S[1]`` seconds. Must be called in the main thread,
    whose signal handlers it replaces.
    """
    use_gateway(factory)
    stop = Stop()
    stop.install()
    attempt = 0
    while not stop.is_set:
        begin_s = time.monotonic()
        _work(redis_url, stop)
        # One that worked for a while begins with a short wait again.
        attempt = 0 if time.monotonic() - begin_s > RETRY_S[1] else attempt + 1
        stop.wait(_delay_s(attempt))
    return 0


def _work(redis_url: str, stop: Stop) -> None:
    """Work until stopped or until Redis fails."""
    connection = connect(redis_url)
    try:
        CycleWorker(connection, stop).work(logging_level="WARNING")
    except (redis.exceptions.RedisError, OSError) as error:
        log.warning("worker waits for Redis: %s", error)
    finally:
        connection.close()


def _delay_s(attempt: int) -> float:
    """Return the wait before the next attempt, doubled each time, with a fifth of jitter."""
    low_s, high_s = RETRY_S
    return float(min(high_s, low_s * 2 ** min(attempt, 10)) * random.uniform(0.8, 1.2))
