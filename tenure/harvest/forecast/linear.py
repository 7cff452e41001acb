"""Linear quantile regression: the reference, as in Cuckoo and Salamander's forecasting builder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tenure.harvest.forecast.features import COLUMNS
from tenure.harvest.forecast.grid import Doubles, Floats

#: Width over which the corner of the check loss is rounded, in units of spread.
SMOOTH = 0.05
#: Standardised columns are clipped so that one wild series does not tilt the plane.
CLIP = 5.0
#: Pull towards the rolling quantile, as if so many rows argued for it: a small fleet keeps near it.
RIDGE_ROWS = 300.0
#: Rows of one day hardly differ, so more of them argue for no more freedom: the pull is as if at
#: least this share of all rows argued for it.
RIDGE_SHARE = 0.03
#: What the plane corrects: the quantile of the last weeks.
BASE = COLUMNS.index("q99_21d")
MAX_ITERATIONS = 300


@dataclass(frozen=True, slots=True)
class Linear:
    """A fitted plane over standardised columns; a column that is NaN counts as its mean."""

    mean: Doubles
    scale: Doubles
    weights: Doubles

    def forecasts(self, columns: Floats) -> Floats:
        """Return the plane's quantile as the only one, (rows, 1)."""
        return self.predict(columns)[:, None]

    def predict(self, columns: Floats) -> Floats:
        """Return the quantile (rows,) of (rows, columns), in units of spread."""
        plane = _standard(columns, self.mean, self.scale) @ self.weights
        made: Floats = (rolling(columns) + plane).astype(np.float32)
        return made


def fit_linear(columns: Floats, target: Floats, quantile: float) -> Linear:
    """Return the plane that minimises the pinball loss (Koenker and Bassett 1978).

    The loss's corner is rounded (convolution smoothing; Fernandes, Guerre, Horta 2021), so that
    L-BFGS minimises it over any number of rows in a second; the linear programme takes minutes.
    """
    from scipy.optimize import minimize

    count = np.maximum(np.isfinite(columns).sum(axis=0), 1)
    mean = np.nansum(columns, axis=0, dtype=np.float64) / count
    scale = np.sqrt(np.nansum((columns - mean) ** 2, axis=0) / count)
    scale = np.where(scale > 1e-6, scale, 1.0)
    design = _standard(columns, mean, scale)
    target = target - rolling(columns)
    start = np.zeros(design.shape[1])
    start[0] = np.quantile(target, quantile)
    pull = max(RIDGE_ROWS / len(target), RIDGE_SHARE)

    def loss(weights: Doubles) -> tuple[float, Doubles]:
        error = target - design @ weights
        corner = SMOOTH * np.logaddexp(0.0, -error / SMOOTH)
        ridge = weights.copy()
        ridge[0] = 0.0
        value = float(np.mean(quantile * error + corner)) + pull * (ridge @ ridge)
        # The derivative of the rounded loss in the error.
        slope = quantile - 1.0 / (1.0 + np.exp(np.clip(error / SMOOTH, -50, 50)))
        return float(value), -(design.T @ slope) / len(slope) + 2 * pull * ridge

    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": MAX_ITERATIONS})
    return Linear(mean, scale, found.x)


def rolling(columns: Floats) -> Floats:
    """Return the rolling quantile (rows,) in units of spread; nothing is known: the level."""
    return np.nan_to_num(columns[:, BASE])


def _standard(columns: Floats, mean: Doubles, scale: Doubles) -> Doubles:
    """Return the standardised columns after a column of ones."""
    standard = np.nan_to_num((columns - mean) / scale)
    standard = np.clip(standard, -CLIP, CLIP)
    return np.concatenate([np.ones((len(columns), 1)), standard], axis=1)
