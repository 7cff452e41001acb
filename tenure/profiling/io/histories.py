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

_DURING = "WHERE width_us = ? AND start_us >= ? AND start_us < ?"
_PLAIN = (
    "SELECT start_us, cpu_usage_m_mean, memory_working_set_max FROM rollup "
    f"{_DURING} AND series = ?"
)
#: Of one container the most memory counts, of an app what one of its containers takes.
_MEMORY: dict[Whose, str] = {"container": "max", "rest": "max", "app": "avg"}


def history_of(
    connection: sqlite3.Connection, whose: Whose, name: str, span_us: tuple[int, int]
) -> UseSeries:
    """Return what was used in [begin, end) of ``span_us``; O(buckets x series)."""
    since_us, until_us = span_us
    during = HISTORY_US, since_us // HISTORY_US * HISTORY_US, until_us
    chosen = connection.execute(_SERIES[whose], (name,)).fetchall()
    if len(chosen) == 1:  # most were on one node alone, and grouping takes longer than reading
        rows = connection.execute(_PLAIN, (*during, *chosen[0]))
    else:
        rows = connection.execute(_joined(whose), (name, *during))
    return on_grid(rows, span_us, HISTORY_US)


def _joined(whose: Whose) -> str:
    # CROSS: series by series, for the index by time leads through those of the whole fleet
    return (
        "SELECT start_us, sum(cpu_usage_m_mean * samples) / sum(samples), "
        f"{_MEMORY[whose]}(memory_working_set_max) FROM ({_SERIES[whose]}) AS chosen "
        f"CROSS JOIN rollup ON rollup.series = chosen.id {_DURING} GROUP BY start_us"
    )
