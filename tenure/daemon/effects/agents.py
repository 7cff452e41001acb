"""The agents of nodes that have one: what they read, which are away, what their meters say."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tenure.agent.io.client import AgentAway, AgentClient
from tenure.config.certificates import client_context
from tenure.engines.http.access import Credentials
from tenure.engines.http.errors import EngineUnreachable
from tenure.model.access import TlsFiles
from tenure.model.node import AgentSpec, AgentTold, NodeSpec
from tenure.profiling.io.sampler import Told
from tenure.profiling.readings.sample import EnergyReading

log = logging.getLogger(__name__)

#: Asks for the newest reading alone, or few: a journal without containers reaches back for days.
NEWEST_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class AgentState:
    """Whether an agent answers, how often it did not, and what its node's meters said last.

    ``is_up`` is None until it was asked.
    """

    is_up: bool | None
    failures: int
    energy: EnergyReading | None


class Agents:
    """Asks the agents; one that is away is told of once, and counted at each try."""

    def __init__(self, interval_us: int) -> None:
        self._interval_us = interval_us
        self._clients: dict[str, AgentClient] = {}
        self._present: dict[str, frozenset[str]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._credentials: dict[TlsFiles, Credentials] = {}
        self._asked: set[str] = set()
        self.away: dict[str, str] = {}
        self.failures: Counter[str] = Counter()
        self.energy: dict[str, EnergyReading] = {}
        self._read_us: dict[str, int] = {}

    @property
    def names(self) -> Sequence[str]:
        """Return the nodes that have an agent, in order."""
        return sorted(self._clients)

    def configure(self, specs: Sequence[NodeSpec]) -> None:
        """Have a client for each node that names an agent; one whose way changed is made anew."""
        wanted: dict[str, AgentSpec] = {s.name: s.agent for s in specs if s.agent is not None}
        for name, client in list(self._clients.items()):
            if wanted.get(name) != client.spec:
                self._drop(name, client)
        used = {spec.tls or TlsFiles() for spec in wanted.values()}
        self._credentials = {f: known for f, known in self._credentials.items() if f in used}
        for name, spec in wanted.items():
            if name not in self._clients:
                self._clients[name] = AgentClient(spec, self._context)

    async def read(self, node: str, after: int) -> Told | None:
        """Return what a node's agent read after its reading ``after`` (0: its newest).

        None where the node has no agent, or that is away: then the engine's statistics count.
        """
        client = self._clients.get(node)
        if client is None:
            return None
        try:
            answer = await client.samples(after, self._interval_us if after else NEWEST_US)
        except AgentAway as error:
            if self._clients.get(node) is client:  # else it was let go of meanwhile
                self._note_away(node, error.detail)
            return None
        if self._clients.get(node) is client:
            self._asked.add(node)
        if self.away.pop(node, None) is not None:
            log.info("the agent of node %s answers again", node)
        readings = answer.readings if after else answer.readings[-1:]
        if readings:
            newest = readings[-1]
            self._present[node] = frozenset(newest.containers)
            self._read_us[node] = newest.at_us
            if newest.energy is not None:
                self.energy[node] = newest.energy
        return Told(readings, self._present.get(node, frozenset()))

    def state_of(self, node: str) -> AgentState:
        """Return how the agent of a node is; ``node`` must have one."""
        is_up = node not in self.away if node in self._asked else None
        return AgentState(is_up, self.failures[node], self.energy.get(node))

    def told_of(self, node: str) -> AgentTold | None:
        """Return how a node's agent answers, None where the node has none."""
        client = self._clients.get(node)
        if client is None:
            return None
        return AgentTold(client.spec.url, self._read_us.get(node, 0), self.away.get(node, ""))

    def client_of(self, node: str) -> AgentClient | None:
        """Return the way to a node's agent, None where it has none."""
        return self._clients.get(node)

    async def close(self) -> None:
        """Let go of every agent."""
        await asyncio.gather(*(client.close() for client in self._clients.values()))
        await asyncio.gather(*self._closing)

    def _context(self, files: TlsFiles) -> ssl.SSLContext:
        """Return the context of these files as they are by now; agents with the same share one.

        Reading the system's authorities holds the loop for some 50 ms: not once for each node.
        Raises AgentAway where they are faulty and never were sound.
        """
        known = self._credentials.setdefault(files, Credentials(files, client_context))
        try:
            return known.context()
        except EngineUnreachable as error:
            raise AgentAway(error.detail) from error

    def _note_away(self, node: str, why: str) -> None:
        self._asked.add(node)
        self.failures[node] += 1
        if node not in self.away:
            log.warning("the agent of node %s is away, its engine is asked instead: %s", node, why)
        self.away[node] = why

    def _drop(self, name: str, client: AgentClient) -> None:
        del self._clients[name]
        for known in (self._present, self.away, self.energy, self._read_us):
            known.pop(name, None)
        self._asked.discard(name)
        closing = asyncio.create_task(client.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
