"""Whoever else there is gets a turn while a large transaction is handled and its effects begin."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from tenure.core.fleet import FleetState
from tenure.core.state.params import Params
from tenure.daemon.events import interpreter as interpreter_module
from tenure.daemon.events import loop as core_loop
from tenure.daemon.events.clock import Clock
from tenure.daemon.events.interpreter import STARTS, TURNS, Hands, Interpreter
from tenure.daemon.events.loop import CoreLoop
from tenure.locality.localizer import Tiers
from tenure.model.effects import Abort, Effect, PlanBatches, StartContainer
from tenure.model.errors import Unavailable
from tenure.model.events import Configured, Event, PowerNode, Tick
from tenure.model.node import NodeSpec
from tenure.model.outcome import Done, Outcome
from tenure.model.planning import PlanQuestion
from tenure.placement.policies import Policies

EVENTS = 40


class Book:
    """Counts commits, and what they held."""

    def __init__(self) -> None:
        self.commits: list[int] = []

    def commit(self, records: Any, events: Any = ()) -> None:
        self.commits.append(len(records.get("nodes", {})))


async def rounds_while(work: asyncio.Task[Any]) -> int:
    """Return how many rounds of the loop others had until some work ended."""
    count = 0
    while not work.done():
        await asyncio.sleep(0)
        count += 1
    return count


@pytest.mark.parametrize(("hold_s", "is_shared"), [(0.0, True), (3600.0, False)])
async def test_others_are_heard_amid_one_transaction(
    monkeypatch: pytest.MonkeyPatch, hold_s: float, is_shared: bool
) -> None:
    monkeypatch.setattr(core_loop, "HOLD_S", hold_s)
    book, left = Book(), list[Effect]()
    state = FleetState(Params(), Policies, localizer=Tiers(), fleet="f")

    def take(effects: Sequence[Effect]) -> None:
        left.extend(effects)

    loop = CoreLoop(state, book, Clock(), take)
    nodes: tuple[NodeSpec, ...] = ()
    try:
        await loop.start()
        book.commits.clear()
        events: list[Event] = []
        for number in range(EVENTS):
            nodes = (*nodes, NodeSpec(f"n{number}", "tcp://n", "young"))
            events.append(Configured(at_us=7, nodes=nodes))
        handling = asyncio.create_task(loop._handle(events))
        rounds = await rounds_while(handling)
        await handling
        assert (rounds > EVENTS) is is_shared
        assert book.commits == []  # it is one transaction, whoever looked meanwhile
        assert len(state.take_changes().records["nodes"]) == EVENTS
        assert loop.stats.handle_s > 0
    finally:
        loop.close()


async def test_what_the_core_took_is_told_to_who_asked_for_it() -> None:
    state = FleetState(Params(), Policies, localizer=Tiers(), fleet="f")
    loop = CoreLoop(state, Book(), Clock(), lambda effects: None)
    asked, other = list[float](), list[float]()
    try:
        await loop.start()
        order = PowerNode(at_us=7, request="r1", node="n", to="off")
        with loop.metered("r1", asked.append), loop.metered("r2", other.append):
            before_s = loop.stats.handle_s
            await loop._enact([Tick(at_us=7), order, Tick(at_us=7), Tick(at_us=7)])
        took_s = loop.stats.handle_s - before_s
        assert asked == [pytest.approx(took_s / 4)]
        assert not other
        await loop._enact([order])
        assert len(asked) == 1, "nobody waits for it any more"
    finally:
        loop.close()


class Engines:
    """Notes in which round of the loop each effect began."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.hung: set[str] = set()
        self.most = 0
        self._round = 0

    async def perform(self, effect: StartContainer) -> Outcome:
        if effect.node in self.hung:
            await asyncio.Event().wait()
        if not self._round:
            asyncio.get_running_loop().call_soon(self._end_round)
        self._round += 1
        self.most = max(self.most, self._round)
        self.begun.append(effect.id)
        return Done()

    def _end_round(self) -> None:
        self._round = 0

    async def plan(self, effect: PlanBatches) -> Outcome:
        self.begun.append(effect.id)
        return Done()


async def test_a_disk_that_stays_full_is_a_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(core_loop, "COMMIT_RETRY_S", 0)
    caplog.set_level("INFO")
    said = ["disk full"] * 130 + ["read-only"] * 2

    class Failing(Book):
        def commit(self, records: Any, events: Any = ()) -> None:
            if said:
                raise Unavailable(said.pop(0))

    state = FleetState(Params(), Policies, localizer=Tiers(), fleet="f")
    loop = CoreLoop(state, Failing(), Clock(), lambda effects: None)
    try:
        await loop._commit({}, ())
    finally:
        loop.close()
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[1].split(";")[0].strip() for line in lines[:-1]] == [
        *["disk full"] * 3,
        "read-only",
    ]
    assert lines[-1] == "what is new is stored again, after 132 tries"
    assert loop.stats.commit_error == ""


async def test_who_asks_is_told_at_once_that_nothing_can_be_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core_loop, "COMMIT_RETRY_S", 0)
    is_full = True

    class Full(Book):
        def commit(self, records: Any, events: Any = ()) -> None:
            if is_full:
                raise Unavailable("disk full: make room")

    state = FleetState(Params(), Policies, localizer=Tiers(), fleet="f")
    loop = CoreLoop(state, Full(), Clock(), lambda effects: None)
    loop.require_storing()
    waiting = asyncio.ensure_future(loop.answered(asyncio.get_running_loop().create_future()))
    committing = asyncio.ensure_future(loop._commit({}, ()))
    try:
        async with asyncio.timeout(30):
            with pytest.raises(Unavailable, match="disk full: make room; it may still be") as cut:
                await waiting
            assert (cut.value.code, cut.value.http_status) == ("store_failing", 503)
            with pytest.raises(Unavailable, match="nothing can be changed") as refused:
                loop.require_storing()
            assert refused.value.code == "store_failing"
            is_full = False
            await committing
            loop.require_storing()
            reply = asyncio.get_running_loop().create_future()
            reply.set_result("done")
            assert await loop.answered(reply) == "done"
    finally:
        loop.close()


def starts(count: int, node: str = "n") -> list[Effect]:
    return [StartContainer(f"e{number}", "task:b/0", node, "c") for number in range(count)]


async def test_effects_begin_in_their_order_and_not_all_in_one_round() -> None:
    engines, ended = Engines(), asyncio.Semaphore(0)
    interpreter = Interpreter(cast("Hands", engines), lambda make: ended.release())
    interpreter.carry_out(starts(50))
    interpreter.carry_out(starts(60)[50:])
    assert interpreter.open == 60
    async with asyncio.timeout(60):
        for _ in range(60):
            await ended.acquire()
    assert engines.begun == [f"e{number}" for number in range(60)]
    assert engines.most <= 2 * STARTS  # a round may see the end of one lot and the next begin
    interpreter.carry_out(starts(1))  # and it goes on
    async with asyncio.timeout(60):
        await ended.acquire()
    await interpreter.close(grace_s=1)


async def test_what_is_due_at_the_close_is_begun_and_waited_for() -> None:
    engines = Engines()
    ends: list[Any] = []
    interpreter = Interpreter(cast("Hands", engines), ends.append)
    interpreter.carry_out(starts(100))
    async with asyncio.timeout(60):
        await interpreter.close(grace_s=10)
    assert (len(engines.begun), len(ends), interpreter.open) == (100, 100, 0)


async def test_nothing_begins_any_more_once_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter_module, "TURN_S", 0.01)
    engines = Engines()
    engines.hung.add("hung")
    interpreter = Interpreter(cast("Hands", engines), lambda make: None)
    interpreter.carry_out(starts(1, "hung"))
    await asyncio.sleep(0)
    closing = asyncio.create_task(interpreter.close(grace_s=0.05))
    await asyncio.sleep(0)
    interpreter.carry_out([*starts(TURNS, "hung"), *starts(1)])
    await closing
    await asyncio.sleep(0.03)
    assert (engines.begun, interpreter.open) == ([], 0)


async def test_a_node_that_hangs_holds_up_others_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interpreter_module, "TURN_S", 0.02)
    engines, ended = Engines(), asyncio.Semaphore(0)
    engines.hung.add("hung")
    interpreter = Interpreter(cast("Hands", engines), lambda make: ended.release())
    interpreter.carry_out([*starts(3 * TURNS, "hung"), *starts(3)])
    async with asyncio.timeout(60):
        for _ in range(3):
            await ended.acquire()
    assert engines.begun == ["e0", "e1", "e2"]
    await interpreter.close(grace_s=0)
    assert interpreter.open == 0


async def test_a_question_waits_for_no_turn() -> None:
    """Its asker waits for some seconds; a thousand effects of slow engines take longer."""
    engines = Engines()
    engines.hung.add("hung")
    interpreter = Interpreter(cast("Hands", engines), lambda make: None)
    interpreter.carry_out(starts(20 * TURNS, "hung"))
    question = PlanQuestion(0, 0, (), ())
    interpreter.carry_out([PlanBatches("q", "plan:all", question, limit_s=2.0)])
    await asyncio.sleep(0)
    assert engines.begun == ["q"]
    await interpreter.close(grace_s=0)


async def test_no_more_are_under_way_than_there_are_turns() -> None:
    engines = Engines()
    engines.hung.add("hung")
    interpreter = Interpreter(cast("Hands", engines), lambda make: None)
    interpreter.carry_out(starts(3 * TURNS, "hung"))
    for _ in range(3 * TURNS):
        await asyncio.sleep(0)
    assert len(interpreter._tasks) == TURNS
    await interpreter.close(grace_s=0)


async def test_one_that_is_given_up_before_its_turn_ends_and_the_next_begin() -> None:
    engines, ends = Engines(), list[Any]()
    engines.hung.add("hung")
    interpreter = Interpreter(cast("Hands", engines), ends.append)
    interpreter.carry_out([*starts(TURNS, "hung"), StartContainer("late", "task:b/0", "hung", "c")])
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert interpreter.open == TURNS + 1
    interpreter.carry_out([Abort("late"), *(Abort(f"e{number}") for number in range(TURNS))])
    async with asyncio.timeout(60):
        while True:
            if len(ends) == TURNS + 1:
                break
            await asyncio.sleep(0.01)
    interpreter.carry_out(starts(1))
    async with asyncio.timeout(60):
        while True:
            if len(ends) == TURNS + 2:
                break
            await asyncio.sleep(0.01)
    assert engines.begun == ["e0"]
    await interpreter.close(grace_s=1)
