"""One forecast of several: each counts the more, the less it lost where it was not fitted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tenure.harvest.forecast.calibration import REACH, TAKEN
from tenure.harvest.forecast.grid import DAY_STEPS, Doubles, Floats
from tenure.harvest.forecast.rows import Rows
from tenure.harvest.forecast.scores import pinball

#: A forecast that loses a tenth more than the best counts 0.14 of it.
SHARPNESS = 20.0
#: Spreads at which an error is cut off, so that no single row decides.
OUTLIER = 10.0
#: Days of its own at which a machine's own losses count as much as the fleet's.
POOL_DAYS = 10.0
#: Days of machines at which what they lost counts as much as what was known before. Of the few days
#: of a small fleet the losses are chance: what missed a burst in none of them has the least.
PRIOR_DAYS = 150.0


def shares(
    errors: Floats, judged: Rows, prior: Sequence[float], *, machines: int, quantile: float
) -> Doubles:
    """Return the weight of each forecast for each machine, (machines, forecasts), rows of sum 1.

    ``errors`` is (rows, forecasts), seen - forecast, in units of spread, of models that were not
    fitted to these rows; each is judged by its pinball loss after a calibration of its own, as the
    mixture will have one. The weights are exponential in the loss (Cesa-Bianchi and Lugosi 2006,
    section 2.1; the rate relative to the best one's loss is ours). A machine's losses are pooled
    with the fleet's, and the fewer days there are the more its weights are those of ``prior``, the
    mean of both on the scale of logarithms: of no rows they are just these.
    """
    rows, count = errors.shape
    known = np.log(np.asarray(prior) / np.sum(prior))
    if not rows:
        return np.broadcast_to(np.exp(known), (machines, count))
    moved = TAKEN * np.quantile(np.clip(errors, -REACH, REACH), quantile, axis=0)
    reached = np.clip(errors, -OUTLIER, OUTLIER) - moved
    loss = pinball(reached, np.zeros_like(reached), quantile).astype(np.float64)
    seen = np.bincount(judged.series, minlength=machines)[:, None]
    own = np.stack([np.bincount(judged.series, one, minlength=machines) for one in loss.T], axis=1)
    days = _days(judged, machines)[:, None]
    fleet = loss.mean(axis=0)
    pooled = (days * own / np.maximum(seen, 1) + POOL_DAYS * fleet) / (days + POOL_DAYS)
    best = np.maximum(pooled.min(axis=1, keepdims=True), 1e-12)
    told = days.sum() / (days.sum() + PRIOR_DAYS)
    weights = np.exp((1 - told) * known - told * SHARPNESS * (pooled / best - 1))
    made: Doubles = weights / weights.sum(axis=1, keepdims=True)
    return made


def _days(judged: Rows, machines: int) -> Doubles:
    """Return how many days of each machine were forecast again, (machines,)."""
    found = np.unique(np.stack([judged.series, judged.origin // DAY_STEPS]), axis=1)[0]
    return np.bincount(found, minlength=machines).astype(np.float64)
