"""Roll-ups and forgetting of the embedded statistics store, in bounded steps."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from tenure.model.units import HOUR_US, US
from tenure.profiling.io.sqlite import sketches, tables
from tenure.profiling.profiles.percentile import roll_up
from tenure.profiling.readings.sample import Sample

DAY_US = 24 * HOUR_US
WIDTHS_US = (300 * US, HOUR_US)
#: A bucket is rolled up this long after its end, for samples that come late.
LAG_US = 60 * US
#: Bounds of one step, so that a write never waits long: rows deleted, and buckets of time.
STEP_ROWS = 20_000
STEP_BUCKETS = 12


@dataclass(frozen=True, slots=True)
class Retention:
    """How long samples, roll-ups and app profiles are kept, and how many samples at most.

    Each must hold two buckets of the widest roll-up; raw samples never outlive the roll-ups.
    ``max_samples`` bounds the file (about 50 bytes a sample and its index entry): what is beyond it
    goes, oldest first. ``sketch_us`` is the longest window of a profile; sketches of apps go with
    their profiles.
    """

    raw_us: int = 48 * HOUR_US
    rollup_us: int = 21 * DAY_US
    app_us: int = 90 * DAY_US
    max_samples: int = 20_000_000
    sketch_us: int = 6 * HOUR_US

    def __post_init__(self) -> None:
        if min(self.raw_us, self.rollup_us) < 2 * max(WIDTHS_US):
            raise ValueError("samples and roll-ups must be kept for at least two hours")
        if self.max_samples < 1:
            raise ValueError("max_samples must be at least 1")


def roll_up_complete(connection: sqlite3.Connection, now_us: int) -> None:
    """Make the roll-ups of complete buckets, at most ``STEP_BUCKETS`` per width."""
    for width_us in WIDTHS_US:
        complete_us = (now_us - LAG_US) // width_us * width_us
        start_us = _progress(connection, width_us, complete_us)
        end_us = min(complete_us, start_us + STEP_BUCKETS * width_us)
        for at_us in range(start_us, end_us, width_us):
            _roll_up_bucket(connection, at_us, width_us)
        if end_us > start_us:
            connection.execute(
                "INSERT OR REPLACE INTO progress (width_us, until_us) VALUES (?, ?)",
                (width_us, end_us),
            )


def _progress(connection: sqlite3.Connection, width_us: int, complete_us: int) -> int:
    """Return until when buckets are rolled up: a whole bucket, never before the first sample."""
    row = connection.execute(
        "SELECT until_us FROM progress WHERE width_us = ?", (width_us,)
    ).fetchone()
    oldest = connection.execute("SELECT at_us FROM sample ORDER BY id LIMIT 1").fetchone()
    first_us = oldest[0] // width_us * width_us if oldest else complete_us
    return int(max(row[0], first_us) if row else first_us)


def _roll_up_bucket(connection: sqlite3.Connection, start_us: int, width_us: int) -> None:
    ids = connection.execute("SELECT id FROM series WHERE last_us >= ?", (start_us,)).fetchall()
    for (series,) in ids:
        rows = connection.execute(
            f"SELECT {tables.SAMPLE_FIELDS} FROM sample "
            "WHERE series = ? AND at_us >= ? AND at_us < ?",
            (series, start_us, start_us + width_us),
        )
        found: list[Sample] = [tables.sample_of(row) for row in rows]
        bucket = roll_up(start_us, width_us, found)
        if bucket is not None:
            tables.put_bucket(connection, series, bucket)


def forget(connection: sqlite3.Connection, now_us: int, retention: Retention) -> None:
    """Delete what is past its retention, at most ``STEP_ROWS`` rows of each table."""
    raw_us = min(retention.raw_us, retention.rollup_us)
    _forget_samples(connection, now_us - raw_us, retention.max_samples)
    for width_us in WIDTHS_US:
        connection.execute(
            "DELETE FROM rollup WHERE (series, width_us, start_us) IN (SELECT series, width_us, "
            "start_us FROM rollup WHERE width_us = ? AND start_us < ? LIMIT ?)",
            (width_us, now_us - retention.rollup_us, STEP_ROWS),
        )
    connection.execute(
        "DELETE FROM series WHERE last_us < ? AND NOT EXISTS (SELECT 1 FROM rollup "
        "WHERE rollup.series = series.id) AND NOT EXISTS (SELECT 1 FROM sample "
        "WHERE sample.series = series.id)",
        (now_us - retention.rollup_us,),
    )
    kept_us = retention.sketch_us + sketches.WIDTH_US
    sketches.forget(connection, now_us - kept_us, now_us - retention.app_us, STEP_ROWS)
    connection.execute("DELETE FROM app_profile WHERE updated_us < ?", (now_us - retention.app_us,))


def _forget_samples(connection: sqlite3.Connection, before_us: int, max_samples: int) -> None:
    """Delete the oldest samples: those before ``before_us`` and those that are too many."""
    low, high = connection.execute("SELECT min(id), max(id) FROM sample").fetchone()
    if low is None:
        return
    old = connection.execute(
        "SELECT max(id) FROM (SELECT id, at_us FROM sample ORDER BY id LIMIT ?) WHERE at_us < ?",
        (STEP_ROWS, before_us),
    ).fetchone()[0]
    surplus = min(high - max_samples, low + STEP_ROWS)
    last = max(old if old is not None else 0, surplus)
    if last >= low:
        connection.execute("DELETE FROM sample WHERE id <= ?", (last,))
