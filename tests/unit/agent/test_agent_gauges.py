"""From counters to what a law sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.agent.gauges import Counters, TaskCounters, observe
from tenure.model.resources import Resources

PERIOD_US = 100_000
FIRST = Counters(
    1_000_000,
    Resources(2000, 900),
    5_000_000_000,
    1_000_000_000,
    700,
    300,
    quota_m=500,
    stalled_us=40,
    tasks=(TaskCounters("a", "p/a", 7, 100, 50),),
)
NEXT = replace(
    FIRST,
    at_us=1_100_000,
    node_cpu_ns=5_150_000_000,
    harvest_cpu_ns=1_050_000_000,
    stalled_us=20_040,
    tasks=(TaskCounters("a", "p/a", 7, 120, 20_000_050), TaskCounters("b", "p/b", 9, 10, 5)),
)


def test_rates_are_over_the_time_between_and_regular_use_is_the_rest() -> None:
    seen = observe(FIRST, NEXT, PERIOD_US)
    assert (seen.regular_cpu_m, seen.harvest_cpu_m) == (1000, 500)
    assert (seen.regular_memory_bytes, seen.harvest_memory_bytes) == (400, 300)
    assert [(task.key, task.started, task.cpu_m) for task in seen.tasks] == [
        ("a", 7, 200),
        ("b", 9, 0),
    ]
    assert seen.memory_pressure == pytest.approx(0.2)
    assert seen.quota_m == 500


def test_what_cannot_be_told_is_missing() -> None:
    assert observe(None, FIRST, PERIOD_US).regular_cpu_m is None
    late = replace(NEXT, at_us=1_000_000 + 3 * PERIOD_US + 1)
    assert observe(FIRST, late, PERIOD_US).regular_cpu_m is None
    anew = observe(FIRST, replace(NEXT, harvest_cpu_ns=5), PERIOD_US)
    assert (anew.harvest_cpu_m, anew.regular_cpu_m) == (None, None)
    blind = observe(FIRST, replace(NEXT, node_cpu_ns=None, node_memory_bytes=None), PERIOD_US)
    assert (blind.regular_cpu_m, blind.harvest_cpu_m) == (None, 500)
    assert blind.regular_memory_bytes is None
    assert observe(FIRST, replace(NEXT, stalled_us=None), PERIOD_US).memory_pressure is None


def test_what_harvest_has_counted_beyond_the_node_is_no_regular_use() -> None:
    odd = replace(NEXT, node_cpu_ns=5_000_000_000, node_memory_bytes=200)
    seen = observe(FIRST, odd, PERIOD_US)
    assert (seen.regular_cpu_m, seen.regular_memory_bytes) == (0, 0)
