"""Watching one node: connect, follow, notice the loss, connect again.

Listings are the truth; the event stream only says where to look sooner. While an engine answers,
four tasks run side by side: pings, the stream, listings, and inspects of the containers that events
named. Each failure to get an answer is a doubt, and has the engine pinged at once; ``lost_after``
doubts in a row, with no answered ping between, are the loss, which ends all four. A node that does
not answer is tried ever more slowly, one that is expected to be off rarely and in silence.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from tenure.engines.containers.decode import is_ours
from tenure.model.document import OwnDocument, text, texts
from tenure.model.errors import EngineError, EngineRefused
from tenure.model.events import ContainerSeen, Event, NodeConnected, NodeListed, NodeLost
from tenure.model.facts import ContainerFacts, EngineFacts

_log = logging.getLogger(__name__)


class Watchable(Protocol):
    """An engine as a watcher uses it; each method raises EngineError."""

    async def ping(self, heard_s: float = 0.0) -> None:
        """Return if it answers in time, or answered anything within the last ``heard_s``."""

    async def facts(self) -> EngineFacts:
        """Return identity, whole capacity and images."""

    async def listing(self, *, is_fresh: bool = False) -> tuple[ContainerFacts, ...]:
        """Return all containers; ours with times, exit codes and health. ``is_fresh``: no cache."""

    async def images(self) -> tuple[str, ...]:
        """Return the tags, digests and ids of all images, sorted."""

    async def inspect(self, ref: str) -> ContainerFacts | None:
        """Return one container by id or name, None if there is none."""

    def events(
        self, *, on_open: Callable[[], None] | None = None
    ) -> AsyncGenerator[OwnDocument, None]:
        """Yield container events; never ends but by raising EngineError."""


EventFactory = Callable[[int], Event]
"""Makes the event from the time at which the inbox takes it (UTC microseconds)."""

Emit = Callable[[EventFactory], Awaitable[None]]

INSPECT_ON = frozenset(
    ("start", "die", "oom", "pause", "unpause", "restart", "rename", "health_status")
)
LIST_ON = frozenset(("destroy",))
LIST_ON_FOREIGN = frozenset(("start", "die", "destroy"))

#: Pauses between pings, and between listings, are so much of what is set, and the first any part
#: of it: a thousand nodes are met in one moment, and would be asked in one moment ever after.
SCATTER = (0.9, 1.0)

HINTS = 256
"""Containers waiting for an inspect; with more, a listing is cheaper."""


@dataclass(frozen=True, slots=True)
class WatchParams:
    """Times of a watcher, in seconds.

    ``list_every_s`` between listings without a reason, ``list_gap_s`` at least between any two;
    ``open_s`` is how long the first listing waits for the event stream; ``debounce_s`` gathers the
    events of one moment; ``doubt_s`` comes between pings after a failed one; ``retry_first_s``
    doubles up to ``retry_last_s``; ``off_every_s`` is for a node that is expected to be off.
    """

    list_every_s: float = 15.0
    list_gap_s: float = 0.5
    open_s: float = 1.0
    ping_every_s: float = 2.0
    doubt_s: float = 0.2
    lost_after: int = 2
    debounce_s: float = 0.05
    retry_first_s: float = 0.2
    retry_last_s: float = 5.0
    off_every_s: float = 15.0

    def __post_init__(self) -> None:
        """Raise ValueError for times with which it would spin."""
        times = (self.list_every_s, self.ping_every_s, self.retry_first_s, self.off_every_s)
        if min(times) <= 0 or self.lost_after < 1 or self.retry_last_s < self.retry_first_s:
            raise ValueError("watcher: times must be positive, retry_last_s the longer one")


@dataclass(frozen=True, slots=True)
class Watched:
    """A node, its engine, and where its events go."""

    node: str
    engine: Watchable
    emit: Emit
    now_us: Callable[[], int]
    params: WatchParams


class _Lost(Exception):
    """The engine counts as lost; ends the tasks of its connection."""


class Connection:
    """Follows an engine that answers until it no longer does."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._params = watched.params
        self._doubts = 0
        self._is_doubted = asyncio.Event()
        self._why = ""
        self._is_listing_due = asyncio.Event()
        self._is_fresh_due = True
        self._hints: set[str] = set()
        self._has_hints = asyncio.Event()

    def want_listing(self) -> None:
        """Have the node listed as soon as the gap between listings allows."""
        self._is_listing_due.set()

    async def run(self) -> str:
        """Follow the engine; return why it counts as lost.

        In a task of its own: a group that failed leaves its task as if it were being cancelled, and
        before Python 3.11.4 no ``asyncio.timeout`` works in such a task any more.
        """
        return await asyncio.create_task(self._run(), name=f"connection {self._watched.node}")

    async def _run(self) -> str:
        try:
            async with asyncio.TaskGroup() as tasks:
                for task in (self._ping(), self._follow(), self._list(), self._look()):
                    tasks.create_task(task)
        except* _Lost:
            _log.debug("connection to %s ended: %s", self._watched.node, self._why)
        return self._why

    def _doubt(self, error: EngineError) -> None:
        """Count a failure to get an answer and have the engine pinged at once."""
        self._doubts += 1
        self._why = error.detail
        self._is_doubted.set()
        if self._doubts >= self._params.lost_after:
            raise _Lost

    async def _ping(self) -> None:
        pause_s = self._params.ping_every_s * random.random()
        while True:
            heard_s = 0.0 if self._doubts else self._params.ping_every_s / 2
            try:
                await self._watched.engine.ping(heard_s)
            except EngineError as error:
                self._doubt(error)
                await asyncio.sleep(self._params.doubt_s)
                continue
            self._doubts = 0
            self._is_doubted.clear()
            await _wait(self._is_doubted, pause_s)
            pause_s = self._params.ping_every_s * random.uniform(*SCATTER)

    async def _follow(self) -> None:
        """Take hints from the event stream, opened again whenever it ends."""
        pause_s = self._params.retry_first_s
        while True:
            try:
                async with aclosing(self._watched.engine.events(on_open=self._opened)) as events:
                    async for event in events:
                        pause_s = self._params.retry_first_s
                        self._hint(event)
            except EngineRefused as error:
                _log.debug("node %s refuses its events: %s", self._watched.node, error.detail)
            except EngineError as error:
                self._doubt(error)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(self._params.retry_last_s, 2 * pause_s)

    def _opened(self) -> None:
        """Have a listing made that trusts nothing from before the stream: events were missed."""
        self._is_fresh_due = True
        self._is_listing_due.set()

    def _hint(self, event: OwnDocument) -> None:
        """Note where an event says to look."""
        engine_id, labels = _actor(event)
        action = text(event, "Action").partition(":")[0]
        is_own = is_ours(labels)
        if action in (LIST_ON if is_own else LIST_ON_FOREIGN):
            self.want_listing()
        elif is_own and action in INSPECT_ON:
            self._hints.add(engine_id)
            self._has_hints.set()
        if len(self._hints) > HINTS:
            self._hints.clear()
            self._opened()

    async def _look(self) -> None:
        """Inspect the containers that events named, once per burst of events."""
        while True:
            await self._has_hints.wait()
            await asyncio.sleep(self._params.debounce_s)
            self._has_hints.clear()
            pending, self._hints = self._hints, set()
            async with asyncio.TaskGroup() as tasks:
                for engine_id in sorted(pending):
                    tasks.create_task(self._look_at(engine_id))

    async def _look_at(self, engine_id: str) -> None:
        watched = self._watched
        started_us = watched.now_us()
        try:
            facts = await watched.engine.inspect(engine_id)
        except EngineRefused:
            facts = None
        except EngineError as error:
            self.want_listing()
            self._doubt(error)
            return
        if facts is None:
            self.want_listing()
            return
        seen = facts
        await watched.emit(
            lambda at_us: ContainerSeen(
                at_us=at_us, node=watched.node, started_us=started_us, facts=seen
            )
        )

    async def _list(self) -> None:
        """List when asked to, and at an interval; the first time once the stream is open."""
        limit_s, scatter = self._params.open_s, (0.0, 1.0)
        while True:
            await _wait(self._is_listing_due, limit_s)
            self._is_listing_due.clear()
            await self._list_once()
            limit_s, scatter = self._params.list_every_s * random.uniform(*scatter), SCATTER
            await asyncio.sleep(self._params.list_gap_s)

    async def _list_once(self) -> None:
        watched = self._watched
        is_fresh, self._is_fresh_due = self._is_fresh_due, False
        started_us = watched.now_us()
        try:
            containers = await watched.engine.listing(is_fresh=is_fresh)
            images = await watched.engine.images()
        except EngineError as error:
            self._is_fresh_due = self._is_fresh_due or is_fresh
            if isinstance(error, EngineRefused):
                _log.warning("node %s refuses its listing: %s", watched.node, error.detail)
                return
            self.want_listing()
            self._doubt(error)
            return
        await watched.emit(
            lambda at_us: NodeListed(
                at_us=at_us,
                node=watched.node,
                started_us=started_us,
                containers=containers,
                images=images,
            )
        )


def _actor(event: OwnDocument) -> tuple[str, dict[str, str]]:
    """Return whose event it is: container id and labels, empty where an event has no such thing."""
    return text(event, "Actor", "ID"), texts(event, "Actor", "Attributes")


async def _wait(signal: asyncio.Event, limit_s: float) -> None:
    """Wait until ``signal`` is set, at most ``limit_s``."""
    try:
        async with asyncio.timeout(limit_s):
            await signal.wait()
    except TimeoutError:
        return


class Watcher:
    """Watches one node until its ``run`` is cancelled.

    ``emit`` is given a function from the inbox's time to an event; ``now_us`` tells the same clock.
    """

    def __init__(
        self,
        node: str,
        engine: Watchable,
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
