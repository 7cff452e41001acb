"""The planner's child: what it answers, and which question counts."""

from __future__ import annotations

import asyncio
import json
import os
import signal

from tenure.daemon.children.planner import Planner, answer_to, question_of
from tenure.model.effects import PlanBatches
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.planning import BatchNeed, Offer, PlanQuestion, StageNeed
from tenure.model.units import MIB, US


def asked(
    key: str = "e1", *, count: int = 4, limit_s: float = 60, solver: str = "auto"
) -> PlanBatches:
    stage = StageNeed("s", count, 60 * US, 1000, MIB, 0, (), (0,), running=((0, 9 * US, 1),))
    offer = Offer("n", ((2, 2000, 64 * MIB), (1, 1000, 64 * MIB)), 1.5)
    batch = BatchNeed("b", "ann", (stage,))
    question = PlanQuestion(5 * US, 3600 * US, (offer,), (batch,), solver=solver)
    return PlanBatches(key, "planning:all", question, limit_s)


async def until_busy(planner: Planner) -> None:
    async with asyncio.timeout(60):
        while not planner.is_busy:  # noqa: ASYNC110 - that a question was sent is no event of ours
            await asyncio.sleep(0.01)


def test_a_question_and_its_answer_are_lines() -> None:
    line = question_of(asked())
    assert line.count(b"\n") == 1
    words = json.loads(answer_to(line.decode()))
    assert sum(start["count"] for start in words["schedules"][0]["starts"]) == 3


async def test_one_child_answers_one_question_after_the_other() -> None:
    planner = Planner()
    try:
        first = await planner.plan(asked())
        assert isinstance(first, Done)
        assert first.plan is not None
        (schedule,) = first.plan.schedules
        assert schedule.batch == "b"
        assert {start.node for start in schedule.starts} == {"n"}
        pid = planner.pid
        second = await planner.plan(asked("e2", count=100_000))
        assert isinstance(second, Done)
        assert second.plan is not None
        assert [code for _, code, _ in second.plan.refusals] == ["no_room"]
        assert planner.pid == pid
    finally:
        await planner.close()


async def test_a_later_question_takes_the_place_of_one_that_is_being_answered() -> None:
    planner = Planner()
    try:
        await planner.plan(asked())
        assert planner.pid is not None
        os.kill(planner.pid, signal.SIGSTOP)  # so that it is in the middle of the next question
        asking = asyncio.create_task(planner.plan(asked("e2")))
        await until_busy(planner)
        async with asyncio.timeout(60):
            newest = await planner.plan(asked("e3"))
            assert await asking == Refused("superseded")
        assert isinstance(newest, Done)
    finally:
        await planner.close()


async def test_a_question_is_overtaken_while_its_child_is_started() -> None:
    planner = Planner()
    try:
        asking = asyncio.create_task(planner.plan(asked()))
        async with asyncio.timeout(60):
            while not planner.is_busy:  # noqa: ASYNC110 - no pause: the child must not be there yet
                await asyncio.sleep(0)
            assert planner.pid is None
            newest = await planner.plan(asked("e2"))
        assert await asking == Refused("superseded")
        assert isinstance(newest, Done)
    finally:
        await planner.close()


async def test_a_child_that_dies_leaves_its_question_unknown_and_the_next_one_answered() -> None:
    planner = Planner()
    try:
        await planner.plan(asked())
        assert planner.pid is not None
        os.kill(planner.pid, signal.SIGSTOP)
        asking = asyncio.create_task(planner.plan(asked("e2")))
        await until_busy(planner)
        os.kill(planner.pid, signal.SIGKILL)
        assert isinstance(await asking, Unknown)
        assert isinstance(await planner.plan(asked("e3")), Done)
    finally:
        await planner.close()
