"""From the spool to the server, in order, with pauses that grow while it is away.

One task sends; writers only append. So a server that hangs holds nobody up, and nothing is lost
between the two: a record leaves the spool after the server has kept it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tenure.profiling.io.influx.lines import encode
from tenure.profiling.io.influx.params import InfluxParams
from tenure.profiling.io.influx.server import InfluxServer, PointsRefused, TooLarge
from tenure.profiling.io.influx.spool import Record, Spool
from tenure.profiling.io.store import StatsUnavailable
from tenure.profiling.readings.sample import Measured

log = logging.getLogger(__name__)
#: Samples per record: some 6,000 lines, about a megabyte; a server takes that in one request.
RECORD_SAMPLES = 1_000
#: A writer waits this long for a server that is well, so that it reads what it wrote.
SETTLE_S = 2.0


@dataclass(frozen=True, slots=True)
class DrainHealth:
    """``error`` is empty while the server takes writes; ``server`` its version, empty before the
    first contact; ``dropped`` samples lost since ever, by reason: age, size, refused, damaged,
    disk.
    """

    error: str = ""
    server: str = ""
    spooled_samples: int = 0
    spooled_bytes: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


def wall_us() -> int:
    """Return the time of day."""
    return time.time_ns() // 1000


class Drain:
    """Owns the way from ``put`` to the server."""

    def __init__(
        self,
        spool: Spool,
        server: InfluxServer,
        params: InfluxParams,
        *,
        now_us: Callable[[], int] = wall_us,
    ) -> None:
        self._spool = spool
        self._server = server
        self._params = params
        self._now_us = now_us
        self._wake = asyncio.Event()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._told = dict(spool.dropped)
        self._is_told: set[str] = set()
        self._pause_s = params.retry_min_s
        self._error = ""
        self._server_text = ""

    @property
    def health(self) -> DrainHealth:
        """The present state."""
        size = self._spool.size
        return DrainHealth(
            self._error, self._server_text, size.samples, size.bytes, dict(self._spool.dropped)
        )

    def start(self) -> None:
        """Connect, and send what an earlier process left."""
        if self._params.base.startswith("https") and not self._params.is_verified:
            log.warning("the certificate of InfluxDB is not checked")
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name="influx-drain")
        self._task.add_done_callback(_report_end)

    async def close(self) -> None:
        """Stop sending; what waits stays in the spool."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._settle(None)

    async def put(self, samples: Sequence[Measured]) -> None:
        """Keep samples; returns once the server has them, or soon where it is slow or away.

        Raises StatsUnavailable where the disk takes no more; the samples are lost then.
        """
        chunks = [samples[i : i + RECORD_SAMPLES] for i in range(0, len(samples), RECORD_SAMPLES)]
        bodies = [(await asyncio.to_thread(encode, chunk), len(chunk)) for chunk in chunks]
        try:
            last = await self._spool.append(bodies, self._now_us())
        except StatsUnavailable:
            self._spool.count_lost("disk", len(samples))
            self._tell_losses()
            raise
        self._tell_losses()
        if not self._error:
            done = asyncio.get_running_loop().create_future()
            self._waiters.append((last, done))
            self._wake.set()
            await asyncio.wait((done,), timeout=SETTLE_S)  # wait_for loses cancellations

    async def expire(self) -> None:
        """Drop what is too old, also while nothing is written."""
        await self._spool.trim(self._now_us())
        self._tell_losses()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._send_all()
            except StatsUnavailable as error:
                self._fail(error.detail)
                await asyncio.sleep(self._pause_s)
                self._pause_s = min(2 * self._pause_s, self._params.retry_max_s)
                self._wake.set()

    async def _send_all(self) -> None:
        if self._server.dialect is None:
            await self._server.connect()
        while (record := await self._spool.first(self._now_us())) is not None:
            refused = await self._send(record)
            await self._spool.remove(record, refused=refused)
            self._recover()
            self._settle(record.id)
            self._tell_losses()
        self._recover()
        self._settle(None)
        self._tell_losses()

    async def _send(self, record: Record) -> int:
        """Send one record; return how many of its samples the server refused."""
        pending, refused = [record.body], 0
        while pending:
            lines = pending.pop()
            try:
                await self._server.write(lines)
            except TooLarge:
                rows = lines.split(b"\n")
                half = len(rows) // 2
                if half:
                    pending += [b"\n".join(rows[half:]), b"\n".join(rows[:half])]
                else:
                    refused += 1
            except PointsRefused as error:
                rows_lost = lines.count(b"\n") + 1 if error.points is None else error.points
                refused += rows_lost
                self._tell_once(error.detail)
        return min(refused, record.samples)

    def _fail(self, detail: str) -> None:
        if not self._error:
            log.error("samples wait in the spool: %s", detail)
        elif detail != self._error:
            log.info("samples still wait in the spool: %s", detail)
        self._error = detail
        self._server.forget()
        self._settle(None)

    def _recover(self) -> None:
        dialect = self._server.dialect
        text = dialect.text if dialect else ""
        if text and text != self._server_text:
            log.info("statistics go to InfluxDB %s", text)
            self._server_text = text
        if self._error:
            waiting = self._spool.size.samples
            log.warning("InfluxDB answers; %d samples that waited are being written", waiting)
        self._error = ""
        self._pause_s = self._params.retry_min_s

    def _settle(self, sent: int | None) -> None:
        """Let writers go on whose records were sent (None: all of them)."""
        rest = []
        for last, done in self._waiters:
            if sent is not None and last > sent:
                rest.append((last, done))
            elif not done.done():
                done.set_result(None)
        self._waiters = rest

    def _tell_once(self, detail: str) -> None:
        """Log a refusal once per wording; servers repeat themselves with every write."""
        if detail not in self._is_told and len(self._is_told) < 20:
            self._is_told.add(detail)
            log.error("InfluxDB refuses points for good: %s", detail)

    def _tell_losses(self) -> None:
        for reason, lost in self._spool.dropped.items():
            more = lost - self._told.get(reason, 0)
            if more <= 0:
                continue
            if reason not in self._is_told:
                self._is_told.add(reason)
                log.error(
                    "%d samples were dropped (%s); the metrics count further ones", more, reason
                )
            self._told[reason] = lost


def _report_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.critical("%s ended by a defect", task.get_name(), exc_info=task.exception())
