"""Histories of use for forecasts, read from the roll-ups of the embedded statistics store.

A container that moved has a series on each of its nodes; what they say of one bucket is joined.
"""

from __future__ import annotations

import sqlite3

from tenure.profiling.histories import on_grid
from tenure.profiling.io.store import APP_CONTAINERS, HISTORY_US, Whose
from tenure.profiling.sample import UseSeries

#: Which series a history is made of. Executors and tasks (``job/index``) are no services of an app.
_SERIES: dict[Whose, str] = {
    "container": "SELECT id FROM series WHERE container_name = ?",
    "rest": "SELECT id FROM series WHERE container_name = '' AND machine = ?",
    "app": "SELECT id FROM series WHERE app = ? AND instr(container_name, '/') = 0 "
    f"ORDER BY last_us DESC LIMIT {APP_CONTAINERS}",
}


def history_of(
    connection: sqlite3.Connection, whose: Whose, name: str, span_us: tuple[int, int]
) -> UseSeries:
    """Return what was used in [begin, end) of ``span_us``; O(buckets x series)."""
    since_us, until_us = span_us
    # CROSS: series by series, for the index by time leads through those of the whole fleet
    rows = connection.execute(
        "SELECT start_us, sum(cpu_usage_m_mean * samples) / sum(samples), "
        f"{_MEMORY[whose]}(memory_working_set_max) FROM ({_SERIES[whose]}) AS chosen "
        "CROSS JOIN rollup ON rollup.series = chosen.id "
        "WHERE width_us = ? AND start_us >= ? AND start_us < ? GROUP BY start_us",
        (name, HISTORY_US, since_us // HISTORY_US * HISTORY_US, until_us),
    )
    return on_grid(rows, span_us, HISTORY_US)


#: Of one container the most counts, of an app what one of its containers takes.
_MEMORY: dict[Whose, str] = {"container": "max", "rest": "max", "app": "avg"}
