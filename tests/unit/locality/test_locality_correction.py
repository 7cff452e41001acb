"""Estimators: what was measured moves predictions towards the truth, within bounds."""

from __future__ import annotations

import math
import random

import pytest

from tenure.locality.correction import LEAST_MEASURED, MOST_FACTOR, Correction, CpuModel
from tenure.model.errors import InvalidInput
from tenure.model.units import MIB, US


def test_a_model_that_is_wrong_by_a_factor_is_corrected() -> None:
    drawn, learned = random.Random(1), Correction()
    for _ in range(200):
        predicted = drawn.uniform(1, 10) * US
        learned.add(predicted, predicted * 2.5 * math.exp(drawn.gauss(0, 0.1)))
    assert learned.factor == pytest.approx(2.5, rel=0.1)
    assert learned.error < 0.2
    assert learned.raw_error > 0.8


def test_a_change_is_followed() -> None:
    learned = Correction()
    for measured in [1.0] * 50 + [4.0] * 30:
        learned.add(1.0, measured)
    assert learned.factor == pytest.approx(4, rel=0.05)


def test_few_measurements_and_wild_ones_change_little() -> None:
    learned = Correction()
    learned.add(1.0, 100.0)
    assert learned.factor == 1
    for _ in range(50):
        learned.add(1.0, 1e30)
    assert learned.factor == MOST_FACTOR
    before = learned.count
    for predicted, measured in ((0, 1), (1, 0), (-1, 1), (1, math.inf), (1, math.nan)):
        learned.add(predicted, measured)
    assert learned.count == before


@pytest.mark.parametrize("weight", [0.0, 1.5, math.nan])
def test_a_weight_out_of_bounds_is_refused(weight: float) -> None:
    with pytest.raises(InvalidInput, match="weight"):
        Correction(weight)


def test_the_cpu_time_of_a_task_is_a_line_over_its_input() -> None:
    model = CpuModel()
    for mib in (1, 20, 64, 128, 100, 7) * 5:
        model.add(mib * MIB, 300_000 + 0.005 * mib * MIB)
    assert model.predict_us(50 * MIB) == pytest.approx(300_000 + 0.005 * 50 * MIB, rel=1e-6)


def test_no_line_predicts_a_negative_time() -> None:
    falling = CpuModel()
    for mib in (1, 2, 3, 4):
        falling.add(mib * MIB, US / mib)
    steep = CpuModel()
    for mib, cpu in ((100, 1.0), (200, 10.0), (300, 20.0)):
        steep.add(mib * MIB, cpu * US)
    for model in (falling, steep):
        assert all(model.predict_us(mib * MIB) >= 0 for mib in (0, 1, 10, 1000))


def test_inputs_of_one_size_give_a_rate() -> None:
    model = CpuModel()
    for _ in range(10):
        model.add(64 * MIB, US)
    assert model.predict_us(128 * MIB) == pytest.approx(2 * US)


def test_a_few_tasks_tell_nothing_yet() -> None:
    model = CpuModel()
    assert model.predict_us(64 * MIB) == 0
    for count in range(LEAST_MEASURED):
        assert model.is_known == (count >= LEAST_MEASURED)
        model.add(64 * MIB, US)
    assert model.is_known


@pytest.mark.parametrize("decay", [0.0, 1.5, math.nan])
def test_a_decay_out_of_bounds_is_refused(decay: float) -> None:
    with pytest.raises(InvalidInput, match="decay"):
        CpuModel(decay)
