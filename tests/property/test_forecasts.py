"""What is spare over time against a plain reading of Eq. 1, step by step, at any time."""

from __future__ import annotations

import dataclasses

import hypothesis.strategies as st
from hypothesis import given, settings

from tenure.core.capacity.forecasts import newcomers
from tenure.core.nodes import harvestable
from tenure.model.forecast import EXCESS_US, STEP_US, Excess, LiveScore, NodeForecast
from tenure.model.units import HOUR_US, MIB
from tests.unit.core.bench import SIZE
from tests.unit.core.capacity.test_core_forecasts import BLOCK_US, Foreseen, bench_of, made

amounts = st.integers(0, 2500)
shapes = st.lists(st.tuples(amounts, st.integers(0, 1200)), min_size=1, max_size=12)
ages = st.lists(st.tuples(st.integers(0, 2 * EXCESS_US), amounts, amounts), max_size=3)


def plainly(bench: Foreseen, forecast: NodeForecast, at_us: int) -> tuple[int, int]:
    """Return what is left in [at, at + 3 min), by walking every microsecond that matters."""
    margin = SIZE.scaled(0.1)
    cpu, memory = 0, 0
    moments = {at_us, at_us + STEP_US - 1}
    ends = range(forecast.from_us, forecast.until_us, forecast.step_us)
    moments |= {end for end in ends if at_us <= end < at_us + STEP_US}
    for moment in moments:
        step = (moment - forecast.from_us) // forecast.step_us
        if moment < forecast.until_us:
            cpu = max(cpu, forecast.cpu_m[step])
            memory = max(memory, forecast.memory_bytes[step])
        else:
            cpu, memory = max(forecast.cpu_m), max(forecast.memory_bytes)
            break
    more = bench.read(newcomers, "n", forecast)
    late = [x for x in bench.tables.scores["n"].excesses if x.at_us > at_us - EXCESS_US]
    cpu += more.cpu_m + max((x.cpu_m for x in late), default=0)
    memory += more.memory_bytes + max((x.memory_bytes for x in late), default=0)
    left = SIZE.cpu_m - cpu - margin.cpu_m, SIZE.memory_bytes - memory - margin.memory_bytes
    if at_us < bench.now_us + harvestable.AHEAD_US:
        now = bench.read(harvestable.left_now, bench.tables.nodes["n"])
        left = min(left[0], now.cpu_m), min(left[1], now.memory_bytes)
    return max(0, left[0]), max(0, left[1])


@settings(max_examples=150, deadline=None)
@given(shapes, ages, st.integers(0, 4 * HOUR_US), st.integers(0, 2))
def test_every_step_is_what_it_says_of_itself(
    shape: list[tuple[int, int]], late: list[tuple[int, int, int]], ahead_us: int, newer: int
) -> None:
    bench = bench_of(has_dynamic_margin=True)
    forecast = made(bench, [cpu for cpu, _ in shape], [memory for _, memory in shape])
    bench.foresee(forecast)
    forecast = bench.tables.forecasts["n"]
    for number in range(newer):
        bench.create(f"web{number}")
    excesses = tuple(Excess(bench.now_us - age, cpu, memory * MIB) for age, cpu, memory in late)
    bench.tables.scores.put("n", LiveScore("n", excesses=excesses))
    begin_us = bench.now_us + ahead_us
    node = bench.tables.nodes["n"]
    found = bench.read(harvestable.spare_over, node, begin_us, begin_us + 5 * HOUR_US)
    assert len(found) == 100
    is_in_force = bench.now_us < forecast.until_us
    for number in range(len(found)):
        at_us = begin_us + number * STEP_US
        if is_in_force:
            expected = plainly(bench, forecast, at_us)
        else:
            now = bench.read(harvestable.left_now, node).clamped()
            expected = now.cpu_m, now.memory_bytes
        assert (found.cpu_m[number], found.memory_bytes[number]) == expected, number


@settings(max_examples=100, deadline=None)
@given(shapes, st.integers(-BLOCK_US, 15 * BLOCK_US), st.integers(1, 6 * BLOCK_US))
def test_the_most_of_a_time_is_never_less_than_that_of_a_part(
    shape: list[tuple[int, int]], begin: int, length: int
) -> None:
    bench = bench_of()
    forecast = dataclasses.replace(
        made(bench, [cpu for cpu, _ in shape], [memory for _, memory in shape]), from_us=0
    )
    whole = forecast.most(begin, begin + length)
    for part in (begin, begin + length // 2, begin + length - 1):
        inner = forecast.most(part, part + 1)
        assert inner.cpu_m <= whole.cpu_m
        assert inner.memory_bytes <= whole.memory_bytes
    assert whole.cpu_m in forecast.cpu_m
