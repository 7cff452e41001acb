"""The statements of the embedded statistics store: all synchronous, on one connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from tenure.model.container import Profile
from tenure.model.resources import DIMENSIONS, Resources
from tenure.model.units import HOUR_US, US
from tenure.profiling.io.sqlite import sketches
from tenure.profiling.io.sqlite.schema import BUCKET_COLUMNS, COLUMN_OF, COLUMNS, STATISTICS
from tenure.profiling.io.store import APP_CONTAINERS, HISTORY_US, Whose
from tenure.profiling.profiles.histories import on_grid
from tenure.profiling.readings.sample import Bucket, Measured, Sample, UseSeries

#: An upgrade makes sketches of so many samples at most, the newest: some ten seconds of work.
MAX_SEEDS = 500_000
#: What is not known of a seeded sample is when its container entered its generation. Sketches of so
#: short a time reach no further back beyond that.
SEED_WIDTH_US = 300 * US
#: Samples taken at a time.
SEED_ROWS = 20_000
#: Time that an app's sketches must reach over before they replace a profile of more time than they.
SETTLED_US = 6 * HOUR_US
#: A row of ``SAMPLE_FIELDS``, and one of a bucket: two numbers, then amounts that may be missing.
Row: TypeAlias = tuple[int, int, *tuple[int | None, ...]]
SAMPLE_FIELDS = f"at_us, span_us, {', '.join(COLUMNS)}"


def insert(connection: sqlite3.Connection, samples: Sequence[Measured]) -> None:
    """Insert samples with the series they belong to, and learn from them (no transaction of its
    own).
    """
    newest: dict[tuple[str, str, str], int] = {}
    for row in samples:
        key = (row.container, row.node, row.app)
        newest[key] = max(newest.get(key, 0), row.sample.at_us)
    connection.executemany(
        "INSERT INTO series (container_name, machine, app, last_us) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET last_us = max(last_us, excluded.last_us)",
        [(*key, at_us) for key, at_us in newest.items()],
    )
    ids = {key: _series_id(connection, key) for key in newest}
    marks = ", ".join("?" * (3 + len(COLUMNS)))
    connection.executemany(
        f"INSERT OR REPLACE INTO sample (series, {SAMPLE_FIELDS}) VALUES ({marks})",
        [(ids[row.container, row.node, row.app], *_cells(row.sample)) for row in samples],
    )
    sketches.learn(connection, samples)


def note_heard(connection: sqlite3.Connection, heard: Mapping[str, int]) -> None:
    """Replace what is known of the last reading that was taken of each node's agent."""
    connection.execute("DELETE FROM heard")
    connection.executemany("INSERT INTO heard (node, seq) VALUES (?, ?)", list(heard.items()))


def heard(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of the last reading that was taken of each node's agent."""
    return dict(connection.execute("SELECT node, seq FROM heard"))


def _series_id(connection: sqlite3.Connection, key: tuple[str, str, str]) -> int:
    found = connection.execute(
        "SELECT id FROM series WHERE container_name = ? AND machine = ? AND app = ?", key
    )
    return int(found.fetchone()[0])


def _cells(sample: Sample) -> tuple[int | None, ...]:
    pairs = zip(DIMENSIONS, sample.use.values(), strict=True)
    amounts = (value if name in sample.observed else None for name, value in pairs)
    return (sample.at_us, sample.span_us, *amounts)


def samples_of(
    connection: sqlite3.Connection, container: str, since_us: int, until_us: int
) -> list[Sample]:
    """Return a container's samples that end in [``since_us``, ``until_us``), oldest first."""
    rows = connection.execute(
        f"SELECT {SAMPLE_FIELDS} FROM sample WHERE at_us >= ? AND at_us < ? AND series IN "
        "(SELECT id FROM series WHERE container_name = ?) ORDER BY at_us",
        (since_us, until_us, container),
    )
    return [sample_of(row) for row in rows]


def sample_of(row: Row) -> Sample:
    """Return the sample in a row of ``SAMPLE_FIELDS``."""
    use, observed = _resources(row[2:])
    return Sample(row[0], row[1], use, observed)


def _resources(cells: Sequence[int | None]) -> tuple[Resources, tuple[str, ...]]:
    pairs = zip(DIMENSIONS, cells, strict=True)
    observed = tuple(name for name, value in pairs if value is not None)
    return Resources(*(value or 0 for value in cells)), observed


def seed_sketches(connection: sqlite3.Connection, window_us: int) -> None:
    """Make the sketches of the samples of the last ``window_us`` before the newest one.

    For a file of schema 1, which had none: profiles go on where they were.
    """
    columns = ", ".join(f"sample.{name}" for name in ("at_us", "span_us", *COLUMNS))
    newest = connection.execute("SELECT max(at_us) FROM sample").fetchone()[0]
    rows = connection.execute(
        f"SELECT container_name, machine, app, {columns} FROM (SELECT * FROM sample "
        "WHERE at_us > ? ORDER BY id DESC LIMIT ?) AS sample "
        "JOIN series ON series.id = sample.series ORDER BY sample.at_us",
        ((newest or 0) - window_us, MAX_SEEDS),
    )
    while part := rows.fetchmany(SEED_ROWS):
        sketches.learn(connection, [_seed(row) for row in part])


def _seed(row: tuple[str, str, str, *Row]) -> Measured:
    sample = sample_of(row[3:])
    since_us = sample.at_us // SEED_WIDTH_US * SEED_WIDTH_US
    return Measured(row[0], row[1], row[2], sample, since_us=since_us)


def rollups_of(
    connection: sqlite3.Connection,
    container: str,
    width_us: int,
    since_us: int,
    until_us: int,
) -> list[Bucket]:
    """Return a container's buckets that start in the time given, oldest first."""
    rows = connection.execute(
        f"SELECT start_us, samples, {', '.join(BUCKET_COLUMNS)} FROM rollup WHERE width_us = ? "
        "AND start_us >= ? AND start_us < ? AND series IN "
        "(SELECT id FROM series WHERE container_name = ?) ORDER BY start_us",
        (width_us, since_us, until_us, container),
    )
    return [_bucket(width_us, row) for row in rows]


def _bucket(width_us: int, row: Row) -> Bucket:
    size = len(COLUMNS)
    cells = [row[2 + size * number :][:size] for number in range(len(STATISTICS))]
    parts = [_resources(part) for part in cells]
    mean, high, typical = (use for use, _ in parts)
    return Bucket(row[0], width_us, row[1], mean, high, typical, parts[0][1])


def put_bucket(connection: sqlite3.Connection, series: int, bucket: Bucket) -> None:
    """Keep a bucket of a series; one of the same time is replaced."""
    cells: list[int | None] = []
    for use in (bucket.mean, bucket.max, bucket.p90):
        for name, value in zip(DIMENSIONS, use.values(), strict=True):
            cells.append(value if name in bucket.observed else None)
    names = ", ".join(("width_us", "start_us", "series", "samples", *BUCKET_COLUMNS))
    marks = ", ".join("?" * (4 + len(cells)))
    connection.execute(
        f"INSERT OR REPLACE INTO rollup ({names}) VALUES ({marks})",
        (bucket.width_us, bucket.start_us, series, bucket.count, *cells),
    )


def learn_apps(
    connection: sqlite3.Connection, apps: Collection[str], now_us: int, min_samples: int
) -> None:
    """Replace the profiles of the apps that have at least ``min_samples`` samples.

    One that was made before there were sketches is kept until they have seen some hours as well.
    """
    for app in apps:
        profile = sketches.app_profile(connection, app, min_samples=min_samples)
        if profile is None:
            continue
        kept = app_profile(connection, app)
        if kept is None or profile.age_us >= min(kept.age_us, SETTLED_US):
            put_app(connection, app, profile, now_us)


def put_app(connection: sqlite3.Connection, app: str, profile: Profile, now_us: int) -> None:
    """Keep the profile of an app."""
    cells = [getattr(profile.p90, name) if name in profile.observed else None for name in COLUMN_OF]
    names = ", ".join(("app", "updated_us", "samples", "age_us", *COLUMNS))
    marks = ", ".join("?" * (4 + len(cells)))
    connection.execute(
        f"INSERT OR REPLACE INTO app_profile ({names}) VALUES ({marks})",
        (app, now_us, profile.samples, profile.age_us, *cells),
    )


def app_profile(connection: sqlite3.Connection, app: str) -> Profile | None:
    """Return the kept profile of an app."""
    row = connection.execute(
        f"SELECT samples, age_us, {', '.join(COLUMNS)} FROM app_profile WHERE app = ?", (app,)
    ).fetchone()
    if row is None:
        return None
    use, observed = _resources(row[2:])
    return Profile("", use, row[0], row[1], observed, {"app": app})


def note_apps(connection: sqlite3.Connection, samples: Sequence[Measured]) -> None:
    """Remember which containers the apps have."""
    connection.executemany(
        "INSERT INTO app_container (app, container, last_us) VALUES (?, ?, ?) "
        "ON CONFLICT DO UPDATE SET last_us = max(last_us, excluded.last_us)",
        [(row.app, row.container, row.sample.at_us) for row in samples if row.app],
    )


def app_of(connection: sqlite3.Connection, container: str) -> str:
    """Return the app that a container was last seen as one of, "" where it is not known."""
    newest = "SELECT app FROM app_container WHERE container = ? ORDER BY last_us DESC LIMIT 1"
    row = connection.execute(newest, (container,)).fetchone()
    return str(row[0]) if row else ""


def forget_apps(connection: sqlite3.Connection, before_us: int) -> None:
    """Forget apps and their containers that were not seen since ``before_us``."""
    connection.execute("DELETE FROM app_profile WHERE updated_us < ?", (before_us,))
    connection.execute("DELETE FROM app_container WHERE last_us < ?", (before_us,))


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
    """Return what was used in [begin, end) of ``span_us``; O(buckets x series).

    A container that moved has a series on each of its nodes; what they say of one bucket is joined.
    """
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
