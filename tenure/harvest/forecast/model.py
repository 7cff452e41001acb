"""The forecaster: fit on what was seen, calibrate on what was missed, forecast a day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tenure.harvest.forecast import rows
from tenure.harvest.forecast.boosted import PRIOR, fit_boosted
from tenure.harvest.forecast.calibration import Errors, offsets
from tenure.harvest.forecast.features import LOOK_BACK_DAYS, Known, known_at
from tenure.harvest.forecast.grid import BLOCK_STEPS, DAY_BLOCKS, DAY_STEPS, Floats, Panel
from tenure.harvest.forecast.linear import fit_linear
from tenure.harvest.forecast.mixture import shares
from tenure.harvest.forecast.rows import Rows
from tenure.model.errors import InvalidInput

ModelName = Literal["linear", "boosted"]
#: Added to a forecast, a share of the capacity: use that is the same as it is not above it, however
#: level and spread are rounded.
GRAIN = 1e-5


@dataclass(frozen=True, slots=True)
class ForecastParams:
    """What is fitted and on how much; none of it is about one set of machines.

    ``quantile`` in (0.5, 1). A series is forecast once ``min_history_days`` of its steps of the
    last ``LOOK_BACK_DAYS`` were observed, and learned from after ``learn_days``. ``origins`` past
    days, one every ``every_steps``, are learned from, ``max_rows`` steps of them at most.
    ``folds`` spans of time are left out in turn for calibration. ``seed`` draws the sample of
    steps.
    """

    quantile: float = 0.99
    model: ModelName = "boosted"
    min_history_days: float = 2.0
    learn_days: float = 1.0
    origins: int = 32
    every_steps: int = DAY_STEPS * 2 // 3
    max_rows: int = 60_000
    folds: int = 4
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0.5 < self.quantile < 1:
            raise InvalidInput(f"quantile must be over 0.5 and under 1, not {self.quantile}")
        if not 1 <= self.learn_days <= self.min_history_days <= LOOK_BACK_DAYS:
            raise InvalidInput(
                "learn_days must be at least 1, min_history_days not less and at most "
                f"{LOOK_BACK_DAYS}, not {self.learn_days} and {self.min_history_days}"
            )
        if min(self.origins, self.every_steps, self.max_rows, self.folds - 1) < 1:
            raise InvalidInput("origins, every_steps, max_rows must be at least 1, folds 2")


@dataclass(frozen=True, slots=True)
class Forecast:
    """The day after the last step of a panel: ``values`` (series, DAY_STEPS), shares of capacity.

    A row is NaN where the series has too little history: nothing is to be harvested there.
    ``history_days`` (series,) is what it has of the last ``LOOK_BACK_DAYS``; ``trained_rows`` is 0
    where there was nothing to learn from.
    """

    values: Floats
    history_days: Floats
    trained_rows: int

    @property
    def is_cold(self) -> NDArray[np.bool_]:
        """Whether each series (series,) has no forecast."""
        return np.isnan(self.values[:, 0])


class Model(Protocol):
    """What a fit returns: quantiles of (rows, columns), in units of spread."""

    def forecasts(self, columns: Floats) -> Floats:
        """Return one or more quantiles of each row, (rows, forecasts)."""


FITS: Mapping[ModelName, Callable[[Floats, Floats, float], Model]] = {
    "linear": fit_linear,
    "boosted": fit_boosted,
}
#: What each forecast of a model counts before anything was seen to be lost.
PRIORS: Mapping[ModelName, Sequence[float]] = {"linear": (1.0,), "boosted": PRIOR}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A forecast before its calibration: ``ahead`` (series, DAY_BLOCKS) in units of spread.

    ``errors`` are those of models that had not seen what they were judged by.
    """

    known: Known
    ahead: Floats
    errors: Errors
    params: ForecastParams
    trained_rows: int

    def calibrated(self, quantile: float) -> Forecast:
        """Return the forecast moved, machine by machine, to cover ``quantile``.

        It is never above what use may reach by what was seen (``Known.limit``).
        """
        known = self.known
        moved = offsets(self.errors, known.spread, quantile)
        made = known.level[:, None] + known.spread[:, None] * (self.ahead + moved[:, None])
        made = np.clip(made, 0, known.limit[:, None]) + GRAIN
        values = np.repeat(made, BLOCK_STEPS, axis=1).astype(np.float32)
        values[known.history < self.params.min_history_days] = np.nan
        return Forecast(values, known.history, self.trained_rows)


def forecast(panel: Panel, params: ForecastParams) -> Forecast:
    """Fit on all of ``panel`` and return the calibrated forecast of the day after it.

    All NaN where no series has a day to learn from, or none that can be judged.
    """
    return fit(panel, params).calibrated(params.quantile)


def fit(panel: Panel, params: ForecastParams) -> Fitted:
    """Learn from all of ``panel``: what was known at past origins, and what came the day after.

    What is forecast is the mean of the models of all folds: it varies less than one model of all
    rows, and each of those that are averaged was judged (Barber, Candès, Ramdas, Tibshirani 2021,
    CV+).
    """
    known = known_at(panel, panel.steps)
    learned = _learn_from(panel, params)
    judged, errors, models = _judged(learned, params)
    ahead = np.full((len(panel.names), DAY_BLOCKS), np.nan, dtype=np.float32)
    weights = shares(
        errors, judged, PRIORS[params.model], machines=len(panel.names), quantile=params.quantile
    )
    if models:
        columns = known.columns.reshape(-1, known.columns.shape[2])
        mean = np.mean([model.forecasts(columns) for model in models], axis=0)
        made = mean.reshape(*ahead.shape, -1)
        ahead = np.einsum("mbf,mf->mb", made, weights).astype(np.float32)
    missed = Errors(
        (errors * weights[judged.series]).sum(axis=1).astype(np.float32),
        judged.spread,
        judged.series,
        panel.steps - judged.origin,
    )
    return Fitted(known, ahead, missed, params, len(learned) if len(judged) else 0)


def _learn_from(panel: Panel, params: ForecastParams) -> Rows:
    """Return the rows to learn from: of the last days, at most about ``max_rows``."""
    first = int(params.learn_days * DAY_STEPS)
    origins = rows.past_origins(
        panel.steps, first=first, every=params.every_steps, at_most=params.origins
    )
    return rows.rows_of(
        panel,
        origins,
        min_days=params.learn_days,
        per_series=max(1, params.max_rows // max(1, len(origins) * len(panel.names))),
        random=np.random.default_rng(params.seed),
    )


def _fit(learned: Rows, params: ForecastParams) -> Model:
    return FITS[params.model](learned.columns, learned.target, params.quantile)


def _judged(learned: Rows, params: ForecastParams) -> tuple[Rows, Floats, list[Model]]:
    """Return rows, what models missed there that were fitted without the time around, and these.

    The origins are parted into ``folds`` spans; each is forecast by a model of the others, a day's
    distance kept, so that no step is both learned from and judged. Errors are (rows, forecasts).
    """
    parts: list[tuple[Rows, Floats]] = []
    models: list[Model] = []
    for span in np.array_split(np.unique(learned.origin), params.folds):
        if not len(span):
            continue
        is_judged = (learned.origin >= span[0]) & (learned.origin <= span[-1])
        is_clear = (learned.origin <= span[0] - DAY_STEPS) | (
            learned.origin >= span[-1] + DAY_STEPS
        )
        if is_clear.any():
            judged = learned.where(is_judged)
            model = _fit(learned.where(is_clear), params)
            models.append(model)
            parts.append((judged, judged.target[:, None] - model.forecasts(judged.columns)))
    if not parts:
        nothing = learned.where(np.zeros(len(learned), dtype=np.bool_))
        return nothing, np.zeros((0, len(PRIORS[params.model])), dtype=np.float32), []
    errors = np.concatenate([error for _, error in parts])
    return rows.joined([part for part, _ in parts]), errors, models
