"""Pulls and questions to a registry that runs beside the engine, in its network namespace."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tenure.engines.engine import Engine
from tenure.engines.http.transport import Timeouts
from tenure.model.outcome import Done, Refused
from testbed import Node, Testbed, bounded, docker_api, tied
from tests.engines.conftest import QUICK
from tests.engines.lab import Kept, body, create, eventually
from tests.faults.tenured import until

pytestmark = pytest.mark.engines


@pytest.fixture
def timeouts() -> Timeouts:
    return QUICK


PORT = 15_000
HOST = f"127.0.0.1:{PORT}"
IMAGE = f"{HOST}/one/small:1"


@dataclass
class Server:
    process: subprocess.Popen[str]
    log: Path

    def requests(self) -> list[str]:
        return self.log.read_text().splitlines()[1:]

    async def is_sending(self) -> bool:
        return any("/blobs/" in line for line in self.requests())


def _serve(node: Node, folder: Path, delay_s: float) -> Iterator[Server]:
    log = folder / "registry.log"
    script = Path(__file__).with_name("registry_server.py")
    enter = ["nsenter", f"--net=/proc/{node.pid()}/ns/net"]
    with log.open("w") as output:
        process = tied.start(
            [*enter, sys.executable, str(script), str(PORT), str(delay_s)],
            stdout=output,
            text=True,
        )
    try:
        until(lambda: log.read_text().startswith("ready") or process.poll(), 20, "the registry")
        assert process.poll() is None
        yield Server(process, log)
    finally:
        process.kill()
        bounded.wait(process)
        docker_api.call(node.socket, "DELETE", f"/images/{IMAGE}?force=1")


@pytest.fixture
def server(node: Node, tmp_path: Path) -> Iterator[Server]:
    yield from _serve(node, tmp_path, 0.0)


@pytest.fixture
def slow_server(node: Node, tmp_path: Path) -> Iterator[Server]:
    yield from _serve(node, tmp_path, 3.0)


@pytest.fixture(autouse=True)
def proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that breaks every client which believes it."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/file.pem")
    monkeypatch.setenv("CURL_CA_BUNDLE", "/no/such/file.pem")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")


async def test_what_a_registry_has(engine: Engine, server: Server) -> None:
    assert await engine.has_registry_image(IMAGE) is True
    assert await engine.has_registry_image(f"{HOST}/one/small:2") is False
    assert await engine.has_registry_image(f"{HOST}/secret/one:1") is False
    assert await engine.has_registry_image("BAD NAME") is False
    assert await engine.has_registry_image("http://x/y") is False
    assert IMAGE not in await engine.images()


async def test_a_registry_that_is_down_is_no_answer(engine: Engine) -> None:
    assert await engine.has_registry_image(IMAGE) is None


async def test_create_pulls_if_it_may(engine: Engine, server: Server) -> None:
    content = body("true") | {"Image": IMAGE}
    outcome = await engine.perform(create("puller", content))
    assert isinstance(outcome, Refused)
    assert outcome.code == "no_image"
    assert server.requests() == []
    assert isinstance(await engine.perform(create("puller", content, pull=True)), Done)
    facts = await engine.inspect("puller")
    assert facts is not None
    assert facts.image == IMAGE
    images = await engine.images()
    assert IMAGE in images
    assert any(name.startswith(f"{HOST}/one/small@sha256:") for name in images)


async def test_a_pull_that_fails_is_no_image(engine: Engine, server: Server) -> None:
    for image in (f"{HOST}/one/small:2", f"{HOST}/secret/one:1", "127.0.0.1:9/x/y:1"):
        content = body("true") | {"Image": image}
        outcome = await engine.perform(create("hopeless", content, pull=True))
        assert isinstance(outcome, Refused)
        assert outcome.code == "no_image"
    assert await engine.inspect("hopeless") is None


async def test_equal_pulls_are_one(engine: Engine, slow_server: Server) -> None:
    content = body("true") | {"Image": IMAGE}
    effects = [create(f"pull{i}", content, pull=True) for i in range(6)]
    outcomes = await asyncio.gather(*(engine.perform(effect) for effect in effects))
    assert all(isinstance(outcome, Done) for outcome in outcomes)
    manifests = [line for line in slow_server.requests() if "/manifests/" in line]
    assert len(manifests) <= 2  # a HEAD and a GET of one pull


async def test_a_pull_keeps_no_slot_and_no_loop(engine: Engine, slow_server: Server) -> None:
    pulls = [
        asyncio.create_task(engine.perform(create(f"wait{i}", content, pull=True)))
        for i, content in enumerate([body("true") | {"Image": IMAGE}] * 10)
    ]
    await eventually(slow_server.is_sending)
    assert await engine.listing() == ()
    assert not any(task.done() for task in pulls), "it waited for them"
    assert all(isinstance(outcome, Done) for outcome in await asyncio.gather(*pulls))


async def test_a_cancelled_waiter_leaves_the_pull_to_the_others(
    engine: Engine, slow_server: Server
) -> None:
    content = body("true") | {"Image": IMAGE}
    first = asyncio.create_task(engine.perform(create("first", content, pull=True)))
    second = asyncio.create_task(engine.perform(create("second", content, pull=True)))
    await eventually(slow_server.is_sending)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert isinstance(await second, Done)


async def test_a_frozen_engine_ends_a_pull(
    bed: Testbed, engine: Engine, slow_server: Server
) -> None:
    content = body("true") | {"Image": IMAGE}
    task = asyncio.create_task(engine.perform(create("frozen", content, pull=True)))
    await eventually(slow_server.is_sending)
    bed.freeze("node1")
    async with asyncio.timeout(30):
        outcome = await task
    assert isinstance(outcome, Refused)  # nothing was created, nothing will be
    assert outcome.code == "unreachable"
    bed.thaw("node1")
    assert await engine.inspect("frozen") is None


async def test_close_gives_up_pulls(node: Node, kept: Kept, slow_server: Server) -> None:
    engine = Engine(node.url, kept.save, timeouts=QUICK)
    task = asyncio.create_task(
        engine.perform(create("closing", body("true") | {"Image": IMAGE}, pull=True))
    )
    await eventually(slow_server.is_sending)
    async with asyncio.timeout(30):
        await engine.close()
        with pytest.raises(asyncio.CancelledError):
            await task
