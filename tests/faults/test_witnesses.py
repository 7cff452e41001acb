"""The witnesses of the fault runs notice what they are there for."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from testbed import Testbed, TestbedError
from tests.faults import strikes
from tests.faults.laws import US, Span, unseen_us_at
from tests.faults.operator import Operator
from tests.faults.plans import PLANS
from tests.faults.share import Share
from tests.faults.statedb import Watch
from tests.faults.strikes import Aim, Tally, limited
from tests.faults.truth import Truth


@pytest.fixture
def truth(tmp_path: Path) -> Truth:
    return Truth(tmp_path / "beats")


def write(truth: Truth, name: str, *lines: str) -> str:
    rows = [f"{line} 1 {number}.0\n" for number, line in enumerate(lines)]
    (truth.folder / name).write_text("".join(rows))
    return name


def test_one_after_the_other_is_no_double(truth: Truth) -> None:
    name = write(truth, "job.a.0", "START x", "BEAT x", "END7 x", "START y", "BEAT y", "END0 y")
    assert truth.doubles(name) == []
    assert truth.restarts(name) == []


def test_a_beat_after_anothers_start_is_a_double(truth: Truth) -> None:
    name = write(truth, "job.a.0", "START x", "START y", "BEAT x")
    assert truth.doubles(name) == ["job.a.0: x wrote BEAT after y had started"]


def test_a_source_that_is_started_again_after_its_target_is_no_double(truth: Truth) -> None:
    lines = ("START x", "TERM x", "START y", "TERM y", "START x", "BEAT x")
    name = write(truth, "service.a", *lines)
    assert truth.doubles(name) == []
    assert truth.restarts(name) == ["service.a: x started twice"]


def test_a_strike_that_hangs_is_broken_off_and_named() -> None:
    begun = time.monotonic()
    said = r"the strike 'daemon live' is not over after 0\.2 s"
    with pytest.raises(AssertionError, match=said), limited("daemon live", 0.2):
        time.sleep(600)
    assert time.monotonic() - begun < 60
    with limited("in time", 60):
        pass


@pytest.mark.parametrize("seed", range(5))
def test_tenth_and_rest_are_all_strikes(seed: int) -> None:
    for name, plan in PLANS.items():
        parts = Share("tenth", seed).of(name) + Share("rest", seed).of(name)
        assert sorted(parts) == sorted(plan) == sorted(Share("all", seed).of(name))
    struck = sum(len(Share("tenth", seed).of(name)) for name in PLANS)
    assert struck == (sum(map(len, PLANS.values())) + 9) // 10


def test_the_daemon_is_killed_more_than_twenty_times() -> None:
    assert len(Share("rest", 20).of("kill_daemon")) >= 20


def test_a_step_never_struck_is_told() -> None:
    tally = Tally(("run.due", "run.claimed"))
    tally.note("run.due", was_struck=True, standing=("job.running",))
    tally.note("run.claimed", was_struck=False)
    assert tally.missing() == ["run.claimed"]
    assert "job.running" not in tally.table()


def test_what_was_not_struck_is_aimed_at_once_more_at_the_end() -> None:
    tally = Tally(("run.due", "run.claimed"))
    made = []
    for strike in tally.strikes(["run.claimed", "run.due"]):
        made.append(strike)
        tally.note(strike, was_struck=strike == "run.due" or len(made) > 2)
    assert made == ["run.claimed", "run.due", "run.claimed"]
    assert tally.missing() == []


def test_what_is_never_struck_is_aimed_at_for_some_rounds() -> None:
    tally = Tally(("run.due",))
    for step in tally.strikes(["run.due"]):
        tally.note(step, was_struck=False)
    assert tally.aimed["run.due"] == 1 + strikes.ROUNDS
    assert tally.missing() == ["run.due"]


@pytest.fixture
def told(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database as the daemon's, without anything in it."""
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as db:
        db.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, at_us, type, subject, body)")
        db.execute("CREATE TABLE records (kind, key, body)")
        yield db


def enter(told: sqlite3.Connection, step: str) -> None:
    body = '{"source": "a", "target": "b"}'
    told.execute("INSERT INTO events (type, subject, body) VALUES (?, 'one', ?)", (step, body))


def aim_at(told: sqlite3.Connection, tmp_path: Path, act: Callable[[], bool]) -> bool:
    with closing(Watch(tmp_path / "state.db")) as watch:
        return Aim(watch, random.Random(0), act).at("migration.undo_source")


def test_what_a_step_waits_for_is_done_while_it_is_aimed_at(
    told: sqlite3.Connection, tmp_path: Path
) -> None:
    acts: list[int] = []

    def act() -> bool:
        acts.append(1)
        if len(acts) > 1:
            enter(told, "migration.undo_source")
        return len(acts) == 1

    assert aim_at(told, tmp_path, act)
    assert len(acts) == 2


def test_a_step_entered_while_somebody_acted_was_not_seen_in_time(
    told: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strikes, "AIM_S", 0.3)

    def act() -> bool:
        enter(told, "migration.undo_source")
        return True

    assert not aim_at(told, tmp_path, act)


@pytest.mark.parametrize("has_come", [True, False])
def test_nothing_is_waited_for_that_cannot_come_any_more(
    told: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_come: bool
) -> None:
    monkeypatch.setattr(strikes, "AIM_S", 1e9)

    def is_over() -> bool:
        if has_come:
            enter(told, "migration.undo_source")
        return True

    with closing(Watch(tmp_path / "state.db")) as watch:
        aim = Aim(watch, random.Random(0), is_over=is_over)
        assert aim.at("migration.undo_source") == has_come


class Sluggish:
    """A testbed on which a copy is cleared at the second try at the earliest."""

    def __init__(self, *, is_powered: bool) -> None:
        self.is_powered = is_powered
        self.asked: list[tuple[str, str]] = []
        self.restarted: list[str] = []

    def clear_task(self, name: str, container: str) -> None:
        self.asked.append((name, container))
        if len(self.asked) == 1 or not self.is_powered:
            raise TestbedError("the task stays")

    def is_on(self, name: str) -> bool:
        return self.is_powered

    def restart_engine(self, name: str) -> None:
        self.restarted.append(name)
        raise TestbedError(f"the engine of {name} did not start")


@pytest.mark.parametrize("is_powered", [True, False])
def test_the_operator_tries_again_unless_the_node_is_off(
    told: sqlite3.Connection, tmp_path: Path, *, is_powered: bool
) -> None:
    body = '{"node": "a", "engine_id": "e1"}'
    told.execute("INSERT INTO events VALUES (1, 0, 'copy.blocked', 'one', ?)", (body,))
    bed = Sluggish(is_powered=is_powered)
    operator = Operator(cast(Testbed, bed), tmp_path / "state.db")
    assert [operator.work() for _ in range(3)] == [True, is_powered, False]
    assert bed.asked == [("a", "e1")] * (2 if is_powered else 1)
    assert bed.restarted == (["a"] if is_powered else [])
    assert operator.cleared == 1


def test_only_what_nobody_could_see_is_allowed() -> None:
    dead = [Span(10 * US, 12 * US)]
    assert unseen_us_at(11 * US, dead) == 8 * US
    assert unseen_us_at(20 * US, dead) == 0
    assert unseen_us_at(5 * US, dead) == 0
