"""What carries effects out: a copy that is given up ends once, as refused, and lets go first."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tenure.daemon.interpreter import Hands, Interpreter
from tenure.daemon.loop import EventMaker
from tenure.model.effects import Abort, CopyBlock
from tenure.model.events import EffectEnded
from tenure.model.outcome import Done, Outcome, Refused


def copy(key: str) -> CopyBlock:
    return CopyBlock(key, "copy:d/0@a/mem", "a", "busybox", "/mnt", "tenure-f/d/000000", 1, "")


class Slow:
    """Hands that hold on to what they do until they are told to let go."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.freed: list[str] = []

    async def perform(self, effect: Any) -> Outcome:
        try:
            await self.go_on.wait()
            return Done("copied")
        finally:
            await asyncio.sleep(0)
            self.freed.append(effect.id)


async def _run(abort: list[str], *, goes_on: bool = False) -> tuple[dict[str, Outcome], list[str]]:
    ends: dict[str, Outcome] = {}
    hands = Slow()

    def put(make: EventMaker) -> None:
        event = make(0)
        assert isinstance(event, EffectEnded)
        assert event.effect not in ends
        ends[event.effect] = event.outcome

    interpreter = Interpreter(cast(Hands, hands), put)
    interpreter.carry_out([copy("e1"), copy("e2"), *map(Abort, abort)])
    if goes_on:
        hands.go_on.set()
    for _ in range(20):
        await asyncio.sleep(0)
    freed = list(hands.freed)
    await interpreter.close(0)
    assert interpreter.open == 0
    return ends, freed


def test_a_copy_that_is_given_up_is_refused_and_the_others_go_on() -> None:
    ends, freed = asyncio.run(_run(["e1"]))  # before its first step
    assert ends == {"e1": Refused("aborted", "it was given up")}
    assert freed == ["e1"], "what it held was let go of before its end was told"


def test_what_is_given_up_twice_or_after_its_end_ends_once() -> None:
    ends, _ = asyncio.run(_run(["e1", "e1", "e9"]))
    assert list(ends) == ["e1"]
    ends, _ = asyncio.run(_run([], goes_on=True))
    assert set(ends) == {"e1", "e2"}
    assert all(isinstance(outcome, Done) for outcome in ends.values())
