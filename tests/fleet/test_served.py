"""Simulated engines on their sockets, asked by the daemon's own engine adapter."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tenure.engines.engine import Engine
from tenure.model.document import text
from tenure.model.effects import (
    CreateContainer,
    RetireContainer,
    SetRestartPolicy,
    StartContainer,
    StopContainer,
)
from tenure.model.facts import LABEL_EXECUTOR, LABEL_FLEET, LABEL_JOB
from tenure.model.outcome import Done, Refused
from tenure.model.resources import Resources
from tenure.model.units import MIB
from tenure.profiling.readings.decode import decode_stats, difference
from tests.fleet.machine import Machine
from tests.fleet.served import ServedFleet

IMAGE = "simulated:1"
SIZE = Resources(4000, 8192 * MIB)
LABELS = {LABEL_FLEET: "f", LABEL_JOB: "j", LABEL_EXECUTOR: "0"}


async def no_log(key: str, content: bytes) -> None:
    """Keep no log."""


def create(name: str = "one", image: str = IMAGE, **labels: str) -> CreateContainer:
    body = {"Image": image, "Cmd": ["serve", "-1"], "Labels": {**LABELS, **labels}}
    return CreateContainer("e1", "j/0", "n", name, body, False)


async def eventually(look: Callable[[], Awaitable[Any]]) -> Any:
    end_s = time.monotonic() + 60
    while not (found := await look()):
        assert time.monotonic() < end_s, "waited in vain"
        await asyncio.sleep(0.01)
    return found


@pytest.fixture
async def fleet() -> AsyncIterator[ServedFleet]:
    with tempfile.TemporaryDirectory(prefix="tns-") as folder:
        made = ServedFleet(Path(folder), stats_s=0.02)
        made.add("n", SIZE, (IMAGE,))
        made.add("other", SIZE, ())
        await made.start()
        yield made
        await made.close()


@pytest.fixture
def machine(fleet: ServedFleet) -> Machine:
    return fleet.machines["n"]


@pytest.fixture
async def engine(fleet: ServedFleet) -> AsyncIterator[Engine]:
    made = Engine(f"unix://{fleet.folder}/n.sock", no_log)
    yield made
    await made.close()


async def running(engine: Engine) -> str:
    made = await engine.perform(create())
    assert isinstance(made, Done)
    assert await engine.perform(StartContainer("e2", "j/0", "n", made.value)) == Done()
    return made.value


async def test_each_socket_is_an_engine_of_its_own(fleet: ServedFleet, engine: Engine) -> None:
    facts = await engine.facts()
    assert (facts.engine_id, facts.capacity, facts.images) == (
        "engine-n",
        SIZE,
        (f"sha256:{IMAGE}", IMAGE),
    )
    other = Engine(f"unix://{fleet.folder}/other.sock", no_log)
    assert (await other.facts()).engine_id == "engine-other"
    assert await other.perform(create()) == Refused("no_image", "no_image")
    await other.close()


async def test_a_container_from_create_to_removal(engine: Engine, machine: Machine) -> None:
    key = await running(engine)
    (listed,) = await engine.listing(is_fresh=True)
    assert (listed.engine_id, listed.state, listed.labels) == (key, "running", LABELS)
    assert listed.started_us == machine.containers[key].started_us
    assert await engine.perform(create()) == Done(key)  # the same copy again
    another = await engine.perform(create(**{LABEL_EXECUTOR: "1"}))
    assert isinstance(another, Refused)
    assert another.code == "name_taken"
    policy = SetRestartPolicy("e3", "j/0", "n", key, {"Name": "always"})
    assert await engine.perform(policy) == Done()
    assert machine.containers[key].policy == {"Name": "always"}
    assert await engine.perform(StopContainer("e4", "j/0", "n", key, 1)) == Done()
    stopped = await engine.inspect(key)
    assert stopped is not None
    assert (stopped.state, stopped.exit_code) == ("exited", 143)
    assert await engine.perform(RetireContainer("e5", "j/0", "n", key, 1, "")) == Done()
    assert await engine.inspect(key) is None
    gone = await engine.perform(StartContainer("e6", "j/0", "n", key))
    assert isinstance(gone, Refused)
    assert gone.code == "no_such_container"


async def test_events_tell_of_what_happens(engine: Engine) -> None:
    seen: list[tuple[str, str]] = []
    is_open = asyncio.Event()

    async def follow() -> None:
        async with aclosing(engine.events(on_open=is_open.set)) as events:
            async for event in events:
                assert text(event, "Actor", "Attributes", LABEL_FLEET) == "f"
                seen.append((text(event, "Action"), text(event, "Actor", "ID")))

    following = asyncio.create_task(follow())
    await is_open.wait()
    key = await running(engine)
    await engine.perform(RetireContainer("e5", "j/0", "n", key, 1, ""))

    async def is_told() -> bool:
        return [action for action, _ in seen] == ["create", "start", "die", "destroy"]

    await eventually(is_told)
    assert {who for _, who in seen} == {key}
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_statistics_grow_with_time(engine: Engine) -> None:
    key = await running(engine)
    older = decode_stats((await engine.stats_once([key]))[key])
    newer = decode_stats((await engine.stats_once([key]))[key])
    assert older is not None
    assert newer is not None
    sample = difference(older, newer)
    assert sample is not None
    assert sample.use.cpu_m in (50, 51)  # rates are rounded up
    assert await engine.stats_once(["absent"]) == {}


async def test_a_container_that_dies_is_started_again(
    fleet: ServedFleet, engine: Engine, machine: Machine
) -> None:
    key = await running(engine)
    await engine.perform(SetRestartPolicy("e3", "j/0", "n", key, {"Name": "always"}))
    dying = asyncio.create_task(fleet.restart_some(1000.0, Random(1)))

    async def is_revived() -> bool:
        return machine.containers[key].life >= 2

    await eventually(is_revived)
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
