"""A real engine that dies, freezes or is cut off: what is certain, what is not, and how soon."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenure.engines.engine import Engine
from tenure.engines.http.errors import EngineUnreachable
from tenure.engines.http.transport import Timeouts
from tenure.model.effects import OneEngineEffect
from tenure.model.errors import EngineError, EngineUnclear
from tenure.model.facts import ContainerFacts
from tenure.model.outcome import Done, Refused, Unknown
from testbed import Node, Testbed, docker_api, tasks
from tests.engines.conftest import QUICK
from tests.engines.lab import Kept, Lab, body, create, eventually, policy, retire, start, stop

pytestmark = [pytest.mark.engines, pytest.mark.faults, pytest.mark.timeout(600)]


@pytest.fixture
def timeouts() -> Timeouts:
    return QUICK


async def _open_events(engine: Engine) -> asyncio.Task[None]:
    """Return a task that follows the events of an engine, once their stream is open."""
    opened = asyncio.Event()

    async def follow() -> None:
        async for _ in engine.events(on_open=opened.set):
            continue

    task = asyncio.create_task(follow())
    await opened.wait()
    return task


def _every_effect(engine_id: str) -> tuple[OneEngineEffect, ...]:
    return (
        create("latecomer", body("true")),
        start(engine_id),
        stop(engine_id),
        policy(engine_id, "no"),
    )


BEATS = "echo x >/beats/{0}; while :; do echo x >>/beats/{0}; sleep 0.05; done"


async def _run_unseen(bed: Testbed, engine: Engine, lab: Lab, beats: Path) -> tuple[str, Path]:
    """Kill an engine amid a start until its containerd runs what it does not know to run."""
    node = bed.nodes["node1"]
    for number in range(40):
        file = beats / f"torn{number}"
        command = ("sh", "-c", BEATS.format(file.name))
        host = {"HostConfig": {"Binds": [f"{beats}:/beats"], "Init": True}}
        engine_id = await lab.created(file.name, *command, **host)
        path = f"/containers/{engine_id}/start"
        call = asyncio.create_task(asyncio.to_thread(docker_api.call, node.socket, "POST", path))
        while not _is_there(file) and not call.done():  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(0)
        bed.kill_engine("node1")
        await asyncio.gather(call, return_exceptions=True)
        await asyncio.to_thread(bed.restart_engine, "node1")
        if await _is_torn(engine, engine_id):
            return engine_id, file
        await engine.perform(retire(engine_id))
    raise AssertionError("no start was cut in the moment")


async def _is_torn(engine: Engine, ref: str) -> bool:
    """Return whether the engine, which comes back, shows a start as cut."""
    facts = await eventually(lambda: _seen(engine, ref))
    return facts is not None and facts.is_torn


async def _seen(engine: Engine, ref: str) -> ContainerFacts | None:
    try:
        return await engine.inspect(ref)
    except EngineError:
        return None


@pytest.mark.parametrize("has_shim", [True, False], ids=["shim answers", "shim is silent"])
async def test_what_runs_unseen_is_not_removed_until_somebody_ended_it(
    bed: Testbed, engine: Engine, lab: Lab, tmp_path: Path, *, has_shim: bool
) -> None:
    """Docker 20.10 removes it with a 204, and its process runs on.

    A shim that answers nobody, as one that missed an exit does, is ended with what it keeps.
    """
    engine_id, file = await _run_unseen(bed, engine, lab, tmp_path)
    await eventually(lambda: _grows(file))  # its process runs
    for effect in (retire(engine_id), start(engine_id), retire(engine_id)):
        outcome = await engine.perform(effect)
        assert isinstance(outcome, Refused)
        assert outcome.code == "start_blocked"
    assert await engine.inspect(engine_id) is not None
    (shim,) = tasks.shims(bed.layout, "node1", engine_id)
    if not has_shim:
        os.kill(shim, signal.SIGSTOP)
    await asyncio.to_thread(bed.clear_task, "node1", engine_id)
    assert tasks.shims(bed.layout, "node1", engine_id) == []
    await eventually(lambda: _seen(engine, engine_id))
    assert not await _grows(file)
    assert await engine.perform(retire(engine_id)) == Done()
    assert await engine.inspect(engine_id) is None


async def _grows(file: Path) -> bool:
    """Whether the process still writes: it does so every 0.05 s."""
    before = _size(file)
    await asyncio.sleep(0.5)
    return _size(file) > before


def _is_there(file: Path) -> bool:
    return file.exists()


def _size(file: Path) -> int:
    return file.stat().st_size


async def test_a_killed_engine_ends_its_streams_with_an_error(
    bed: Testbed, engine: Engine, lab: Lab
) -> None:
    engine_id = await lab.running("survivor", "sh", "-c", "while :; do echo x; sleep 0.1; done")
    events = await _open_events(engine)
    logs = asyncio.create_task(_drain(engine.follow_logs(engine_id)))
    await asyncio.sleep(0.3)
    bed.kill_engine("node1")
    for stream in (events, logs):
        with pytest.raises(EngineError):
            await asyncio.wait_for(stream, 20)
    with pytest.raises(EngineUnreachable):
        await engine.listing()
    bed.restart_engine("node1")
    facts = await engine.inspect(engine_id)
    assert facts is not None
    assert facts.is_running


async def _drain(stream: Any) -> None:
    async for _ in stream:
        continue


async def test_a_proper_stop_of_the_engine_ends_its_streams_with_an_error(
    bed: Testbed, engine: Engine, lab: Lab
) -> None:
    engine_id = await lab.running("lasting")
    events = await _open_events(engine)
    logs = asyncio.create_task(_drain(engine.follow_logs(engine_id)))
    await asyncio.sleep(0.3)
    await asyncio.to_thread(bed.restart_engine, "node1")
    for stream in (events, logs):
        with pytest.raises(EngineError):
            await asyncio.wait_for(stream, 20)


async def test_nothing_was_sent_to_an_engine_that_is_gone(
    bed: Testbed, engine: Engine, lab: Lab
) -> None:
    engine_id = await lab.created("untouched", "sleep", "1000")
    bed.kill_engine("node1")
    for effect in (*_every_effect(engine_id), retire(engine_id)):
        outcome = await engine.perform(effect)
        assert isinstance(outcome, Refused)
        assert outcome.code == "unreachable"
    bed.restart_engine("node1")
    (facts,) = await engine.listing()
    assert (facts.name, facts.state) == ("untouched", "created")


async def test_nothing_was_sent_over_a_cut_link(bed: Testbed, engine: Engine, lab: Lab) -> None:
    engine_id = await lab.created("apart", "sleep", "1000")
    bed.cut("node1")
    outcomes = await asyncio.gather(*(engine.perform(e) for e in _every_effect(engine_id)))
    assert {type(outcome) for outcome in outcomes} == {Refused}
    assert {outcome.code for outcome in outcomes if isinstance(outcome, Refused)} == {"unreachable"}
    bed.heal("node1")

    async def answers() -> bool:
        try:
            await engine.ping()
        except EngineError:
            return False
        return True

    await eventually(answers)
    (facts,) = await engine.listing()
    assert facts.state == "created"


async def test_a_cut_link_ends_a_quiet_stream(bed: Testbed, engine: Engine) -> None:
    events = await _open_events(engine)
    bed.cut("node1")
    with pytest.raises(EngineError):
        await asyncio.wait_for(events, 20)


async def test_a_quiet_stream_of_a_healthy_engine_stays_open(engine: Engine) -> None:
    events = await _open_events(engine)
    await asyncio.sleep(3 * QUICK.quiet_s)
    assert not events.done()
    events.cancel()
    with pytest.raises(asyncio.CancelledError):
        await events


async def test_a_frozen_engine_times_out_and_slows_nobody(
    bed: Testbed, engine: Engine, neighbour: Engine
) -> None:
    await engine.ping()
    events = await _open_events(engine)
    bed.freeze("node1")
    calls: list[Coroutine[Any, Any, object]] = [engine.ping(), engine.facts(), engine.images()]
    calls += [engine.listing() for _ in range(200)]
    frozen = asyncio.gather(*calls, return_exceptions=True)
    answered = 0
    while not frozen.done():
        await neighbour.listing()
        answered += 1
        await asyncio.sleep(0.01)
    assert answered > 2, "the other engine waited for this one"
    async with asyncio.timeout(12 * QUICK.read_s):  # eight at a time: twice as long and more
        assert all(isinstance(answer, EngineUnclear) for answer in await frozen)
    with pytest.raises(EngineUnclear):
        await asyncio.wait_for(events, 20)


async def test_a_start_that_timed_out_happens_after_the_thaw(
    bed: Testbed, engine: Engine, lab: Lab
) -> None:
    engine_id = await lab.created("late", "sleep", "1000")
    bed.freeze("node1")
    assert isinstance(await engine.perform(start(engine_id)), Unknown)
    bed.thaw("node1")

    async def is_running() -> bool:
        facts = await engine.inspect(engine_id)
        return facts is not None and facts.is_running

    await eventually(is_running)


async def test_a_create_that_timed_out_happens_after_the_thaw_and_is_adopted(
    bed: Testbed, engine: Engine
) -> None:
    await engine.ping()
    effect = create("overdue", body("true"))
    bed.freeze("node1")
    assert isinstance(await engine.perform(effect), Unknown)
    bed.thaw("node1")

    async def exists() -> bool:
        return await engine.inspect("overdue") is not None

    await eventually(exists)
    again = await engine.perform(replace(effect, id="second"))
    facts = await engine.inspect("overdue")
    assert facts is not None
    assert again == Done(facts.engine_id)
    assert len(await engine.listing()) == 1


@pytest.mark.parametrize("kind", ["stop", "retire", "policy"])
async def test_what_times_out_is_unknown(bed: Testbed, engine: Engine, lab: Lab, kind: str) -> None:
    engine_id = await lab.running("held")
    effects: dict[str, OneEngineEffect] = {
        "stop": stop(engine_id),
        "retire": retire(engine_id),
        "policy": policy(engine_id, "no"),
    }
    bed.freeze("node1")
    assert isinstance(await engine.perform(effects[kind]), Unknown)


async def test_a_link_that_breaks_under_a_call_leaves_it_unknown(
    bed: Testbed, engine: Engine, lab: Lab
) -> None:
    engine_id = await lab.running(
        "stubborn",
        "sh",
        "-c",
        "trap 'echo asked' TERM; echo deaf; while :; do sleep 0.1; done",
        HostConfig={"Init": False},
    )
    await eventually(lambda: _said(engine, engine_id, b"deaf\n"))
    stopping = asyncio.create_task(engine.perform(stop(engine_id, grace_s=60)))
    await eventually(lambda: _said(engine, engine_id, b"deaf\nasked\n"))
    bed.kill_engine("node1")
    assert isinstance(await asyncio.wait_for(stopping, 20), Unknown)


async def _said(engine: Engine, engine_id: str, words: bytes) -> bool:
    return await engine.logs(engine_id) == words


async def test_a_retirement_that_began_is_never_called_untouched(
    bed: Testbed, engine: Engine, lab: Lab
) -> None:
    """The engine dies between the stop and the removal: "unreachable" would be a lie."""
    engine_id = await lab.exited("half", "echo", "x")

    class Breaking(Kept):
        async def save(self, key: str, content: bytes) -> None:
            await asyncio.to_thread(bed.kill_engine, "node1")

    breaking = Engine(bed.nodes["node1"].url, Breaking().save, timeouts=QUICK)
    outcome = await breaking.perform(retire(engine_id.engine_id, "key"))
    await breaking.close()
    assert isinstance(outcome, Unknown)


async def test_calls_that_find_no_slot_were_not_sent(
    bed: Testbed, node: Node, kept: Kept, lab: Lab
) -> None:
    engine_id = await lab.created("queued", "sleep", "1000")
    engine = Engine(node.url, kept.save, timeouts=replace(QUICK, slot_s=0.5))
    await engine.ping()
    bed.freeze("node1")
    outcomes = await asyncio.gather(*(engine.perform(start(engine_id)) for _ in range(12)))
    assert sum(isinstance(outcome, Unknown) for outcome in outcomes) == 8
    assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 4
    await engine.close()


async def test_an_effect_can_be_cancelled(bed: Testbed, engine: Engine, lab: Lab) -> None:
    engine_id = await lab.running("cancelled")
    bed.freeze("node1")
    task = asyncio.create_task(engine.perform(stop(engine_id)))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_engine_that_was_upgraded_is_asked_again(bed: Testbed, engine: Engine) -> None:
    first = await engine.facts()
    bed.restart_engine("node1")
    again = await engine.facts()
    assert replace(again, clock_us=first.clock_us) == first
    assert first.clock_us is not None
    assert again.clock_us is not None
    assert again.clock_us > first.clock_us
