"""RQ's cron scheduler as one child process: ``python -m tenure.cycles.io.cron``.

It ends with exit code 1 when Redis fails (RQ's scheduler has no other way) and 0 on SIGTERM; the
daemon starts it again. What it forgets or fires twice does no harm: see the table of due runs.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from redis import Redis, RedisError
from rq.cron import CronJob, CronScheduler
from rq.job import Job

from tenure.cycles.io.links import QUEUE, connect
from tenure.cycles.io.tether import Tethered, python_child, tie_to_parent
from tenure.cycles.io.triggers import RUN_CYCLE, enqueue, trigger_queue
from tenure.cycles.schedule import timing_of
from tenure.model.plan import CycleSpec
from tenure.model.units import US

log = logging.getLogger(__name__)
#: With no worker alive triggers would pile up; more than these wait for nothing.
MAX_WAITING = 50


class CronTrigger(CronJob):
    """RQ's cron job, which enqueues the trigger of a cycle as the daemon does: JSON, not pickle."""

    def __init__(self, spec: CycleSpec) -> None:
        timing = timing_of(spec)
        self._kind = spec.kind
        super().__init__(
            queue_name=QUEUE,
            func_name=RUN_CYCLE,
            kwargs={"cycle": spec.name},
            interval=timing.interval_us // US or None,
            cron=timing.cron or None,
            name=spec.name,
        )

    def enqueue(self, connection: Redis) -> Job:
        """Enqueue the trigger."""
        return enqueue(connection, self.name, kind=self._kind)


class AlignedScheduler(CronScheduler):
    """RQ's scheduler with intervals that fall due at whole multiples since the epoch.

    RQ counts an interval from its own start and lets it drift; the daemon's table of due runs
    counts from the epoch, and both must mean the same moments.
    """

    def __init__(self, connection: Redis) -> None:
        super().__init__(connection=connection, name=f"tenure-cron-{os.getpid()}")

    def add(self, spec: CycleSpec) -> CronJob:
        """Fire the triggers of a cycle. Raises InvalidInput for a wrong schedule."""
        self.get_jobs().append(CronTrigger(spec))
        return self.get_jobs()[-1]

    def align(self) -> None:
        """Set the next time of every interval; RQ would fire them all at once at its start."""
        for job in self.get_jobs():
            _align(job)

    def enqueue_jobs(self) -> list[CronJob]:
        """Enqueue what is due, unless too many triggers wait already."""
        if trigger_queue(self.connection).count >= MAX_WAITING:
            log.warning("no worker takes cycles: %d triggers wait, none added", MAX_WAITING)
            for job in self.get_jobs():
                if job.should_run():
                    job.set_enqueue_time(datetime.now(UTC))
            self.align()
            return []
        fired: list[CronJob] = super().enqueue_jobs()
        for job in fired:
            _align(job)
        return fired


def _align(job: CronJob) -> None:
    if job.interval:
        seconds = int(datetime.now(UTC).timestamp()) // job.interval * job.interval
        job.latest_enqueue_time = datetime.fromtimestamp(seconds, UTC)
        job.next_enqueue_time = job.latest_enqueue_time + timedelta(seconds=job.interval)


def run_cron(redis_url: str, cycles: Sequence[CycleSpec]) -> int:
    """Fire the triggers of ``cycles`` until SIGTERM (returns 0) or a Redis error (returns 1).

    Must be called in the main thread. Raises InvalidInput for a wrong schedule.
    """
    connection = connect(redis_url)
    try:
        scheduler = AlignedScheduler(connection)
        for spec in cycles:
            if spec.mode != "off":
                scheduler.add(spec)
        scheduler.align()
        scheduler.start()
    except (RedisError, OSError) as error:
        log.error("cron stops: Redis: %s", error)
        return 1
    finally:
        connection.close()
    return 0


def cron_child(redis_url: str, cycles: Sequence[CycleSpec], *, log_file: Path | None) -> Tethered:
    """Return the child process that runs ``run_cron``, not started yet."""
    order = {
        "parent": os.getpid(),
        "redis_url": redis_url,
        "cycles": [dataclasses.asdict(spec) for spec in cycles],
    }
    return python_child("tenure.cycles.io.cron", stdin=json.dumps(order), log=log_file)


def main() -> int:
    """Read the order of ``cron_child`` from standard input and run it."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    order = json.load(sys.stdin)
    tie_to_parent(int(order["parent"]))
    return run_cron(order["redis_url"], [CycleSpec(**row) for row in order["cycles"]])


if __name__ == "__main__":
    sys.exit(main())
