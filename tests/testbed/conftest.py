"""Fixtures: one shared testbed per module, a short temporary folder, a way to run docker calls."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import IMAGE, Node, NodeSpec, Testbed, check, docker_api
from tests.faults.tenured import PATIENCE


@pytest.fixture(scope="session")
def engines_possible() -> None:
    """Skip, saying what the machine lacks, unless real engines can be started."""
    if missing := check():
        pytest.skip("; ".join(missing))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for unix sockets deep in it."""
    path = Path(tempfile.mkdtemp(prefix="tnt-")).resolve()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def bed(engines_possible: None) -> Iterator[Testbed]:
    """Two nodes: node1 local and on, node2 in the cloud, powered and off."""
    specs = [
        NodeSpec("node1", "young", cpus=0.5, memory_bytes=128 << 20),
        NodeSpec("node2", "young", "cloud", initially_on=False, powered=True),
    ]
    with Testbed(specs) as running:
        yield running


Wait = Callable[[Callable[[], object], float], None]


@pytest.fixture(scope="session")
def wait() -> Wait:
    """Wait for a condition, failing with what it last returned."""

    def wait_for(condition: Callable[[], object], timeout_s: float) -> None:
        limit_s = PATIENCE * timeout_s
        deadline = time.monotonic() + limit_s
        while not (last := condition()):
            assert time.monotonic() < deadline, f"still {last!r} after {limit_s:g} s"
            time.sleep(0.02)

    return wait_for


Call = Callable[..., Any]


@pytest.fixture(scope="session")
def call() -> Call:
    """Call a node's engine; return the decoded answer, failing on an error status."""
    import json

    def call_engine(node: Node, method: str, target: str, body: Any = None) -> Any:
        status, answer = docker_api.call(node.socket, method, target, body)
        assert status < 400, answer
        return json.loads(answer) if answer[:1] in (b"{", b"[") else answer

    return call_engine


@pytest.fixture(scope="session")
def run(call: Call) -> Call:
    """Start a container of the testbed's image on a node; return its id."""

    def run_container(node: Node, *command: str, **host: Any) -> str:
        body = {
            "Image": IMAGE,
            "Cmd": list(command),
            "HostConfig": {"Init": True, **host},
            # An engine publishes nothing that is not exposed as well; the CLI adds this.
            "ExposedPorts": {port: {} for port in host.get("PortBindings", {})},
        }
        created = call(node, "POST", "/containers/create", body)
        call(node, "POST", f"/containers/{created['Id']}/start")
        return str(created["Id"])

    return run_container
