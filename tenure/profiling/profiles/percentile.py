"""Percentiles and profiles: 90th percentile per resource (GENPACK section 5.1).

The percentile is the nearest rank: the smallest measured value that at least 90 % of the values do
not exceed. It is always a value that was measured, and needs no arithmetic on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenure.model.container import Profile
from tenure.model.resources import DIMENSIONS, Resources
from tenure.profiling.readings.sample import Bucket, Sample

#: Tenths, so that the rank is exact integer arithmetic.
P90_TENTHS = 9


def p90(values: Sequence[int]) -> int | None:
    """Return the nearest-rank 90th percentile, None of nothing; O(n log n)."""
    if not values:
        return None
    rank = -(-len(values) * P90_TENTHS // 10)
    return sorted(values)[rank - 1]


def profile_of(
    container: str, samples: Sequence[Sample], *, min_samples: int = 1
) -> Profile | None:
    """Return the profile that ``samples`` (any order) give, or None where they are too few.

    A dimension counts as observed where at least ``min_samples`` samples observed it; CPU and
    memory must be, or there is no profile. ``age_us`` reaches from the begin of the first sample
    to the end of the last.
    """
    columns = _columns(samples)
    observed = tuple(name for name in DIMENSIONS if len(columns[name]) >= max(1, min_samples))
    if "cpu_m" not in observed or "memory_bytes" not in observed:
        return None
    begin = min(sample.at_us - sample.span_us for sample in samples)
    end = max(sample.at_us for sample in samples)
    use = Resources(**{name: p90(columns[name]) or 0 for name in observed})
    return Profile(container, use, len(samples), end - begin, observed)


def roll_up(start_us: int, width_us: int, samples: Sequence[Sample]) -> Bucket | None:
    """Return the bucket of ``samples``, which must all end inside it; None of nothing."""
    if not samples:
        return None
    columns = {name: column for name, column in _columns(samples).items() if column}
    return Bucket(
        start_us,
        width_us,
        len(samples),
        mean=Resources(**{n: -(-sum(c) // len(c)) for n, c in columns.items()}),
        max=Resources(**{n: max(c) for n, c in columns.items()}),
        p90=Resources(**{n: p90(c) or 0 for n, c in columns.items()}),
        observed=tuple(columns),
    )


def _columns(samples: Iterable[Sample]) -> dict[str, list[int]]:
    columns: dict[str, list[int]] = {name: [] for name in DIMENSIONS}
    for sample in samples:
        for name in sample.observed:
            columns[name].append(getattr(sample.use, name))
    return columns
