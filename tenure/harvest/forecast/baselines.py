"""What every forecast has to beat, and falls back on: the quantile of the days before."""

from __future__ import annotations

import numpy as np

from tenure.harvest.forecast.grid import DAY_STEPS, Floats, Panel


def rolling_quantile(panel: Panel, origin: int, quantile: float, *, days: int = 2) -> Floats:
    """Return (series, DAY_STEPS): the quantile of the last ``days`` days, for all steps."""
    ordered = np.sort(panel.window(origin, days * DAY_STEPS), axis=1)
    count = np.isfinite(ordered).sum(axis=1)
    rank = np.clip(np.ceil(quantile * count).astype(np.intp) - 1, 0, None)
    found = np.take_along_axis(ordered, rank[:, None], axis=1)
    return np.broadcast_to(np.where(count[:, None] > 0, found, np.nan), (len(found), DAY_STEPS))
