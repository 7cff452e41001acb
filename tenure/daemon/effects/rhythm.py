"""The rhythm of cycles: due times, Redis, RQ's cron scheduler and the embedded worker.

The core's table of due runs says what must happen. RQ's scheduler is a child that triggers workers;
Redis may go at any time. When it is back, due runs that nobody filled are triggered once.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.core.state.context import Context
from tenure.cycles.io.tether import Tethered
from tenure.cycles.schedule import due_times, latest_due, timing_of
from tenure.daemon.events.loop import EventMaker
from tenure.model.effects import Trigger
from tenure.model.errors import TenureError, Unavailable
from tenure.model.events import CycleDue, FailRun
from tenure.model.plan import CycleSpec, RunState

if TYPE_CHECKING:
    from tenure.cycles.io.queue import CycleQueue
    from tenure.cycles.io.redis_server import RedisServer

log = logging.getLogger(__name__)

CHECK_S = 1.0
#: What speaks to Redis takes a quarter of a second to import, which no start has to wait for.
REDIS_MODULES = ("tenure.cycles.io.cron", "tenure.cycles.io.queue", "tenure.cycles.io.redis_server")
#: An embedded Redis that could not be started is tried again after this.
RESTART_FAILED_US = 30_000_000
#: An embedded Redis that runs is ended, and another started, once so many looks in a row had no
#: answer from it within the time of a call: half a minute in all.
SILENT_LOOKS = 10
#: Due times are told each second; where it was longer than this they could not be.
SLEPT_US = 60_000_000
#: A due run that nobody claimed for so long is triggered (again): claims make it happen once.
NUDGE_US = 5_000_000


@dataclass(frozen=True, slots=True)
class RhythmPorts:
    """What the rhythm is given.

    ``redis_url`` empty means an embedded Redis and one embedded worker in ``directory``;
    ``worker_argv`` is the command of that worker, which reads its order from standard input.
    """

    put: Callable[[EventMaker], None]
    now_us: Callable[[], int]
    directory: Path
    redis_url: str = ""
    worker_argv: Sequence[str] = ()
    worker_order: Callable[[str], str] = field(default=lambda url: url)


class Rhythm:
    """Supervises everything that makes cycles run; never a source of truth."""

    def __init__(self, ctx: Context, ports: RhythmPorts) -> None:
        self._ctx = ctx
        self._ports = ports
        self._server: RedisServer | None = None
        self._queue: CycleQueue | None = None
        self._cron: Tethered | None = None
        self._worker: Tethered | None = None
        self._cycles: tuple[CycleSpec, ...] = ()
        self._told: dict[str, int] = {}
        self._triggers: set[asyncio.Task[None]] = set()
        self.is_redis_up = False
        self.workers = 0
        self._silent = 0
        self._error = "not started yet"
        self._not_before_us = 0
        self._nudged: dict[str, int] = {}

    @property
    def url(self) -> str:
        return self._ports.redis_url or (self._server.url if self._server else "")

    def configure(self, cycles: Sequence[CycleSpec]) -> None:
        """Take over the configured cycles; the scheduler is restarted if they changed."""
        if tuple(cycles) != self._cycles:
            self._cycles = tuple(cycles)
            self._stop_cron()

    async def run(self) -> None:
        """Tell due times and look after Redis and the children until cancelled."""
        self._recall()
        for name in REDIS_MODULES:
            await asyncio.to_thread(import_module, name)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell())
            tasks.create_task(self._supervise())

    async def _tell(self) -> None:
        """Tell due times, whatever a call to Redis waits for."""
        while True:
            self._tell_due()
            await asyncio.sleep(CHECK_S)

    async def _supervise(self) -> None:
        while True:
            try:
                await self._look_after()
            except (TenureError, OSError) as error:
                self._error = str(error)
                self.is_redis_up = False
            await asyncio.sleep(CHECK_S)

    def _recall(self) -> None:
        """Begin where the table of due runs ends; of an outage only the latest is caught up."""
        now = self._ports.now_us()
        for cycle in self._cycles:
            known = [
                run.due_us
                for run in self._ctx.tables.runs.values()
                if run.cycle == cycle.name and not run.is_manual
            ]
            due = latest_due(timing_of(cycle), max(known, default=now), now)
            if due is not None and cycle.mode != "off":
                self._put_due(cycle.name, due)
            self._told[cycle.name] = now

    def _tell_due(self) -> None:
        """Tell every moment since the last time, so that each has its row in the table.

        Of a time in which nothing was told (a step of the clock, a machine that slept) only the
        latest, as after any outage: a day of a short interval is thousands of rows.
        """
        now = self._ports.now_us()
        for cycle in self._cycles:
            after, timing = self._told.setdefault(cycle.name, now), timing_of(cycle)
            if now - after > SLEPT_US:
                after = max(after, (latest_due(timing, after, now) or now) - 1)
            for due in due_times(timing, after, now):
                self._told[cycle.name] = due
                if cycle.mode != "off":
                    self._put_due(cycle.name, due)

    def _put_due(self, name: str, due_us: int) -> None:
        self._ports.put(lambda at_us: CycleDue(at_us=at_us, cycle=name, due_us=due_us))

    async def _look_after(self) -> None:
        from tenure.cycles.io.queue import CycleQueue
        from tenure.cycles.io.redis_server import RedisServer

        if self._server is None and not self._ports.redis_url:
            self._server = RedisServer(self._ports.directory)
        if self._server is not None and not self._server.is_alive:
            self.is_redis_up = False
            self._start_server(self._server)
        queue = self._queue
        if queue is None:
            queue = self._queue = CycleQueue(self.url)
        was_up, self.is_redis_up = self.is_redis_up, await queue.is_up()
        if not self.is_redis_up:
            self._error, self.workers = "Redis does not answer", 0
            await self._end_silent()
            return
        self._error, self._silent = "", 0
        self._keep_children()
        self.workers = await queue.workers_alive()
        if not was_up:
            log.info("Redis answers")
        if self.workers:
            self._catch_up()

    async def _end_silent(self) -> None:
        """End an embedded Redis that runs without an answer for long; the next look starts one."""
        self._silent += 1
        if self._server is not None and self._silent >= SILENT_LOOKS:
            self._silent = 0
            log.error("the embedded Redis runs but does not answer: another takes its place")
            await asyncio.to_thread(self._server.stop)

    def _start_server(self, server: RedisServer) -> None:
        """Start the embedded Redis; one that fails is left alone for a while, for it blocks."""
        now = self._ports.now_us()
        if now < self._not_before_us:
            raise Unavailable(self._error)
        self._not_before_us = now + RESTART_FAILED_US
        server.start()
        self._not_before_us = 0

    def _keep_children(self) -> None:
        from tenure.cycles.io.cron import cron_child

        if self._cron is None:
            self._cron = cron_child(self.url, self._cycles, log_file=self._log("cron"))
        if not self._cron.is_alive and self._cycles:
            self._cron.start()
        if self._server is None or not self._ports.worker_argv:
            return
        if self._worker is None:
            self._worker = Tethered(
                list(self._ports.worker_argv),
                stdin=self._ports.worker_order(self.url),
                log=self._log("worker"),
            )
        if not self._worker.is_alive:
            self._fail_orphans()
            self._worker.start()

    def _fail_orphans(self) -> None:
        """End the runs whose worker, the only one there can be, ended before it had a plan."""
        for key in sorted(self._ctx.index.open_runs):
            if self._ctx.tables.runs[key].state is RunState.CLAIMED:
                self._put_failed(key)

    def _put_failed(self, key: str) -> None:
        reason = "its worker ended before it submitted a plan"
        self._ports.put(lambda at_us: FailRun(at_us=at_us, request="", run_id=key, reason=reason))

    def _log(self, name: str) -> Path:
        self._ports.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._ports.directory / f"{name}.log"

    def _catch_up(self) -> None:
        """Trigger due runs whose own trigger was lost (Redis away, scheduler or worker killed)."""
        now = self._ports.now_us()
        due = [self._ctx.tables.runs[key] for key in sorted(self._ctx.index.open_runs)]
        late = [r for r in due if r.state is RunState.DUE and r.due_us < now - NUDGE_US]
        self._nudged = {r.id: self._nudged.get(r.id, 0) for r in late}
        for run in late:
            if self._nudged[run.id] < now - NUDGE_US:
                self._nudged[run.id] = now
                self.trigger(Trigger(run.cycle, run.id))

    def trigger(self, effect: Trigger) -> None:
        """Have a worker run a cycle; a failure shows in the run's own time-out."""
        task = asyncio.create_task(self._trigger(effect))
        self._triggers.add(task)
        task.add_done_callback(self._triggers.discard)

    async def _trigger(self, effect: Trigger) -> None:
        try:
            if self._queue is not None:
                spec = self._ctx.learned.cycles.get(effect.cycle)
                kind = "generation" if spec is None else spec.kind
                await self._queue.trigger(effect.cycle, effect.run_id, kind=kind)
        except Unavailable as error:
            log.warning("run %s was not triggered: %s", effect.run_id, error.detail)

    async def require_worker(self) -> None:
        """Raise Unavailable, code ``no_worker``, unless a worker would take a run now."""
        alive = 0
        if self._queue is not None:
            try:
                alive = await self._queue.workers_alive()
            except Unavailable as error:
                detail = f"cycles cannot run: {error.detail}"
                raise Unavailable(detail, code="no_worker") from error
        if not alive:
            raise Unavailable("no worker is alive; start one: tenured worker", code="no_worker")

    def degraded(self) -> dict[str, str]:
        """Return what ails the cycles, by part; empty when all is well."""
        if not self.is_redis_up:
            return {"redis": f"{self._error or 'unknown'}; jobs go on, cycles wait"}
        if self.workers == 0:
            return {"worker": "no worker is alive; cycles wait"}
        return {}

    def children(self) -> dict[str, int]:
        """Return the pids of the children that run, by name."""
        server = self._server.pid if self._server and self._server.is_alive else None
        found = {"redis": server}
        for name, child in (("cron", self._cron), ("worker", self._worker)):
            found[name] = child.pid if child is not None and child.is_alive else None
        return {name: pid for name, pid in found.items() if pid is not None}

    def _stop_cron(self) -> None:
        if self._cron is not None:
            self._cron.stop()
            self._cron = None

    async def close(self) -> None:
        """Stop the children; Redis last."""
        for task in list(self._triggers):
            task.cancel()
        self._stop_cron()
        if self._worker is not None:
            self._worker.stop()
        if self._queue is not None:
            await self._queue.close()
        if self._server is not None:
            self._server.stop()


def python_argv(module: str) -> list[str]:
    """Return the command that runs a module with this interpreter."""
    return [sys.executable, "-m", module]
