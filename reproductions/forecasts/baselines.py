"""A baseline that the product does not need: the same time of the days before."""

from __future__ import annotations

import numpy as np

from tenure.harvest.forecast.grid import DAY_STEPS, Floats, Panel

#: Steps to both sides that still count as "the same time of day" (30 min).
AROUND_STEPS = 10


def seasonal_naive(panel: Panel, origin: int, *, days: int = 2) -> Floats:
    """Return (series, DAY_STEPS): the most of the last ``days`` days within 30 min of the time."""
    past = panel.window(origin, days * DAY_STEPS)
    padded = np.pad(past, ((0, 0), (AROUND_STEPS, AROUND_STEPS)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * AROUND_STEPS + 1, axis=1)
    near = np.fmax.reduce(windows, axis=2).reshape(len(past), days, DAY_STEPS)
    most: Floats = np.fmax.reduce(near, axis=1)
    return most
