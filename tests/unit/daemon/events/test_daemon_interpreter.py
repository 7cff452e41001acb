"""What carries effects out: a copy that is given up ends once, as refused, and lets go first."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tenure.daemon.events import interpreter
from tenure.daemon.events.interpreter import TURNS, Hands, Interpreter
from tenure.daemon.events.loop import EventMaker
from tenure.model.effects import (
    Abort,
    AskJournal,
    CopyBlock,
    ProbePower,
    RetireContainer,
    StopContainer,
    SwitchPower,
)
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

    made = Interpreter(cast(Hands, hands), put)
    made.carry_out([copy("e1"), copy("e2"), *map(Abort, abort)])
    if goes_on:
        hands.go_on.set()
    for _ in range(20):
        await asyncio.sleep(0)
    freed = list(hands.freed)
    await made.close(0)
    assert made.open == 0
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


class Held(Slow):
    """Hands that tell what has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: asyncio.Queue[str] = asyncio.Queue()

    async def perform(self, effect: Any) -> Outcome:
        self.begun.put_nowait(effect.id)
        return await super().perform(effect)

    async def switch(self, effect: Any) -> Outcome:
        return await self.perform(effect)

    probe = ask_journal = switch


async def _begun(*effects: Any) -> set[str]:
    """Return what begins of effects behind more slow copies than may be under way."""
    hands = Held()
    made = Interpreter(cast(Hands, hands), lambda _: None)
    made.carry_out([copy(f"c{number}") for number in range(TURNS + 20)])
    async with asyncio.timeout(60):
        slow = {await hands.begun.get() for _ in range(TURNS)}
        assert len(slow) == TURNS
        made.carry_out(list(effects))
        begun = {await hands.begun.get() for _ in effects}
    hands.go_on.set()
    await made.close(30)
    assert made.open == 0
    return begun


def test_power_and_what_frees_a_node_wait_for_nothing_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "TURN_S", 3600.0)
    effects = [
        SwitchPower("p1", "power:a", "a", "on"),
        ProbePower("p2", "power:a", "a"),
        AskJournal("j1", "task:t", "a"),
        RetireContainer("r1", "grave:g", "a", "t", 1, ""),
        StopContainer("s1", "service:s", "a", "s", 1),
    ]
    assert asyncio.run(_begun(*effects)) == {"j1", "p1", "p2", "r1", "s1"}
