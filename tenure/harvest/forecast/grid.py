"""Series of use on a common grid of 3 min steps, and the calendar of that grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tenure.model.errors import InvalidInput

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
#: Salamander, Table I: 24 hours with 3 minutes sampling are 480 points.
STEP_S = 180
DAY_S = 86_400
DAY_STEPS = DAY_S // STEP_S
#: Forecasts are made for blocks of 15 min and hold for their steps: a day ahead, finer structure
#: is noise, and the work is a fifth.
BLOCK_STEPS = 5
DAY_BLOCKS = DAY_STEPS // BLOCK_STEPS


@dataclass(frozen=True, slots=True)
class Panel:
    """Series of one resource: ``values`` is (series, steps), NaN where nothing was observed.

    Values are shares of the capacity (1.0 = all of it; more is possible where use may burst).
    ``start_s`` is the begin of step 0 in seconds since the epoch (UTC), a whole multiple of
    ``STEP_S``. Raises InvalidInput for shapes that do not agree or values that are infinite.
    """

    names: tuple[str, ...]
    values: Floats
    start_s: int

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[0] != len(self.names):
            raise InvalidInput(
                f"values must be ({len(self.names)} series, steps), not {self.values.shape}"
            )
        if np.isinf(self.values).any():
            raise InvalidInput("values must be finite, or NaN where nothing was observed")
        if self.start_s % STEP_S:
            raise InvalidInput(f"start_s must be a multiple of {STEP_S} s, not {self.start_s}")

    @property
    def steps(self) -> int:
        return int(self.values.shape[1])

    def of(self, rows: Sequence[int] | NDArray[np.intp]) -> Panel:
        """Return the panel of some of the series."""
        chosen = np.asarray(rows, dtype=np.intp)
        names = tuple(self.names[row] for row in chosen)
        return replace(self, names=names, values=self.values[chosen])

    def until(self, step: int) -> Panel:
        """Return the panel of the steps before ``step``: what was known then."""
        return replace(self, values=self.values[:, :step])

    def window(self, step: int, length: int) -> Floats:
        """Return the ``length`` steps before ``step``, (series, length), NaN before the begin."""
        begin = step - length
        if begin >= 0:
            return self.values[:, begin:step]
        fill = np.full((len(self.names), -begin), np.nan, dtype=np.float32)
        return np.concatenate([fill, self.values[:, :step]], axis=1)


def from_steps(
    values: NDArray[np.floating], from_s: int, *, start_s: int, names: Sequence[str]
) -> Panel:
    """Return series sampled every ``from_s`` seconds, (series, samples), on the grid.

    A sample stands for the time until the next one, and each step takes the sample that covers its
    middle: held, not averaged, so that peaks and quantiles stay those of the samples.
    """
    start = start_s // STEP_S * STEP_S
    total = (start_s - start + values.shape[1] * from_s) // STEP_S
    middles = start + np.arange(total) * STEP_S + STEP_S // 2
    taken = np.clip((middles - start_s) // from_s, 0, values.shape[1] - 1)
    return Panel(tuple(names), values[:, taken].astype(np.float32), start)


def held(values: NDArray[np.floating], hold: int) -> NDArray[np.floating]:
    """Return ``values`` (series, steps) with gaps filled by the last one, ``hold`` steps long."""
    steps = values.shape[1]
    at = np.where(np.isnan(values), -1, np.arange(steps))
    last = np.maximum.accumulate(at, axis=1)
    is_near = (last >= 0) & (np.arange(steps) - last <= hold)
    filled: NDArray[np.floating] = np.where(
        is_near, np.take_along_axis(values, np.maximum(last, 0), axis=1), np.nan
    )
    return filled
