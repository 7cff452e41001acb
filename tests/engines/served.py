"""A testbed with one daemon over it, for tests of what only both together show."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lent import Agent
from testbed import NodeSpec, Testbed, check
from tests.faults.rig import fast_config
from tests.faults.tenured import Tenured, until

READY_S = 40.0
#: The agents of nodes that lend now, by node.
AGENTS: dict[str, Agent] = {}


def _nothing(_bed: Testbed) -> None:
    pass


@contextmanager
def served(
    specs: Sequence[NodeSpec],
    *,
    prepare: Callable[[Testbed], None] = _nothing,
    harvest: Mapping[str, Any] | None = None,
    is_foreseen: bool = False,
    tiers: Callable[[str], Sequence[Mapping[str, Any]]] | None = None,
    cycles: Mapping[str, Any] | None = None,
    **config: Any,
) -> Iterator[tuple[Testbed, Tenured]]:
    """Yield engines and a daemon to which all nodes that begin switched on are ready.

    ``prepare`` is done before the daemon starts; ``config`` is what its configuration says
    otherwise, of a section only what is named. With ``harvest``, what that section of each node
    says, each has an agent and lends; ``is_foreseen``: by forecast alone. ``tiers`` says what
    tiers a node has. Skips where the testbed cannot run.
    """
    if missing := check():
        pytest.skip("; ".join(missing))
    folder = Path(tempfile.mkdtemp(prefix="tns-")).resolve()
    try:
        with ExitStack() as stack:
            bed = stack.enter_context(Testbed(specs, folder / "bed"))
            prepare(bed)
            usual = fast_config(bed)
            if harvest is not None:
                # what lends here was mostly never seen before, and has no forecast
                usual["harvest"] = {"require_forecast": is_foreseen}
                usual["nodes"] = [
                    stack.enter_context(_lending(bed, node, folder, harvest))
                    for node in usual["nodes"]
                ]
            if tiers is not None:
                usual["nodes"] = [
                    node | {"tiers": list(tiers(node["name"]))} for node in usual["nodes"]
                ]
            merged = {
                key: usual.get(key, {}) | value if isinstance(value, dict) else value
                for key, value in config.items()
            }
            tenured = Tenured(
                folder, usual | merged, dict(cycles or {}), is_new=prepare is not _nothing
            )
            tenured.start()
            try:
                for spec in specs:
                    if spec.initially_on:
                        is_ready = partial(_is_ready, tenured, spec.name)
                        until(is_ready, READY_S, f"{spec.name} to be ready")
                yield bed, tenured
            except BaseException:
                print(f"end of the daemon's log:\n{tenured.tail()}")
                raise
            finally:
                tenured.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _lending(
    bed: Testbed, node: dict[str, Any], folder: Path, harvest: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Have an agent for a node, and yield what the configuration says of both."""
    own = folder / f"agent-{node['name']}"
    own.mkdir()
    agent = Agent(own, bed.nodes[node["name"]])
    agent.start()
    AGENTS[node["name"]] = agent
    try:
        yield node | {"agent": {"url": agent.url}, "harvest": dict(harvest)}
    finally:
        del AGENTS[node["name"]]
        agent.stop()


def _is_ready(tenured: Tenured, node: str) -> bool:
    return bool(tenured.client.node(node)["state"] == "ready")
