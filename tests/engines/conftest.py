"""Two real engines for the whole session; what a test leaves on them is removed after it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Generator, Iterator

import pytest

from tenure.engines.engine import Engine
from tenure.engines.http.transport import Timeouts
from testbed import Node, NodeSpec, Testbed, check, docker_api
from tests.engines.lab import Kept, Lab
from tests.faults.tenured import Tenured

QUICK = Timeouts(
    connect_s=2.0,
    ping_s=3.0,
    read_s=4.0,
    write_s=4.0,
    start_s=4.0,
    stop_extra_s=4.0,
    logs_s=60.0,
    registry_s=5.0,
    pull_s=20.0,
    quiet_s=1.0,
)
"""For tests with engines that never answer; a busy machine must not look like one."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the log of the daemon that a test which failed spoke to."""
    report = yield
    for value in item.funcargs.values() if report.failed else ():
        daemon = getattr(value, "tenured", value)
        if isinstance(daemon, Tenured):
            report.sections.append(("end of the daemon's log", daemon.tail()))
    return report


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
def timeouts() -> Timeouts:
    """The time-outs of ``engine``: those of the daemon, where a file does not say otherwise."""
    return Timeouts()


@pytest.fixture
async def engine(node: Node, kept: Kept, timeouts: Timeouts) -> AsyncIterator[Engine]:
    """The engine of node1; every task of it must end with the test."""
    made = Engine(node.url, kept.save, timeouts=timeouts)
    yield made
    await made.close()
    if rest := asyncio.all_tasks() - {asyncio.current_task()}:
        _, rest = await asyncio.wait(rest, timeout=30)  # what was cancelled is ending
    assert rest == set()


@pytest.fixture
async def neighbour(other: Node, kept: Kept) -> AsyncIterator[Engine]:
    """The engine of node2, over its unix socket."""
    made = Engine(f"unix://{other.socket}", kept.save)
    yield made
    await made.close()


@pytest.fixture
async def lab(engine: Engine, node: Node, kept: Kept) -> AsyncIterator[Lab]:
    """Short ways to make containers on node1, as patient as the daemon whatever ``engine`` is."""
    await engine.ping()  # it knows its API before anything befalls the node
    patient = Engine(f"unix://{node.socket}", kept.save)
    yield Lab(patient)
    await patient.close()
