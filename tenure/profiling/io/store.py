"""What every statistics store can do; the embedded one and InfluxDB share this interface."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from tenure.model.container import Profile
from tenure.model.errors import Unavailable
from tenure.model.units import US
from tenure.profiling.readings.sample import Bucket, Measured, Sample, UseSeries

#: Whose history: of a container (its id), an app (the mean of its latest containers), or a node's
#: remainder (the node's name).
Whose = Literal["container", "app", "rest"]
#: Width of the buckets of a history.
HISTORY_US = 300 * US
#: An app's history is that of so many of its containers, the latest.
APP_CONTAINERS = 16


class StatsUnavailable(Unavailable):
    """The store cannot be read or written now (disk full, server away); nothing was half done."""

    code = "stats_unavailable"


class StatsStore(Protocol):
    """Samples by container, their roll-ups, and profiles. No method blocks the event loop.

    Every method raises ``StatsUnavailable`` where the store fails; the caller may try again.
    """

    async def write(
        self, samples: Sequence[Measured], heard: Mapping[str, int] | None = None
    ) -> None:
        """Keep the samples, all or none; one that is there already is replaced.

        ``heard`` is the number of the last reading that was taken of each node's agent; it
        replaces what was kept of that (None: as it was).
        """

    async def heard(self) -> dict[str, int]:
        """Return the number of the last reading that was taken of each node's agent."""

    async def series(self, container: str, since_us: int, until_us: int) -> list[Sample]:
        """Return the kept samples that end in [``since_us``, ``until_us``), oldest first."""

    async def rollups(
        self, container: str, since_us: int, until_us: int, *, width_us: int
    ) -> list[Bucket]:
        """Return the buckets of ``width_us`` that start in the time given, oldest first."""

    async def history(self, whose: Whose, name: str, since_us: int, until_us: int) -> UseSeries:
        """Return what was used in [``since_us``, ``until_us``), in buckets of ``HISTORY_US``.

        The first bucket is the one that holds ``since_us``; the latest minutes may be missing yet.
        """

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
