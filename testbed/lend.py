"""Nodes that lend their idle capacity: an agent for each, and tiers, for trying batches."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from testbed import boot, docker_api, spawn
from testbed.errors import TestbedError
from testbed.image import IMAGE
from testbed.layout import Layout
from testbed.spec import NodeSpec

#: The image that the examples name; it is the testbed's own here.
EXAMPLES_IMAGE = ("busybox", "1")
#: The agent among the services of a node.
AGENT = "agent"
_CPUS, _MEMORY_BYTES = 2.0, 2 << 30
_READY_S = 60.0


def specs(count: int) -> list[NodeSpec]:
    """Return nodes with room for the tasks of the examples, all of one generation and on."""
    return [
        NodeSpec(f"node{number}", "young", cpus=_CPUS, memory_bytes=_MEMORY_BYTES)
        for number in range(1, count + 1)
    ]


def require() -> None:
    """Raise TestbedError unless agents can be started: they are tenure's."""
    if any(find_spec(name) is None for name in ("tenure", "aiohttp")):
        raise TestbedError("--lend needs tenure itself: make setup, then .venv/bin/python")


def begin(layout: Layout) -> None:
    """Start the agents and wait until they serve; raise TestbedError if one does not.

    They are services of their nodes, which end and boot with these.
    """
    repository, tag = EXAMPLES_IMAGE
    for spec in layout.specs:
        _tier(layout, spec.name).mkdir(parents=True, exist_ok=True)
        path = f"/images/{IMAGE}/tag?repo={repository}&tag={tag}"
        status, answer = docker_api.call(layout.socket(spec.name), "POST", path)
        if status != 201:
            raise TestbedError(f"{spec.name}: cannot name its image {repository}:{tag}: {answer!r}")
        argv = [sys.executable, "-m", "tenure.cli.daemon", "agent"]
        argv += ["--listen", f"unix://{_socket(layout, spec.name)}"]
        argv += ["--node-cgroup", f"/{layout.node_group(spec.name)}"]
        argv += ["--state-dir", str(layout.node_dir(spec.name) / "agent"), "--interval-s", "2"]
        boot.install(layout, spec.name, AGENT, argv)
    until = time.monotonic() + _READY_S
    for spec in layout.specs:
        while not _socket(layout, spec.name).exists():
            if time.monotonic() > until:
                told = spawn.tail(boot.log_of(layout, spec.name, AGENT))
                raise TestbedError(f"the agent of {spec.name} does not serve: {told}")
            time.sleep(0.05)


def config(layout: Layout, given: dict[str, Any], inputs: Sequence[Path]) -> dict[str, Any]:
    """Return a configuration whose nodes lend; inputs of batches lie in ``inputs``.

    Owners were never seen before, so present use stands for a forecast.
    """
    nodes = [
        node
        | {
            "agent": {"url": f"unix://{_socket(layout, node['name'])}"},
            "harvest": {"mode": "act"},
            "tiers": [
                {
                    "name": "disk",
                    "kind": "ssd",
                    "path": str(_tier(layout, node["name"])),
                    "capacity": "4GiB",
                }
            ],
        }
        for node in given["nodes"]
    ]
    return given | {
        "generations": ["young"],
        "batches": {"input_dirs": [str(path.resolve()) for path in inputs]},
        "datasets": {"image": IMAGE},
        "harvest": {"require_forecast": False},
        "nodes": nodes,
    }


def _socket(layout: Layout, name: str) -> Path:
    return layout.node_dir(name) / "agent.sock"


def _tier(layout: Layout, name: str) -> Path:
    return layout.node_dir(name) / "tier"
