"""Sketches in a SQLite file: kept up to date on write, merged into profiles.

The embedded store has them beside its samples, the one in InfluxDB beside its spool.

A container has one for each hour and each stay in a generation, an app one for each day: so a
profile reaches over a window that moves on by whole sketches. All synchronous, on one connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from tenure.model.container import Profile
from tenure.model.units import HOUR_US
from tenure.profiling.profiles.sketch import Sketch, merged, sketch_of
from tenure.profiling.readings.sample import Measured

#: Time that one sketch of a container or an app covers, at most.
WIDTH_US = HOUR_US
APP_WIDTH_US = 24 * HOUR_US
#: So many of an app's newest sketches make its profile: what it did in the last week it ran.
APP_SKETCHES = 7
FIELDS = "samples, begin_us, end_us, body"


def learn(connection: sqlite3.Connection, samples: Sequence[Measured]) -> None:
    """Add samples to the sketches of their containers and apps (no transaction of its own).

    Those of nodes' remainders have no container, and no profile. A sample that does not end after
    the last one of its sketch is not counted again.
    """
    stays: dict[tuple[str, int], list[Measured]] = {}
    days: dict[tuple[str, int], list[Measured]] = {}
    ours = (row for row in samples if row.container)
    for row in sorted(ours, key=lambda row: row.sample.at_us):
        at_us = row.sample.at_us
        start_us = max(at_us // WIDTH_US * WIDTH_US, row.since_us)
        stays.setdefault((row.container, start_us), []).append(row)
    for (container, start_us), rows in stays.items():
        fresh = _add(connection, "sketch", (container, start_us), rows)
        for row in fresh:
            if row.app:
                day_us = row.sample.at_us // APP_WIDTH_US * APP_WIDTH_US
                days.setdefault((row.app, day_us), []).append(row)
    for key, rows in days.items():
        _add(connection, "app_sketch", key, rows, is_app=True)


def _add(
    connection: sqlite3.Connection,
    table: str,
    key: tuple[str, int],
    rows: Iterable[Measured],
    *,
    is_app: bool = False,
) -> list[Measured]:
    """Add rows to one sketch and return those that were new to it."""
    owner = "app" if is_app else "container_name"
    where = f"{owner} = ? AND start_us = ?"
    found = connection.execute(f"SELECT {FIELDS} FROM {table} WHERE {where}", key).fetchone()
    sketch = sketch_of(*found) if found else Sketch()
    fresh = []
    for row in rows:
        # an app's containers are sampled side by side; theirs were looked at one by one
        if is_app or row.sample.at_us > sketch.end_us:
            sketch.add(row.sample)
            fresh.append(row)
    if fresh:
        connection.execute(
            f"INSERT OR REPLACE INTO {table} ({owner}, start_us, {FIELDS}) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (*key, sketch.samples, sketch.begin_us, sketch.end_us, sketch.body()),
        )
    return fresh


def profile_since(
    connection: sqlite3.Connection,
    container: str,
    since_us: int,
    until_us: int,
    *,
    min_samples: int,
) -> Profile | None:
    """Return the profile of the sketches that reach beyond ``since_us``; None of too few samples.

    The oldest of them may begin up to ``WIDTH_US`` before ``since_us`` where that is not the begin
    of a stay.
    """
    rows = connection.execute(
        f"SELECT {FIELDS} FROM sketch WHERE container_name = ? AND end_us > ? AND start_us < ? "
        "ORDER BY start_us",
        (container, since_us, until_us),
    )
    whole = merged(sketch_of(*row) for row in rows)
    return whole.profile(container, min_samples=min_samples)


def learned_until(connection: sqlite3.Connection, container: str) -> int:
    """Return when the newest sample in a container's sketches ended, 0 where it has none."""
    found = connection.execute(
        "SELECT max(end_us) FROM sketch WHERE container_name = ?", (container,)
    )
    return int(found.fetchone()[0] or 0)


def app_profile(connection: sqlite3.Connection, app: str, *, min_samples: int) -> Profile | None:
    """Return the profile of an app's newest sketches; None of too few samples."""
    rows = connection.execute(
        f"SELECT {FIELDS} FROM app_sketch WHERE app = ? ORDER BY start_us DESC LIMIT ?",
        (app, APP_SKETCHES),
    )
    return merged(sketch_of(*row) for row in rows).profile("", min_samples=min_samples)


def forget(connection: sqlite3.Connection, before_us: int, apps_before_us: int, rows: int) -> None:
    """Delete sketches that ended before these times, at most ``rows`` of each kind."""
    for table, owner, end_us in (
        ("sketch", "container_name", before_us),
        ("app_sketch", "app", apps_before_us),
    ):
        connection.execute(
            f"DELETE FROM {table} WHERE ({owner}, start_us) IN "
            f"(SELECT {owner}, start_us FROM {table} WHERE end_us < ? LIMIT ?)",
            (end_us, rows),
        )
