"""Forecasts of a fleet's nodes, from what was used where in the past (docs/forecasts.md).

A node's past is that of the containers that are on it now, wherever they ran, and of its remainder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tenure.harvest.forecast.backtest import rolling_origins
from tenure.harvest.forecast.baselines import rolling_quantile
from tenure.harvest.forecast.features import LOOK_BACK_DAYS
from tenure.harvest.forecast.grid import (
    BLOCK_STEPS,
    DAY_STEPS,
    STEP_S,
    Floats,
    Panel,
    from_steps,
    held,
)
from tenure.harvest.forecast.model import Forecast, ForecastParams, forecast
from tenure.harvest.forecast.nodes import Part, node_panel
from tenure.harvest.forecast.scores import score
from tenure.model.errors import InvalidInput
from tenure.model.forecast import Accuracy, ForecastOptions, NodeForecast
from tenure.model.resources import Resources
from tenure.model.units import US

#: A gap of an hour (the daemon was away) is bridged by what was used before it.
HOLD_S = 3600
#: Days of the past that are forecast again to see how good forecasts are: each takes as long as
#: the forecast itself.
BACK_TESTS = 2
KINDS = ("cpu_m", "memory_bytes")


@dataclass(frozen=True, slots=True)
class Past:
    """What was used over time, (buckets,) each: thousandths of a core, bytes; NaN unknown."""

    cpu_m: Floats
    memory_bytes: Floats

    def of(self, kind: str) -> Floats:
        """Return the series of one of ``KINDS``."""
        return self.cpu_m if kind == "cpu_m" else self.memory_bytes


@dataclass(frozen=True, slots=True)
class ContainerPast:
    """A container that is on a node now. ``app``: whose past stands in where its own is unknown."""

    id: str
    request: Resources
    use: Past
    app: Past | None = None


@dataclass(frozen=True, slots=True)
class NodePast:
    """What is known of a node's owners: ``step_s`` is the width of the buckets of all series."""

    node: str
    capacity: Resources
    start_s: int
    step_s: int
    remainder: Past
    containers: tuple[ContainerPast, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node's use on the forecasts' grid, (steps,) shares of its capacity, and what is in it."""

    node: str
    capacity: Resources
    start_s: int
    containers: tuple[str, ...]
    use: dict[str, Floats] = field(default_factory=dict)


def row_of(past: NodePast) -> NodeRow:
    """Return a node's use: the sum of its containers' pasts and its remainder's, on 3 min steps.

    Where a container's own past is not known its app's stands in, then the larger of its request
    and of the most that it was seen to use; a container of which nothing at all is known leaves
    the node unknown. A node without capacity is unknown throughout.
    """
    use = {}
    for kind in KINDS:
        capacity = getattr(past.capacity, kind)
        values = _summed(past, kind, capacity) if capacity > 0 else past.remainder.of(kind) * np.nan
        panel = from_steps(values[None, :], past.step_s, start_s=past.start_s, names=[past.node])
        use[kind] = panel.values[0]
    start_s = past.start_s // STEP_S * STEP_S
    return NodeRow(past.node, past.capacity, start_s, tuple(c.id for c in past.containers), use)


def _summed(past: NodePast, kind: str, capacity: int) -> Floats:
    hold = HOLD_S // past.step_s
    parts = [Part(past.node, _bridged(past.remainder.of(kind), hold))]
    for container in past.containers:
        own = container.use.of(kind)
        values = _bridged(own, hold)
        if container.app is not None:
            values = np.where(np.isnan(values), _bridged(container.app.of(kind), hold), values)
        parts.append(Part(past.node, values, assumed=_assumed(own, container.request, kind)))
    whole: Floats = node_panel(parts, {past.node: float(capacity)}, 0).values[0]
    return whole


def _bridged(values: Floats, hold: int) -> Floats:
    bridged: Floats = held(values[None, :], hold)[0].astype(np.float32)
    return bridged


def _assumed(own: Floats, request: Resources, kind: str) -> float | None:
    seen = own[np.isfinite(own)]
    requested = getattr(request, kind)
    if not len(seen):
        return float(requested) if requested else None
    return max(float(requested), float(seen.max()))


def forecasts_of(rows: Sequence[NodeRow], options: ForecastOptions) -> list[NodeForecast]:
    """Return a forecast of the day after the rows' end for each of them, cold ones included.

    Nodes are learned from together. Raises InvalidInput for rows of different times.
    """
    if not rows:
        return []
    params = ForecastParams(
        quantile=options.quantile, model=options.model, min_history_days=options.min_history_days
    )
    panels = {kind: _panel(rows, kind) for kind in KINDS}
    made = {kind: forecast(panel, params) for kind, panel in panels.items()}
    tested = {kind: back_test(panel, params) for kind, panel in panels.items()}
    end_s = rows[0].start_s + panels["cpu_m"].steps * STEP_S
    found = []
    for number, row in enumerate(rows):
        values = {kind: made[kind].values[number] for kind in KINDS}
        history = min(float(made[kind].history_days[number]) for kind in KINDS)
        is_known = all(np.isfinite(part).all() for part in values.values())
        found.append(
            NodeForecast(
                row.node,
                run_id="",
                made_us=0,
                from_us=end_s * US,
                step_us=BLOCK_STEPS * STEP_S * US,
                quantile=options.quantile,
                model=options.model,
                cpu_m=_amounts(values["cpu_m"], row.capacity.cpu_m) if is_known else (),
                memory_bytes=_amounts(values["memory_bytes"], row.capacity.memory_bytes)
                if is_known
                else (),
                containers=row.containers if is_known else (),
                history_days=round(history, 3),
                why="" if is_known else _why(row, history, made["cpu_m"], options),
                cpu=tested["cpu_m"][number] if is_known else None,
                memory=tested["memory_bytes"][number] if is_known else None,
            )
        )
    return found


def _panel(rows: Sequence[NodeRow], kind: str) -> Panel:
    if len({(row.start_s, len(row.use[kind])) for row in rows}) != 1:
        raise InvalidInput("the pasts of all nodes must be of the same time")
    values = np.stack([row.use[kind] for row in rows])
    return Panel(tuple(row.node for row in rows), values, rows[0].start_s)


def _amounts(shares: Floats, capacity: int) -> tuple[int, ...]:
    """Return amounts, rounded up, one for each block: within a block the shares are the same."""
    return tuple(math.ceil(float(share) * capacity) for share in shares[::BLOCK_STEPS])


def _why(row: NodeRow, history: float, made: Forecast, options: ForecastOptions) -> str:
    """Say what a node without a forecast lacks."""
    if min(row.capacity.cpu_m, row.capacity.memory_bytes) <= 0:
        return "its capacity is not known"
    if history < options.min_history_days:
        return (
            f"{history:.1f} days of its last {LOOK_BACK_DAYS} are known, and "
            f"{options.min_history_days:g} are needed"
        )
    if not made.trained_rows:
        return "there is too little to learn from yet: a new fleet needs 3 days and 8 hours"
    return "what it uses could not be forecast"


def back_test(panel: Panel, params: ForecastParams) -> list[Accuracy | None]:
    """Return how good forecasts of the last days would have been, each made from before it.

    None for a node that could not have been forecast on any of them.
    """
    origins = rolling_origins(panel, at_most=BACK_TESTS)
    if not origins:
        return [None] * len(panel.names)
    seen = np.stack([panel.values[:, at : at + DAY_STEPS] for at in origins])
    made = np.stack([forecast(panel.until(at), params).values for at in origins])
    rolling = np.stack(
        [rolling_quantile(panel, at, params.quantile, days=LOOK_BACK_DAYS) for at in origins]
    )
    rolling = np.where(np.isfinite(made), rolling, np.nan)
    level = np.ones(len(panel.names), dtype=np.float32)
    ours, theirs = (score(seen, values, level, params.quantile) for values in (made, rolling))
    return [
        Accuracy(
            int(ours.steps[row]),
            float(ours.coverage[row]),
            float(ours.loss_of_capacity[row]),
            float(theirs.loss_of_capacity[row]),
        )
        if ours.steps[row]
        else None
        for row in range(len(panel.names))
    ]
