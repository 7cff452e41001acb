"""Short ways to make containers and to wait for what they do."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tenure.engines.engine import Engine
from tenure.model.effects import (
    CreateContainer,
    RetireContainer,
    SetRestartPolicy,
    StartContainer,
    StopContainer,
)
from tenure.model.facts import LABEL_ATTEMPT, LABEL_EXECUTOR, LABEL_FLEET, LABEL_JOB, ContainerFacts
from tenure.model.outcome import Done
from testbed import IMAGE

T = TypeVar("T")
_numbers = itertools.count(1)


class Kept:
    """A place for logs; set ``failure`` to have it refuse."""

    def __init__(self) -> None:
        self.logs: dict[str, bytes] = {}
        self.failure: Exception | None = None

    async def save(self, key: str, content: bytes) -> None:
        if self.failure is not None:
            raise self.failure
        self.logs[key] = content


def labels(job: str = "job1", executor: int = 0, attempt: int = 1) -> dict[str, str]:
    return {
        LABEL_FLEET: "fleet1",
        LABEL_JOB: job,
        LABEL_EXECUTOR: str(executor),
        LABEL_ATTEMPT: str(attempt),
    }


def body(*command: str, **more: Any) -> dict[str, Any]:
    """A create body of ours; PID 1 is an init, so that signals end the container."""
    host = {"Init": True, **more.pop("HostConfig", {})}
    return {
        "Image": IMAGE,
        "Cmd": list(command),
        "Labels": labels(),
        "StopTimeout": 1,
        "HostConfig": host,
        **more,
    }


def create(name: str, content: dict[str, Any], *, pull: bool = False) -> CreateContainer:
    return CreateContainer(_id(), "job1/0", "node1", name, content, pull)


def start(engine_id: str) -> StartContainer:
    return StartContainer(_id(), "job1/0", "node1", engine_id)


def stop(engine_id: str, grace_s: int = 1) -> StopContainer:
    return StopContainer(_id(), "job1/0", "node1", engine_id, grace_s)


def retire(target: str, logs_key: str = "") -> RetireContainer:
    return RetireContainer(_id(), "job1/0", "node1", target, 1, logs_key)


def policy(engine_id: str, name: str) -> SetRestartPolicy:
    return SetRestartPolicy(_id(), "job1/0", "node1", engine_id, {"Name": name})


def _id() -> str:
    return f"effect{next(_numbers)}"


async def eventually(look: Callable[[], Awaitable[T]], timeout_s: float = 30.0) -> T:
    """Return the first true answer of ``look``; fail with the last one after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not (last := await look()):
        assert time.monotonic() < deadline, f"still {last!r} after {timeout_s} s"
        await asyncio.sleep(0.02)
    return last


class Lab:
    """Containers on one engine, made through the port."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def created(self, name: str, *command: str, **more: Any) -> str:
        outcome = await self._engine.perform(create(name, body(*command, **more)))
        assert isinstance(outcome, Done), outcome
        return outcome.value

    async def running(self, name: str, *command: str, **more: Any) -> str:
        engine_id = await self.created(name, *(command or ("sleep", "1000")), **more)
        outcome = await self._engine.perform(start(engine_id))
        assert outcome == Done(), outcome
        return engine_id

    async def run_out(self, engine_id: str) -> ContainerFacts:
        """Start a container that was created, and wait for its end."""
        assert await self._engine.perform(start(engine_id)) == Done()

        async def ended() -> ContainerFacts | None:
            facts = await self._engine.inspect(engine_id)
            return facts if facts and facts.state == "exited" else None

        facts = await eventually(ended)
        assert facts is not None
        return facts

    async def log_of(self, engine_id: str) -> bytes:
        return await self._engine.logs(engine_id)

    async def exited(self, name: str, *command: str, **more: Any) -> ContainerFacts:
        return await self.run_out(await self.created(name, *command, **more))
