"""How long a loop is held is counted by rounds, whatever they are made of; rest is not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from tenure.daemon.events.held import BOUNDS_S, HeldTimes, timed_loop


def run(work: Callable[[], Awaitable[None]]) -> HeldTimes:
    held = HeldTimes()

    async def main() -> None:
        await work()

    with asyncio.Runner(loop_factory=partial(timed_loop, held)) as runner:
        runner.run(main())
    return held


def hold(seconds: float) -> None:
    """Be what should never be on a loop."""
    time.sleep(seconds)


def longest(held: HeldTimes) -> float:
    """Return the upper bound of the longest round's part; infinite for the rest."""
    last = max(place for place, count in enumerate(held.counts) if count)
    return (*BOUNDS_S, float("inf"))[last]


def test_a_callback_that_holds_the_loop_is_counted_once() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        hold(0.3)
        await asyncio.sleep(0)

    held = run(work)
    assert longest(held) >= 0.5
    assert held.total_s >= 0.3


def test_many_short_callbacks_of_one_round_are_one_long_hold() -> None:
    async def brief() -> None:
        hold(0.012)

    async def work() -> None:
        await asyncio.gather(*(brief() for _ in range(25)))

    assert longest(run(work)) >= 0.5


def test_a_loop_that_rests_is_not_held() -> None:
    async def work() -> None:
        for _ in range(10):
            await asyncio.sleep(0.05)

    begun_s = time.monotonic()
    held = run(work)
    assert sum(held.counts) >= 10
    assert held.total_s < (time.monotonic() - begun_s) / 2


def test_buckets_are_cumulative_and_end_with_all() -> None:
    held = HeldTimes()
    for held_s in (0.0005, 0.001, 0.2, 60.0):
        held.add(held_s)
    found = dict(held.buckets())
    assert found["0.001"] == 2
    assert found["0.1"] == 2
    assert found["0.25"] == 3
    assert found["2.5"] == 3
    assert found["+Inf"] == 4
    kept = held.copy()
    held.add(1.0)
    assert sum(kept.counts) == 4
