"""What is lost is found: holes between samples, runs without a row."""

from __future__ import annotations

from benchmarks.losses import Cover, Run, caught_up, cover, fate
from tenure.model.units import US


def samples(*ends_s: float) -> list[tuple[int, int]]:
    """Samples over one second each."""
    return [(round(end * US), US) for end in ends_s]


def test_samples_that_lie_end_to_end_lose_nothing() -> None:
    assert cover(samples(3, 2, 4)) == Cover(3, US, 4 * US, 0, 0)
    assert cover([]) == Cover(0, 0, 0, 0, 0)


def test_a_lost_sample_leaves_a_hole_as_long_as_its_span() -> None:
    found = cover(samples(1, 2, 4, 5, 8))
    assert found.hole_us == 3 * US
    assert found.lost(US) == 3
    assert found.lost(2 * US) == 2


def test_time_that_is_told_of_twice_is_seen() -> None:
    assert cover(samples(1, 1.5, 2.5)).twice_us == US // 2


def test_each_due_moment_has_its_fate() -> None:
    runs = [
        Run(10 * US, "done"),
        Run(20 * US, "missed"),
        Run(30 * US, "failed"),
        Run(40 * US, "due"),
        Run(60 * US, "skipped"),
        Run(70 * US, "done"),
    ]
    found = fate(runs, 5 * US, 70 * US, 10)
    assert (found.due, found.filled, found.missed, found.skipped) == (6, 2, 1, 1)
    assert (found.unfilled, found.absent) == (1, 1)
    assert caught_up(runs, 10 * US, 70 * US) == 2
