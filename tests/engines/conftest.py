"""Two real engines for the whole session; what a test leaves on them is removed after it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from tenure.engines.engine import Engine
from tenure.engines.transport import Timeouts
from testbed import Node, NodeSpec, Testbed, check, docker_api
from tests.engines.lab import Kept, Lab

QUICK = Timeouts(
    connect_s=2.0,
    ping_s=1.0,
    read_s=3.0,
    write_s=4.0,
    start_s=4.0,
    stop_extra_s=4.0,
    logs_s=60.0,
    registry_s=5.0,
    pull_s=20.0,
    quiet_s=1.0,
)
"""Long enough for two busy cores, short enough for tests with engines that never answer."""


@pytest.fixture(scope="session")
def bed() -> Iterator[Testbed]:
    if missing := check():
        pytest.skip("; ".join(missing))
    specs = [
        NodeSpec("node1", "nursery", cpus=1.0, checkpoint=True),
        NodeSpec("node2", "young", cpus=1.0, checkpoint=True),
    ]
    with Testbed(specs) as running:
        yield running


@pytest.fixture
def node(bed: Testbed) -> Iterator[Node]:
    """node1, answering; emptied afterwards."""
    yield bed.nodes["node1"]
    _empty(bed, "node1")


@pytest.fixture
def other(bed: Testbed) -> Iterator[Node]:
    """node2, answering; emptied afterwards."""
    yield bed.nodes["node2"]
    _empty(bed, "node2")


def _empty(bed: Testbed, name: str) -> None:
    """Heal a node and remove every container from it."""
    node = bed.nodes[name]
    bed.heal(name)
    if node.pid() is None:
        bed.restart_engine(name)
    bed.thaw(name)
    deadline = time.monotonic() + 30
    while True:
        status, answer = docker_api.call(node.socket, "GET", "/containers/json?all=1")
        assert status == 200
        if not (rows := json.loads(answer)):
            return
        assert time.monotonic() < deadline, f"{name} keeps {rows}"
        for row in rows:
            docker_api.call(node.socket, "DELETE", f"/containers/{row['Id']}?force=1&v=1")


@pytest.fixture
def kept() -> Kept:
    """The logs that retirements handed over."""
    return Kept()


@pytest.fixture
async def engine(node: Node, kept: Kept) -> AsyncIterator[Engine]:
    """The engine of node1 with short time-outs; every task of it must end with the test."""
    made = Engine(node.url, kept.save, timeouts=QUICK)
    yield made
    await made.close()
    if rest := asyncio.all_tasks() - {asyncio.current_task()}:
        _, rest = await asyncio.wait(rest, timeout=5)  # what was cancelled is ending
    assert rest == set()


@pytest.fixture
async def neighbour(other: Node, kept: Kept) -> AsyncIterator[Engine]:
    """The engine of node2, over its unix socket."""
    made = Engine(f"unix://{other.socket}", kept.save, timeouts=QUICK)
    yield made
    await made.close()


@pytest.fixture
def lab(engine: Engine) -> Lab:
    """Short ways to make containers on node1."""
    return Lab(engine)
