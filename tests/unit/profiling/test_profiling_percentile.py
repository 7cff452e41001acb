"""Nearest-rank percentiles, profiles and roll-ups."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.model.resources import Resources
from tenure.model.units import US
from tenure.profiling.profiles.percentile import p90, profile_of, roll_up
from tenure.profiling.readings.sample import Sample

BOTH = ("cpu_m", "memory_bytes")


def sample(at_s: int, cpu_m: int, memory: int = 10, observed: tuple[str, ...] = BOTH) -> Sample:
    return Sample(at_s * US, US, Resources(cpu_m, memory, 7, 7), observed)


def test_p90_is_the_nearest_rank() -> None:
    assert p90(list(range(1, 11))) == 9
    assert p90(list(range(1, 12))) == 10
    assert p90([5]) == 5
    assert p90([]) is None


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.integers(), min_size=1))
def test_p90_is_the_least_value_that_covers_nine_tenths(values: list[int]) -> None:
    found = p90(values)
    assert found in values
    covered = [sum(value <= bound for value in values) for bound in sorted(set(values))]
    enough = [
        bound
        for bound, count in zip(sorted(set(values)), covered, strict=True)
        if 10 * count >= 9 * len(values)
    ]
    assert found == min(enough)


def test_too_few_samples_is_no_profile() -> None:
    assert profile_of("c", [sample(1, 5), sample(2, 5)], min_samples=3) is None
    assert profile_of("c", []) is None


def test_a_profile_counts_its_samples_and_age() -> None:
    made = profile_of("c", [sample(n, n) for n in range(10, 20)], min_samples=3)
    assert made is not None
    assert made.p90 == Resources(18, 10, 0, 0)
    assert (made.samples, made.age_us) == (10, 10 * US)
    assert made.observed == BOTH


def test_a_rarely_observed_dimension_is_not_observed() -> None:
    rows = [sample(n, n) for n in range(9)]
    rows.append(sample(9, 9, observed=(*BOTH, "disk_bytes_per_s")))
    made = profile_of("c", rows, min_samples=2)
    assert made is not None
    assert made.observed == BOTH
    assert made.p90.disk_bytes_per_s == 0


def test_order_of_samples_does_not_matter() -> None:
    rows = [sample(n, (n * 7919) % 101) for n in range(50)]
    shuffled = rows[:]
    random.Random(1).shuffle(shuffled)
    assert profile_of("c", rows) == profile_of("c", shuffled)


def test_roll_up_keeps_mean_max_and_p90() -> None:
    bucket = roll_up(0, 300 * US, [sample(n, n) for n in range(1, 11)])
    assert bucket is not None
    assert (bucket.count, bucket.mean.cpu_m, bucket.max.cpu_m, bucket.p90.cpu_m) == (10, 6, 10, 9)
    assert bucket.observed == BOTH
    assert roll_up(0, 300 * US, []) is None
