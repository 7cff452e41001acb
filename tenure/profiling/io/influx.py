"""InfluxDB as the statistics store, under cAdvisor's names (``docs/influxdb.md``).

Samples go through a spool on disk to the server; profiles are made from what the server answers.
A server that is away costs freshness: writes wait in the spool, reads raise StatsUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from tenure.model.container import Profile
from tenure.model.units import HOUR_US
from tenure.profiling.io import influx_apps, spool
from tenure.profiling.io.database import Database, Schema
from tenure.profiling.io.influx_apps import AppProfiles
from tenure.profiling.io.influx_drain import Drain, DrainHealth
from tenure.profiling.io.influx_lines import TAG_CONTAINER, tag_text
from tenure.profiling.io.influx_params import InfluxParams
from tenure.profiling.io.influx_query import (
    counters_of,
    samples_from_counters,
    samples_in,
    usage_of,
    usage_of_app,
)
from tenure.profiling.io.influx_server import InfluxServer
from tenure.profiling.io.spool import Spool
from tenure.profiling.io.tables import APP_SAMPLES
from tenure.profiling.percentile import profile_of, roll_up
from tenure.profiling.sample import Bucket, Measured, Sample

FILE = "influx.db"
SCHEMA = Schema({1: spool.TABLES + influx_apps.TABLES}, pragmas=("auto_vacuum = FULL",))
#: Containers per statement: six hours of ten are some 7,000 rows, decoded in milliseconds.
BATCH = 10
#: How far back cAdvisor's series of an app are read.
APP_WINDOW_US = 6 * HOUR_US


class InfluxStats:
    """A ``StatsStore`` in InfluxDB. Make it with ``open``, which does not wait for the server."""

    def __init__(
        self, params: InfluxParams, database: Database, server: InfluxServer, drain: Drain
    ) -> None:
        self._params = params
        self._database = database
        self._server = server
        self._drain = drain
        self._apps = AppProfiles(database)

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

    async def write(self, samples: Sequence[Measured]) -> None:
        """Keep the samples in the spool, on their way to the server.

        With cAdvisor's database as the source nothing is written to it: only which container
        belongs to which app is remembered.
        """
        if not samples:
            return
        if self._params.source == "cadvisor":
            await self._apps.note(samples)
        else:
            await self._drain.put(samples)

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
        parts = groupby(samples, key=lambda sample: sample.at_us // width_us * width_us)
        buckets = (roll_up(start_us, width_us, list(part)) for start_us, part in parts)
        return [bucket for bucket in buckets if bucket is not None]

    async def profiles(
        self, since_us: Mapping[str, int], until_us: int, *, min_samples: int = 1
    ) -> dict[str, Profile]:
        """Return p90 profiles over [each container's time, ``until_us``); too few: left out."""
        made: dict[str, Profile] = {}
        names = sorted(since_us, key=lambda name: (since_us[name], name))
        size = 1 if self._params.source == "cadvisor" else BATCH
        for begin in range(0, len(names), size):
            batch = {name: since_us[name] for name in names[begin : begin + size]}
            found = await self._samples(batch, until_us)
            made |= await asyncio.to_thread(_profiles, found, batch, min_samples)
        return made

    async def learn_apps(self, apps: Collection[str], now_us: int, *, min_samples: int) -> None:
        """Make and keep the profiles of ``apps`` from the samples of their containers."""
        for app in apps:
            samples = await self._samples_of_app(app, now_us)
            profile = profile_of("", samples, min_samples=min_samples) if samples else None
            if profile is not None:
                await self._apps.put(app, profile, now_us)

    async def app_profile(self, app: str) -> Profile | None:
        """Return the kept profile of an app, also while the server is away."""
        return await self._apps.get(app)

    async def prune(self, now_us: int) -> None:
        """Forget old app profiles and old spooled samples; the server forgets by itself."""
        await self._apps.prune(now_us)
        await self._drain.expire()

    async def close(self) -> None:
        """Close; what the server has not taken stays in the spool. Twice is fine."""
        await self._drain.close()
        await self._server.close()
        await self._database.close()

    async def _samples(self, since_us: Mapping[str, int], until_us: int) -> dict[str, list[Sample]]:
        if self._params.source == "cadvisor":
            pairs = since_us.items()
            return {name: await self._from_counters(name, at, until_us) for name, at in pairs}
        return await self._usage(list(since_us), min(since_us.values()), until_us)

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
        interval_us = self._params.interval_us
        # A rate needs the reading before it as well.
        statement = counters_of(container, since_us - 2 * interval_us, until_us)
        found = await self._server.query(statement)
        samples = await asyncio.to_thread(samples_from_counters, found, interval_us)
        return [sample for sample in samples if since_us <= sample.at_us]

    async def _samples_of_app(self, app: str, now_us: int) -> list[Sample]:
        if self._params.source == "tenure":
            found = await self._server.query(usage_of_app(app, APP_SAMPLES))
            return [sample for series in found for sample in samples_in(series)]
        samples: list[Sample] = []
        for container in await self._apps.containers(app):
            samples += await self._from_counters(
                container, now_us - APP_WINDOW_US, now_us + HOUR_US
            )
        return samples[-APP_SAMPLES:]


def _profiles(
    found: Mapping[str, Sequence[Sample]], since_us: Mapping[str, int], min_samples: int
) -> dict[str, Profile]:
    made: dict[str, Profile] = {}
    for container, samples in found.items():
        own = [sample for sample in samples if sample.at_us >= since_us[container]]
        profile = profile_of(container, own, min_samples=min_samples) if own else None
        if profile is not None:
            made[container] = profile
    return made
