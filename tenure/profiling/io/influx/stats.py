"""InfluxDB as the statistics store, under cAdvisor's names (``docs/influxdb.md``).

Samples go through a spool on disk to the server; sketches beside the spool learn from them at the
same time, and profiles are made from these. While the server is away writes wait in the spool,
reads of samples raise StatsUnavailable, and profiles go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from tenure.model.container import Profile
from tenure.model.units import HOUR_US
from tenure.profiling.io.influx import spool
from tenure.profiling.io.influx.drain import Drain, DrainHealth
from tenure.profiling.io.influx.lines import TAG_CONTAINER, tag_text
from tenure.profiling.io.influx.params import InfluxParams
from tenure.profiling.io.influx.query import (
    counters_of,
    history_in,
    history_of,
    samples_from_counters,
    samples_in,
    usage_of,
)
from tenure.profiling.io.influx.server import InfluxServer
from tenure.profiling.io.influx.spool import Spool
from tenure.profiling.io.sqlite import sketches, tables
from tenure.profiling.io.sqlite.database import Database, Schema
from tenure.profiling.io.sqlite.learned import LearnedStats
from tenure.profiling.io.sqlite.retention import STEP_ROWS
from tenure.profiling.io.sqlite.schema import APPS, APPS_BY_CONTAINER, HEARD, SKETCHES
from tenure.profiling.io.store import HISTORY_US, Whose
from tenure.profiling.profiles.histories import on_grid
from tenure.profiling.profiles.percentile import roll_up
from tenure.profiling.readings.sample import Bucket, Measured, Sample, UseSeries

FILE = "influx.db"
#: How long apps are kept that were not seen; their profiles outlive the retention of samples.
APPS_US = 90 * 24 * HOUR_US
SCHEMA = Schema(
    {1: spool.TABLES + APPS, 2: SKETCHES + APPS_BY_CONTAINER, 3: HEARD},
    pragmas=("auto_vacuum = FULL",),
)


class InfluxStats(LearnedStats):
    """A ``StatsStore`` in InfluxDB. Make it with ``open``, which does not wait for the server."""

    def __init__(
        self, params: InfluxParams, database: Database, server: InfluxServer, drain: Drain
    ) -> None:
        super().__init__(database)
        self._params = params
        self._server = server
        self._drain = drain

    @classmethod
    async def open(cls, params: InfluxParams, folder: Path) -> InfluxStats:
        """Open the spool in ``folder`` and begin to send what is in it.

        Raises StatsUnavailable where the folder cannot be used.
        """
        database = await Database.open(folder / FILE, SCHEMA)
        try:
            kept = await Spool.open(database, params.spool)
        except BaseException:
            await database.close()
            raise
        server = InfluxServer(params)
        drain = Drain(kept, server, params)
        drain.start()
        return cls(params, database, server, drain)

    @property
    def dropped(self) -> Mapping[str, int]:
        """Samples lost since ever, by reason; they are kept over restarts."""
        return self._drain.health.dropped

    @property
    def health(self) -> DrainHealth:
        """Whether the server takes writes, and what waits for it."""
        return self._drain.health

    async def write(
        self, samples: Sequence[Measured], heard: Mapping[str, int] | None = None
    ) -> None:
        """Keep the samples in the spool, on their way to the server, and learn from them.

        With cAdvisor's database as the source nothing is written to it: only which container
        belongs to which app is remembered.
        """
        if samples and self._params.source == "cadvisor":
            await self._database.change(lambda db: tables.note_apps(db, samples))
        elif samples:
            await self._drain.put(samples)
            await self._database.change(lambda db: sketches.learn(db, samples))
        if heard is not None:
            await self._database.change(lambda db: tables.note_heard(db, heard))

    async def series(self, container: str, since_us: int, until_us: int) -> list[Sample]:
        """Return the kept samples that end in [``since_us``, ``until_us``), oldest first."""
        if self._params.source == "cadvisor":
            return await self._from_counters(container, since_us, until_us)
        return (await self._usage([container], since_us, until_us)).get(container, [])

    async def rollups(
        self, container: str, since_us: int, until_us: int, *, width_us: int
    ) -> list[Bucket]:
        """Return the buckets of ``width_us`` that start in the time given, oldest first.

        They are made from the samples at each reading; the server keeps none.
        """
        first_us = -(-since_us // width_us) * width_us
        end_us = -(-until_us // width_us) * width_us
        samples = await self.series(container, first_us, end_us)
        return _rolled_up(samples, width_us)

    async def history(self, whose: Whose, name: str, since_us: int, until_us: int) -> UseSeries:
        """Return what was used in [``since_us``, ``until_us``); the server adds it up.

        In a database that cAdvisor fills there is none but of containers, made of their counters.
        """
        span_us = since_us // HISTORY_US * HISTORY_US, until_us
        if self._params.source == "cadvisor":
            samples = await self._counted(name, *span_us) if whose == "container" else []
            buckets = _rolled_up(samples, HISTORY_US)
            rows = [(b.start_us, b.mean.cpu_m, b.max.memory_bytes) for b in buckets]
            return on_grid(rows, span_us, HISTORY_US)
        found = await self._server.query(history_of(whose, name, span_us))
        return await asyncio.to_thread(history_in, found, span_us)

    async def profiles(
        self, since_us: Mapping[str, int], until_us: int, *, min_samples: int = 1
    ) -> dict[str, Profile]:
        """Return p90 profiles over [each container's time, ``until_us``); too few: left out.

        They are merged from sketches beside the spool, also while the server is away. Only of a
        database that cAdvisor fills something is read: what is new since the last time.
        """
        if self._params.source == "cadvisor":
            for container, begin_us in since_us.items():
                await self._catch_up(container, begin_us, until_us)
        return await super().profiles(since_us, until_us, min_samples=min_samples)

    async def prune(self, now_us: int) -> None:
        """Forget old sketches, app profiles and spooled samples; the server forgets by itself."""
        before_us = now_us - self._params.window_us - sketches.WIDTH_US
        apps_us = now_us - APPS_US
        await self._database.change(lambda db: tables.forget_apps(db, apps_us))
        await self._database.change(lambda db: sketches.forget(db, before_us, apps_us, STEP_ROWS))
        await self._drain.expire()

    async def close(self) -> None:
        """Close; what the server has not taken stays in the spool. Twice is fine."""
        await self._drain.close()
        await self._server.close()
        await self._database.close()

    async def _catch_up(self, container: str, since_us: int, until_us: int) -> None:
        """Learn what cAdvisor has counted of a container since it was last looked at."""
        known_us = await self._database.read(lambda db: sketches.learned_until(db, container))
        begin_us = max(since_us, known_us)
        # the reading that ended the last sample begins the next one
        first_us = begin_us if begin_us == known_us else begin_us - 2 * self._params.interval_us
        samples = await self._counted(container, first_us, until_us)
        app = await self._database.read(lambda db: tables.app_of(db, container))
        rows = [
            Measured(container, "", app, sample, since_us=since_us)
            for sample in samples
            if sample.at_us > begin_us
        ]
        if rows:
            await self._database.change(lambda db: sketches.learn(db, rows))

    async def _usage(
        self, containers: Sequence[str], since_us: int, until_us: int
    ) -> dict[str, list[Sample]]:
        found = await self._server.query(usage_of(containers, since_us, until_us))
        key_of = {tag_text(container): container for container in containers}
        made: dict[str, list[Sample]] = {}
        for series in found:
            key = key_of.get(series.tags.get(TAG_CONTAINER, ""))
            if key is not None:
                made[key] = await asyncio.to_thread(samples_in, series)
        return made

    async def _from_counters(self, container: str, since_us: int, until_us: int) -> list[Sample]:
        # A rate needs the reading before it as well.
        begin_us = since_us - 2 * self._params.interval_us
        samples = await self._counted(container, begin_us, until_us)
        return [sample for sample in samples if since_us <= sample.at_us]

    async def _counted(self, container: str, since_us: int, until_us: int) -> list[Sample]:
        found = await self._server.query(counters_of(container, since_us, until_us))
        interval_us = self._params.interval_us
        return await asyncio.to_thread(samples_from_counters, found, interval_us)


def _rolled_up(samples: Sequence[Sample], width_us: int) -> list[Bucket]:
    parts = groupby(samples, key=lambda sample: sample.at_us // width_us * width_us)
    buckets = (roll_up(start_us, width_us, list(part)) for start_us, part in parts)
    return [bucket for bucket in buckets if bucket is not None]
