"""What both statistics stores keep in their SQLite file: sketches, apps, what agents told last."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping

from tenure.model.container import Profile
from tenure.profiling.io.sqlite import sketches, tables
from tenure.profiling.io.sqlite.database import Database


class LearnedStats:
    """The part of a ``StatsStore`` that is made of sketches, in a ``Database`` with those."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def heard(self) -> dict[str, int]:
        """Return the number of the last reading that was taken of each node's agent."""
        return await self._database.read(tables.heard)

    async def profiles(
        self, since_us: Mapping[str, int], until_us: int, *, min_samples: int = 1
    ) -> dict[str, Profile]:
        """Return p90 profiles over [each container's time, ``until_us``); too few: left out.

        They are merged from sketches that writes keep up to date: no sample is read.
        """

        def compute(db: sqlite3.Connection) -> dict[str, Profile]:
            found = (
                sketches.profile_since(db, name, begin_us, until_us, min_samples=min_samples)
                for name, begin_us in since_us.items()
            )
            return {profile.container: profile for profile in found if profile is not None}

        return await self._database.read(compute)

    async def learn_apps(self, apps: Collection[str], now_us: int, *, min_samples: int) -> None:
        """Make and keep the profiles of ``apps`` from the sketches of all their containers."""
        if apps:
            await self._database.change(lambda db: tables.learn_apps(db, apps, now_us, min_samples))

    async def app_profile(self, app: str) -> Profile | None:
        """Return the kept profile of an app, or None."""
        return await self._database.read(lambda db: tables.app_profile(db, app))
