"""Run times by size: monotone, never below what the runs leave open, right once they tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.capacity.run_time_model import (
    ALIKE,
    ALL_RUNS,
    MOST_US,
    RUNS,
    expected_us,
    with_run,
)
from tenure.model.estimate import JobSize, RunTime

GIB = 1 << 30
SIZES = st.builds(
    JobSize, st.integers(1, 64), st.sampled_from((250, 1000, 4000)), st.integers(0, 64 * GIB)
)
RUN = st.builds(RunTime, st.integers(1, 10**10), st.just(0), SIZES)
PASTS = st.lists(RUN, min_size=1, max_size=12)


def ran(law: Callable[[JobSize], float], *sizes: JobSize) -> list[RunTime]:
    return [RunTime(round(law(size)), 0, size) for size in sizes]


@given(PASTS, SIZES, st.integers(1, 8), st.integers(1, 8))
def test_more_power_is_never_slower_nor_more_input_faster(
    past: list[RunTime], asked: JobSize, wider: int, longer: int
) -> None:
    """Between sizes that were never run, where no mean of noisy runs stands."""
    asked = replace(asked, cpu_m=700)
    more = replace(asked, executors=asked.executors * wider)
    assert expected_us(past, more) <= expected_us(past, asked) * (1 + 1e-9)
    more = replace(asked, input_bytes=asked.input_bytes * longer)
    assert expected_us(past, more) >= expected_us(past, asked) * (1 - 1e-9)


@given(PASTS, SIZES)
def test_of_one_size_the_mean_of_the_last_ten_counts(past: list[RunTime], size: JobSize) -> None:
    for taken in range(1, 16):
        past = list(with_run(past, RunTime(taken * 1000, 0, size), size))
    assert expected_us(past, size) == 1000 * sum(range(6, 16)) / RUNS
    assert len(past) <= ALL_RUNS


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0], ids=["no gain", "some gain", "full gain"])
@given(asked=st.integers(1, 64))
def test_what_executors_gain_is_learned(part: float, asked: int) -> None:
    def law(size: JobSize) -> float:
        return 6e8 / float(size.executors**part)

    past = ran(law, *(JobSize(count, 1000) for count in (1, 4, 16)))
    size = JobSize(asked, 1000)
    assert law(size) * 0.99 <= expected_us(past, size) <= law(size) * 1.35


@given(st.integers(1, 64))
def test_what_input_costs_is_learned(gib: int) -> None:
    def law(size: JobSize) -> float:
        return 1e7 * size.input_bytes / GIB

    past = ran(law, *(JobSize(2, 1000, count * GIB) for count in (2, 8, 32)))
    size = JobSize(2, 1000, gib * GIB)
    assert law(size) * (1 - ALIKE) <= expected_us(past, size) <= law(size) * 1.35


@pytest.mark.parametrize(
    ("asked", "factor"),
    [
        (JobSize(8, 1000, GIB), 1),
        (JobSize(1, 1000, GIB), 4),
        (JobSize(4, 1000, GIB // 2), 1),
        (JobSize(4, 1000, 3 * GIB), 3),
        (JobSize(2, 1000, 3 * GIB), 6),
    ],
    ids=["more power", "less power", "less input", "more input", "both"],
)
def test_what_one_size_leaves_open_is_taken_at_its_worst(asked: JobSize, factor: float) -> None:
    past = [RunTime(10**8, 0, JobSize(4, 1000, GIB))] * 3
    assert expected_us(past, asked) == pytest.approx(factor * 1e8)


def test_power_and_input_that_grew_together_say_nothing_of_one_alone() -> None:
    past = [RunTime(10**8, 0, JobSize(n, 1000, n * GIB)) for n in (1, 2, 4, 8)]
    assert expected_us(past, JobSize(16, 1000, 16 * GIB)) < 1.2e8
    assert expected_us(past, JobSize(4, 1000, 32 * GIB)) > 3e8


def test_runs_that_read_nothing_say_nothing_of_those_that_read() -> None:
    past = [RunTime(10**7, 0, JobSize(1, 1000))]
    assert expected_us(past, JobSize(1, 1000, 10**12)) == 0
    assert expected_us([RunTime(10**7, 0, JobSize(1, 1000, GIB))], JobSize(1, 1000)) == 0


def test_no_time_is_beyond_a_month() -> None:
    past = [RunTime(10**9, 0, JobSize(1, 1000, 1))]
    assert expected_us(past, JobSize(1, 1000, 1 << 50)) == pytest.approx(MOST_US)
