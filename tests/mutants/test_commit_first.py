"""The daemon's own loop keeps law L10: nothing leaves before the transaction that speaks of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tenure.core.fleet import FleetState
from tenure.core.state.params import Params
from tenure.daemon.events.clock import Clock
from tenure.daemon.events.loop import CoreLoop
from tenure.locality.localizer import Tiers
from tenure.model.effects import Effect
from tenure.model.errors import Unavailable
from tenure.model.events import Configured
from tenure.model.node import NodeSpec, PowerSpec
from tenure.placement.policies import Policies


class Book:
    """A store and a world in one: writes down what reaches them, in order."""

    def __init__(self, *, failures: int = 0) -> None:
        self.order: list[str] = []
        self.stored: set[str] = set()
        self.done = asyncio.Event()
        self._failures = failures

    def commit(self, records: Any, events: Any = ()) -> None:
        if self._failures:
            self._failures -= 1
            self.order.append("failed")
            raise Unavailable("disk full")
        self.order.append("commit")
        self.stored |= set(records.get("effects", {}))

    def carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            key = getattr(effect, "id", "")
            self.order.append("durable" if key in self.stored else "too early")
            self.done.set()


async def probe_through(book: Book) -> list[str]:
    """Have a switchable node configured, whose probe is the first effect; return the order."""
    state = FleetState(Params(), Policies, localizer=Tiers(), fleet="f")
    loop = CoreLoop(state, book, Clock(), book.carry_out)
    await loop.start()
    spec = NodeSpec("n", "tcp://n", "young", power=PowerSpec("command"))
    loop.put(lambda at_us: Configured(at_us=at_us, nodes=(spec,)))
    running = asyncio.create_task(loop.run())
    try:
        async with asyncio.timeout(20):
            await book.done.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return book.order


async def test_an_effect_leaves_after_its_commit() -> None:
    assert await probe_through(Book()) == ["commit", "commit", "durable"]


async def test_nothing_leaves_while_commits_fail() -> None:
    order = await probe_through(Book(failures=1))
    assert order == ["failed", "commit", "commit", "durable"]
