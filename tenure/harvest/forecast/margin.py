"""The safety margin of Salamander's Eq. 1: fixed as in the paper, or following measured error.

The paper's margin is the same share of every node. Ours (its section V asks for it) costs the fleet
as much capacity, but lies where forecasts were exceeded: more where they were exceeded often and
far, none where they never were.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tenure.harvest.forecast.calibration import HALF_LIFE_DAYS, Errors
from tenure.harvest.forecast.grid import DAY_STEPS, Doubles, Floats

#: Own errors beyond the forecast that weigh as much as the fleet's mean.
POOL_EXCESSES = 20.0
BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class Excess:
    """How each machine's forecasts were exceeded: ``share`` of steps, ``mean`` by how much then.

    Both (machines,) and drawn towards the fleet's where a machine has few; ``mean`` is a share of
    the capacity.
    """

    share: Doubles
    mean: Doubles

    def of(self, chosen: NDArray[np.bool_]) -> Excess:
        """Return those of some machines."""
        return Excess(self.share[chosen], self.mean[chosen])


def excess_of(errors: Errors, spread: Floats) -> Excess:
    """Return how the forecasts of machines with ``spread`` (machines,) were exceeded lately."""
    weight = 0.5 ** (errors.age / (HALF_LIFE_DAYS * DAY_STEPS))
    over = np.maximum(errors.error, 0.0)
    is_over = (over > 0).astype(np.float64)

    def by_machine(part: Doubles) -> Doubles:
        found = np.bincount(errors.series, weights=part * weight, minlength=len(spread))
        return found.astype(np.float64)

    seen, count, total = (by_machine(p) for p in (np.ones(len(over)), is_over, over))
    fleet_share = count.sum() / max(seen.sum(), 1.0)
    fleet_mean = total.sum() / max(count.sum(), 1.0)
    pool_seen = POOL_EXCESSES / max(fleet_share, 1e-3)
    share = (count + pool_seen * fleet_share) / (seen + pool_seen)
    mean = (total + POOL_EXCESSES * fleet_mean) / (count + POOL_EXCESSES)
    return Excess(share, mean * spread)


def dynamic_margin(excess: Excess, forecast: Floats, fixed: float) -> Doubles:
    """Return the margin (machines,), a share of capacity, that harvests as much as ``fixed``.

    ``forecast`` is (machines, steps). Excesses beyond a forecast are taken as exponential, so that
    a margin S leaves a risk of share * exp(-S / mean); the sum of risks is least where one unit
    more helps every machine the same (Lagrange): S = mean * log(share / (mean * price)).
    ``price`` is found by bisection so that the fleet's planned harvest is that of ``fixed``.
    """
    wanted = harvest(forecast, np.full(len(forecast), fixed))
    safe = np.maximum(excess.mean, 1e-9)
    worth = np.log(np.maximum(excess.share, 1e-9) / safe)
    low, high = float(worth.min()) - 1 / float(safe.min()) - 1, float(worth.max())
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        taken = harvest(forecast, _margins(safe, worth, middle))
        low, high = (middle, high) if taken < wanted else (low, middle)
    return _margins(safe, worth, high)


def harvest(forecast: Floats, margin: Doubles) -> float:
    """Return the mean share of capacity that is free of use and margin (Eq. 1, at least 0)."""
    free = np.clip(1.0 - forecast - margin[:, None], 0.0, None)
    return float(np.nanmean(free)) if np.isfinite(free).any() else 0.0


def _margins(mean: Doubles, worth: Doubles, price_log: float) -> Doubles:
    made: Doubles = mean * np.clip(worth - price_log, 0.0, None)
    return made
