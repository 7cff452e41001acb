"""What is known of a series at an origin: the columns that the models learn from.

Everything is relative to the series' own recent level and spread, so that one model learns from all
series of a fleet and does not know which is which.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tenure.harvest.forecast.grid import (
    BLOCK_STEPS,
    DAY_BLOCKS,
    DAY_S,
    DAY_STEPS,
    STEP_S,
    Floats,
    Panel,
)

#: Days that make a history and a rhythm; of older ones only how high use may get is remembered.
LOOK_BACK_DAYS = 7
#: Bursts come once in weeks: what the quantile of a week has forgotten, three weeks still know.
MEMORY_DAYS = 21
#: Use that grew in so many days may grow by as much again.
GROWTH_DAYS = 3
HOUR_BLOCKS = 4
HALF_HOUR_BLOCKS = 2
#: Share of the capacity under which differences are noise, and share of the level.
FLOOR, FLOOR_OF_LEVEL = 0.002, 0.05
SERIES_COLUMNS = (
    "last", "mean_1h", "max_1h", "mean_6h", "max_6h", "mean_1d", "median_1d", "q90_1d", "q99_1d",
    "max_1d", "median_2d", "q99_2d", "max_2d", "mean_7d", "q90_7d", "q99_7d", "q999_7d", "max_7d",
    "daily_mean_std", "daily_mean_step", "daily_q99_std", "daily_q99_max", "miss_mean", "miss_max",
    "day_correlation", "level_ratio", "history_days",
    "q97_7d", "q99_14d", "q99_21d", "q999_21d", "max_21d", "memory_days",
)  # fmt: skip
STEP_COLUMNS = (
    "mean_lag1", "max_lag1", "wide_lag1", "max_lag2", "wide_lag2", "max_lag7", "mean_of_days",
    "max_of_days", "wide_of_days", "second_of_days", "max_of_weeks", "ahead_h", "hour_sin",
    "hour_cos", "weekday",
)  # fmt: skip
COLUMNS = (*SERIES_COLUMNS, *STEP_COLUMNS)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known at an origin: ``columns`` is (series, DAY_BLOCKS, len(COLUMNS)), NaN unknown.

    A value v of the series is ``level + spread * z`` (both (series,), spread > 0), and all columns
    that are amounts of use are such z. ``history`` is observed steps as days, (series,), of the
    days looked back on: older ones tell no more than how high use has got. ``limit`` is what use
    may reach at most, (series,), as a share of the capacity.
    """

    columns: Floats
    level: Floats
    spread: Floats
    history: Floats
    limit: Floats


def known_at(panel: Panel, origin: int) -> Known:
    """Return what is known of every series before step ``origin``; each is sorted once a span."""
    memory = panel.window(origin, MEMORY_DAYS * DAY_STEPS)
    week = memory[:, -LOOK_BACK_DAYS * DAY_STEPS :]
    quantiles = _Quantiles(memory)
    level = quantiles.at(2, 0.5)
    level = np.where(np.isnan(level), quantiles.at(7, 0.5), level)
    mean = _mean(week)
    spread = quantiles.at(MEMORY_DAYS, 0.99) - quantiles.at(7, 0.5)
    spread = np.fmax(np.fmax(spread, FLOOR_OF_LEVEL * mean), FLOOR).astype(np.float32)
    memory_z = (memory - level[:, None]) / spread[:, None]
    week_z = memory_z[:, -week.shape[1] :]
    fixed = _series_columns(week_z, quantiles.scaled(level, spread), level / spread)
    moving = _step_columns(memory_z, panel.start_s + origin * STEP_S)
    shape = (len(panel.names), DAY_BLOCKS, fixed.shape[1])
    columns = np.concatenate([np.broadcast_to(fixed[:, None, :], shape), moving], axis=2)
    history = np.isfinite(week).sum(axis=1) / DAY_STEPS
    return Known(
        columns.astype(np.float32), level, spread, history.astype(np.float32), _limit(memory)
    )


def _limit(memory: Floats) -> Floats:
    """Return what use of each series may reach: the most seen, and as much as that grew lately.

    The latest ``GROWTH_DAYS`` are held against the days before; where none is known before, no more
    than the capacity, or what was seen above it, is the limit.
    """
    late = _max(memory[:, -GROWTH_DAYS * DAY_STEPS :])
    early = _max(memory[:, : -GROWTH_DAYS * DAY_STEPS])
    growth = np.fmax(late - early, 0)
    growth = np.where(np.isnan(early), np.inf, growth)
    most = np.fmax(late, early)
    limit: Floats = np.fmin(np.fmax(most, 1.0), most + growth).astype(np.float32)
    return limit


class _Quantiles:
    """Quantiles of the last days of every series, each span sorted once."""

    def __init__(self, memory: Floats) -> None:
        self._sorted = {
            days: np.sort(memory[:, -days * DAY_STEPS :], axis=1)
            for days in (1, 2, LOOK_BACK_DAYS, 14, MEMORY_DAYS)
        }
        self._count = {days: np.isfinite(part).sum(axis=1) for days, part in self._sorted.items()}

    def at(self, days: int, quantile: float) -> Floats:
        """Return the empirical quantile (series,), NaN of nothing; the nearest rank above."""
        part, count = self._sorted[days], self._count[days]
        rank = np.clip(np.ceil(quantile * count).astype(np.intp) - 1, 0, None)
        found = np.take_along_axis(part, rank[:, None], axis=1)[:, 0]
        return np.where(count > 0, found, np.nan).astype(np.float32)

    def days(self, span: int) -> Floats:
        """Return how many of the last ``span`` days were observed, (series,)."""
        days: Floats = (self._count[span] / DAY_STEPS).astype(np.float32)
        return days

    def scaled(self, level: Floats, spread: Floats) -> _Quantiles:
        """Return those of (value - level) / spread."""
        made = object.__new__(_Quantiles)
        made._count = self._count
        made._sorted = {
            days: (part - level[:, None]) / spread[:, None] for days, part in self._sorted.items()
        }
        return made


def _mean(part: Floats) -> Floats:
    """Return the mean over the last axis of what was observed, NaN of nothing."""
    count = np.isfinite(part).sum(axis=-1)
    total = np.nansum(part, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: Floats = (total / count).astype(np.float32)
    return mean


def _max(part: Floats) -> Floats:
    """Return the maximum over the last axis of what was observed, NaN of nothing."""
    most: Floats = np.fmax.reduce(part, axis=-1)
    return most


def _std(part: Floats) -> Floats:
    """Return the standard deviation over the last axis of what was observed, NaN of nothing."""
    return np.sqrt(_mean((part - _mean(part)[..., None]) ** 2))


def _series_columns(week: Floats, quantiles: _Quantiles, level_ratio: Floats) -> Floats:
    """Return SERIES_COLUMNS of (series, a week of steps) in units of spread."""
    hour = HOUR_BLOCKS * BLOCK_STEPS
    days = week.reshape(len(week), LOOK_BACK_DAYS, DAY_STEPS)
    means = _mean(days)
    ordered = np.sort(days, axis=2)
    count = np.isfinite(ordered).sum(axis=2)
    rank = np.clip(np.ceil(0.99 * count).astype(np.intp) - 1, 0, None)
    tops = np.take_along_axis(ordered, rank[:, :, None], axis=2)[:, :, 0]
    tops = np.where(count > DAY_STEPS // 4, tops, np.nan)
    # What the quantile of the two days before would have missed each day by.
    misses = tops[:, 2:] - np.fmax(tops[:, 1:-1], tops[:, :-2])
    columns = [
        _mean(week[:, -BLOCK_STEPS:]), _mean(week[:, -hour:]), _max(week[:, -hour:]),
        _mean(week[:, -6 * hour :]), _max(week[:, -6 * hour :]), _mean(week[:, -DAY_STEPS:]),
        quantiles.at(1, 0.5), quantiles.at(1, 0.9), quantiles.at(1, 0.99),
        _max(week[:, -DAY_STEPS:]), quantiles.at(2, 0.5), quantiles.at(2, 0.99),
        _max(week[:, -2 * DAY_STEPS :]), _mean(week), quantiles.at(7, 0.9), quantiles.at(7, 0.99),
        quantiles.at(7, 0.999), _max(week),
        _std(means), means[:, -1] - means[:, -2], _std(tops), _max(tops), _mean(misses),
        _max(misses), _day_correlation(days, means), level_ratio,
        np.isfinite(week).sum(axis=1) / DAY_STEPS,
        quantiles.at(7, 0.97), quantiles.at(14, 0.99), quantiles.at(MEMORY_DAYS, 0.99),
        quantiles.at(MEMORY_DAYS, 0.999), quantiles.at(MEMORY_DAYS, 1.0),
        quantiles.days(MEMORY_DAYS),
    ]  # fmt: skip
    return np.stack(columns, axis=1).astype(np.float32)


def _day_correlation(days: Floats, means: Floats) -> Floats:
    """Return the correlation (series,) of the last day with the one before, by blocks."""
    shape = (len(days), LOOK_BACK_DAYS, DAY_BLOCKS, BLOCK_STEPS)
    blocks = _mean(days.reshape(shape))[:, -2:] - means[:, -2:, None]
    product = _mean(blocks[:, 0] * blocks[:, 1])
    scale = _std(blocks[:, 0]) * _std(blocks[:, 1])
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.where(scale > 0, product / scale, 0).astype(np.float32)
    return found


def _step_columns(memory: Floats, origin_s: int) -> Floats:
    """Return STEP_COLUMNS, (series, DAY_BLOCKS, columns): the same time of the days before."""
    series = len(memory)
    blocks = memory.reshape(series, MEMORY_DAYS * DAY_BLOCKS, BLOCK_STEPS)
    whole = _max(blocks)
    weeks = _around(whole, HALF_HOUR_BLOCKS).reshape(series, MEMORY_DAYS, DAY_BLOCKS)
    most = whole[:, -LOOK_BACK_DAYS * DAY_BLOCKS :]
    by_day = (series, LOOK_BACK_DAYS, DAY_BLOCKS)
    mean = _mean(blocks[:, -LOOK_BACK_DAYS * DAY_BLOCKS :]).reshape(by_day)
    near, wide = (_around(most, reach).reshape(by_day) for reach in (1, HOUR_BLOCKS))
    over_days = np.moveaxis(near, 1, -1)
    second = np.sort(np.where(np.isnan(over_days), -np.inf, over_days), axis=-1)[..., -2]
    second = np.where(np.isfinite(second), second, np.nan)
    columns = [
        mean[:, -1], near[:, -1], wide[:, -1], near[:, -2], wide[:, -2], near[:, 0],
        _mean(np.moveaxis(mean, 1, -1)), _max(over_days), _max(np.moveaxis(wide, 1, -1)), second,
        _max(np.moveaxis(weeks, 1, -1)),
    ]  # fmt: skip
    block_s = STEP_S * BLOCK_STEPS
    times_s = origin_s + np.arange(DAY_BLOCKS) * block_s
    turn = 2 * np.pi * (times_s % DAY_S) / DAY_S
    # The first day of the epoch was a Thursday; Monday is 0.
    calendar = (
        np.arange(DAY_BLOCKS) * block_s / 3600, np.sin(turn), np.cos(turn),
        (times_s // DAY_S + 3) % 7,
    )  # fmt: skip
    columns += [np.broadcast_to(column, (series, DAY_BLOCKS)) for column in calendar]
    return np.stack(columns, axis=2).astype(np.float32)


def _around(blocks: Floats, reach: int) -> Floats:
    """Return the maximum of each block and ``reach`` neighbours to both sides, NaN of nothing."""
    padded = np.pad(blocks, ((0, 0), (reach, reach)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=1)
    return _max(windows)
