"""Our time: what moment it is, by a machine's clocks, through steps of the wall and restarts.

Theory of operation (ours). The time since boot cannot be stepped, so it says how much time passed,
also while the daemon was down, as long as the boot is the same one. The wall says what moment it
is, but may be stepped. An anchor ties the two: our time goes on from it by the time since boot. A
wall that was stepped forward is followed, and whoever measured from earlier moments is told by how
much. One that was stepped back is waited for: our time never goes back, so it is ahead, and loses
one part in ``CATCH_UP`` until it is not. After another boot the wall alone says what moment it is,
and nothing says how much time passed.
"""

from __future__ import annotations

from dataclasses import dataclass

#: A wall clock that differs from what it was by more than this was stepped.
STEP_US = 2_000_000
#: So many parts of time make one less of ours while it is ahead of the wall: an hour takes 20.
CATCH_UP = 20


@dataclass(frozen=True, slots=True)
class Anchor:
    """One moment by all clocks, from which our time goes on.

    ``boot`` names the boot of the machine, ``passed_us`` is the time since then (that in which it
    was suspended too), ``ours_us`` our time, UTC, and ``ahead_us`` by how much the wall was behind
    it, 0 where it was not.
    """

    boot: str
    passed_us: int
    ours_us: int
    ahead_us: int = 0

    def at_us(self, passed_us: int) -> int:
        """Return our time at a time since boot; it never decreases from one to a later one."""
        return self.ours_us + passed_us - self.passed_us - self._lost_us(passed_us)

    def _lost_us(self, passed_us: int) -> int:
        return min(self.ahead_us, (passed_us - self.passed_us) // CATCH_UP)

    def ahead_at_us(self, passed_us: int) -> int:
        """Return by how much our time is still ahead of the wall at a time since boot."""
        return self.ahead_us - self._lost_us(passed_us)

    def checked(self, passed_us: int, wall_us: int) -> tuple[Anchor, int]:
        """Compare with the wall; return the anchor from now on, and by how much it was stepped.

        Above 0: forward, and our time skips as much. Below: back, and our time goes on from where
        it is. 0 with another anchor: what our time was ahead of the wall, it is less so.
        """
        ours_us, ahead_us = self.at_us(passed_us), self.ahead_at_us(passed_us)
        gap_us = wall_us - ours_us
        if abs(gap_us + ahead_us) <= STEP_US:
            return self, 0
        if gap_us > 0:
            return Anchor(self.boot, passed_us, wall_us), gap_us
        behind = Anchor(self.boot, passed_us, ours_us, -gap_us)
        return behind, min(0, gap_us + ahead_us)


@dataclass(frozen=True, slots=True)
class Resumed:
    """How our time goes on at a start, at ``at_us`` + ``step_us`` by ``anchor``.

    ``is_same_boot``: ``step_us`` is what the wall was stepped by while nobody looked, as
    ``Anchor.checked`` says. Else it is all that the wall says has passed since the last commit, of
    which nothing is certain.
    """

    anchor: Anchor
    at_us: int
    step_us: int = 0
    is_same_boot: bool = True


def resumed(
    kept: Anchor | None, floor_us: int, *, boot: str, passed_us: int, wall_us: int
) -> Resumed:
    """Return how our time goes on at a start, never before ``floor_us``.

    ``kept`` is the anchor of the daemon before, None where there was none, or one of a version that
    kept none; ``boot`` "": it is not known which it is.
    """
    if kept is not None and kept.boot == boot != "" and kept.passed_us <= passed_us:
        at_us = max(kept.at_us(passed_us), floor_us)
        if at_us == kept.at_us(passed_us):
            same = kept
        else:
            same = Anchor(boot, passed_us, at_us, max(0, at_us - wall_us))
        anchor, step_us = same.checked(passed_us, wall_us)
        return Resumed(anchor, at_us, step_us)
    ours_us = max(wall_us, floor_us)
    anchor = Anchor(boot, passed_us, ours_us, ours_us - wall_us)
    if kept is None or not floor_us:
        return Resumed(anchor, ours_us)
    return Resumed(anchor, floor_us, ours_us - floor_us, is_same_boot=False)
