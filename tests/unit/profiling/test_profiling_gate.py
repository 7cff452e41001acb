"""The gate of the sampler: its bound, its order, and that nothing is lost by a cancellation."""

from __future__ import annotations

import asyncio

import pytest

from tenure.profiling.io.gate import Gate


async def settle() -> None:
    """Let everything happen that can."""
    for _ in range(10):
        await asyncio.sleep(0)


class Crowd:
    """Holders that stay until they are told to go."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.inside: list[int] = []
        self._leave: list[asyncio.Event] = []
        self.tasks: list[asyncio.Task[None]] = []

    def enter(self, *weights: int) -> None:
        for weight in weights:
            self._leave.append(asyncio.Event())
            self.tasks.append(asyncio.create_task(self._hold(len(self.tasks), weight)))

    async def _hold(self, number: int, weight: int) -> None:
        async with self._gate.hold(weight):
            self.inside.append(number)
            try:
                await self._leave[number].wait()
            finally:
                self.inside.remove(number)

    def leave(self, number: int) -> None:
        self._leave[number].set()


async def test_no_more_than_the_limit_is_inside_and_the_first_goes_first() -> None:
    crowd = Crowd(Gate(10))
    crowd.enter(6, 4, 5, 1)
    await settle()
    assert crowd.inside == [0, 1]
    crowd.leave(1)
    await settle()
    assert crowd.inside == [0]  # 5 do not fit beside 6, and 1 does not pass it
    crowd.leave(0)
    await settle()
    assert crowd.inside == [2, 3]
    crowd.leave(2)
    crowd.leave(3)
    await asyncio.gather(*crowd.tasks)


async def test_what_is_more_than_the_limit_goes_alone() -> None:
    crowd = Crowd(Gate(10))
    crowd.enter(1, 50, 1)
    await settle()
    assert crowd.inside == [0]
    crowd.leave(0)
    await settle()
    assert crowd.inside == [1]
    crowd.leave(1)
    await settle()
    assert crowd.inside == [2]
    crowd.leave(2)
    await asyncio.gather(*crowd.tasks)


@pytest.mark.parametrize("struck", [0, 1, 2])
async def test_a_cancelled_one_takes_no_room_with_it(struck: int) -> None:
    crowd = Crowd(Gate(10))
    crowd.enter(8, 8, 8)
    await settle()
    crowd.tasks[struck].cancel()
    for number in range(3):
        crowd.leave(number)
    await asyncio.gather(*crowd.tasks, return_exceptions=True)
    crowd.enter(10)
    await settle()
    assert 3 in crowd.inside
    crowd.leave(3)
    await crowd.tasks[3]


async def test_one_cancelled_just_when_it_is_let_in_gives_back_its_room() -> None:
    crowd = Crowd(Gate(10))
    crowd.enter(10, 10, 10)
    await settle()
    crowd.leave(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    crowd.tasks[1].cancel()
    crowd.leave(2)
    await asyncio.gather(*crowd.tasks, return_exceptions=True)
    crowd.enter(10)
    await settle()
    assert crowd.inside == [3]
    crowd.leave(3)
    await crowd.tasks[3]
