"""Gradient-boosted quantiles: trees that learn the tail from all series of a fleet at once.

The trees learn what a plane leaves over: a plane follows levels beyond those it has seen, trees
alone cannot; trees bend it where the tail is not linear. Both together lose less than either, but
a small fleet's few days are better told by their own quantile, and machines that begin work by the
clock by what they did then: what is forecast is a mixture of all four (``mixture.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tenure.harvest.forecast.features import COLUMNS
from tenure.harvest.forecast.grid import Floats
from tenure.harvest.forecast.linear import Linear, fit_linear, rolling

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

#: Of a leaf: at the 0.99 quantile six of 600 rows lie above it; with fewer, leaves follow single
#: peaks.
MIN_LEAF_ROWS = 600
#: A small fleet has leaves of at most this share of its rows, so that some splits are left.
MAX_LEAF_SHARE = 0.05
TREES, LEAVES, RATE = 60, 8, 0.1
SEASONAL = COLUMNS.index("max_of_weeks")
#: What each of the four counts in a fleet of which little is known: in small fleets of Google's and
#: Bitbrains' machines with a week of past the rolling quantile was the safest by far.
PRIOR = (20.0, 1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Boosted:
    """A plane and the trees on top of it; a column that is NaN goes the way that fitted best."""

    plane: Linear
    trees: HistGradientBoostingRegressor

    def forecasts(self, columns: Floats) -> Floats:
        """Return four quantiles (rows, 4) of (rows, columns), in units of spread.

        They are the rolling one, the most of the same time of day of the last weeks, the plane's,
        and that of the plane with its trees.
        """
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1, "openmp"):
            trees = self.trees.predict(columns)
        plane = self.plane.predict(columns)
        past = rolling(columns)
        seasonal = np.where(np.isnan(columns[:, SEASONAL]), past, columns[:, SEASONAL])
        made: Floats = np.stack([past, seasonal, plane, plane + trees], axis=1)
        return made.astype(np.float32)


def fit_boosted(columns: Floats, target: Floats, quantile: float) -> Boosted:
    """Return a plane and histogram gradient boosting on it that minimise the pinball loss.

    The trees are scikit-learn's; each leaf is the quantile of what was left over in it (Friedman
    2001, section 4.4). Nothing is drawn at random up to 200,000 rows. One thread: on so few rows
    more of them only wait for each other, ten times as long where cores are busy (measured).
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    plane = fit_linear(columns, target, quantile)
    trees = HistGradientBoostingRegressor(
        loss="quantile",
        quantile=quantile,
        learning_rate=RATE,
        max_iter=TREES,
        max_leaf_nodes=LEAVES,
        min_samples_leaf=max(1, min(MIN_LEAF_ROWS, int(len(target) * MAX_LEAF_SHARE))),
        early_stopping=False,
        random_state=0,
    )
    # a column that nobody knows (a week ago, in a young fleet) cannot be parted
    known = np.where(np.isnan(columns).all(axis=0), np.float32(0), columns)
    left_over = target - plane.predict(columns)
    with threadpool_limits(1, "openmp"):
        return Boosted(plane, trees.fit(known, left_over))
