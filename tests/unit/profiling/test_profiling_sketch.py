"""Sketches: within their error of the exact percentile, and the same however they are merged."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.model.resources import Resources
from tenure.model.units import US
from tenure.profiling.profiles.percentile import p90, profile_of
from tenure.profiling.profiles.sketch import Sketch, bucket_of, merged, sketch_of, upper_end
from tenure.profiling.readings.sample import Sample

VALUES = st.one_of(st.integers(0, 300), st.integers(0, 1 << 45))


def sample(at: int, cpu_m: int, memory: int = 7, *, has_net: bool = True) -> Sample:
    observed = ("cpu_m", "memory_bytes", *(("net_bytes_per_s",) if has_net else ()))
    return Sample(at * US, US, Resources(cpu_m, memory, 0, 2 * cpu_m), observed)


def sketched(samples: list[Sample]) -> Sketch:
    made = Sketch()
    for one in samples:
        made.add(one)
    return made


@given(VALUES)
def test_a_bucket_is_at_most_a_128th_wide(value: int) -> None:
    end = upper_end(bucket_of(value))
    assert value <= end <= value + value // 128
    assert bucket_of(end) == bucket_of(value)
    assert bucket_of(end + 1) == bucket_of(value) + 1


@given(st.lists(VALUES, min_size=1, max_size=60))
def test_never_below_the_exact_percentile_and_at_most_a_128th_above(values: list[int]) -> None:
    exact = p90(values)
    assert exact is not None
    made = sketched([sample(n, value) for n, value in enumerate(values, 1)]).profile("c")
    assert made is not None
    assert exact <= made.p90.cpu_m <= exact + exact // 128
    assert made.p90.cpu_m <= max(values)


@given(st.lists(st.tuples(VALUES, VALUES, st.booleans()), max_size=40), st.randoms())
def test_merged_parts_are_the_whole_in_any_order(
    rows: list[tuple[int, int, bool]], random: Random
) -> None:
    samples = [sample(n, a, b, has_net=c) for n, (a, b, c) in enumerate(rows)]
    parts: list[list[Sample]] = [[], [], []]
    for one in samples:
        random.choice(parts).append(one)
    sketches = [sketched(part) for part in parts]
    random.shuffle(sketches)
    assert merged(sketches) == sketched(samples)
    whole = sketched(samples)
    stored = sketch_of(whole.samples, whole.begin_us, whole.end_us, whole.body())
    assert stored == whole


def test_the_same_words_as_the_exact_profile() -> None:
    samples = [sample(n, 100 + n % 3, has_net=n < 3) for n in range(1, 21)]
    made = sketched(samples)
    for least in (1, 3, 20):
        assert made.profile("c", min_samples=least) == profile_of("c", samples, min_samples=least)
    assert made.profile("c", min_samples=21) is None
    assert Sketch().profile("c") is None


def test_it_stays_small() -> None:
    random = Random(3)
    made = sketched([sample(n, int(random.lognormvariate(5, 1))) for n in range(5_000)])
    assert len(made.body()) < 16_000


def test_what_is_no_sketch_is_refused() -> None:
    with pytest.raises(Exception, match="unpack_from"):
        sketch_of(1, 0, 1, b"short")
    with pytest.raises(ValueError, match="multiple"):
        sketch_of(1, 0, 1, sketched([sample(1, 1)]).body()[:-1])
