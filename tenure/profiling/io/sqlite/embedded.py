"""The embedded statistics store: samples, roll-ups, sketches and app profiles in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from tenure.profiling.io.sqlite import retention, tables
from tenure.profiling.io.sqlite.database import Database, Schema
from tenure.profiling.io.sqlite.learned import LearnedStats
from tenure.profiling.io.sqlite.retention import Retention
from tenure.profiling.io.sqlite.schema import STEPS
from tenure.profiling.io.store import Whose
from tenure.profiling.readings.sample import Bucket, Measured, Sample, UseSeries

#: The bound is on the journal that readers may keep from being checkpointed away.
PRAGMAS = (f"journal_size_limit = {64 << 20}",)


class EmbeddedStats(LearnedStats):
    """A ``StatsStore`` in a SQLite file. Make it with ``open``."""

    def __init__(self, database: Database, keep: Retention) -> None:
        super().__init__(database)
        self._keep = keep

    @classmethod
    async def open(cls, path: Path, keep: Retention | None = None) -> EmbeddedStats:
        """Open or create the store; a damaged file is put aside and a new one begun.

        Raises StatsUnavailable where the file cannot be used.
        """
        keep = keep or Retention()
        fills = {2: lambda db: tables.seed_sketches(db, keep.sketch_us)}
        return cls(await Database.open(path, Schema(STEPS, PRAGMAS, fills)), keep)

    async def write(
        self, samples: Sequence[Measured], heard: Mapping[str, int] | None = None
    ) -> None:
        """Keep the samples, and the numbers of the agents' readings they came with, all or none."""

        def run(db: sqlite3.Connection) -> None:
            tables.insert(db, samples)
            if heard is not None:
                tables.note_heard(db, heard)

        if samples or heard is not None:
            await self._database.change(run)

    async def series(self, container: str, since_us: int, until_us: int) -> list[Sample]:
        """Return the kept samples that end in [``since_us``, ``until_us``), oldest first."""
        return await self._database.read(
            lambda db: tables.samples_of(db, container, since_us, until_us)
        )

    async def rollups(
        self, container: str, since_us: int, until_us: int, *, width_us: int
    ) -> list[Bucket]:
        """Return the buckets of ``width_us`` (300 s or 1 h) that start in the time given."""
        return await self._database.read(
            lambda db: tables.rollups_of(db, container, width_us, since_us, until_us)
        )

    async def history(self, whose: Whose, name: str, since_us: int, until_us: int) -> UseSeries:
        """Return what was used in [``since_us``, ``until_us``), from the roll-ups of 5 min."""
        return await self._database.read(
            lambda db: tables.history_of(db, whose, name, (since_us, until_us))
        )

    async def prune(self, now_us: int) -> None:
        """Roll complete buckets up and forget what is past its retention, one bounded step."""
        await self._database.change(lambda db: retention.roll_up_complete(db, now_us))
        await self._database.change(lambda db: retention.forget(db, now_us, self._keep))

    async def close(self) -> None:
        """Close after the writes under way; twice is fine."""
        await self._database.close()
