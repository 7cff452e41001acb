"""Decoding of engine statistics: cgroup v1 and v2, traps, restarts, and any nonsense."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.model.energy import MAX_SPAN_US
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tenure.profiling.readings.decode import MOST, decode_stats, difference
from tenure.profiling.readings.sample import Reading

AT_US = 1_763_000_000 * US


def v1(**changed: Any) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "read": "2025-11-13T02:13:20.000000999Z",
        "cpu_stats": {"cpu_usage": {"total_usage": 5_000_000_000}},
        "memory_stats": {
            "usage": 100 * MIB,
            "stats": {"total_inactive_file": 30 * MIB, "inactive_file": 10 * MIB},
        },
        "blkio_stats": {
            "io_service_bytes_recursive": [
                {"major": 254, "minor": 0, "op": "Read", "value": 4096},
                {"major": 254, "minor": 0, "op": "Write", "value": 8192},
                {"major": 254, "minor": 0, "op": "Sync", "value": 12288},
                {"major": 254, "minor": 0, "op": "Total", "value": 12288},
            ]
        },
        "networks": {
            "eth0": {"rx_bytes": 100, "tx_bytes": 20},
            "eth1": {"rx_bytes": 3, "tx_bytes": 4},
        },
    }
    return {**raw, **changed}


def test_v1_reads_every_dimension() -> None:
    assert decode_stats(v1()) == Reading(
        AT_US, 5_000_000_000, 70 * MIB, disk_bytes=12288, net_bytes=127, tx_bytes=24
    )


def test_v2_uses_its_own_names() -> None:
    raw = v1(
        memory_stats={"usage": 100 * MIB, "stats": {"inactive_file": 10 * MIB, "anon": 1}},
        blkio_stats={
            "io_service_bytes_recursive": [
                {"major": 254, "minor": 0, "op": "read", "value": 1},
                {"major": 254, "minor": 0, "op": "write", "value": 2},
            ]
        },
    )
    reading = decode_stats(raw)
    assert reading is not None
    assert (reading.memory_bytes, reading.disk_bytes) == (90 * MIB, 3)


@pytest.mark.parametrize("rows", [[], None])
def test_v1_without_rows_has_disk_not_observed(rows: object) -> None:
    reading = decode_stats(v1(blkio_stats={"io_service_bytes_recursive": rows}))
    assert reading is not None
    assert reading.disk_bytes is None


@pytest.mark.parametrize("rows", [[], None])
def test_v2_without_rows_has_read_nothing(rows: object) -> None:
    raw = v1(
        memory_stats={"usage": 1, "stats": {"inactive_file": 0}},
        blkio_stats={"io_service_bytes_recursive": rows},
    )
    reading = decode_stats(raw)
    assert reading is not None
    assert reading.disk_bytes == 0


def test_host_network_has_net_not_observed() -> None:
    raw = v1()
    del raw["networks"]
    reading = decode_stats(raw)
    assert reading is not None
    assert reading.net_bytes is None


def test_a_container_that_does_not_run_gives_no_reading() -> None:
    # What an engine answers for an exited container.
    stopped = {
        "read": "0001-01-01T00:00:00Z",
        "cpu_stats": {"cpu_usage": {"total_usage": 0}},
        "memory_stats": {},
        "blkio_stats": {"io_service_bytes_recursive": None},
    }
    assert decode_stats(stopped) is None


def test_more_inactive_pages_than_usage_is_zero_not_negative() -> None:
    reading = decode_stats(v1(memory_stats={"usage": 5, "stats": {"total_inactive_file": 9}}))
    assert reading is not None
    assert reading.memory_bytes == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)  # the machine may be busy
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(v1(), JSON)))
def test_nonsense_is_no_reading_and_no_error(raw: dict[str, Any]) -> None:
    assert decode_stats(raw) is None  # "read" is never a time here


@settings(deadline=None)  # the machine may be busy
@given(st.sampled_from(["cpu_stats", "memory_stats", "blkio_stats", "networks"]), JSON)
def test_one_part_of_nonsense_never_raises(part: str, value: object) -> None:
    reading = decode_stats(v1(**{part: value}))
    assert reading is None or reading.memory_bytes >= 0


def test_a_counter_below_zero_is_no_reading() -> None:
    wrapped = (1 << 64) - 4096
    assert decode_stats(v1(memory_stats={"usage": wrapped})) is None
    assert decode_stats(v1(cpu_stats={"cpu_usage": {"total_usage": wrapped}})) is None


def test_no_rate_is_too_large_to_be_stored() -> None:
    older = Reading(AT_US, 0, 1, disk_bytes=0, net_bytes=0)
    sample = difference(older, Reading(AT_US + 1, 1 << 61, 1, disk_bytes=1 << 61, net_bytes=7))
    assert sample is not None
    assert max(sample.use.values()) == MOST


def test_difference_of_two_readings_is_rates() -> None:
    older = Reading(AT_US, 1_000_000_000, 10 * MIB, disk_bytes=0, net_bytes=0)
    newer = Reading(AT_US + 2 * US, 2_000_000_000, 20 * MIB, disk_bytes=2 * MIB, net_bytes=1)
    sample = difference(older, newer)
    assert sample is not None
    assert sample.use == Resources(500, 20 * MIB, MIB, 1)  # 1 byte in 2 s is rounded up
    assert sample.observed == ("cpu_m", "memory_bytes", "disk_bytes_per_s", "net_bytes_per_s")
    assert (sample.at_us, sample.span_us) == (AT_US + 2 * US, 2 * US)


def test_what_is_unknown_on_either_side_is_not_observed() -> None:
    older = Reading(AT_US, 0, 1, disk_bytes=None, net_bytes=5)
    newer = Reading(AT_US + US, 0, 1, disk_bytes=7, net_bytes=None)
    sample = difference(older, newer)
    assert sample is not None
    assert sample.observed == ("cpu_m", "memory_bytes")
    assert sample.use == Resources(0, 1, 0, 0)


COUNTS = st.integers(0, 1 << 60)
TIMES = st.integers(AT_US, AT_US + 2 * MAX_SPAN_US) | COUNTS
READINGS = st.builds(Reading, TIMES, COUNTS, COUNTS, st.none() | COUNTS, st.none() | COUNTS)


@settings(deadline=None)  # the machine may be busy
@given(READINGS, READINGS)
def test_a_sample_is_never_negative_and_backwards_gives_none(
    older: Reading, newer: Reading
) -> None:
    sample = difference(older, newer)
    pairs = [
        (older.cpu_ns, newer.cpu_ns),
        (older.disk_bytes, newer.disk_bytes),
        (older.net_bytes, newer.net_bytes),
    ]
    went_back = any(a is not None and b is not None and b < a for a, b in pairs)
    if not 0 < newer.at_us - older.at_us <= MAX_SPAN_US or went_back:
        assert sample is None
    else:
        assert sample is not None
        assert min(sample.use.values()) >= 0
        used = min(newer.cpu_ns - older.cpu_ns, MOST * sample.span_us)
        assert sample.use.cpu_m * sample.span_us >= used
