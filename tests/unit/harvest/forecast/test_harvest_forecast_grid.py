"""Series on the grid: what a step takes, what a gap stays."""

import numpy as np
import pytest

from reproductions.forecasts.traces import binned
from tenure.harvest.forecast.grid import STEP_S, Panel, from_steps, held
from tenure.model.errors import InvalidInput

NAN = np.nan


def test_a_step_takes_the_sample_that_covers_its_middle() -> None:
    panel = from_steps(np.array([[1.0, 2.0, 3.0]]), 300, start_s=0, names=["a"])
    # middles at 90, 270 | 450, (630 | 810): samples begin at 0, 300, 600
    assert panel.values.tolist() == [[1, 1, 2, 3, 3]]


def test_samples_that_begin_within_a_step_are_not_moved_before_it() -> None:
    panel = from_steps(np.array([[1.0, 2.0]]), 300, start_s=STEP_S + 100, names=["a"])
    assert panel.start_s == STEP_S
    assert panel.values.tolist() == [[1, 1, 2]]


def test_irregular_samples_are_means_held_for_a_while_only() -> None:
    times, values = np.array([0, 60, 400, 9_000]), np.array([1.0, 3.0, 5.0, 7.0])
    found = binned(times, values, start_s=0, steps=6, hold=2)
    assert found[:5].tolist() == [2, 2, 5, 5, 5]
    assert np.isnan(found[5])


def test_gaps_before_the_first_value_stay_gaps() -> None:
    found = held(np.array([[NAN, 1, NAN, NAN]]), 1)
    assert np.array_equal(found, [[NAN, 1, 1, NAN]], equal_nan=True)


def test_a_window_before_the_begin_is_unknown() -> None:
    panel = Panel(("a",), np.array([[1, 2, 3]], dtype=np.float32), 0)
    assert np.array_equal(panel.window(2, 3), [[NAN, 1, 2]], equal_nan=True)
    assert panel.until(1).values.tolist() == [[1]]


@pytest.mark.parametrize(
    ("values", "start_s", "words"),
    [
        ([[1.0], [2.0]], 0, "1 series"),
        ([[np.inf]], 0, "finite"),
        ([[1.0]], 7, "multiple of 180"),
    ],
)
def test_what_is_no_panel_is_said(values: list[list[float]], start_s: int, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Panel(("a",), np.array(values, dtype=np.float32), start_s)
