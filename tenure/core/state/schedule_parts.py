"""Schedules as records: long ones in parts, so that none takes long to be written down.

``Tables.schedule`` reads them as one. A record is encoded at one go by the thread that commits, for
which it does not let the daemon's loop go: ten thousand starts took some 15 ms. The first starts
are in the schedule itself. Owns how schedules are stored; ``planning`` says which.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.state.tables import Tables
from tenure.model.planning import PlannedStarts, Schedule

#: Starts in one record: encoded in less than a millisecond.
PART = 500


def put(tables: Tables, key: str, schedule: Schedule) -> None:
    """Keep the schedule of a batch in place of the one before."""
    parts = [
        PlannedStarts(schedule.starts[at : at + PART])
        for at in range(PART, len(schedule.starts), PART)
    ]
    before = tables.schedules.get(key)
    tables.schedules.put(key, replace(schedule, starts=schedule.starts[:PART], parts=len(parts)))
    for number, part in enumerate(parts):
        tables.starts.put(f"{key}/{number}", part)
    for number in range(len(parts), 0 if before is None else before.parts):
        tables.starts.drop(f"{key}/{number}")


def drop(tables: Tables, key: str) -> None:
    """Forget the schedule of a batch; it may have none."""
    schedule = tables.schedules.get(key)
    if schedule is not None:
        tables.schedules.drop(key)
        for number in range(schedule.parts):
            tables.starts.drop(f"{key}/{number}")
