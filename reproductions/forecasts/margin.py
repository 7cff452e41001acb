"""The safety margin of Salamander's Eq. 1: fixed as in the paper, or following measured error.

The paper's margin is the same share of every node at all times. Ours (its section V asks for it)
is a smaller one, and what the forecast was exceeded by in the last hour: use that left its forecast
stays beyond it for a while. Parting a fixed sum by machines' past excesses was tried as well: once
forecasts are calibrated by machine it prevents nothing.
"""

from __future__ import annotations

import numpy as np

from tenure.harvest.forecast.grid import Floats

#: An excess counts from 15 min after it was measured, for an hour: the plan needs time to follow.
LEAD_STEPS, WINDOW_STEPS = 5, 20
BISECTIONS = 40


def dynamic_margin(
    forecast: Floats, seen: Floats, base: float, *, lead: int = LEAD_STEPS
) -> Floats:
    """Return the margin (machines, steps), shares of capacity: ``base`` and the latest excess.

    ``forecast`` and ``seen`` are (machines, steps), NaN where unknown, which is no excess. The
    margin of a step knows what was seen up to ``lead`` steps before it, and takes the largest
    excess of ``WINDOW_STEPS`` steps.
    """
    excess = np.nan_to_num(np.maximum(seen - forecast, 0))
    padded = np.pad(excess, ((0, 0), (WINDOW_STEPS + lead - 1, 0)))
    known = padded[:, : excess.shape[1] + WINDOW_STEPS - 1]
    windows = np.lib.stride_tricks.sliding_window_view(known, WINDOW_STEPS, axis=1)
    margin: Floats = (base + windows.max(axis=2)).astype(np.float32)
    return margin


def harvest(forecast: Floats, margin: Floats | float) -> float:
    """Return the mean share of capacity that is free of use and margin (Eq. 1, at least 0)."""
    free = np.clip(1.0 - forecast - margin, 0.0, None)
    return float(np.nanmean(free)) if np.isfinite(free).any() else 0.0


def base_of_equal_harvest(forecast: Floats, seen: Floats, fixed: float) -> float:
    """Return the base with which the dynamic margin harvests as much as ``fixed``, at least 0.

    For comparisons: it needs the day that is compared, as ``seen``.
    """
    wanted = harvest(forecast, fixed)
    latest = dynamic_margin(forecast, seen, 0.0)
    low, high = 0.0, fixed
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        is_more = harvest(forecast, latest + middle) > wanted
        low, high = (middle, high) if is_more else (low, middle)
    return high
