"""Watching one node: connect, follow, notice the loss, connect again.

What happens while connected is in ``connection``; here is the loop around it. A node that does not
answer is tried ever more slowly, one that is expected to be off rarely and in silence.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from tenure.engines.connection import Connection, Emit, Watched, WatchParams
from tenure.engines.port import EnginePort
from tenure.model.errors import EngineError
from tenure.model.events import NodeConnected, NodeLost
from tenure.model.facts import EngineFacts

_log = logging.getLogger(__name__)


class Watcher:
    """Watches one node until its ``run`` is cancelled.

    ``emit`` is given a function from the inbox's time to an event; ``now_us`` tells the same clock.
    """

    def __init__(
        self,
        node: str,
        engine: EnginePort,
        *,
        emit: Emit,
        now_us: Callable[[], int],
        params: WatchParams | None = None,
    ) -> None:
        self._watched = Watched(node, engine, emit, now_us, params or WatchParams())
        self._connection: Connection | None = None
        self._is_expected = True
        self._told = ""
        self._wake = asyncio.Event()
        self._pause_s = self._watched.params.retry_first_s

    def relist(self) -> None:
        """Have the node listed soon; one that is away is listed when it is back anyway."""
        if self._connection is not None:
            self._connection.want_listing()

    def set_expected(self, is_on: bool) -> None:
        """Say whether the engine should answer: one that is off is looked for rarely, in silence.

        Turning it on looks at once and starts the pauses from the shortest.
        """
        if is_on and not self._is_expected:
            self._pause_s = self._watched.params.retry_first_s
            self._wake.set()
        self._is_expected = is_on

    async def run(self) -> None:
        """Watch for ever; only a defect or what ``emit`` raises ends it, by an exception.

        A loss is told once, whether the engine was known or never answered, and again when its
        reason becomes another: what a person has to mend may change.
        """
        failures = 0
        while True:
            try:
                facts = await self._greet()
            except EngineError as error:
                failures += 1
                if failures >= self._watched.params.lost_after:
                    await self._tell_lost(error.detail)
                await self._pause()
                continue
            await self._tell_connected(facts)
            self._told = ""
            self._connection = Connection(self._watched)
            try:
                why = await self._connection.run()
            finally:
                self._connection = None
            await self._tell_lost(why)
            failures = self._watched.params.lost_after
            self._pause_s = self._watched.params.retry_first_s

    async def _greet(self) -> EngineFacts:
        """Return the engine's facts; the ping first, for it is the quickest to fail."""
        await self._watched.engine.ping()
        return await self._watched.engine.facts()

    async def _tell_connected(self, facts: EngineFacts) -> None:
        node = self._watched.node
        _log.info("node %s answers", node)
        await self._watched.emit(lambda at_us: NodeConnected(at_us=at_us, node=node, facts=facts))

    async def _tell_lost(self, why: str) -> None:
        if why == self._told:
            return
        self._told = why
        node = self._watched.node
        if self._is_expected:
            _log.warning("node %s does not answer: %s", node, why)
        await self._watched.emit(lambda at_us: NodeLost(at_us=at_us, node=node, why=why))

    async def _pause(self) -> None:
        """Wait before the next try, or until the engine becomes expected."""
        params = self._watched.params
        pause_s = params.off_every_s
        if self._is_expected:
            pause_s = self._pause_s * random.uniform(0.5, 1.0)
            self._pause_s = min(params.retry_last_s, 2 * self._pause_s)
        self._wake.clear()
        try:
            async with asyncio.timeout(pause_s):
                await self._wake.wait()
        except TimeoutError:
            return
