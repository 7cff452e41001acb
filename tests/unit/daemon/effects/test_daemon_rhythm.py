"""Due runs of cycles: each moment has its row, but of a time that was slept through the latest."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure.core.fleet import FleetState
from tenure.core.state.params import Params
from tenure.daemon.effects import rhythm as room
from tenure.daemon.effects.rhythm import Rhythm, RhythmPorts
from tenure.daemon.events.loop import EventMaker
from tenure.locality.localizer import Tiers
from tenure.model.events import CycleDue
from tenure.model.plan import CycleSpec
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.faults.tenured import is_alive

BEGUN_US = 1_000_000_000 * US
EACH_S = 3


@pytest.mark.parametrize(
    ("waited_s", "told"),
    [(1, 0), (3, 1), (30, 10), (3600, 1), (86_400, 1), (30 * 365 * 86_400, 1)],
)
def test_a_time_that_was_skipped_has_one_run(tmp_path: Path, waited_s: int, told: int) -> None:
    now_us, events = [BEGUN_US - BEGUN_US % (EACH_S * US)], list[CycleDue]()

    def put(make: EventMaker) -> None:
        event = make(now_us[0])
        assert isinstance(event, CycleDue)
        events.append(event)

    core = FleetState(Params(), Policies, localizer=Tiers())
    rhythm = core.read(Rhythm, RhythmPorts(put, lambda: now_us[0], tmp_path))
    rhythm.configure((CycleSpec("c", "nursery", "young", interval_us=EACH_S * US),))
    rhythm._tell_due()
    now_us[0] += waited_s * US
    rhythm._tell_due()
    assert len(events) == told
    rhythm._tell_due()
    assert len(events) == told, "once"
    if told:
        assert events[-1].due_us == now_us[0] - now_us[0] % (EACH_S * US)


@pytest.mark.redis
async def test_a_redis_that_runs_but_does_not_answer_is_replaced(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "SILENT_LOOKS", 2)
    core = FleetState(Params(), Policies, localizer=Tiers())
    rhythm = core.read(Rhythm, RhythmPorts(lambda make: None, lambda: BEGUN_US, short))
    running = asyncio.create_task(rhythm.run())
    try:
        await until(lambda: rhythm.is_redis_up)
        silent = rhythm.children()["redis"]
        os.kill(silent, signal.SIGSTOP)
        # the call that it was stopped amid says so in its own words
        await until(lambda: "Redis does not answer" in rhythm.degraded().get("redis", ""))
        assert not rhythm.is_redis_up
        await until(lambda: rhythm.is_redis_up)
        assert rhythm.children()["redis"] != silent
        assert not is_alive(silent)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await rhythm.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - another process's doing
            await asyncio.sleep(0.02)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a path short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="tnr-") as folder:
        yield Path(folder)
