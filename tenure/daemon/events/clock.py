"""The inbox's clock: our time (``model.ourtime``) by the clocks of this machine."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from pathlib import Path

from tenure.model.ourtime import Anchor, resumed

log = logging.getLogger(__name__)

#: Names the boot of a Linux machine, also inside of containers.
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: Unlike the monotonic clock it counts while the machine is suspended, and is Linux's alone.
_PASSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _passed_us() -> int:
    """Return the time since some moment, of a machine that was suspended too: engines went on."""
    return time.clock_gettime_ns(_PASSED) // 1000


def _wall_us() -> int:
    return time.time_ns() // 1000


def _boot() -> str:
    """Return the name of this boot, "" where the system has none."""
    with suppress(OSError):
        return BOOT_ID.read_text(encoding="ascii").strip()
    return ""


class Clock:
    """UTC microseconds that never decrease, also over restarts.

    ``kept`` and ``floor_us`` are from the store: the anchor of the daemon before, and when it
    stored something last. ``start`` is how time goes on, ``anchor`` what is to be stored.
    """

    def __init__(self, kept: Anchor | None = None, floor_us: int = 0) -> None:
        boot, passed_us, wall_us = _boot(), _passed_us(), _wall_us()
        self.start = resumed(kept, floor_us, boot=boot, passed_us=passed_us, wall_us=wall_us)
        self.anchor = self.start.anchor
        if not self.start.is_same_boot:
            text = "the machine was started anew: of %.1f s it is not known whether they passed"
            log.warning(text, self.start.step_us / 1e6)
        else:
            self._tell(self.start.step_us)

    def now_us(self) -> int:
        """Return the time now."""
        return self.anchor.at_us(_passed_us())

    def check(self) -> int:
        """Compare with the wall clock; return by how much it was stepped since the last time.

        After a step forward (microseconds, above 0) our time has skipped as much: who asks now
        has to say so to whoever measured from earlier moments. After one back (below 0) our time
        goes on from where it was, a little slower until it is not ahead any more. 0: it was not
        stepped, or what was ahead of the wall is less so.
        """
        self.anchor, step_us = self.anchor.checked(_passed_us(), _wall_us())
        self._tell(step_us)
        return step_us

    def _tell(self, step_us: int) -> None:
        if step_us > 0:
            log.warning("the wall clock was stepped forward by %.1f s", step_us / 1e6)
        elif step_us < 0:
            text = "the wall clock is %.1f s behind our time, which is slower until it is not"
            log.warning(text, self.anchor.ahead_us / 1e6)
