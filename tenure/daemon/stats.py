"""The statistics store that the configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tenure.config.section import filled
from tenure.config.settings import Settings
from tenure.profiling.io.sqlite.embedded import EmbeddedStats
from tenure.profiling.io.sqlite.retention import Retention
from tenure.profiling.io.store import StatsStore

if TYPE_CHECKING:
    from tenure.profiling.io.influx.drain import DrainHealth
    from tenure.profiling.io.influx.stats import InfluxStats


async def open_stats(settings: Settings) -> StatsStore:
    """Open the store; an InfluxDB that is away delays nothing and fails nothing.

    Raises StatsUnavailable where the state folder cannot be used.
    """
    stats = settings.stats
    if stats.driver == "embedded":
        keep = Retention(rollup_us=stats.retention_us, sketch_us=stats.window_us)
        return await EmbeddedStats.open(settings.state_dir / "stats.db", keep)
    # imported where it is used: most daemons start without
    from tenure.profiling.io.influx.params import InfluxParams
    from tenure.profiling.io.influx.spool import SpoolBounds
    from tenure.profiling.io.influx.stats import InfluxStats

    params = filled(
        InfluxParams,
        stats,
        database=stats.database_name,
        ca_file=str(stats.ca_file or ""),
        spool=SpoolBounds(stats.spool_bytes, stats.spool_us),
    )
    return await InfluxStats.open(params, settings.state_dir)


def health_of(store: StatsStore) -> DrainHealth | None:
    """Return how the way to InfluxDB is, None where the store is embedded."""
    return None if isinstance(store, EmbeddedStats) else cast("InfluxStats", store).health
