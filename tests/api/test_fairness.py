"""Who asks much waits for those who ask little, and for nobody when nobody else asks."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest

from tenure.api.requests.fairness import (
    FREE_S,
    MOST_DEBT_S,
    MOST_WAITING,
    REMEMBERED,
    FairLoop,
    charge,
)
from tenure.api.server.problems import HttpProblem

WAIT_S = 10.0


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def costly(seconds: float, begun: list[str], name: str) -> str:
    begun.append(name)
    await asyncio.sleep(0)
    charge(seconds)
    return name


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_who_is_alone_never_waits() -> None:
    fair, begun = FairLoop(Hand()), list[str]()
    for number in range(50):
        work = partial(costly, 1.0, begun, f"{number}")
        assert await fair.serve("eve", work) == f"{number}"
    assert len(begun) == 50


async def test_a_debt_is_waited_for_while_others_ask() -> None:
    hand, begun = Hand(), list[str]()
    fair = FairLoop(hand)
    await fair.serve("eve", lambda: costly(0.1, begun, "first"))
    fair.heard("ann")
    waiting = asyncio.create_task(fair.serve("eve", lambda: costly(0.0, begun, "second")))
    await turns()
    assert begun == ["first"]
    assert await fair.serve("ann", lambda: costly(0.0, begun, "ann")) == "ann"
    hand.now_s += 0.5  # more than is owed, and ann still counts as one who asks
    async with asyncio.timeout(WAIT_S):
        await waiting
    assert begun == ["first", "ann", "second"]


async def test_others_who_have_gone_are_not_waited_for() -> None:
    hand, begun = Hand(), list[str]()
    fair = FairLoop(hand)
    fair.heard("ann")
    await fair.serve("eve", lambda: costly(2.0, begun, "first"))
    hand.now_s += 1.1
    await fair.serve("eve", lambda: costly(2.0, begun, "second"))
    assert begun == ["first", "second"]


async def test_what_was_taken_while_nobody_else_asked_is_not_owed() -> None:
    """A daemon that one caller keeps busy is looked at every few seconds: nothing stalls then."""
    begun = list[str]()
    fair = FairLoop(Hand())
    for number in range(200):
        await fair.serve("eve", partial(costly, 0.005, begun, f"{number}"))
    fair.heard("prometheus")
    task = asyncio.create_task(fair.serve("eve", partial(costly, 0.0, begun, "next")))
    await turns()
    assert task.done()
    assert begun[-1] == "next"


async def test_who_waits_goes_on_as_soon_as_the_others_have_gone() -> None:
    hand, begun = Hand(), list[str]()
    fair = FairLoop(hand)
    fair.heard("ann")
    await fair.serve("eve", partial(costly, MOST_DEBT_S, begun, "first"))
    waiting = asyncio.create_task(fair.serve("eve", partial(costly, 0.0, begun, "second")))
    await turns()
    assert begun == ["first"]
    hand.now_s += 1.01  # ann has gone; by the share alone it would take four seconds
    async with asyncio.timeout(WAIT_S):
        await waiting
    assert begun == ["first", "second"]


async def test_many_that_come_together_do_not_pass_as_one() -> None:
    """Each is taken to cost what the last ones did, before it is known."""
    hand, begun = Hand(), list[str]()
    fair = FairLoop(hand)
    for _ in range(10 * REMEMBERED):
        await fair.serve("eve", lambda: costly(FREE_S / 2, begun, "before"))
    begun.clear()
    hand.now_s += 100.0
    fair.heard("ann")
    release = asyncio.Event()

    async def held() -> None:
        begun.append("held")
        await release.wait()

    tasks = [asyncio.create_task(fair.serve("eve", held)) for _ in range(20)]
    await turns()
    assert 1 <= len(begun) <= 4, begun
    release.set()
    hand.now_s += 100.0  # ann has gone
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*tasks)
    assert len(begun) == 20


async def test_a_line_has_an_end() -> None:
    hand = Hand()
    fair = FairLoop(hand)
    await fair.serve("eve", lambda: costly(1.0, [], "first"))
    fair.heard("ann")
    tasks = [
        asyncio.create_task(fair.serve("eve", lambda: costly(0.0, [], "")))
        for _ in range(MOST_WAITING)
    ]
    await turns()
    with pytest.raises(HttpProblem, match="wait for their turn") as refused:
        await fair.serve("eve", lambda: costly(0.0, [], "one more"))
    assert refused.value.http_status == 429
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    hand.now_s += 100.0
    assert await fair.serve("eve", lambda: costly(0.0, [], "after")) == "after"


async def test_errors_and_cancellation_pass_through() -> None:
    fair = FairLoop(Hand())

    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("of the handler")

    with pytest.raises(KeyError, match="of the handler"):
        await fair.serve("eve", fails)
    seen: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.create_task(fair.serve("eve", waits))
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_time_on_the_loop_is_owed_without_being_told() -> None:
    fair = FairLoop()

    async def busy() -> None:
        until_s = time.perf_counter() + 2 * FREE_S
        while time.perf_counter() < until_s:
            pass

    await fair.serve("eve", busy)
    fair.heard("ann")
    begun: list[str] = []
    task = asyncio.create_task(fair.serve("eve", lambda: costly(0.0, begun, "eve")))
    await turns()
    assert not begun
    async with asyncio.timeout(WAIT_S):
        await task
