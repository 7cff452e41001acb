"""Back-tests with rolling origins: forecasts from the past alone, held against what came."""

from __future__ import annotations

import numpy as np

from tenure.harvest.forecast.grid import DAY_STEPS, Panel

#: Share of the span that is forecast, a day at a time, at least two days of it.
TESTED_SHARE, LEAST_DAYS = 0.2, 2


def rolling_origins(panel: Panel, *, at_most: int) -> list[int]:
    """Return the steps at which days of the last fifth of the panel begin, ``at_most`` of them."""
    days = panel.steps // DAY_STEPS
    tested = max(LEAST_DAYS, int(days * TESTED_SHARE))
    last = panel.steps - DAY_STEPS
    every = [last - DAY_STEPS * back for back in range(tested)][::-1]
    every = [origin for origin in every if origin > 0]
    if len(every) <= at_most:
        return every
    return [every[round(k)] for k in np.linspace(0, len(every) - 1, at_most)]
