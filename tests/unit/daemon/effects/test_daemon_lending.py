"""Looks at controllers: spread over the time, none held up by one that hangs."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from tenure.agent.io.client import AgentClient
from tenure.daemon.effects import lending
from tenure.daemon.effects.lending import Lending
from tenure.model.node import AgentSpec, NodeSpec
from tenure.model.qos import QosParams
from tenure.qos.wire import VERSION, ActionsAnswer, decode_actions, revision_of

PARAMS = QosParams(mode="act")
TEXT = json.dumps(
    {"version": VERSION, "actions": [], "status": {"revision": revision_of(PARAMS), "mode": "act"}}
)


class Agents:
    """Agents that answer at once, but those that hang; notes in which round each was asked."""

    def __init__(self) -> None:
        self.hangs: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.together: list[int] = []
        self._is_same_round = False

    def of(self, name: str) -> AgentClient:
        return cast(AgentClient, Way(self, name))

    def note(self, name: str) -> None:
        self.asked[name] += 1
        if self._is_same_round:
            self.together[-1] += 1
            return
        self.together.append(1)
        self._is_same_round = True
        asyncio.get_running_loop().call_soon(self._end_round)

    def _end_round(self) -> None:
        self._is_same_round = False


class Way:
    """The way to one of them."""

    def __init__(self, agents: Agents, name: str) -> None:
        self._agents, self._name = agents, name

    async def actions(self, after: int) -> ActionsAnswer:
        self._agents.note(self._name)
        if self._name in self._agents.hangs:
            await asyncio.Event().wait()
        return decode_actions(json.loads(TEXT))


@asynccontextmanager
async def looked_after(agents: Agents, names: list[str]) -> AsyncIterator[Lending]:
    made = Lending(agents.of, lambda _: 0, lambda make: None)
    made.configure([_spec(name) for name in names])
    running = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _spec(name: str) -> NodeSpec:
    agent = AgentSpec(f"unix:///{name}")
    return NodeSpec(name, "unix:///e", "nursery", agent=agent, harvest=PARAMS)


async def until_asked(agents: Agents, names: list[str], times: int) -> None:
    async with asyncio.timeout(60):
        while True:
            if min(agents.asked[name] for name in names) >= times:
                return
            await asyncio.sleep(0.01)


async def test_many_are_not_asked_in_one_round_of_the_loop() -> None:
    agents, names = Agents(), [f"n{number}" for number in range(400)]
    async with looked_after(agents, names):
        await until_asked(agents, names, 2)
    most = 2 * lending.LOOKS_PER_S // lending.STEPS_PER_S  # timers of two steps may fall together
    assert max(agents.together) <= most


async def test_one_that_hangs_is_asked_once_and_holds_up_no_other() -> None:
    agents, names = Agents(), ["a", "b", "hung"]
    agents.hangs.add("hung")
    async with looked_after(agents, names):
        await until_asked(agents, ["a", "b"], 3)
    assert agents.asked["hung"] == 1


async def test_a_node_that_is_named_later_is_asked_as_well() -> None:
    agents, names = Agents(), [f"n{number}" for number in range(20)]
    async with looked_after(agents, names) as made:
        await until_asked(agents, names, 1)
        made.configure([_spec(name) for name in [*names, "new"]])
        await until_asked(agents, ["new"], 2)
        assert made.lent["new"].fault == ""
