"""Readings as JSON and back; what is no such JSON."""

import json
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tenure.model.resources import Resources
from tenure.profiling.readings.sample import EnergyReading, NodeReading, Reading
from tenure.profiling.readings.wire import decode, encode

counts = st.integers(0, (1 << 53) - 1)
readings = st.builds(
    Reading,
    counts,
    counts,
    counts,
    st.none() | counts,
    st.none() | counts,
    st.none() | counts,
    st.none() | counts,
    st.just("agent"),
)
nodes = st.builds(
    NodeReading,
    counts,
    counts,
    st.dictionaries(st.text("0123456789abcdef", min_size=1, max_size=64), readings, max_size=3),
    st.none() | readings,
    st.none() | st.builds(EnergyReading, counts, counts, counts, st.tuples(st.text(max_size=20))),
    st.builds(Resources, counts, counts),
)
nodes = nodes | st.builds(
    lambda row, lent, tasks: replace(row, lent=lent, tasks=tasks),
    nodes,
    readings,
    st.frozensets(st.text("0123456789abcdef", min_size=1, max_size=64), max_size=3),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.lists(nodes, unique_by=lambda r: r.seq, max_size=3), counts, counts)
def test_what_goes_out_comes_back(rows: list[NodeReading], age_us: int, interval_us: int) -> None:
    rows.sort(key=lambda r: r.seq)
    answer = decode(json.loads(encode(rows, age_us=age_us, interval_us=interval_us)))
    assert list(answer.readings) == rows
    assert (answer.age_us, answer.interval_us) == (age_us, interval_us)


@given(anything | st.builds(lambda rows: {"version": 1, "readings": rows}, st.lists(anything)))
def test_rubbish_is_refused_or_passed_over(raw: object) -> None:
    try:
        decode(raw)
    except ValueError:
        return
    assert isinstance(raw, dict)


def test_faults_are_told() -> None:
    with pytest.raises(ValueError, match="no readings"):
        decode([])
    with pytest.raises(ValueError, match="version 2"):
        decode({"version": 2, "readings": []})
    rows = [{"seq": 2, "at_us": 1, "containers": {}}, {"seq": 2, "at_us": 1, "containers": {}}]
    with pytest.raises(ValueError, match="order"):
        decode({"version": 1, "readings": rows})


def test_a_container_without_sense_costs_itself_alone() -> None:
    good = {"at_us": 1, "cpu_ns": 2, "memory_bytes": 3}
    rows = {
        "a": good,
        "b": {**good, "cpu_ns": -1},
        "c": None,
        "d": {**good, "memory_bytes": 1 << 60},
    }
    found = decode({"version": 1, "readings": [{"seq": 1, "at_us": 1, "containers": rows}]})
    assert set(found.readings[0].containers) == {"a"}
