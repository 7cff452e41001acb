"""States of rich fleets, as the simulator leaves them amid a run, written by the real store."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenure.core.state.tables import KINDS, PublicEvent
from tenure.model.forecast import LiveScore, NodeForecast
from tenure.placement.policies import Policies
from tenure.store.store import Store
from tests.fleet.store import Records
from tests.fleet.world import START_US, World

#: Seeds whose fleets have between them every kind of record, but for those added below.
SEEDS = (2, 4, 6)
LOOKS = 8
LOGS = {"j-1/0/1": b"said at the end\n" * 40, "c-1/2": bytes(range(256))}


@dataclass(frozen=True, slots=True)
class Fleet:
    """What was written: records by kind and key, and events."""

    records: Records
    events: list[PublicEvent]


class _Enough(Exception):
    """The fleet was looked at often enough."""


def fleet_of(seed: int) -> Fleet:
    """Return the state of a simulated fleet when it had the most kinds of records."""
    world, looks = World(seed, Policies()), list[Fleet]()

    def look() -> None:
        looks.append(Fleet(world.around.store.load(), list(world.around.store.events)))
        if len(looks) == LOOKS - 1:
            raise _Enough

    for number in range(1, LOOKS):
        world.timeline.at(START_US + world.span_us * number // LOOKS, look)
    with suppress(_Enough):
        world.run()
    return _with_forecasts(max(looks, key=lambda one: sum(map(bool, one.records.values()))))


def _with_forecasts(fleet: Fleet) -> Fleet:
    name = min(fleet.records["nodes"])
    forecast = NodeForecast(name, "r-1", 1, 1, 1, 0.9, "mean", (1, 2), (3, 4))
    made: Records = {"forecasts": {name: forecast}, "scores": {name: LiveScore(name)}}
    return Fleet(fleet.records | made, fleet.events)


def write(folder: Path, fleet: Fleet, *, is_killed: bool = False) -> None:
    """Write a state folder; ``is_killed``: its last commits are in the write-ahead log."""
    store = Store.open(folder / "made" / "state.db", KINDS)
    for key, body in LOGS.items():
        store.save_logs([(key, body)], 7)
    kinds = sorted(fleet.records)
    for kind in kinds:
        store.commit({kind: fleet.records[kind]})
    store.commit({}, fleet.events)
    for number in range(2):  # damage of the last two cannot be told from a power cut
        store.save_logs([("nobody asks for it", b"%d" % number)], 8)
    if is_killed:
        _copy(folder)
    store.close()
    if not is_killed:
        _copy(folder)


def _copy(folder: Path) -> None:
    for path in (folder / "made").iterdir():
        if path.suffix != ".lock" and not path.name.endswith("-shm"):
            (folder / path.name).write_bytes(path.read_bytes())


def plain(records: Any) -> dict[tuple[str, str], object]:
    """Return records by kind and key."""
    return {(kind, key): row for kind, rows in records.items() for key, row in rows.items()}
