"""Nodes whose idle capacity is lent: their controllers are set, and what they did is told.

The controllers need nothing of this: they go on as they were last set while the daemon is away.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tenure.agent.io.client import AgentAway, AgentClient
from tenure.model.errors import TenureError
from tenure.model.events import Event, GuardSeen, HarvestReported
from tenure.model.harvest import Guard, HarvestAction
from tenure.model.node import NodeSpec
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.qos import QosParams
from tenure.model.units import US
from tenure.qos.wire import revision_of

log = logging.getLogger(__name__)

#: Time between two looks at a controller.
LOOK_S = 1.0
#: Looks a second at most: each takes some 0.4 ms of the loop. Of larger fleets each node is looked
#: at less often; who waits for what a controller did asks for it (``cover``).
LOOKS_PER_S = 400
#: They are begun so many times a second at most, some at a time, lest all hold the loop at once.
STEPS_PER_S = 100
#: A controller that looks ten times a second has looked again by then, or does not at all.
COVER_S = 10.0
#: Pages of one look: a daemon that was away for long takes the rest with the next.
MAX_PAGES = 20


@dataclass(frozen=True, slots=True)
class Lent:
    """A node's controller as it last told; ``fault`` is what ails it, "" nothing."""

    status: Mapping[str, object]
    fault: str = ""

    @property
    def numbers(self) -> dict[str, object]:
        """Return its numbers by name: those of its last decision, its quota, its lateness."""
        found = {"quota_m": self.status.get("quota_m")}
        for part in ("numbers", "lateness"):
            inner = self.status.get(part)
            found |= inner if isinstance(inner, Mapping) else {}
        return found


class Lending:
    """Looks after the controllers of all nodes with ``harvest``."""

    def __init__(
        self,
        client_of: Callable[[str], AgentClient | None],
        seq_of: Callable[[str], int],
        put: Callable[[Callable[[int], Event]], None],
    ) -> None:
        self._client_of, self._seq_of, self._put = client_of, seq_of, put
        self._wanted: dict[str, QosParams] = {}
        self._taken: dict[str, int] = {}
        self._guards: dict[str, Guard] = {}
        self._looking: set[str] = set()
        self._met: frozenset[str] = frozenset()
        self.lent: dict[str, Lent] = {}

    def configure(self, specs: Sequence[NodeSpec]) -> None:
        """Have these nodes' controllers set as they say; one that is named no longer is off."""
        wanted = {spec.name: _params(spec) for spec in specs if spec.agent is not None}
        self._wanted = {name: params for name, params in wanted.items() if params is not None}
        for name in wanted.keys() - self._wanted.keys():
            if name in self.lent:  # it was lent before: it is told to stop, once
                self._wanted[name] = QosParams(mode="off")
        for name in self.lent.keys() - wanted.keys():
            del self.lent[name]
        for name in self._guards.keys() - self._wanted.keys():
            del self._guards[name]

    async def run(self) -> None:
        """Look at all controllers in a circle until cancelled; one that hangs holds up no other."""
        async with asyncio.TaskGroup() as looks:
            while True:
                await self._go_round(looks)

    async def _go_round(self, looks: asyncio.TaskGroup) -> None:
        """Begin a look at each controller: at new ones soon, at the others spread over the time."""
        names = list(self._wanted)
        known = [name for name in names if name in self._met]
        fresh = [name for name in names if name not in self._met]
        self._met = frozenset(names)
        await self._begin(looks, fresh, len(fresh) / LOOKS_PER_S)
        await self._begin(looks, known, max(LOOK_S, len(names) / LOOKS_PER_S))

    async def _begin(self, looks: asyncio.TaskGroup, names: Sequence[str], over_s: float) -> None:
        """Begin looks over a time, evenly, where none is under way; return at its end."""
        steps = max(1, min(len(names), math.floor(over_s * STEPS_PER_S)))
        for step in range(steps):
            for name in names[step::steps]:
                if name not in self._looking:
                    self._looking.add(name)
                    looks.create_task(self._look(name))
            await asyncio.sleep(over_s / steps)

    async def _look(self, name: str) -> None:
        try:
            await self._look_at(name)
        finally:
            self._looking.discard(name)

    async def _look_at(self, name: str) -> None:
        client = self._client_of(name)
        if client is None:
            return
        try:
            self._note(name, await self._exchange(name, client, self._wanted[name]), "")
        except TenureError as error:
            self._note(name, {}, error.detail)
        except (KeyError, RuntimeError):
            return  # let go of meanwhile, its session closed

    async def cover(self, name: str) -> Outcome:
        """Take what a controller did up to now, past the look that it may be in the midst of.

        A kill and its record are of one look, so all that was killed before this was asked is told
        once a later look has ended.
        """
        params, client = self._wanted.get(name), self._client_of(name)
        if params is None or client is None:
            return Refused(AgentAway.code, "the node has no agent that lends it")
        try:
            async with asyncio.timeout(COVER_S):
                status = await self._exchange(name, client, params)
                first = status.get("looks")
                while status.get("mode") != "off" and status.get("looks") == first:
                    await asyncio.sleep(params.period_us / US)
                    status = await self._exchange(name, client, params)
        except TenureError as error:
            return Refused(AgentAway.code, error.detail)
        except TimeoutError:
            return Refused(AgentAway.code, f"its controller made no look for {COVER_S:g} s")
        return Done()

    async def _exchange(
        self, name: str, client: AgentClient, params: QosParams
    ) -> Mapping[str, object]:
        """Take what was done, and set what is not as it should be."""
        seq = max(self._seq_of(name), self._taken.get(name, 0))
        status: Mapping[str, object] = {}
        for _ in range(MAX_PAGES):
            answer = await client.actions(seq)
            status = answer.status
            if answer.actions:
                seq = self._taken[name] = answer.actions[-1].seq
                self._report(name, answer.actions, answer.oldest_seq)
            if not answer.is_more:
                break
        if status.get("revision") != revision_of(params):
            await client.set_params(params)
            log.info("the controller of node %s is set: %s", name, params.mode)
            status = {**status, "revision": revision_of(params), "mode": params.mode}
        return status

    def _report(self, node: str, actions: tuple[HarvestAction, ...], oldest_seq: int) -> None:
        def make(at_us: int) -> HarvestReported:
            return HarvestReported(at_us=at_us, node=node, actions=actions, oldest_seq=oldest_seq)

        self._put(make)

    def _note(self, name: str, status: Mapping[str, object], fault: str) -> None:
        before = self.lent.get(name, Lent({}))
        fault = fault or str(status.get("fault", ""))
        if fault and fault != before.fault:
            log.warning("harvest on node %s: %s", name, fault)
        lent = self.lent[name] = Lent(status or before.status, fault)
        told, wanted = lent.status, self._wanted.get(name)
        quota_m = told.get("quota_m")
        guard = Guard(
            mode=str(told.get("mode", "")),
            cgroup_parent=str(told.get("cgroup_parent", "")),
            fault=fault,
            is_at_floor=wanted is not None
            and isinstance(quota_m, int | float)
            and quota_m <= wanted.floor_m,
        )
        if self._guards.get(name) != guard:
            self._guards[name] = guard
            self._put(lambda at_us: GuardSeen(at_us=at_us, node=name, guard=guard))


def _params(spec: NodeSpec) -> QosParams | None:
    """Return a node's parameters with its stated capacity, less reserve and memory tiers."""
    if spec.harvest is None or spec.capacity is None:
        return spec.harvest
    left = (spec.capacity - spec.kept).clamped()
    return replace(spec.harvest, cpu_m=left.cpu_m, memory_bytes=left.memory_bytes)
