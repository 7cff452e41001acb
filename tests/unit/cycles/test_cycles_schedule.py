"""Due times: cron and interval, in UTC."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.cycles.schedule import Timing, due_times, latest_due, next_due
from tenure.model.errors import InvalidInput
from tenure.model.units import US


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * US


def test_cron_is_utc_and_strictly_after() -> None:
    timing = Timing("*/5 * * * *")
    assert next_due(timing, us("2026-03-29T00:59:59")) == us("2026-03-29T01:00:00")
    assert next_due(timing, us("2026-03-29T01:00:00")) == us("2026-03-29T01:05:00")
    assert next_due(timing, us("2026-03-29T01:00:00") + 1) == us("2026-03-29T01:05:00")
    assert next_due(timing, us("2026-03-29T01:00:00") - 1) == us("2026-03-29T01:00:00")


def test_no_hour_is_lost_or_doubled_where_clocks_change() -> None:
    day = due_times(Timing("0 * * * *"), us("2026-03-28T12:00:00"), us("2026-03-29T12:00:00"))
    assert len(day) == 24


def test_intervals_count_from_the_epoch() -> None:
    timing = Timing(interval_us=7 * US)
    assert next_due(timing, 0) == 7 * US
    assert next_due(timing, 7 * US) == 14 * US
    assert due_times(timing, 0, 21 * US) == [7 * US, 14 * US, 21 * US]


def test_a_long_outage_tells_a_bounded_number() -> None:
    assert len(due_times(Timing(interval_us=US), 0, 10**6 * US, limit=10)) == 10
    assert latest_due(Timing(interval_us=US), 0, 10**6 * US) == 10**6 * US


def test_a_date_that_never_comes() -> None:
    never = Timing("0 0 30 2 *")
    assert next_due(never, 0) is None
    assert due_times(never, 0, 10**6 * US) == []
    assert latest_due(never, 0, 10**9 * US) is None


@pytest.mark.parametrize(
    ("cron", "interval_us"),
    [
        ("", 0),
        ("* * * * *", US),
        ("* * * *", 0),
        ("* * * * * *", 0),
        ("@daily", 0),
        ("61 * * * *", 0),
        ("a b c d e", 0),
        ("", US // 2),
        ("", -US),
        ("", US + 1),
    ],
)
def test_wrong_timings_are_refused(cron: str, interval_us: int) -> None:
    with pytest.raises(InvalidInput):
        Timing(cron, interval_us)


TIMINGS = st.sampled_from(
    [
        Timing("*/5 * * * *"),
        Timing("13 4 * * 1"),
        Timing("0 0 1 1 *"),
        Timing("59 23 28-31 * *"),
        Timing(interval_us=3 * US),
        Timing(interval_us=86_400 * US),
    ]
)
MOMENTS = st.integers(0, 4_000_000_000 * US)


@settings(deadline=None)  # the machine may be busy
@given(TIMINGS, MOMENTS, st.integers(0, 86_400 * US))
def test_latest_is_the_last_of_all(timing: Timing, after_us: int, span_us: int) -> None:
    found = due_times(timing, after_us, after_us + span_us, limit=100_000)
    assert latest_due(timing, after_us, after_us + span_us) == (found[-1] if found else None)
    assert found == sorted(set(found))
    assert all(after_us < at_us <= after_us + span_us for at_us in found)
