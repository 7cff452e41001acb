"""The solver's child: what it answers, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tenure.daemon.children.solver import Solver, answer_to, question_of
from tenure.daemon.events.interpreter import Hands, Interpreter
from tenure.model.effects import Decide
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.placing import Ask, ClusterView, Placed
from tenure.placement.policies import Policies
from tests.unit.placement.build import N, ask_of, view_of

pytest.importorskip("scipy")


def cluster() -> ClusterView:
    dear = [N(f"c{k}", 8, usd_per_h=2, is_cloud=True, boot_s=5, is_on=False) for k in range(3)]
    return view_of([*dear, N("a", 4), N("b", 4, free_cores=2), N("off", 8, is_on=False, boot_s=9)])


def question(*, executors: int = 5, limit_s: float = 60, policy: str = "milp") -> Decide:
    view = cluster()
    ask: Ask = ask_of(view, executors, cores=2, local_s=100, hybrid_s=130, deadline_s=1000)
    return Decide("e1", "decision:one", policy, view, ask, 0, limit_s)


def placed(outcome: object) -> Placed:
    assert isinstance(outcome, Done)
    asked = question()
    found = Policies().recheck(asked.view, asked.ask, outcome.counts, 0)
    assert found is not None
    return found


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - the end of a process is no event of ours
            await asyncio.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_question_and_its_answer_are_lines() -> None:
    line = question_of(question())
    assert line.count(b"\n") == 1
    words = json.loads(answer_to(line.decode()))
    exact = Policies().place("exact", question().view, question().ask, 0)
    assert isinstance(exact, Placed)
    assert placed(Done(counts=tuple(map(tuple, words["counts"])))).cost_nano == exact.cost_nano


def test_a_policy_that_needs_none_is_refused() -> None:
    words = json.loads(answer_to(question_of(question(policy="gio")).decode()))
    assert words["code"] == "no_solver"


async def test_one_child_answers_one_question_after_the_other() -> None:
    solver = Solver()
    try:
        first, second = await asyncio.gather(
            solver.decide(question()), solver.decide(question(executors=100))
        )
        assert placed(first).mode == "local"
        assert second == Done()  # there is no room for so many
        pid = solver.pid
        await solver.decide(question())
        assert pid is not None
        assert solver.pid == pid
    finally:
        await solver.close()
    await until(lambda: is_gone(pid))


async def test_a_question_that_takes_too_long_ends_with_its_child() -> None:
    solver = Solver()
    try:
        outcome = await solver.decide(question(limit_s=0.01))
        assert isinstance(outcome, Refused)
        assert outcome.code == "no_optimum"
        assert solver.pid is None
        assert placed(await solver.decide(question())).mode == "local"
    finally:
        await solver.close()


async def test_the_time_of_a_question_begins_before_its_turn() -> None:
    solver = Solver()
    try:
        await solver.decide(question())
        assert solver.pid is not None
        os.kill(solver.pid, signal.SIGSTOP)
        asked = [asyncio.create_task(solver.decide(question(limit_s=0.5))) for _ in range(2)]
        assert isinstance(await asked[0], Refused)
        async with asyncio.timeout(60):  # no child is started for the second, nor waited for
            assert isinstance(await asked[1], Refused)
        assert solver.pid is None
    finally:
        await solver.close()


async def test_a_child_that_dies_leaves_its_question_unknown_and_the_next_one_answered() -> None:
    solver = Solver()
    try:
        await solver.decide(question())
        assert solver.pid is not None
        os.kill(solver.pid, signal.SIGSTOP)  # so that it is in the middle of the next question
        asking = asyncio.create_task(solver.decide(question()))
        await asyncio.sleep(0)
        os.kill(solver.pid, signal.SIGKILL)
        assert isinstance(await asking, Unknown)
        assert placed(await solver.decide(question())).mode == "local"
    finally:
        await solver.close()


async def test_a_child_without_questions_ends() -> None:
    solver = Solver(idle_s=0.01)
    await solver.decide(question())
    await until(lambda: solver.pid is None)
    await solver.close()


async def test_questions_under_way_at_the_close_end_unknown() -> None:
    solver = Solver()
    await solver.decide(question())
    assert solver.pid is not None
    os.kill(solver.pid, signal.SIGSTOP)
    asked = [asyncio.create_task(solver.decide(question())) for _ in range(2)]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await solver.close()
        outcomes = await asyncio.gather(*asked)
    assert all(isinstance(outcome, Unknown) for outcome in outcomes)
    assert solver.pid is None


async def test_the_daemon_ends_without_waiting_for_a_question() -> None:
    solver = Solver()
    pid = 0
    try:
        await solver.decide(question())
        assert solver.pid is not None
        pid = solver.pid
        os.kill(pid, signal.SIGSTOP)  # no answer will come
        interpreter = Interpreter(cast("Hands", solver), lambda make: None)
        interpreter.carry_out([question()])
        async with asyncio.timeout(60):
            await interpreter.close(grace_s=60)
        assert not interpreter.open
    finally:
        await solver.close()
    await until(lambda: is_gone(pid))
