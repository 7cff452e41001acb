"""The schedule of the control loop, and what is counted of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenure.agent.lateness import BOUNDS_US, KEPT, Lateness, next_due_us

PERIOD_US = 100_000


@given(st.integers(0, 10**12), st.integers(-50_000, 10**7))
def test_the_schedule_is_kept_and_a_look_sees_at_least_half_a_period(due: int, late: int) -> None:
    now = due + late
    after = next_due_us(due, now, PERIOD_US)
    assert (after - due) % PERIOD_US == 0
    assert after > due
    assert after - now >= PERIOD_US // 2
    assert after - now < 2 * PERIOD_US


def test_an_early_look_does_not_bring_the_next_one_forward() -> None:
    assert next_due_us(1000, 1200, PERIOD_US) == 101_000
    assert next_due_us(1000, 60_000, PERIOD_US) == 201_000
    assert next_due_us(1000, 1_000_000, PERIOD_US) == 1_101_000


def test_lateness_by_hand() -> None:
    late = Lateness()
    assert late.view().p99_us == 0
    for us in (*[50] * 98, 5_000, 200_000, -7):
        late.add(us)
    view = late.view()
    assert sum(view.counts) == 101
    assert view.counts[0] == 99
    assert view.counts[BOUNDS_US.index(5_000)] == 1
    assert view.counts[-1] == 1
    assert (view.p50_us, view.p99_us, view.max_us) == (50, 5_000, 200_000)
    assert view.total_us == 98 * 50 + 205_000


def test_percentiles_are_of_the_last_ones() -> None:
    late = Lateness()
    for _ in range(10):
        late.add(9_000)
    for _ in range(KEPT):
        late.add(1)
    assert late.view().p99_us == 1
    assert late.view().max_us == 9_000
