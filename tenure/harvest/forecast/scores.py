"""How good a quantile forecast was, in numbers that are averages over machines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tenure.harvest.forecast.grid import Doubles, Floats


def pinball(seen: Floats, forecast: Floats, quantile: float) -> Floats:
    """Return the pinball loss of each step, NaN where nothing was seen or forecast.

    quantile * (seen - forecast) above the forecast, (1 - quantile) * (forecast - seen) below it.
    """
    error = seen - forecast
    loss: Floats = np.maximum(quantile * error, (quantile - 1) * error)
    return loss


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores by machine, each (machines,), NaN where a machine was never forecast.

    ``coverage`` is the share of steps at or under the forecast; ``loss`` the mean pinball loss as a
    share of the machine's mean use; ``loss_of_capacity`` as a share of its capacity; ``harvest``
    the mean share of capacity above the forecast; ``unused`` what was really free.
    """

    coverage: Doubles
    loss: Doubles
    loss_of_capacity: Doubles
    harvest: Doubles
    unused: Doubles
    steps: NDArray[np.intp]


def score(seen: Floats, forecast: Floats, level: Floats, quantile: float) -> Scores:
    """Return the scores of (forecasts, machines, steps) against what was seen.

    ``level`` (machines,) is each machine's mean use, of which ``loss`` is a share.
    """
    is_scored = np.isfinite(seen) & np.isfinite(forecast)
    count = is_scored.sum(axis=(0, 2))

    def mean(part: NDArray[np.floating]) -> Doubles:
        total = np.where(is_scored, part, 0.0).sum(axis=(0, 2), dtype=np.float64)
        made: Doubles = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        return made

    loss = mean(pinball(seen, forecast, quantile))
    return Scores(
        coverage=mean((seen <= forecast).astype(np.float32)),
        loss=loss / np.maximum(level, 1e-9),
        loss_of_capacity=loss,
        harvest=mean(np.clip(1 - forecast, 0, 1)),
        unused=mean(np.clip(1 - seen, 0, 1)),
        steps=count,
    )
