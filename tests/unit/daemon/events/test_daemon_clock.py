"""The inbox's clock follows a step forward, goes on through one back, and tells of each once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tenure.core.fleet import FleetState
from tenure.core.state.params import Params
from tenure.daemon.events.clock import Clock
from tenure.daemon.events.loop import CoreLoop
from tenure.locality.localizer import Tiers
from tenure.model.events import ClockStepped, Event, Tick
from tenure.model.units import US
from tenure.placement.policies import Policies

HOUR_S = 3600


class Wall:
    """The machine's clocks, as ``time`` shows them: ``step`` moves the wall clock alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, boot_id: Path) -> None:
        self._boot_id = boot_id
        boot_id.write_text("first\n")
        monkeypatch.setattr("tenure.daemon.events.clock.BOOT_ID", boot_id)
        self._wall_s = 1_000_000.0
        self._s = {time.CLOCK_MONOTONIC: 5.0, time.CLOCK_BOOTTIME: 7.0}
        monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: round(self._s[clock] * 10**9))
        monkeypatch.setattr(time, "time_ns", lambda: round(self._wall_s * 10**9))

    def wait(self, seconds: float) -> None:
        self._s[time.CLOCK_MONOTONIC] += seconds
        self.sleep(seconds)

    def sleep(self, seconds: float) -> None:
        """Have the machine suspended for so long."""
        self._s[time.CLOCK_BOOTTIME] += seconds
        self._wall_s += seconds

    def reboot(self) -> None:
        """Have the machine started anew; what that took is not counted."""
        self._boot_id.write_text("second\n")
        self._s = {time.CLOCK_MONOTONIC: 1.0, time.CLOCK_BOOTTIME: 1.0}

    def step(self, seconds: float) -> None:
        self._wall_s += seconds

    @property
    def now_us(self) -> int:
        return round(self._wall_s * US)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Wall:
    return Wall(monkeypatch, tmp_path / "boot_id")


def test_a_step_forward_is_followed_and_told_once(wall: Wall) -> None:
    clock = Clock()
    wall.wait(10)
    assert clock.check() == 0
    wall.step(HOUR_S)
    before = clock.now_us()
    assert clock.check() == HOUR_S * US
    assert clock.now_us() == before + HOUR_S * US == wall.now_us
    assert clock.check() == 0


def test_time_in_which_the_machine_was_suspended_has_passed(wall: Wall) -> None:
    clock = Clock()
    before = clock.now_us()
    wall.sleep(HOUR_S)
    assert clock.check() == 0, "no step: engines went on, and nodes cost"
    assert clock.now_us() == before + HOUR_S * US == wall.now_us


def test_a_step_back_is_told_once_and_time_goes_on(wall: Wall) -> None:
    clock = Clock()
    before = clock.now_us()
    wall.step(-HOUR_S)
    wall.wait(1)
    assert clock.check() == -HOUR_S * US
    assert clock.now_us() == before + US
    wall.wait(20)
    assert clock.check() == 0
    assert clock.now_us() == before + 20 * US, "a little slower"
    wall.step(HOUR_S)
    assert clock.check() == US, "what it has lost"
    assert clock.now_us() == wall.now_us
    wall.step(10)
    assert clock.check() == 10 * US


def test_a_restart_knows_how_much_time_passed(wall: Wall) -> None:
    clock = Clock()
    wall.wait(10)
    wall.step(24 * HOUR_S)
    again = Clock(clock.anchor, clock.now_us())
    assert (again.start.step_us, again.start.is_same_boot) == (24 * HOUR_S * US, True)
    assert again.start.at_us == clock.now_us()
    assert again.now_us() == wall.now_us


def test_after_another_boot_it_does_not(wall: Wall) -> None:
    clock = Clock()
    stored_us = clock.now_us()
    wall.reboot()
    wall.wait(60)
    again = Clock(clock.anchor, stored_us)
    assert (again.start.step_us, again.start.is_same_boot) == (60 * US, False)
    assert again.now_us() == wall.now_us


def test_a_step_beyond_where_our_time_is_skips_the_rest(wall: Wall) -> None:
    clock = Clock()
    wall.step(-HOUR_S)
    clock.check()
    wall.step(2 * HOUR_S)
    assert clock.check() == HOUR_S * US


def test_small_differences_are_no_steps(wall: Wall) -> None:
    clock = Clock()
    wall.step(1.9)
    assert clock.check() == 0


def test_a_wall_behind_what_is_stored_is_known_from_the_start(wall: Wall) -> None:
    clock = Clock(floor_us=wall.now_us + HOUR_S * US)
    assert clock.check() == 0
    wall.step(HOUR_S + 30)
    assert clock.check() == 30 * US


class Disk:
    """Keeps the public events of all transactions."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def commit(self, records: Any, events: Any = ()) -> None:
        self.events += events


async def test_the_core_hears_of_a_step_before_what_comes_after_it(wall: Wall) -> None:
    disk = Disk()
    state = FleetState(Params(), Policies, localizer=Tiers())
    loop = CoreLoop(state, disk, Clock(), lambda effects: None)
    try:
        await loop.start()
        wall.step(HOUR_S)
        seen: list[Event] = loop._timed([lambda at_us: Tick(at_us=at_us)])
        assert [type(event) for event in seen] == [ClockStepped, Tick, Tick]
        assert [event.at_us - seen[0].at_us for event in seen] == [0, HOUR_S * US, HOUR_S * US]
        wall.step(-HOUR_S)
        await loop._enact(loop._timed([lambda at_us: Tick(at_us=at_us)]))
        (told,) = [event for event in disk.events if event.type == "clock.stepped"]
        assert told.data == {"by_s": -HOUR_S}
    finally:
        loop.close()
