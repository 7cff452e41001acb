"""A forecast cycle's work: read each node's past, forecast, hand the forecasts in.

It runs in a worker, talks to the daemon alone, and loads scikit-learn when it fits its models.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from pydantic import BaseModel, ValidationError

from tenure.harvest.forecast.fleet import (
    ContainerPast,
    NodePast,
    NodeRow,
    Past,
    forecasts_of,
    row_of,
)
from tenure.harvest.forecast.grid import BLOCK_STEPS, DAY_S, STEP_S, Floats
from tenure.model.errors import InvalidInput, NotFound
from tenure.model.forecast import ForecastOptions, NodeForecast
from tenure.model.resources import Resources
from tenure.model.units import US

log = logging.getLogger(__name__)
#: What models learn from reaches back so far; what the store has forgotten is unknown.
PAST_DAYS = 21
#: Forecasts in one request: what the daemon does at once stays within milliseconds.
PAGE = 16


class Gateway(Protocol):
    """The daemon's REST interface as this cycle needs it; each method raises TenureError."""

    def node_usage(self, node: str, *, days: int, until_us: int) -> Mapping[str, object]:
        """Return what owners of a node used (``GET /v1/nodes/{name}/usage``)."""

    def submit_forecasts(
        self, run_id: str, forecasts: Sequence[NodeForecast], *, is_last: bool
    ) -> Mapping[str, object]:
        """Hand in some of a run's forecasts."""


def forecast_fleet(
    daemon: Gateway, nodes: Sequence[str], *, run_id: str, now_us: int, options: ForecastOptions
) -> dict[str, int]:
    """Forecast ``nodes`` for a claimed run and hand the forecasts in; return how many of each kind.

    Raises a TenureError where the daemon fails, or answers with something else than a past.
    """
    until_us = now_us // _BLOCK_US * _BLOCK_US
    found = (_row(daemon, node, until_us) for node in nodes)
    rows = [row for row in found if row is not None]
    made = forecasts_of(rows, options)
    pages = [made[at : at + PAGE] for at in range(0, len(made), PAGE)] or [[]]
    for number, page in enumerate(pages, start=1):
        daemon.submit_forecasts(run_id, page, is_last=number == len(pages))
    cold = sum(one.is_cold for one in made)
    log.info(
        "run %s: %d nodes forecast, %d have too little history", run_id, len(made) - cold, cold
    )
    return {"forecast": len(made) - cold, "cold": cold}


_BLOCK_US = BLOCK_STEPS * STEP_S * US


def _row(daemon: Gateway, node: str, until_us: int) -> NodeRow | None:
    """Return a node's past; None where it has left the fleet meanwhile."""
    try:
        answer = daemon.node_usage(node, days=PAST_DAYS, until_us=until_us)
    except NotFound:
        return None
    try:
        return row_of(_past(_Usage.model_validate(answer), until_us))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"the past of node {node}: {where}: {first['msg']}") from error


class _Amounts(BaseModel):
    cpu_m: int
    memory_bytes: int


class _Series(BaseModel):
    cpu_m: list[float | None]
    memory_bytes: list[float | None]


class _Container(_Series):
    id: str
    app: str
    request: _Amounts


class _Usage(BaseModel):
    """What is read of the answer; what else it holds is no matter."""

    node: str
    step_s: int
    capacity: _Amounts
    remainder: _Series
    containers: list[_Container]
    apps: dict[str, _Series]


def _past(found: _Usage, until_us: int) -> NodePast:
    start_s = until_us // US - PAST_DAYS * DAY_S
    buckets = PAST_DAYS * DAY_S // found.step_s
    for series in _all(found):
        if not len(series.cpu_m) == len(series.memory_bytes) == buckets:
            raise InvalidInput(f"the past of node {found.node} has not {buckets} buckets")
    apps = {name: _series(series) for name, series in found.apps.items()}
    return NodePast(
        found.node,
        _resources(found.capacity),
        start_s,
        found.step_s,
        _series(found.remainder),
        tuple(
            ContainerPast(one.id, _resources(one.request), _series(one), apps.get(one.app))
            for one in found.containers
        ),
    )


def _all(found: _Usage) -> Iterator[_Series]:
    yield found.remainder
    yield from found.containers
    yield from found.apps.values()


def _series(found: _Series) -> Past:
    return Past(_floats(found.cpu_m), _floats(found.memory_bytes))


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array(values, dtype=np.float32)  # None becomes NaN


def _resources(amounts: _Amounts) -> Resources:
    return Resources(amounts.cpu_m, amounts.memory_bytes)
