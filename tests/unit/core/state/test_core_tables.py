"""Schedules as records: a long one in parts, each soon written down."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tenure.core.state.tables import KINDS, PART, Tables
from tenure.model.planning import PlannedStart, Schedule
from tenure.store.codec import Codec


def schedule(count: int) -> Schedule:
    """Return a schedule of so many starts, one task each."""
    at_us = 1_700_000_000_000_000
    starts = tuple(PlannedStart("map", f"node-{n % 1000}", at_us + n, 1) for n in range(count))
    return Schedule("b", starts, at_us + count, "cp", is_proven=True, planned_us=at_us)


@pytest.mark.parametrize("count", [0, 1, PART, PART + 1, 3 * PART])
def test_a_schedule_is_read_as_it_was_put(count: int) -> None:
    tables = Tables()
    tables.put_schedule("b", schedule(count))
    assert tables.schedule("b") == schedule(count)
    assert tuple(tables.starts_of("b")) == schedule(count).starts
    assert all(len(part.starts) <= PART for part in tables.starts.values())
    assert len(tables.schedules["b"].starts) <= PART


def test_parts_go_with_a_shorter_schedule_and_with_the_last() -> None:
    tables = Tables()
    for count, parts in ((3 * PART, 2), (PART + 1, 1), (5, 0), (2 * PART, 1)):
        tables.put_schedule("b", schedule(count))
        tables.put_schedule("other", schedule(PART + 1))
        assert len(tables.starts) == parts + 1
        assert tables.schedule("b") == schedule(count)
    tables.drop_schedule("b")
    tables.drop_schedule("b")
    assert [key for key, _ in tables.starts.items()] == ["other/0"]
    assert tables.schedule("b") is None
    assert list(tables.starts_of("b")) == []


def test_no_record_of_ten_thousand_starts_takes_long_to_be_written_down() -> None:
    """As one it took ten times as long as the longest of these at the least."""
    tables, codec = Tables(), Codec(KINDS)
    tables.put_schedule("b", schedule(10_000))

    def took_s(kind: str, record: object) -> float:
        codec.encode(kind, "b", record)
        begun_s = time.thread_time()
        codec.encode(kind, "b", record)
        return time.thread_time() - begun_s

    parts = sorted(took_s("starts", part) for part in tables.starts.values())
    assert parts[len(parts) // 2] < took_s("schedules", schedule(10_000)) / 10


def test_a_schedule_that_an_earlier_version_kept_as_one_is_read() -> None:
    tables, codec = Tables(), Codec(KINDS)
    text = codec.encode("schedules", "b", schedule(2 * PART)).replace(',"parts":0', "")
    old = codec.decode("schedules", "b", 1, text)
    assert isinstance(old, Schedule)
    tables.schedules.load({"b": old})
    assert tables.schedule("b") == replace(schedule(2 * PART))
    tables.put_schedule("b", schedule(1))
    assert tables.schedule("b") == schedule(1)
