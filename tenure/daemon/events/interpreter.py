"""The effect interpreter: carries out what the core asks for, and reports each end once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from tenure.daemon.ending import end
from tenure.daemon.events.loop import EventMaker
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

#: Kinds of effects that change nothing and ask no engine. Who asked waits some seconds for an
#: answer, so none of them waits for a turn behind engines.
QUESTIONS = frozenset(("decide", "plan_batches", "locate_blocks"))
#: Effects begun in one round of the loop: some 0.3 ms each.
STARTS = 8
#: So many of a lane are under way at a time: however many answers come at once, they hold the loop
#: for some 20 ms. One that takes longer than its turn waits for its engine, and holds up no other.
TURNS, TURN_S = 64, 0.5
#: What does not wait behind the rest: switching nodes and what is asked for that, as what agents
#: have ended; and what gives owners their room back.
POWER, ENDS = frozenset(("power", "probe", "ask_journal")), frozenset(("stop", "retire"))


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


class _Turn:
    """An effect's turn, which ends with it or by the clock, once."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns: asyncio.Semaphore | None = turns
        self.timer: asyncio.TimerHandle | None = None

    def end(self, _: object = None) -> None:
        """Let the next one begin."""
        if self.timer is not None:
            self.timer.cancel()
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.release()


class _Lane:
    """Effects that wait for a turn, in the order in which they came; ``begin`` starts one."""

    def __init__(self, begin: Callable[[DurableEffect | Question], asyncio.Task[None]]) -> None:
        self._begin = begin
        self._due: deque[DurableEffect | Question] = deque()
        self._starting: asyncio.Task[None] | None = None
        self._turns = asyncio.Semaphore(TURNS)

    def __len__(self) -> int:
        return len(self._due)

    def put(self, effect: DurableEffect | Question) -> None:
        """Have an effect begin when it has its turn."""
        self._due.append(effect)
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())

    def take(self, key: str) -> DurableEffect | Question | None:
        """Return an effect that waits, which does so no more; None if it does not."""
        found = next((one for one in self._due if one.id == key), None)
        if found is not None:
            self._due.remove(found)
        return found

    async def _start(self) -> None:
        """Begin what is due, some at a time: each may send a request as soon as it begins."""
        loop = asyncio.get_running_loop()
        while self._due:
            for _ in range(min(STARTS, len(self._due))):
                await self._turns.acquire()
                turn = _Turn(self._turns)
                if not self._due:  # what waited was given up
                    turn.end()
                    break
                self._begin(self._due.popleft()).add_done_callback(turn.end)
                turn.timer = loop.call_later(TURN_S, turn.end)
            await asyncio.sleep(0)
        self._starting = None

    def close(self) -> None:
        """Begin all that waits, at once."""
        if self._starting is not None:
            self._starting.cancel()
        while self._due:
            self._begin(self._due.popleft())


class Interpreter:
    """Starts a task for each effect; the engines' bounds and ours limit how many run at a time."""

    def __init__(self, hands: Hands, put: Callable[[EventMaker], None]) -> None:
        self._hands = hands
        self._put = put
        self._tasks: set[asyncio.Task[None]] = set()
        self._deeds: dict[str, asyncio.Task[None]] = {}
        self._aborted: set[str] = set()
        self._power, self._ends, self._rest = (_Lane(self._spawn) for _ in range(3))
        self._replies: dict[str, asyncio.Future[object]] = {}
        self._is_closing = False
        self.counts: dict[tuple[str, str], int] = {}

    def expect(self, request: str) -> asyncio.Future[object]:
        """Return the future of the reply to a request."""
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._replies[request] = future
        return future

    def forget(self, request: str) -> None:
        """Stop waiting for a reply: the asker has gone."""
        self._replies.pop(request, None)

    def carry_out(self, effects: Sequence[Effect]) -> None:
        """Begin to carry out effects that are durable now.

        Once this closes they are for the next start: they would run into engines that are closed.
        """
        for effect in effects:
            if isinstance(effect, Reply):
                self._reply(effect)
            elif isinstance(effect, Relist):
                self._hands.relist(effect.node)
            elif isinstance(effect, Trigger):
                self._hands.trigger(effect)
            elif isinstance(effect, Abort):
                self._abort(effect.effect)
            elif self._is_closing:
                continue
            elif effect.kind in QUESTIONS:
                self._spawn(effect)
            else:
                self._lane(effect).put(effect)

    def _lane(self, effect: DurableEffect | Question) -> _Lane:
        if effect.kind in POWER:
            return self._power
        return self._ends if effect.kind in ENDS else self._rest

    @property
    def _lanes(self) -> tuple[_Lane, ...]:
        return self._power, self._ends, self._rest

    def _reply(self, effect: Reply) -> None:
        future = self._replies.pop(effect.request, None)
        if future is not None and not future.done():
            future.set_result(effect.value)

    def _spawn(self, effect: DurableEffect | Question) -> asyncio.Task[None]:
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
        return task

    def _abort(self, key: str) -> None:
        """Cancel what carries out an effect; what it holds is let go of before its end is told."""
        waiting = next((one for lane in self._lanes if (one := lane.take(key))), None)
        if waiting is not None:  # begun at once, that it ends as any other
            self._spawn(waiting)
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
        return len(self._tasks) + sum(map(len, self._lanes))

    async def close(self, grace_s: float) -> None:
        """Let what is under way end within ``grace_s``; the rest is resolved at the next start.

        Questions are not waited for: they are asked again then.
        """
        self._is_closing = True
        for lane in self._lanes:
            lane.close()
        deeds = [task for task in self._tasks if task.get_name() not in QUESTIONS]
        if deeds:
            await asyncio.wait(deeds, timeout=grace_s)
        await asyncio.sleep(0)  # what has not begun cannot be cancelled without a warning
        await end(list(self._tasks))
