"""The one consumer of the inbox: handle a batch, make it durable, then let effects out.

Law: no effect and no reply leaves before the transaction that speaks of it is on the disk. A commit
that fails (disk full) is tried again; until it succeeds nothing leaves and nothing more is handled.
A defect in the core ends the process: what is on the disk is whole, and a restart goes on from it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from tenure.core.fleet import FleetState
from tenure.core.lifecycle.clock_steps import at_start, at_step
from tenure.core.state.tables import PublicEvent
from tenure.daemon.events.clock import Clock
from tenure.model.effects import Effect
from tenure.model.errors import TenureError, Unavailable
from tenure.model.events import Command, Event, Tick

log = logging.getLogger(__name__)

#: Events handled in one transaction at most: bounds a batch's latency.
MAX_BATCH = 256
#: The core works at most about so long at a stretch: then the loop hears who else there is.
HOLD_S = 0.004
#: Events that may wait; beyond this, submitters are told to come back.
MAX_INBOX = 50_000
#: The slow heartbeat: a timer that was missed by a defect is late by this at most.
HEARTBEAT_S = 10.0
COMMIT_RETRY_S = 1.0
#: A disk that stays full is logged again after so many tries.
TRIES_A_LINE = 60

EventMaker = Callable[[int], Event]
#: Changed records by kind and key; None: removed.
Records = Mapping[str, Mapping[str, object]]


class Committer(Protocol):
    """What the loop needs of the store."""

    def commit(self, records: Records, events: Sequence[PublicEvent] = ()) -> None:
        """Write one transaction; raises StoreError and has then changed nothing."""


@dataclass(slots=True)
class LoopStats:
    """Counters for the metrics. Times in seconds."""

    events: int = 0
    batches: int = 0
    commit_s: float = 0.0
    handle_s: float = 0.0
    commit_error: str = ""
    recent_commit_s: list[float] = field(default_factory=list)


class CoreLoop:
    """Owns the core: everything reaches it through ``put``."""

    def __init__(
        self,
        state: FleetState,
        store: Committer,
        clock: Clock,
        carry_out: Callable[[Sequence[Effect]], None],
    ) -> None:
        self.state = state
        self.stats = LoopStats()
        self._store = store
        self._clock = clock
        self._carry_out = carry_out
        self._inbox: asyncio.Queue[EventMaker] = asyncio.Queue()
        self._meters: dict[str, Callable[[float], None]] = {}
        self._committed = asyncio.Condition()
        self._failing = asyncio.Event()
        # its own: in the loop's it would stand behind everybody else who waits for a disk
        self._thread = ThreadPoolExecutor(1, "commit")

    def put(self, make: EventMaker) -> None:
        """Queue an event; ``make`` is given the time.

        Never refused: ends of effects and facts of engines are bounded by their makers, and none
        may be lost. Those who ask look at ``is_full`` first.
        """
        self._inbox.put_nowait(make)

    @property
    def is_full(self) -> bool:
        """Whether people and programs should come back later."""
        return self._inbox.qsize() >= MAX_INBOX

    @property
    def backlog(self) -> int:
        return self._inbox.qsize()

    async def start(self) -> None:
        """Handle the restart before anything else, so that the outbox is resolved first."""
        await self._enact(at_start(self._clock.start))

    async def run(self) -> None:
        """Consume for ever; ends only by cancellation or a defect."""
        while True:
            makers = await self._gather()
            await self._enact(self._timed(makers))

    async def _gather(self) -> list[EventMaker]:
        makers: list[EventMaker] = []
        try:
            async with asyncio.timeout(self._wait_s()):
                makers.append(await self._inbox.get())
        except TimeoutError:
            makers.append(lambda at_us: Tick(at_us=at_us))
        while len(makers) < MAX_BATCH and not self._inbox.empty():
            makers.append(self._inbox.get_nowait())
        due = self.state.wakeup_us()
        if due is not None and due <= self._clock.now_us():
            makers.append(lambda at_us: Tick(at_us=at_us))
        return makers

    def _wait_s(self) -> float:
        due = self.state.wakeup_us()
        if due is None:
            return HEARTBEAT_S
        return min(HEARTBEAT_S, max(0.0, (due - self._clock.now_us()) / 1e6))

    async def _enact(self, events: Sequence[Event]) -> None:
        """Handle the events of one transaction, and let its effects out once it is stored."""
        before_s = self.stats.handle_s
        await self._handle(events)
        self._tell_took(events, self.stats.handle_s - before_s)
        effects, changes = self.state.take_effects(), self.state.take_changes()
        self.stats.events += len(events)
        self.stats.batches += 1
        if not changes.is_empty:
            await self._commit(changes.records, changes.events)
        self._carry_out(effects)
        if changes.events:
            async with self._committed:
                self._committed.notify_all()

    @contextmanager
    def metered(self, request: str, tell: Callable[[float], None]) -> Iterator[None]:
        """Tell how long the core took over a command, seconds of the loop, as soon as it did.

        Of a transaction each event counts for an equal part.
        """
        self._meters[request] = tell
        try:
            yield
        finally:
            self._meters.pop(request, None)

    def _tell_took(self, events: Sequence[Event], took_s: float) -> None:
        for event in events if self._meters else ():
            if isinstance(event, Command) and event.request in self._meters:
                self._meters[event.request](took_s / len(events))

    def _timed(self, makers: Sequence[EventMaker]) -> list[Event]:
        """Return the events of a batch with their time, and a step of the clock before them."""
        was_us, before = self._clock.now_us(), self._clock.anchor
        step_us = self._clock.check()
        now_us, after = self._clock.now_us(), self._clock.anchor
        steps = at_step(was_us, now_us, after, step_us) if after is not before else []
        return steps + [make(now_us) for make in makers]

    async def _handle(self, events: Sequence[Event]) -> None:
        """Have the core take in events; others are heard every few milliseconds meanwhile."""
        begun = time.perf_counter()
        for _ in self.state.steps(events):
            took = time.perf_counter() - begun
            if took >= HOLD_S:
                self.stats.handle_s += took
                await asyncio.sleep(0)
                begun = time.perf_counter()
        self.stats.handle_s += time.perf_counter() - begun

    def close(self) -> None:
        """Let go of the thread that commits; nothing is handled afterwards."""
        self._thread.shutdown()

    async def _commit(self, records: Records, events: Sequence[PublicEvent]) -> None:
        for failed in itertools.count():
            begun = time.perf_counter()
            try:
                commit = partial(self._store.commit, records, events)
                loop = asyncio.get_running_loop()
                await asyncio.shield(loop.run_in_executor(self._thread, commit))
            except TenureError as error:
                if not error.retryable:
                    raise
                if error.detail != self.stats.commit_error or failed % TRIES_A_LINE == 0:
                    log.error("cannot store: %s; trying again", error.detail)
                self.stats.commit_error = error.detail
                self._failing.set()
                await asyncio.sleep(COMMIT_RETRY_S)
            else:
                if failed:
                    log.warning("what is new is stored again, after %d tries", failed)
                self.stats.commit_error = ""
                self._failing.clear()
                self.stats.commit_s += time.perf_counter() - begun
                return

    def require_storing(self) -> None:
        """Raise Unavailable ``store_failing`` while nothing can be stored: a disk that is full."""
        if self._failing.is_set():
            told = f"nothing can be changed, the state cannot be stored: {self.stats.commit_error}"
            raise Unavailable(told, code="store_failing")

    async def answered(self, reply: asyncio.Future[object]) -> object:
        """Return a reply; raises Unavailable ``store_failing`` once it cannot be stored.

        What was asked for may be done all the same, when there is room again.
        """
        failing = asyncio.ensure_future(self._failing.wait())
        try:
            await asyncio.wait((reply, failing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            failing.cancel()
        if not reply.done():
            told = f"the state cannot be stored: {self.stats.commit_error}; it may still be done"
            raise Unavailable(told, code="store_failing")
        return reply.result()

    async def wait_commit(self, timeout_s: float) -> None:
        """Return at the next commit that brought events, or after the time-out."""
        try:
            async with asyncio.timeout(timeout_s), self._committed:
                await self._committed.wait()
        except TimeoutError:
            return
