"""Series of nodes from series of what is on them now (docs/forecasts.md).

Containers move, so a node's own past says little of its tomorrow. Its series is the sum of the
pasts of the containers that are on it now, wherever they were, and of its own remainder. They are
added up before they are forecast: 0.99 quantiles added up are far above the quantile of the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tenure.harvest.forecast.grid import Floats, Panel
from tenure.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Part:
    """What uses a node: a container now on ``node``, or its remainder (``app`` empty).

    ``values`` (steps,) in the resource's own unit, NaN where it was not observed. ``assumed`` (its
    request, say) stands for unobserved steps that no other container of the app tells of; None:
    those steps of the node stay unknown, and it has no forecast until enough are known.
    """

    node: str
    values: Floats
    app: str = ""
    assumed: float | None = None


def node_panel(parts: Sequence[Part], capacity: Mapping[str, float], start_s: int) -> Panel:
    """Return the panel of the nodes in ``capacity`` (by name, over 0), as shares of it.

    Unobserved steps of a container take the mean of its app's containers at that step. A node
    without parts has no series. Raises InvalidInput for a capacity that is not over 0 or series of
    different length. O(parts x steps).
    """
    for name, amount in capacity.items():
        if not amount > 0:
            raise InvalidInput(f"capacity of {name} must be over 0, not {amount}")
    steps = {len(part.values) for part in parts}
    if len(steps) > 1:
        raise InvalidInput(f"series must be of one length, not of {sorted(steps)} steps")
    length = steps.pop() if steps else 0
    typical = _typical(parts)
    names = sorted(capacity)
    rows = {name: row for row, name in enumerate(names)}
    values = np.zeros((len(names), length), dtype=np.float32)
    is_used = np.zeros(len(names), dtype=bool)
    for part in parts:
        if part.node in rows:
            row = rows[part.node]
            values[row] += _filled(part, typical.get(part.app)) / capacity[part.node]
            is_used[row] = True
    values[~is_used] = np.nan
    return Panel(tuple(names), values, start_s)


def _typical(parts: Sequence[Part]) -> Mapping[str, Floats]:
    """Return the mean (steps,) of the containers of each app, NaN where none was observed."""
    groups: dict[str, list[Floats]] = {}
    for part in parts:
        if part.app:
            groups.setdefault(part.app, []).append(part.values)
    made = {}
    for app, group in groups.items():
        stacked = np.stack(group)
        count = np.isfinite(stacked).sum(axis=0)
        total = np.nansum(stacked, axis=0)
        made[app] = np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
    return made


def _filled(part: Part, typical: Floats | None) -> Floats:
    values = part.values
    if typical is not None:
        values = np.where(np.isnan(values), typical, values)
    if part.assumed is not None:
        values = np.where(np.isnan(values), np.float32(part.assumed), values)
    return values
