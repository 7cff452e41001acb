"""What the agent keeps and what it gives out; meters that wrap."""

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import given

from tenure.agent.energy import Domain, Meter
from tenure.agent.journal import Journal
from tenure.profiling.readings.sample import NodeReading, Reading

ROW = Reading(1, 1, 1)


def reading(seq: int, containers: int = 1) -> NodeReading:
    """A reading whose number is its time."""
    return NodeReading(seq, seq, {str(n): ROW for n in range(containers)})


def test_what_is_new_comes_oldest_first() -> None:
    journal = Journal()
    assert journal.after(0) == []
    for seq in (1, 2, 3):
        journal.add(reading(seq))
    assert [r.seq for r in journal.after(1)] == [2, 3]
    assert [r.seq for r in journal.after(0)] == [1, 2, 3]
    assert journal.after(3) == []
    assert [r.seq for r in journal.after(99)] == [1, 2, 3]  # of a clock that was set back


@given(
    st.lists(st.integers(1, 500), unique=True, min_size=1).map(sorted),
    st.integers(0, 500),
    st.integers(0, 200),
)
def test_readings_are_thinned(seqs: list[int], after: int, every_us: int) -> None:
    journal = Journal()
    for seq in seqs:
        journal.add(reading(seq))
    found = [r.seq for r in journal.after(after, every_us)]
    if after == seqs[-1]:
        assert found == []
        return
    start = 0 if after > seqs[-1] else after
    assert found[-1] == seqs[-1]
    assert found == sorted(set(found))
    assert all(seq > start for seq in found)
    is_lost = start > 0 and start not in seqs
    if is_lost:  # the oldest there is stands in for it
        assert found[0] == min(seq for seq in seqs if seq > start)
    spaced = ([start] if start in seqs and len(found) > 1 else []) + found[is_lost:]
    assert all(b - a >= every_us for a, b in pairwise(spaced))


def test_it_is_bounded_by_what_it_holds() -> None:
    journal = Journal(rows=10)
    for seq in range(1, 8):
        journal.add(reading(seq, containers=2))
    assert [r.seq for r in journal.after(0)] == [5, 6, 7]
    journal.add(reading(8, containers=50))
    assert [r.seq for r in journal.after(0)] == [8]


@given(st.lists(st.integers(0, 9_999), min_size=1, max_size=50))
def test_a_meter_counts_what_was_used(steps: list[int]) -> None:
    """Any use below the range between two readings is counted, however often it wraps."""
    meter = Meter()
    used, last = 1234, None
    for at_us, step in enumerate(steps):
        used += step
        now = meter.read({"p": Domain(used % 10_000, 10_000)}, at_us)
        assert now is not None
        assert now.energy_uj == used - 1234 - steps[0]
        assert last is None or now.energy_uj >= last
        last = now.energy_uj


def test_a_meter_that_comes_or_goes() -> None:
    meter = Meter()
    assert meter.read({}, 1) is None
    meter.read({"a": Domain(5, 100)}, 2)
    meter.read({"a": Domain(6, 100), "b": Domain(90, 100)}, 3)
    meter.read({"b": Domain(91, 100)}, 4)
    last = meter.read({"a": Domain(9, 100), "b": Domain(92, 100)}, 5)
    assert last is not None
    assert (last.since_us, last.energy_uj) == (2, 4 + 2)
