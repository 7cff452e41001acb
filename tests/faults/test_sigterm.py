"""SIGTERM in the middle of work: moves end or go back within 30 s, and no container is touched."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.faults.laws import Span
from tests.faults.rig import Rig, now_us, rigged
from tests.faults.share import Share
from tests.faults.statedb import records
from tests.faults.strikes import Tally, limited

pytestmark = [pytest.mark.faults, pytest.mark.strikes("sigterm"), pytest.mark.timeout(600)]
#: Moves have thirty seconds to end or roll back; a busy machine needs some more for the rest.
STOP_S = 90.0
RESTING = ("queued", "done", "rolled_back", "refused")


def test_sigterm(folder: Path, share: Share, plan: list[str]) -> None:
    tally = Tally(tuple(dict.fromkeys(plan)))
    with rigged(folder, share, "sigterm") as rig:
        rig.begin()
        rng = rig.draw()
        for step in tally.strikes(plan):
            with limited(step):
                tally.note(step, was_struck=_strike(rig, step, rng))
        rig.drain()
        rig.report(tally)
        assert not (found := rig.verdict()), chr(10).join(found)
        assert tally.missing() == []


def _strike(rig: Rig, step: str, rng: random.Random) -> bool:
    was_met = rig.await_step(step, rng)
    begun, asked_s = now_us(), time.monotonic()
    assert rig.tenured.stop(STOP_S) == 0, rig.tenured.tail()
    print(f"stopped at {step} after {time.monotonic() - asked_s:.1f} s")
    moves = records(rig.tenured.database, "migrations").values()
    assert [m["id"] for m in moves if m["step"] not in RESTING] == []
    assert not (rig.tenured.state_dir / "tenured.json").exists()
    rig.tenured.start()
    rig.dead.append(Span(begun, now_us()))
    return was_met
