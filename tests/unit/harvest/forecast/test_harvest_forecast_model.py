"""The forecaster on made series whose quantiles are known."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_info, threadpool_limits

from reproductions.forecasts.baselines import seasonal_naive
from reproductions.forecasts.margin import base_of_equal_harvest, dynamic_margin, harvest
from tenure.harvest.forecast.backtest import rolling_origins
from tenure.harvest.forecast.baselines import rolling_quantile
from tenure.harvest.forecast.calibration import REACH, TAKEN, Errors, offsets
from tenure.harvest.forecast.features import COLUMNS, known_at
from tenure.harvest.forecast.grid import DAY_STEPS, Floats, Panel
from tenure.harvest.forecast.linear import fit_linear
from tenure.harvest.forecast.mixture import shares
from tenure.harvest.forecast.model import FITS, ForecastParams, ModelName, fit, forecast
from tenure.harvest.forecast.rows import Rows, past_origins
from tenure.harvest.forecast.scores import pinball, score
from tenure.model.errors import InvalidInput

PARAMS = ForecastParams(max_rows=8_000)
ALIKE = (1.0, 1.0, 1.0)


def daily(series: int, days: int, *, seed: int = 0) -> Panel:
    """Return machines with a day's rhythm and noise."""
    random = np.random.default_rng(seed)
    times = np.arange(days * DAY_STEPS) * 2 * np.pi / DAY_STEPS
    level = random.uniform(0.2, 0.5, (series, 1))
    wave = 0.4 * level * np.sin(times + random.uniform(0, 6, (series, 1)))
    noise = random.normal(0, 0.03, (series, days * DAY_STEPS))
    values = np.clip(level + wave + noise, 0, None).astype(np.float32)
    return Panel(tuple(f"m{k}" for k in range(series)), values, 0)


@pytest.fixture(scope="module")
def panel() -> Panel:
    return daily(12, 9)


def loss_of(panel: Panel, values: Floats) -> float:
    return float(np.nanmean(pinball(panel.values[:, -DAY_STEPS:], values, 0.99)))


def test_a_day_with_a_rhythm_is_covered_at_less_loss_than_by_the_baselines() -> None:
    panel = daily(40, 9)
    past = panel.until(8 * DAY_STEPS)
    made = forecast(past, PARAMS)
    seen = panel.values[:, -DAY_STEPS:]
    assert 0.975 <= np.mean(seen <= made.values) <= 0.999
    ours = loss_of(panel, made.values)
    # the same hour of days before is all there is to know of such series
    assert ours < loss_of(panel, seasonal_naive(past, past.steps))
    assert ours < 0.6 * loss_of(panel, rolling_quantile(past, past.steps, 0.99))


def test_the_linear_reference_is_worse_than_no_baseline(panel: Panel) -> None:
    past = panel.until(8 * DAY_STEPS)
    values = forecast(past, ForecastParams(model="linear", max_rows=8_000)).values
    assert loss_of(panel, values) < loss_of(panel, rolling_quantile(past, past.steps, 0.99))


@pytest.mark.parametrize("model", ["linear", "boosted"])
def test_the_future_changes_no_forecast_and_the_same_past_gives_the_same(
    panel: Panel, model: ModelName
) -> None:
    params = ForecastParams(model=model, max_rows=2_000)
    past = panel.until(4 * DAY_STEPS)
    whole = Panel(past.names, panel.values.copy(), 0)
    whole.values[:, 4 * DAY_STEPS :] = 99.0
    again = forecast(whole.until(4 * DAY_STEPS), params)
    assert np.array_equal(forecast(past, params).values, again.values)


def test_a_higher_level_never_forecasts_less(panel: Panel) -> None:
    fitted = fit(panel.until(5 * DAY_STEPS), ForecastParams(max_rows=2_000))
    levels = [fitted.calibrated(level).values for level in (0.9, 0.99, 0.999)]
    assert (levels[0] <= levels[1]).all()
    assert (levels[1] <= levels[2]).all()
    assert (levels[0] < levels[2]).any()


def test_too_little_history_is_no_forecast_and_leaves_others_theirs(panel: Panel) -> None:
    values = panel.values[:, : 5 * DAY_STEPS].copy()
    values[3, : 4 * DAY_STEPS] = np.nan
    values[4] = np.nan
    found = forecast(Panel(panel.names, values, 0), ForecastParams(max_rows=2_000))
    assert found.is_cold.nonzero()[0].tolist() == [3, 4]
    assert np.isnan(found.values[[3, 4]]).all()
    assert np.isfinite(np.delete(found.values, [3, 4], axis=0)).all()
    assert found.history_days[3] == pytest.approx(1)


def test_what_was_observed_before_the_week_looked_back_on_is_no_history() -> None:
    """A machine that was away for a week is known by the hour since, not by the month before."""
    past = daily(3, 16)
    values = past.values.copy()
    values[0, 5 * DAY_STEPS : -20] = np.nan
    found = forecast(Panel(past.names, values, 0), ForecastParams(model="linear", max_rows=2_000))
    assert found.is_cold.tolist() == [True, False, False]
    assert found.history_days[0] == pytest.approx(20 / DAY_STEPS)


def test_more_history_than_is_looked_back_on_cannot_be_asked_for() -> None:
    with pytest.raises(InvalidInput, match=r"at most 7, not .* and 8"):
        ForecastParams(min_history_days=8)


@pytest.mark.parametrize(("steps", "is_cold"), [(1599, True), (1600, False)])
def test_a_new_fleet_is_forecast_after_3_days_and_8_hours(steps: int, is_cold: bool) -> None:
    found = forecast(daily(1, 4).until(steps), ForecastParams(model="linear", max_rows=2_000))
    assert found.is_cold.tolist() == [is_cold]


def test_trees_are_grown_and_asked_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """More threads wait for each other: ten times as long beside other work."""
    threads: list[int] = []

    def watched(name: str) -> None:
        plain = getattr(HistGradientBoostingRegressor, name)

        def call(*given: Any, **named: Any) -> Any:
            pools = threadpool_info()
            threads.extend(p["num_threads"] for p in pools if p["user_api"] == "openmp")
            return plain(*given, **named)

        monkeypatch.setattr(HistGradientBoostingRegressor, name, call)

    watched("fit")
    watched("predict")
    with threadpool_limits(2, "openmp"):
        forecast(daily(2, 5), ForecastParams(max_rows=500))
    assert len(threads) >= 2
    assert set(threads) == {1}


@pytest.mark.parametrize("days", [0, 1, 2])
def test_a_fleet_that_nobody_knows_yet_has_no_forecast(days: int) -> None:
    found = forecast(daily(3, 9).until(days * DAY_STEPS), PARAMS)
    assert found.is_cold.all()
    assert found.trained_rows == 0


def test_machines_that_do_nothing_are_forecast_to_do_next_to_nothing() -> None:
    panel = Panel(("a", "b"), np.zeros((2, 6 * DAY_STEPS), dtype=np.float32), 0)
    assert forecast(panel, PARAMS).values.max() < 0.02


def test_amounts_are_relative_so_twice_the_use_is_twice_the_forecast(panel: Panel) -> None:
    past = panel.until(5 * DAY_STEPS)
    double = Panel(past.names, past.values * 2, 0)
    params = ForecastParams(max_rows=2_000)
    first, second = forecast(past, params), forecast(double, params)
    assert np.allclose(second.values, 2 * first.values, rtol=0.02, atol=0.01)


def test_columns_are_all_told_and_say_what_they_are(panel: Panel) -> None:
    at = 5 * DAY_STEPS + 7
    known = known_at(panel, at)
    assert known.columns.shape == (12, 96, len(COLUMNS))
    yesterday = panel.values[:, at - DAY_STEPS : at - DAY_STEPS + 5].mean(axis=1)
    told = known.columns[:, 0, COLUMNS.index("mean_lag1")]
    assert np.allclose(known.level + known.spread * told, yesterday, atol=1e-5)
    last = panel.values[:, at - 5 : at].mean(axis=1)
    told = known.columns[:, 0, COLUMNS.index("last")]
    assert np.allclose(known.level + known.spread * told, last, atol=1e-5)


def test_monday_is_day_0() -> None:
    panel = Panel(("a",), np.ones((1, DAY_STEPS), dtype=np.float32), 1_735_516_800 - 86_400)
    assert known_at(panel, DAY_STEPS).columns[0, 0, COLUMNS.index("weekday")] == 0  # 2024-12-30


def test_the_plane_has_the_quantiles_coverage() -> None:
    random = np.random.default_rng(3)
    columns = random.normal(size=(40_000, len(COLUMNS))).astype(np.float32)
    target = (columns[:, COLUMNS.index("q99_7d")] + random.normal(size=40_000)).astype(np.float32)
    plane = fit_linear(columns, target, 0.9)
    assert np.mean(target <= plane.predict(columns)) == pytest.approx(0.9, abs=0.01)


def test_the_same_rows_again_argue_for_no_more_freedom() -> None:
    """Samples of one day hardly differ: with five times as many a plane followed single days."""
    random = np.random.default_rng(10)
    columns = random.normal(size=(12_000, len(COLUMNS))).astype(np.float32)
    target = (columns[:, 0] + random.normal(size=12_000)).astype(np.float32)
    few = fit_linear(columns, target, 0.9)
    many = fit_linear(np.tile(columns, (5, 1)), np.tile(target, 5), 0.9)
    assert many.predict(columns) == pytest.approx(few.predict(columns), abs=0.02)


def test_what_is_forecast_is_the_mean_of_the_models_that_were_judged(
    panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Constant] = []

    def fit_next(columns: Floats, target: Floats, quantile: float) -> Constant:
        made.append(Constant(float(len(made))))
        return made[-1]

    monkeypatch.setitem(FITS, "linear", fit_next)
    found = fit(panel, ForecastParams(model="linear", folds=4, max_rows=500))
    assert len(made) == 4
    assert (found.ahead == 1.5).all()


@dataclass(frozen=True)
class Constant:
    """A model that forecasts one value."""

    value: float

    def forecasts(self, columns: Floats) -> Floats:
        return np.full((len(columns), 1), self.value, dtype=np.float32)


def missed(
    errors: Floats, series: NDArray[np.intp], age: NDArray[np.intp], *, spread: float = 0.1
) -> Errors:
    return Errors(errors, np.full_like(errors, spread), series, age)


def spreads(count: int) -> Floats:
    return np.full(count, 0.1, dtype=np.float32)


def test_offsets_reach_the_quantile_and_lean_to_a_machines_own_errors() -> None:
    random = np.random.default_rng(5)
    series = np.repeat(np.arange(4), 400_000)
    errors = random.normal(0, np.where(series == 3, 0.5, 0.1)).astype(np.float32)
    age = np.tile(np.arange(400_000), 4)
    found = offsets(missed(errors, series, age // 20), spreads(4), 0.95) / TAKEN
    # of 168 days of machines a higher quantile is taken
    assert 0.955 < np.mean(errors <= found[series]) < 0.985
    assert found[3] > 1.1 * found[0]
    none, empty = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.float32)
    assert offsets(missed(empty, none, none), spreads(2), 0.95).tolist() == [0, 0]


def test_fewer_days_are_met_with_more_caution() -> None:
    errors = np.tile(np.linspace(0, 1, 480, dtype=np.float32), 300)
    days = np.repeat(np.arange(300), 480)
    series = np.zeros(len(days), dtype=np.intp)
    found = [
        float(offsets(missed(errors[:n], series[:n], 0 * series[:n]), spreads(1), 0.9)[0])
        for n in (480, 144_000)
    ]
    whole = offsets(missed(errors, days % 30, days // 30 * DAY_STEPS), spreads(30), 0.9)[0]
    assert found[0] / TAKEN == pytest.approx(1 - 0.1 / 101, abs=0.01)
    assert found[0] == pytest.approx(found[1], abs=0.01), "days count, not samples of them"
    assert whole / TAKEN == pytest.approx(1 - 0.1 * 300 / 400, abs=0.01)


def test_a_machines_own_errors_are_amounts_and_not_multiples_of_its_spread() -> None:
    """What one that had been idle began with is not added again, many times as large."""
    errors = np.full(480, 1.0, dtype=np.float32)
    now = np.zeros(480, dtype=np.intp)
    found = offsets(missed(errors, now, now, spread=0.01), np.array([0.5, 0.01], np.float32), 0.5)
    assert found[0] <= found[1] == pytest.approx(TAKEN)
    own = offsets(missed(-errors, now, now, spread=0.01), np.array([0.5], np.float32), 0.005)
    assert own[0] == pytest.approx(-0.02 * TAKEN, abs=1e-3)


def test_no_error_counts_as_more_than_its_bound() -> None:
    errors = np.full(480, 400.0, dtype=np.float32)
    now = np.zeros(480, dtype=np.intp)
    assert offsets(missed(errors, now, now), spreads(2), 0.9).tolist() == [REACH * TAKEN] * 2


def test_old_errors_fade() -> None:
    errors = np.array([1.0] * 100 + [0.0] * 100, dtype=np.float32)
    series = np.zeros(200, dtype=np.intp)
    age = np.array([200 * DAY_STEPS] * 100 + [0] * 100)
    assert offsets(missed(errors, series, age), spreads(1), 0.9)[0] == pytest.approx(0, abs=1e-6)
    fresh = offsets(missed(errors, series, age * 0), spreads(1), 0.9)[0]
    assert fresh == pytest.approx(TAKEN, abs=1e-6)


def judged(series: NDArray[np.intp], origin: NDArray[np.intp]) -> Rows:
    empty = np.zeros(len(series), dtype=np.float32)
    return Rows(np.zeros((len(series), len(COLUMNS)), np.float32), empty, empty, series, origin)


def test_forecasts_count_by_what_they_lost_to_a_machine_and_to_its_fleet() -> None:
    random = np.random.default_rng(6)
    noise = random.normal(0, 1, 40_000)
    series, origin = np.repeat(np.arange(2), 20_000), np.tile(np.arange(20_000), 2) * 20
    # the first forecast knows both machines, the second machine 0, the third machine 1
    wide = np.where(series == 0, 1, 3)
    errors = np.stack([noise, noise * wide, noise * 3 / wide], axis=1).astype(np.float32)
    found = shares(errors, judged(series, origin), ALIKE, machines=2, quantile=0.99)
    assert found.sum(axis=1).tolist() == pytest.approx([1, 1])
    assert found[0, 0] > found[0, 1] > 10 * found[0, 2]
    assert found[1, 0] > found[1, 2] > 10 * found[1, 1]
    # a machine that nobody judged has the fleet's
    one = judged(series[:20_000], origin[:20_000])
    more = shares(errors[:20_000], one, ALIKE, machines=2, quantile=0.99)
    assert more[1].tolist() == pytest.approx([0.5, 0.5, 0], abs=0.01)


def test_what_was_known_before_counts_until_there_are_days_enough() -> None:
    random = np.random.default_rng(9)
    # the first forecast loses more than the second, and was thought better
    errors = random.normal(0, [2, 1], (40_000, 2)).astype(np.float32)
    one, prior = np.zeros(40_000, dtype=np.intp), (20.0, 1.0)
    found = []
    for days in (0, 1, 400, 40_000):
        rows = 0 if days == 0 else 40_000
        origin = np.arange(rows) % max(days, 1) * DAY_STEPS
        told = judged(one[:rows], origin)
        found.append(shares(errors[:rows], told, prior, machines=1, quantile=0.99)[0, 0])
    assert found[0] == pytest.approx(20 / 21)
    assert found[1] > 0.9
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.01


def test_one_row_out_of_reach_decides_nothing() -> None:
    errors = np.random.default_rng(7).normal(0, 1, (20_000, 2)).astype(np.float32)
    one = np.zeros(20_000, dtype=np.intp)
    before = shares(errors, judged(one, one), ALIKE[:2], machines=1, quantile=0.99)
    errors[0, 0] = 1e6
    after = shares(errors, judged(one, one), ALIKE[:2], machines=1, quantile=0.99)
    assert after == pytest.approx(before, abs=0.1)


def test_no_more_is_forecast_than_there_is_unless_more_was_seen() -> None:
    random = np.random.default_rng(8)
    # machines that do nothing, or all they can
    values = np.repeat(random.random((4, 9 * 24)) < 0.3, DAY_STEPS // 24, axis=1)
    values = (values * np.array([[0.9], [0.98], [1.0], [1.3]])).astype(np.float32)
    panel = Panel(("a", "b", "c", "burst"), values, 0)
    most = forecast(panel, ForecastParams(max_rows=4_000)).values.max(axis=1)
    assert (most[:3] <= 1.0001).all()
    assert 1.0 < most[3] <= 1.3001


def test_use_may_reach_what_was_seen_and_what_that_grew_by_lately() -> None:
    values = np.full((5, 9 * DAY_STEPS), 0.4, dtype=np.float32)
    values[1, -DAY_STEPS] = 0.5  # grew
    values[2, -DAY_STEPS] = 0.9  # grew by more than there is room for
    values[3, : 8 * DAY_STEPS] = np.nan  # who knows from where
    values[4, DAY_STEPS] = 0.7  # long ago
    found = known_at(Panel(tuple("abcde"), values, 0), 9 * DAY_STEPS).limit
    assert found.tolist() == pytest.approx([0.4, 0.6, 1.0, 1.0, 0.7])


def test_a_burst_of_two_weeks_ago_is_remembered() -> None:
    panel = daily(1, 20)
    panel.values[0, 8 * DAY_STEPS : 8 * DAY_STEPS + 200] = 0.9
    known = known_at(panel, panel.steps)
    told = known.columns[0, 0, [COLUMNS.index(name) for name in ("q99_7d", "q99_21d", "max_21d")]]
    week, weeks, most = known.level[0] + known.spread[0] * told
    assert week < 0.75
    assert (weeks, most, known.limit[0]) == pytest.approx((0.9, 0.9, 0.9))
    assert known.history[0] == 7


def test_a_dynamic_margin_follows_what_was_measured_and_knows_nothing_of_what_comes() -> None:
    values = np.full((1, 100), 0.4, dtype=np.float32)
    seen = np.full((1, 100), 0.3, dtype=np.float32)
    seen[0, 10], seen[0, 50] = 0.6, np.nan
    found = dynamic_margin(values, seen, 0.01, lead=5)
    assert (found[0, :15] == np.float32(0.01)).all()
    assert found[0, 15:35] == pytest.approx(0.21)
    assert (found[0, 35:] == np.float32(0.01)).all()


def test_a_dynamic_margin_prevents_more_than_a_fixed_one_of_equal_harvest() -> None:
    random = np.random.default_rng(4)
    values = np.full((50, DAY_STEPS), 0.4, dtype=np.float32)
    seen = (0.35 + random.normal(0, 0.01, values.shape)).astype(np.float32)
    seen[:5, 200:] += 0.12  # machines that leave their forecast and stay beyond it
    base = base_of_equal_harvest(values, seen, 0.05)
    ours = dynamic_margin(values, seen, base)
    assert 0 < base < 0.05
    assert harvest(values, ours) == pytest.approx(harvest(values, 0.05), abs=1e-5)
    beyond = (np.mean(seen > values + ours), np.mean(seen > values + 0.05))
    assert beyond[0] < 0.5 * beyond[1]


def test_pinball_weighs_misses_by_the_quantile() -> None:
    seen, made = np.array([3.0, 1.0, np.nan]), np.array([2.0, 2.0, 2.0])
    assert pinball(seen, made, 0.99)[:2].tolist() == pytest.approx([0.99, 0.01])


def test_scores_leave_out_what_was_not_seen_or_not_forecast() -> None:
    seen = np.array([[[0.5, np.nan, 0.7], [0.1, 0.1, 0.1]]], dtype=np.float32)
    made = np.array([[[0.6, 0.6, 0.6], [np.nan] * 3]], dtype=np.float32)
    found = score(seen, made, np.array([0.5, 0.5], dtype=np.float32), 0.99)
    assert found.coverage[0] == 0.5
    assert np.isnan(found.coverage[1])
    assert found.harvest[0] == pytest.approx(0.4)
    assert found.unused[0] == pytest.approx(0.4)
    assert found.steps.tolist() == [2, 0]


def test_past_origins_have_their_whole_day_behind_them() -> None:
    found = past_origins(5 * DAY_STEPS, first=DAY_STEPS, every=DAY_STEPS, at_most=3)
    assert found == [2 * DAY_STEPS, 3 * DAY_STEPS, 4 * DAY_STEPS]


def test_rolling_origins_are_days_of_the_last_fifth() -> None:
    panel = Panel(("a",), np.zeros((1, 60 * DAY_STEPS), dtype=np.float32), 0)
    assert [at // DAY_STEPS for at in rolling_origins(panel, at_most=3)] == [48, 54, 59]
    assert len(rolling_origins(panel.until(10 * DAY_STEPS), at_most=9)) == 2


@pytest.mark.parametrize(
    "words", [{"quantile": 1.0}, {"min_history_days": 0.5}, {"folds": 1}, {"max_rows": 0}]
)
def test_wrong_parameters_are_refused(words: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        ForecastParams(**words)  # type: ignore[arg-type]
