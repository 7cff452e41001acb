"""Rows to learn from: what was known at past origins, and what came after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tenure.harvest.forecast.features import COLUMNS, Known, known_at
from tenure.harvest.forecast.grid import BLOCK_STEPS, DAY_BLOCKS, DAY_STEPS, Floats, Panel


@dataclass(frozen=True, slots=True)
class Rows:
    """Samples of past forecasts: ``columns`` is (rows, columns), the rest (rows,).

    ``target`` is what was observed in units of spread above the level; ``series`` is the row of the
    panel, ``origin`` the step at which the forecast would have been made.
    """

    columns: Floats
    target: Floats
    spread: Floats
    series: NDArray[np.intp]
    origin: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.target)

    def where(self, chosen: NDArray[np.bool_]) -> Rows:
        """Return some of the rows."""
        return Rows(
            self.columns[chosen],
            self.target[chosen],
            self.spread[chosen],
            self.series[chosen],
            self.origin[chosen],
        )


def past_origins(until: int, *, first: int, every: int, at_most: int) -> list[int]:
    """Return origins whose whole day ended by step ``until``, the latest last."""
    last = until - DAY_STEPS
    found = list(range(last, first - 1, -every))[:at_most]
    return found[::-1]


def rows_of(
    panel: Panel,
    origins: Sequence[int],
    *,
    min_days: float,
    per_series: int,
    random: np.random.Generator,
) -> Rows:
    """Return ``per_series`` samples of the day after each origin of each series with history.

    Each is a random step of a random block; steps that were not observed are left out.
    """
    parts = [
        _sampled(panel, known_at(panel, origin), origin, (min_days, per_series), random)
        for origin in origins
    ]
    if not parts:
        empty = np.zeros(0, dtype=np.float32)
        none = np.zeros(0, dtype=np.intp)
        return Rows(np.zeros((0, len(COLUMNS)), dtype=np.float32), empty, empty, none, none)
    return joined(parts)


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of one or more parts."""
    return Rows(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in Rows.__slots__)
    )


def _sampled(
    panel: Panel, known: Known, origin: int, bounds: tuple[float, int], random: np.random.Generator
) -> Rows:
    min_days, per_series = bounds
    series = np.flatnonzero(known.history >= min_days)
    count = min(per_series, DAY_BLOCKS)
    blocks = np.argsort(random.random((len(series), DAY_BLOCKS)), axis=1)[:, :count].ravel()
    series = np.repeat(series, count)
    steps = origin + blocks * BLOCK_STEPS + random.integers(BLOCK_STEPS, size=len(blocks))
    seen = panel.values[series, steps]
    is_seen = np.isfinite(seen)
    series, blocks, seen = series[is_seen], blocks[is_seen], seen[is_seen]
    spread = known.spread[series]
    target = (seen - known.level[series]) / spread
    at = np.full(len(series), origin, dtype=np.intp)
    return Rows(known.columns[series, blocks], target, spread, series, at)
