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
POOL_DAYS = 100.0
#: After so many days an error counts half.
HALF_LIFE_DAYS = 14.0
BISECTIONS = 40
#: Each model that was judged knew less than the mean of all, which forecasts, and missed more for
#: it: so much of what they missed is added.
TAKEN = 0.5
#: An error beyond so many spreads counts as one of so many: what a machine that had been idle began
#: with would be added to every other machine of a small fleet, in units of its own spread.
REACH = 2.0
#: Of a few days nobody has seen the worst yet: the share of steps that may lie above is that of so
#: many more days of machines, in which none did. 1,000 machine-days hardly notice.
UNSEEN_DAYS = 100.0


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of forecasts that were not fitted to them: seen - forecast, in units of spread.

    ``spread`` is the unit of each as a share of the capacity, ``series`` the row of the panel,
    ``age`` how many steps before now the forecast was made.
    """

    error: Floats
    spread: Floats
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


def offsets(errors: Errors, spread: Floats, quantile: float) -> Doubles:
    """Return what to add to the forecast of each machine, in units of its ``spread`` (machines,).

    It is ``TAKEN`` of the ``quantile`` of a mixture: the machine's own errors, as amounts, and
    those of the fleet, in units of spread; of few errors that of a higher quantile. Nothing is
    added where there are no errors at all.
    """
    made = np.zeros(len(spread))
    if not len(errors.error):
        return made
    weights = 0.5 ** (errors.age / (HALF_LIFE_DAYS * DAY_STEPS))
    fleet = Tail(np.clip(errors.error, -REACH, REACH), weights)
    quantile = _cautious(errors, quantile)
    order = np.argsort(errors.series, kind="stable")
    bounds = np.searchsorted(errors.series[order], np.arange(len(spread) + 1))
    for row in range(len(spread)):
        own = order[bounds[row] : bounds[row + 1]]
        amounts = errors.error[own] * errors.spread[own] / spread[row]
        days = _days(errors.age[own])
        share = days / (days + POOL_DAYS)
        tail = Tail(np.clip(amounts, -REACH, REACH), weights[own])
        made[row] = _mixed(tail, fleet, share, quantile)
    return TAKEN * made


def _cautious(errors: Errors, quantile: float) -> float:
    """Return the quantile to take of so many days of machines, at least ``quantile``.

    As in split-conformal prediction, where it is (n + 1) / n of it, what is still to come is
    counted in; here n is days of machines, and ``UNSEEN_DAYS`` of them are counted in.
    """
    days = len(np.unique(np.stack([errors.series, errors.age // DAY_STEPS]), axis=1).T)
    return 1 - (1 - quantile) * days / (days + UNSEEN_DAYS)


def _days(age: NDArray[np.intp]) -> float:
    """Return how many days of errors there are, old ones counting less."""
    found = np.unique(age // DAY_STEPS)
    return float((0.5 ** (found / HALF_LIFE_DAYS)).sum())


def _mixed(own: Tail, fleet: Tail, share: float, quantile: float) -> float:
    """Return where the mixture of both reaches ``quantile``, by bisection."""
    low, high = -REACH, REACH
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        reached = share * own.share_until(middle) + (1 - share) * fleet.share_until(middle)
        low, high = (low, middle) if reached >= quantile else (middle, high)
    return high
