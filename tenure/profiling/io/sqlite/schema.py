"""The schemas of the statistics stores.

Names follow cAdvisor's InfluxDB measurements (``memory_working_set``, ``rx_bytes``...) and tags
(``machine``, ``container_name``) where they fit; a unit is added where ours differs. NULL means
"not observed".
"""

from __future__ import annotations

from tenure.model.resources import DIMENSIONS

#: The column of each dimension, in the order of ``DIMENSIONS``.
COLUMNS = ("cpu_usage_m", "memory_working_set", "diskio_bytes_per_s", "net_bytes_per_s")
COLUMN_OF = dict(zip(DIMENSIONS, COLUMNS, strict=True))

#: The statistics of a bucket; its columns are ``<column>_<statistic>``.
STATISTICS = ("mean", "max", "p90")
BUCKET_COLUMNS = tuple(f"{column}_{what}" for what in STATISTICS for column in COLUMNS)

#: The tables of ``sketches.py``.
SKETCHES = """
    CREATE TABLE sketch (
        container_name TEXT NOT NULL,
        start_us INTEGER NOT NULL,
        samples INTEGER NOT NULL,
        begin_us INTEGER NOT NULL,
        end_us INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (container_name, start_us)
    ) WITHOUT ROWID;
    CREATE INDEX sketch_end ON sketch (end_us);
    CREATE TABLE app_sketch (
        app TEXT NOT NULL,
        start_us INTEGER NOT NULL,
        samples INTEGER NOT NULL,
        begin_us INTEGER NOT NULL,
        end_us INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (app, start_us)
    ) WITHOUT ROWID;
"""

APP_PROFILES = f"""
    CREATE TABLE app_profile (
        app TEXT PRIMARY KEY,
        updated_us INTEGER NOT NULL,
        samples INTEGER NOT NULL,
        age_us INTEGER NOT NULL,
        {", ".join(f"{column} INTEGER" for column in COLUMNS)}
    ) WITHOUT ROWID;
"""
#: Beside the spool, not in InfluxDB: a profile decides at once where a new container goes, so it
#: must be there while the server is away; and a database that cAdvisor fills is not ours to write.
APPS = f"""
    {APP_PROFILES}
    CREATE TABLE app_container (
        app TEXT NOT NULL,
        container TEXT NOT NULL,
        last_us INTEGER NOT NULL,
        PRIMARY KEY (app, container)
    ) WITHOUT ROWID;
"""
#: Containers were looked for by app until then, now apps by container.
APPS_BY_CONTAINER = "CREATE INDEX app_container_container ON app_container (container, last_us);"

#: The number of the last reading of each node's agent that was taken.
HEARD = """
    CREATE TABLE heard (node TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
"""

STEPS = {
    1: f"""
        CREATE TABLE series (
            id INTEGER PRIMARY KEY,
            container_name TEXT NOT NULL,
            machine TEXT NOT NULL,
            app TEXT NOT NULL,
            last_us INTEGER NOT NULL,
            UNIQUE (container_name, machine, app)
        );
        CREATE INDEX series_app ON series (app, last_us);
        -- Row ids rise with time, so the oldest rows are found without an index on time.
        CREATE TABLE sample (
            id INTEGER PRIMARY KEY,
            series INTEGER NOT NULL,
            at_us INTEGER NOT NULL,
            span_us INTEGER NOT NULL,
            {", ".join(f"{column} INTEGER" for column in COLUMNS)}
        );
        CREATE UNIQUE INDEX sample_time ON sample (series, at_us);
        CREATE TABLE rollup (
            width_us INTEGER NOT NULL,
            start_us INTEGER NOT NULL,
            series INTEGER NOT NULL,
            samples INTEGER NOT NULL,
            {", ".join(f"{column} INTEGER" for column in BUCKET_COLUMNS)},
            PRIMARY KEY (series, width_us, start_us)
        ) WITHOUT ROWID;
        CREATE INDEX rollup_time ON rollup (width_us, start_us);
        -- Every bucket of this width that starts before ``until_us`` has been rolled up.
        CREATE TABLE progress (width_us INTEGER PRIMARY KEY, until_us INTEGER NOT NULL);
    """
    + APP_PROFILES,
    # Sketches; what they begin with is made of samples (``sketches.seed``).
    2: SKETCHES,
    3: HEARD,
}
