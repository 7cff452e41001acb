"""Clocks of the daemon's simulated machine; ``tampering`` steps them.

The timeline is the truth. The wall may be stepped, and the time since boot begins anew with the
machine.
"""

from __future__ import annotations

from tenure.model.ourtime import Anchor, Resumed, resumed
from tenure.model.units import US
from tests.fleet.timeline import Timeline

#: The daemon's machine has been on for so long when a run begins.
ON_FOR_US = 1000 * US


class SimClocks:
    """The clocks of the daemon's machine, and our time by them, life after life.

    ``slewed_us`` is what our time has lost while it was ahead of the wall, ``doubtful_us`` by how
    much it may differ from the truth since the machine was started anew.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._off_us = 0
        self._boot, self._booted_us = 1, timeline.now_us - ON_FOR_US
        self._anchor = Anchor("1", ON_FOR_US, timeline.now_us)
        self._slewed_us = self._stepped_us = 0
        self._is_rebooted = False

    @property
    def wall_us(self) -> int:
        return self._timeline.now_us + self._off_us

    @property
    def now_us(self) -> int:
        """Our time, while a daemon runs."""
        return self._anchor.at_us(self._passed_us)

    @property
    def _passed_us(self) -> int:
        return self._timeline.now_us - self._booted_us

    @property
    def apart_us(self) -> int:
        """By how much our time is ahead of the true one."""
        return self.now_us - self._timeline.now_us

    @property
    def slewed_us(self) -> int:
        return self._slewed_us + self._lost_us()

    @property
    def doubtful_us(self) -> int:
        return 2 * self._stepped_us + 5 * US if self._is_rebooted else 0

    def _lost_us(self) -> int:
        return self._anchor.ahead_us - self._anchor.ahead_at_us(self._passed_us)

    # the daemon's side

    def begin(self, kept: Anchor | None, floor_us: int) -> Resumed:
        """Return how our time goes on in a new life."""
        self._slewed_us += self._lost_us()
        found = resumed(
            kept, floor_us, boot=str(self._boot), passed_us=self._passed_us, wall_us=self.wall_us
        )
        self._anchor = found.anchor
        return found

    def check(self) -> tuple[Anchor | None, int]:
        """Compare with the wall; return the new anchor, None where nothing changed, and a step."""
        found, step_us = self._anchor.checked(self._passed_us, self.wall_us)
        if found is self._anchor:
            return None, 0
        self._slewed_us += self._lost_us()
        self._anchor = found
        return found, step_us

    # what befalls the machine

    def step(self, by_us: int) -> None:
        """Step the wall."""
        self._off_us += by_us
        self._stepped_us += abs(by_us)

    def reboot(self) -> None:
        """Have the machine started anew; no daemon runs."""
        self._slewed_us += self._lost_us()
        self._boot, self._booted_us = self._boot + 1, self._timeline.now_us
        self._anchor = Anchor(str(self._boot), 0, self.wall_us)
        self._is_rebooted = True
