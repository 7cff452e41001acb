"""Counting what was lost, from what is there; pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tenure.model.units import US

#: States of a run that no worker took on, at least not yet.
UNFILLED = ("due", "missed", "skipped")


@dataclass(frozen=True, slots=True)
class Cover:
    """How the samples of one container cover its time, all in microseconds.

    Each sample says over which span before it it measured: samples of which none is lost lie end
    to end. ``hole_us`` is time that no sample tells of, ``twice_us`` time that two do.
    """

    samples: int
    from_us: int
    to_us: int
    hole_us: int
    twice_us: int

    def lost(self, interval_us: int) -> int:
        """Return how many samples at an interval would fill the holes, rounded up."""
        return -(-self.hole_us // interval_us)


def cover(samples: Iterable[tuple[int, int]]) -> Cover:
    """Return how samples (time, span before it) cover the time; of none an empty cover."""
    rows = sorted(samples)
    if not rows:
        return Cover(0, 0, 0, 0, 0)
    gaps = [at - span - before for (before, _), (at, span) in itertools.pairwise(rows)]
    first_us, span_us = rows[0]
    return Cover(
        samples=len(rows),
        from_us=first_us - span_us,
        to_us=rows[-1][0],
        hole_us=sum(gap for gap in gaps if gap > 0),
        twice_us=-sum(gap for gap in gaps if gap < 0),
    )


@dataclass(frozen=True, slots=True)
class Run:
    """One row of the table of due runs."""

    due_us: int
    state: str

    @property
    def is_filled(self) -> bool:
        """Whether a worker took it on."""
        return self.state not in UNFILLED


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of the runs that were due."""

    due: int
    filled: int
    missed: int
    skipped: int
    unfilled: int
    absent: int


def fate(runs: Sequence[Run], begin_us: int, end_us: int, every_s: int) -> Fate:
    """Return what became of every multiple of ``every_s`` from ``begin_us`` until ``end_us``.

    ``absent`` ones have no row at all, ``unfilled`` ones are still due: both are lost.
    """
    step_us = every_s * US
    wanted = range(-(-begin_us // step_us) * step_us, end_us, step_us)
    there = {run.due_us: run for run in runs}
    found = [there[due] for due in wanted if due in there]
    states = Counter(run.state for run in found)
    return Fate(
        due=len(wanted),
        filled=sum(run.is_filled for run in found),
        missed=states["missed"],
        skipped=states["skipped"],
        unfilled=states["due"],
        absent=len(wanted) - len(found),
    )


def caught_up(runs: Sequence[Run], from_us: int, to_us: int) -> int:
    """Return how many of the runs that fell due in a span were taken on after all."""
    return sum(run.is_filled for run in runs if from_us < run.due_us <= to_us)
