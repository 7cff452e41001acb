"""Calibration per machine: what forecasts missed lately, by a machine itself and by the fleet.

Split-conformal prediction (Romano, Patterson, Candès 2019) with weights: recent days count more
(drift), and a machine's own errors count the more the more of them there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tenure.harvest.forecast.grid import DAY_STEPS, Doubles, Floats

#: Own days that weigh as much as the whole fleet; errors within a day are hardly independent.
POOL_DAYS = 30.0
#: After so many days an error counts half.
HALF_LIFE_DAYS = 14.0
BISECTIONS = 40
#: The models that were judged knew less than the one that forecasts, and missed more for it: so
#: much of what they missed is added.
TAKEN = 0.6


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of forecasts that were not fitted to them: seen - forecast, in units of spread.

    ``series`` is the row of the panel, ``age`` how many steps before now the forecast was made.
    """

    error: Floats
    series: NDArray[np.intp]
    age: NDArray[np.intp]


class Tail:
    """A weighted empirical distribution."""

    def __init__(self, values: Floats, weights: Doubles) -> None:
        order = np.argsort(values)
        self._values = values[order]
        total = np.cumsum(weights[order])
        self._share = np.concatenate([[0.0], total / total[-1]]) if len(total) else np.ones(1)

    def share_until(self, value: float) -> float:
        """Return the share of weight at or under ``value``; 1 of nothing."""
        return float(self._share[np.searchsorted(self._values, value, side="right")])


def offsets(errors: Errors, series: int, quantile: float) -> Doubles:
    """Return what to add to the forecast of each of ``series`` machines, in units of spread.

    It is ``TAKEN`` of the ``quantile`` of a mixture: the machine's own errors and all of the fleet.
    Nothing is added where there are no errors at all.
    """
    made = np.zeros(series)
    if not len(errors.error):
        return made
    weights = 0.5 ** (errors.age / (HALF_LIFE_DAYS * DAY_STEPS))
    fleet = Tail(errors.error, weights)
    span = float(errors.error.min()), float(errors.error.max())
    order = np.argsort(errors.series, kind="stable")
    bounds = np.searchsorted(errors.series[order], np.arange(series + 1))
    for row in range(series):
        own = order[bounds[row] : bounds[row + 1]]
        days = _days(errors.age[own])
        share = days / (days + POOL_DAYS)
        made[row] = _mixed(Tail(errors.error[own], weights[own]), fleet, share, quantile, span)
    return TAKEN * made


def _days(age: NDArray[np.intp]) -> float:
    """Return how many days of errors there are, old ones counting less."""
    found = np.unique(age // DAY_STEPS)
    return float((0.5 ** (found / HALF_LIFE_DAYS)).sum())


def _mixed(
    own: Tail, fleet: Tail, share: float, quantile: float, span: tuple[float, float]
) -> float:
    """Return where the mixture of both reaches ``quantile``, by bisection."""
    low, high = span
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        reached = share * own.share_until(middle) + (1 - share) * fleet.share_until(middle)
        low, high = (low, middle) if reached >= quantile else (middle, high)
    return high
