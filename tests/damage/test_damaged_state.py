"""However a state file is damaged: the start is refused and says where, or every loss is named.

More: ``COUNT=20000 pytest tests/damage -m computes``.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from random import Random

import pytest

from tenure.core.fleet import FleetState
from tenure.core.state import set_aside
from tenure.core.state.params import Params
from tenure.core.state.tables import KINDS
from tenure.locality.localizer import Tiers
from tenure.model.events import Started
from tenure.placement.policies import Policies
from tenure.store.contents import inspect
from tenure.store.errors import StoreDamaged, StoreError
from tenure.store.store import Store
from tests.damage.fleets import LOGS, SEEDS, Fleet, fleet_of, plain, write

FEW, MANY = 90, int(os.environ.get("COUNT", "1000"))
PAGE = 4096


@dataclass(frozen=True)
class Case:
    """A state folder, what was written to it, and which of its files is damaged."""

    folder: Path
    fleet: Fleet
    file: str


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    found = []
    for seed in SEEDS:
        fleet = fleet_of(seed)
        for is_killed in (False, True):
            folder = tmp_path_factory.mktemp(f"state{seed}")
            write(folder, fleet, is_killed=is_killed)
            found.append(Case(folder, fleet, "state.db-wal" if is_killed else "state.db"))
    missing = set(KINDS) - {"starts"} - {kind for one in found for kind in one.fleet.records}
    assert not missing
    return found


def flip(raw: bytearray, dice: Random) -> None:
    raw[dice.randrange(len(raw))] ^= 1 << dice.randrange(8)


def overwrite(raw: bytearray, dice: Random) -> None:
    size, place = dice.choice((1, 8, 64)), dice.randrange(len(raw))
    raw[place : place + size] = dice.randbytes(len(raw[place : place + size]))


def zero(raw: bytearray, dice: Random) -> None:
    place = dice.randrange(0, len(raw), PAGE)
    raw[place : place + PAGE] = bytes(len(raw[place : place + PAGE]))


def cut(raw: bytearray, dice: Random) -> None:
    del raw[dice.randrange(len(raw)) :]


BLOWS = (flip, flip, flip, overwrite, zero, cut)


def start(path: Path) -> tuple[FleetState, Store]:
    """Start as a daemon does, up to its first transaction."""
    store = Store.open(path, KINDS)
    try:
        state = FleetState(Params(), Policies, localizer=Tiers())
        state.load(store.load(set_aside.spread), store.set_aside())
    except BaseException:
        store.close()
        raise
    return state, store


def judge(path: Path, fleet: Fleet) -> str:
    """Return how a start went; fails where anything differs that nobody was told of."""
    refused = ""
    try:
        state, store = start(path)
    except StoreError as error:
        refused = error.detail
    if refused:
        assert str(path) in refused or "record" in refused
        return "refused"
    try:
        was, told = plain(fleet.records), state.quarantined
        is_now = plain({kind: dict(getattr(state.tables, kind).items()) for kind in KINDS})
        kept = store.set_aside()
        gone = {(one.kind, one.key) for one in kept}
        assert {key: row for key, row in was.items() if key not in gone} == is_now
        for one in kept:
            assert one.is_whole or (set_aside.RULES[one.kind].word, one.key) in told
            assert (
                one.root == one.key
                or state.read(methodcaller("is_set_aside", one.root))
                or not one.is_whole
            )
        lost = _rest(path, store, fleet)
        state.handle(Started(at_us=state.meta.clock_us + 1))
        store.commit(state.take_changes().records)
        return "set aside" if kept else "told when read" if lost else "whole"
    finally:
        store.close()


def _rest(path: Path, store: Store, fleet: Fleet) -> int:
    """Return how many events and logs are said to be damaged; all others are as written."""
    lost, events = 0, {event.seq: event for event in store.events_after(0, 10_000)}
    for event in fleet.events:
        found = events.pop(event.seq)
        lost += found.type == "event.damaged"
        assert found.type in ("event.damaged", event.type)
        if found.type == event.type:
            assert (found.at_us, found.subject) == (event.at_us, event.subject)
    assert not events
    for key, body in LOGS.items():
        try:
            found_log = store.read_log(key)
        except StoreError:
            lost += 1
            continue
        if found_log is None:  # its key is damaged: logs come and go, a check tells
            with pytest.raises(StoreDamaged):
                inspect(path, KINDS)
            lost += 1
        else:
            assert found_log == body
    return lost


def draw(cases: list[Case], number: int, folder: Path) -> str:
    dice = random.Random(number)
    case = cases[number % len(cases)]
    folder.mkdir()
    for path in case.folder.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    raw = bytearray((folder / case.file).read_bytes())
    # a log that was cut is one that was not written to its end
    blow = dice.choice(BLOWS[:-1] if case.file.endswith("-wal") else BLOWS)
    blow(raw, dice)
    (folder / case.file).write_bytes(raw)
    try:
        return f"{case.file}: {judge(folder / 'state.db', case.fleet)}"
    except Exception as error:
        error.add_note(f"draw {number}: {blow.__name__} of {case.file}")
        raise
    finally:
        shutil.rmtree(folder)


def test_no_damage_makes_a_silent_difference(cases: list[Case], tmp_path: Path) -> None:
    found = Counter(draw(cases, number, tmp_path / "state") for number in range(FEW))
    assert found["state.db: refused"] > 0, found
    assert found["state.db: set aside"] > 0, found


@pytest.mark.computes
@pytest.mark.timeout(3600)
def test_nor_do_a_thousand(cases: list[Case], tmp_path: Path) -> None:
    found = Counter(draw(cases, number, tmp_path / "state") for number in range(MANY))
    assert found["state.db: set aside"] > MANY / 50, found
