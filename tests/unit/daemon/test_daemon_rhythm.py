"""Due runs of cycles: each moment has its row, but of a time that was slept through the latest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.core.context import Context
from tenure.core.params import Params
from tenure.daemon.loop import EventMaker
from tenure.daemon.rhythm import Rhythm, RhythmPorts
from tenure.locality.localizer import Tiers
from tenure.model.events import CycleDue
from tenure.model.plan import CycleSpec
from tenure.model.units import US
from tenure.placement.policies import Policies

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

    context = Context(Params(), Policies, Tiers())
    rhythm = Rhythm(context, RhythmPorts(put, lambda: now_us[0], tmp_path))
    rhythm.configure((CycleSpec("c", "nursery", "young", interval_us=EACH_S * US),))
    rhythm._tell_due()
    now_us[0] += waited_s * US
    rhythm._tell_due()
    assert len(events) == told
    rhythm._tell_due()
    assert len(events) == told, "once"
    if told:
        assert events[-1].due_us == now_us[0] - now_us[0] % (EACH_S * US)
