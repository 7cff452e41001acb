"""App profiles, and which containers belong to an app: beside the spool, not in InfluxDB.

A profile decides at once where a new container goes, so it must be there while the server is away;
it outlives the retention of the samples; and it is replaced in place, which a store of time series
does not do. A database that cAdvisor fills is not ours to write to either.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from tenure.model.container import Profile
from tenure.model.units import HOUR_US
from tenure.profiling.io import tables
from tenure.profiling.io.database import Database
from tenure.profiling.io.schema import COLUMNS
from tenure.profiling.sample import Measured

#: The columns are those of the embedded store, so that its statements serve both.
TABLES = f"""
    CREATE TABLE app_profile (
        app TEXT PRIMARY KEY,
        updated_us INTEGER NOT NULL,
        samples INTEGER NOT NULL,
        age_us INTEGER NOT NULL,
        {", ".join(f"{column} INTEGER" for column in COLUMNS)}
    ) WITHOUT ROWID;
    CREATE TABLE app_container (
        app TEXT NOT NULL,
        container TEXT NOT NULL,
        last_us INTEGER NOT NULL,
        PRIMARY KEY (app, container)
    ) WITHOUT ROWID;
"""
#: Containers were looked for by app until then, now apps by container.
BY_CONTAINER = "CREATE INDEX app_container_container ON app_container (container, last_us);"
KEPT_US = 90 * 24 * HOUR_US


class AppProfiles:
    """Profiles by app, in a ``Database`` that holds ``TABLES``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def get(self, app: str) -> Profile | None:
        """Return the kept profile of an app."""
        return await self._db.read(lambda db: tables.app_profile(db, app))

    async def learn(self, apps: Collection[str], now_us: int, min_samples: int) -> None:
        """Replace the profiles of the apps whose sketches hold enough samples."""
        await self._db.change(lambda db: tables.learn_apps(db, apps, now_us, min_samples))

    async def note(self, samples: Sequence[Measured]) -> None:
        """Remember which containers the apps have."""
        rows = [(row.app, row.container, row.sample.at_us) for row in samples if row.app]

        def run(db: sqlite3.Connection) -> None:
            db.executemany(
                "INSERT INTO app_container (app, container, last_us) VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET last_us = max(last_us, excluded.last_us)",
                rows,
            )

        await self._db.change(run)

    async def app_of(self, container: str) -> str:
        """Return the app that a container was last seen as one of, "" where it is not known."""
        newest = "SELECT app FROM app_container WHERE container = ? ORDER BY last_us DESC LIMIT 1"
        row = await self._db.read(lambda db: db.execute(newest, (container,)).fetchone())
        return str(row[0]) if row else ""

    async def prune(self, now_us: int) -> None:
        """Forget apps and containers that were not seen for ``KEPT_US``."""

        def run(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM app_profile WHERE updated_us < ?", (now_us - KEPT_US,))
            db.execute("DELETE FROM app_container WHERE last_us < ?", (now_us - KEPT_US,))

        await self._db.change(run)
