"""The effect interpreter: carries out what the core asks for, and reports each end once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from tenure.daemon.loop import EventMaker
from tenure.model.effects import (
    Abort,
    AskJournal,
    Decide,
    DurableEffect,
    Effect,
    EngineEffect,
    LocateBlocks,
    PlanBatches,
    ProbePower,
    Question,
    Relist,
    Reply,
    SwitchPower,
    Trigger,
)
from tenure.model.events import EffectEnded
from tenure.model.outcome import Outcome, Refused, Unknown

log = logging.getLogger(__name__)

#: Kinds of effects that change nothing.
QUESTIONS = frozenset(("decide", "plan_batches", "locate_blocks"))


class Hands(Protocol):
    """What reaches the world outside."""

    async def perform(self, effect: EngineEffect) -> Outcome:
        """Carry out an engine effect."""

    async def switch(self, effect: SwitchPower) -> Outcome:
        """Switch a node."""

    async def probe(self, effect: ProbePower) -> Outcome:
        """Ask a power driver."""

    async def decide(self, effect: Decide) -> Outcome:
        """Have a slow policy choose a place."""

    async def plan(self, effect: PlanBatches) -> Outcome:
        """Have the holistic planner plan batches."""

    async def locate(self, effect: LocateBlocks) -> Outcome:
        """Look where blocks lie in HDFS."""

    async def ask_journal(self, effect: AskJournal) -> Outcome:
        """Have the journal of a node's agent read up to now."""

    def relist(self, node: str) -> None:
        """Have a node listed soon."""

    def trigger(self, effect: Trigger) -> None:
        """Have a worker run a cycle."""


class Interpreter:
    """Starts a task for each effect; the engines' own bounds limit how many run at a time."""

    def __init__(self, hands: Hands, put: Callable[[EventMaker], None]) -> None:
        self._hands = hands
        self._put = put
        self._tasks: set[asyncio.Task[None]] = set()
        self._deeds: dict[str, asyncio.Task[None]] = {}
        self._aborted: set[str] = set()
        self._replies: dict[str, asyncio.Future[Any]] = {}
        self._is_closing = False
        self.counts: dict[tuple[str, str], int] = {}

    def expect(self, request: str) -> asyncio.Future[Any]:
        """Return the future of the reply to a request."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies[request] = future
        return future

    def forget(self, request: str) -> None:
        """Stop waiting for a reply: the asker has gone."""
        self._replies.pop(request, None)

    def carry_out(self, effects: Sequence[Effect]) -> None:
        """Begin to carry out effects that are durable now."""
        for effect in effects:
            if isinstance(effect, Reply):
                self._reply(effect)
            elif isinstance(effect, Relist):
                self._hands.relist(effect.node)
            elif isinstance(effect, Trigger):
                self._hands.trigger(effect)
            elif isinstance(effect, Abort):
                self._abort(effect.effect)
            else:
                self._spawn(effect)

    def _reply(self, effect: Reply) -> None:
        future = self._replies.pop(effect.request, None)
        if future is not None and not future.done():
            future.set_result(effect.value)

    def _spawn(self, effect: DurableEffect | Question) -> None:
        if isinstance(effect, SwitchPower):
            work: Awaitable[Outcome] = self._hands.switch(effect)
        elif isinstance(effect, ProbePower):
            work = self._hands.probe(effect)
        elif isinstance(effect, Decide):
            work = self._hands.decide(effect)
        elif isinstance(effect, PlanBatches):
            work = self._hands.plan(effect)
        elif isinstance(effect, LocateBlocks):
            work = self._hands.locate(effect)
        elif isinstance(effect, AskJournal):
            work = self._hands.ask_journal(effect)
        else:
            work = self._hands.perform(effect)
        task = asyncio.create_task(self._finish(effect.id, effect.kind, work), name=effect.kind)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._deeds[effect.id] = task

    def _abort(self, key: str) -> None:
        """Cancel what carries out an effect; what it holds is let go of before its end is told."""
        task = self._deeds.get(key)
        if task is not None:
            self._aborted.add(key)
            # after its first step: what has not begun would end without a word
            asyncio.get_running_loop().call_soon(task.cancel)

    async def _finish(self, key: str, kind: str, work: Awaitable[Outcome]) -> None:
        try:
            outcome = await work
        except asyncio.CancelledError:
            if key not in self._aborted or self._is_closing:
                raise
            outcome = Refused("aborted", "it was given up")
        except Exception:
            log.exception("effect %s (%s) ended by a defect; taken as unknown", key, kind)
            outcome = Unknown("a defect; see the log")
        finally:
            self._deeds.pop(key, None)
            self._aborted.discard(key)
        word = type(outcome).__name__.lower()
        self.counts[kind, word] = self.counts.get((kind, word), 0) + 1
        if isinstance(outcome, Refused):
            log.info("effect %s (%s) refused: %s %s", key, kind, outcome.code, outcome.detail)
        self._put(lambda at_us: EffectEnded(at_us=at_us, effect=key, outcome=outcome))

    @property
    def open(self) -> int:
        return len(self._tasks)

    async def close(self, grace_s: float) -> None:
        """Let what is under way end within ``grace_s``; the rest is resolved at the next start.

        Questions are not waited for: they are asked again then.
        """
        self._is_closing = True
        deeds = [task for task in self._tasks if task.get_name() not in QUESTIONS]
        if deeds:
            await asyncio.wait(deeds, timeout=grace_s)
        await asyncio.sleep(0)  # what has not begun cannot be cancelled without a warning
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
