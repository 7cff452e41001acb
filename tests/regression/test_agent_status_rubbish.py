"""An agent whose status holds rubbish ended the daemon's look after all nodes, and its metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from tenure.agent.io.client import AgentClient
from tenure.daemon.effects.lending import Lending
from tenure.model.events import Event, GuardSeen
from tenure.model.node import AgentSpec, NodeSpec
from tenure.model.qos import QosParams
from tenure.qos.wire import VERSION, ActionsAnswer, decode_actions, revision_of

PARAMS = QosParams(mode="act")


class Rubbish:
    """An agent that answers with the status of the test."""

    def __init__(self, status: str) -> None:
        base = {"mode": "act", "revision": revision_of(PARAMS)}
        self.text = json.dumps({"version": VERSION, "actions": [], "status": base})
        self.text = self.text.replace('"mode"', f'{status}, "mode"')

    async def actions(self, after: int) -> ActionsAnswer:
        return decode_actions(json.loads(self.text))


@pytest.mark.parametrize(
    "status",
    [
        '"quota_m": "all"',
        '"quota_m": {}',
        '"quota_m": NaN, "kills": Infinity',
        f'"quota_m": 1{"0" * 400}, "kills": 1{"0" * 400}',
        f'"quota_m": null, "numbers": {{"p99_us": 1{"0" * 400}}}',
    ],
)
async def test_rubbish_in_a_status_is_no_number(status: str) -> None:
    events: list[Event] = []

    def put(make: Callable[[int], Event]) -> None:
        events.append(make(7))

    client: Any = Rubbish(status)
    lending = Lending(lambda _: cast(AgentClient, client), lambda _: 0, put)
    agent = AgentSpec("unix:///agent")
    lending.configure([NodeSpec("n", "unix:///e", "nursery", agent=agent, harvest=PARAMS)])
    await lending._look("n")
    (event,) = events
    assert isinstance(event, GuardSeen)
    assert (event.guard.mode, event.guard.is_at_floor) == ("act", False)
    told = {**lending.lent["n"].numbers, "kills": lending.lent["n"].status.get("kills")}
    assert all(abs(value) < 1 << 63 for value in told.values() if isinstance(value, int | float))
