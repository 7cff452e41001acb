"""kill -9 of ``tenured`` at every step of its work, on real engines; nothing is lost or doubled."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.rig import Rig, rigged
from tests.faults.share import Share
from tests.faults.strikes import REPLY, Tally, limited

pytestmark = [pytest.mark.faults, pytest.mark.strikes("kill_daemon"), pytest.mark.timeout(900)]
REPLY_TRIES = 10


def test_kill_daemon(folder: Path, share: Share, plan: list[str]) -> None:
    tally = Tally(tuple(dict.fromkeys(plan)))
    with rigged(folder, share, "kill_daemon") as rig:
        rig.begin()
        rng = rig.draw()
        for step in tally.strikes(plan):
            with limited(step):
                _strike(rig, step, rng, tally)
        rig.drain()
        rig.report(tally)
        assert not (found := rig.verdict()), chr(10).join(found)
        assert tally.missing() == []


def _strike(rig: Rig, step: str, rng: random.Random, tally: Tally) -> None:
    """Kill the daemon at a step; a reply counts as struck if its request was cut by it.

    Most are given within some milliseconds, so it may take more than one kill.
    """
    for _ in range(REPLY_TRIES if step == REPLY else 1):
        cuts = rig.load.cuts
        was_struck = rig.await_step(step, rng)
        held = rig.kill_daemon(rng.choice((0.0, 0.0, 0.5, 1.5)))
        if step == REPLY:
            was_struck = was_struck and rig.load.cuts > cuts
        tally.note(step, was_struck=was_struck, standing=held)
        if was_struck:
            break
