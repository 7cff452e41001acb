"""What every statistics store can do; the embedded one and InfluxDB share this interface."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from tenure.model.container import Profile
from tenure.model.errors import Unavailable
from tenure.profiling.sample import Bucket, Measured, Sample


class StatsUnavailable(Unavailable):
    """The store cannot be read or written now (disk full, server away); nothing was half done."""

    code = "stats_unavailable"


class StatsStore(Protocol):
    """Samples by container, their roll-ups, and profiles. No method blocks the event loop.

    Every method raises ``StatsUnavailable`` where the store fails; the caller may try again.
    """

    async def write(self, samples: Sequence[Measured]) -> None:
        """Keep the samples, all or none; one that is there already is replaced."""

    async def series(self, container: str, since_us: int, until_us: int) -> list[Sample]:
        """Return the kept samples that end in [``since_us``, ``until_us``), oldest first."""

    async def rollups(
        self, container: str, since_us: int, until_us: int, *, width_us: int
    ) -> list[Bucket]:
        """Return the buckets of ``width_us`` that start in the time given, oldest first."""

    async def profiles(
        self, since_us: Mapping[str, int], until_us: int, *, min_samples: int = 1
    ) -> dict[str, Profile]:
        """Return p90 profiles of the containers in ``since_us`` over [their time, ``until_us``).

        A container with fewer than ``min_samples`` samples is left out.
        """

    async def learn_apps(self, apps: Collection[str], now_us: int, *, min_samples: int) -> None:
        """Make and keep the profiles of ``apps`` from the samples of all their containers."""

    async def app_profile(self, app: str) -> Profile | None:
        """Return the kept profile of an app (its ``container`` is empty), or None."""

    async def prune(self, now_us: int) -> None:
        """Roll complete buckets up and forget what is past its retention, one bounded step."""

    async def close(self) -> None:
        """Close; the store may not be used again. Twice is fine."""
