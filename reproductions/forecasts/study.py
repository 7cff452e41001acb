"""What is run on each trace: baselines, models, the curve of coverage against loss, the margins."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reproductions.forecasts import traces
from reproductions.forecasts.baselines import seasonal_naive
from reproductions.forecasts.margin import base_of_equal_harvest, dynamic_margin, harvest
from tenure.harvest.forecast.backtest import rolling_origins
from tenure.harvest.forecast.baselines import rolling_quantile
from tenure.harvest.forecast.features import LOOK_BACK_DAYS
from tenure.harvest.forecast.grid import DAY_STEPS, Doubles, Floats, Panel
from tenure.harvest.forecast.model import Fitted, ForecastParams, ModelName, fit
from tenure.harvest.forecast.scores import Scores, score

#: The levels that forecasts are calibrated to for the curve.
LEVELS = (0.95, 0.97, 0.98, 0.985, 0.99, 0.993, 0.996, 0.998)
#: Fixed margins of the paper, shares of the capacity.
MARGINS = (0.01, 0.02, 0.05, 0.10)
#: Both kinds of baseline over three spans; a forecast has to beat the best of the six.
BASELINE_DAYS = (2, 7, 21)


@dataclass(frozen=True, slots=True)
class Row:
    """A method on a trace: means over machines. ``loss`` is of the fleet's mean use."""

    method: str
    coverage: float
    loss: float
    loss_median: float
    harvest: float


@dataclass(frozen=True, slots=True)
class MarginRow:
    """Margins that harvest the same: share of steps beyond the forecast and the margin."""

    fixed: float
    base: float
    harvest: float
    harvest_dynamic: float
    violations_fixed: float
    violations_dynamic: float
    excess_fixed: float
    excess_dynamic: float


@dataclass(frozen=True, slots=True)
class Study:
    """Everything measured on one trace; ``machines`` holds name, coverage, loss and harvest."""

    trace: str
    count: int
    days: tuple[float, ...]
    rows: tuple[Row, ...]
    curve: tuple[Row, ...]
    margins: tuple[MarginRow, ...]
    machines: tuple[tuple[str, float, float, float, float], ...]
    cold: int
    took_s: float


def run(name: str, folder: Path, *, side: str, origins: int) -> Study:
    """Run everything on one side of a trace. Raises NoTrace where it has no machine to test."""
    begun_s = time.monotonic()
    panel = traces.sides(name, folder)[side]
    steps = rolling_origins(panel, at_most=origins)
    if not len(panel.names) or not steps:
        raise traces.NoTrace(f"no machine on side {side} with days to test")
    seen = np.stack([panel.values[:, at : at + DAY_STEPS] for at in steps])
    judge = _Judge(seen, _mean_use(panel), ForecastParams().quantile)
    rows = [judge.row(method, made) for method, made in _baselines(panel, steps).items()]
    fitted: dict[ModelName, list[Fitted]] = {}
    models: tuple[ModelName, ...] = ("linear", "boosted")
    for model in models:
        params = ForecastParams(model=model)
        fitted[model] = [fit(panel.until(at), params) for at in steps]
        rows.append(judge.row(model, _at(fitted[model], params.quantile)))
    ours = fitted["boosted"]
    values = _at(ours, judge.quantile)
    scores = judge.scores(values)
    return Study(
        trace=name,
        count=len(panel.names),
        days=tuple(at / DAY_STEPS for at in steps),
        rows=tuple(rows),
        curve=tuple(judge.row(f"{level:g}", _at(ours, level)) for level in LEVELS),
        margins=tuple(_margins(values, seen, fixed) for fixed in MARGINS),
        machines=_by_machine(panel, scores),
        cold=int(np.isnan(values[:, :, 0]).sum()),
        took_s=time.monotonic() - begun_s,
    )


@dataclass(frozen=True, slots=True)
class _Judge:
    seen: Floats
    level: Doubles
    quantile: float

    def scores(self, made: Floats) -> Scores:
        return score(self.seen, made, self.level.astype(np.float32), self.quantile)

    def row(self, method: str, made: Floats) -> Row:
        found = self.scores(made)
        is_known = np.isfinite(found.coverage)
        return Row(
            method,
            coverage=float(np.mean(found.coverage[is_known])),
            loss=float(np.mean(found.loss_of_capacity[is_known]) / np.mean(self.level[is_known])),
            loss_median=float(np.median(found.loss[is_known])),
            harvest=float(np.mean(found.harvest[is_known]) / np.mean(found.unused[is_known])),
        )


def _mean_use(panel: Panel) -> Doubles:
    count = np.maximum(np.isfinite(panel.values).sum(axis=1), 1)
    mean: Doubles = np.nansum(panel.values, axis=1, dtype=np.float64) / count
    return mean


def _baselines(panel: Panel, steps: Sequence[int]) -> Mapping[str, Floats]:
    """Return the baselines, given the same past and silent for the same machines as the models."""
    quantile, least = ForecastParams().quantile, ForecastParams().min_history_days * DAY_STEPS
    made: dict[str, Floats] = {}
    for days in BASELINE_DAYS:
        made[f"seasonal naive, {days} days"] = np.stack(
            [seasonal_naive(panel.until(at), at, days=days) for at in steps]
        )
        made[f"rolling quantile, {days} days"] = np.stack(
            [rolling_quantile(panel.until(at), at, quantile, days=days) for at in steps]
        )
    for number, at in enumerate(steps):
        is_cold = np.isfinite(panel.window(at, LOOK_BACK_DAYS * DAY_STEPS)).sum(axis=1) < least
        for values in made.values():
            values[number, is_cold] = np.nan
    return made


def _at(fitted: Sequence[Fitted], level: float) -> Floats:
    return np.stack([one.calibrated(level).values for one in fitted])


def _margins(values: Floats, seen: Floats, fixed: float) -> MarginRow:
    """Hold a fixed margin against ours that harvests as much over the days forecast."""
    is_warm = np.isfinite(values[:, :, 0])
    made, came = values[is_warm], seen[is_warm]
    base = base_of_equal_harvest(made, came, fixed)
    ours = dynamic_margin(made, came, base)
    is_seen = np.isfinite(came)
    plain = np.maximum(came - made - fixed, 0)[is_seen]
    dynamic = np.maximum(came - made - ours, 0)[is_seen]
    return MarginRow(
        fixed=fixed,
        base=base,
        harvest=harvest(made, fixed),
        harvest_dynamic=harvest(made, ours),
        violations_fixed=float(np.mean(plain > 0)),
        violations_dynamic=float(np.mean(dynamic > 0)),
        excess_fixed=float(np.mean(plain)),
        excess_dynamic=float(np.mean(dynamic)),
    )


def _by_machine(panel: Panel, scores: Scores) -> tuple[tuple[str, float, float, float, float], ...]:
    columns = (scores.coverage, scores.loss_of_capacity, scores.harvest, scores.unused)
    return tuple(
        (name, *(float(column[row]) for column in columns))  # type: ignore[misc]
        for row, name in enumerate(panel.names)
    )
