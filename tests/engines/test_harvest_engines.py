"""Owners beside harvest on a real engine; `python -m benchmarks harvest` takes the full figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harvest import PARAMS, CoreTaken, grow, jumps
from benchmarks.host import cores
from benchmarks.lent import Agent, holding, removed, run, run_task
from tenure.model.harvest import HarvestAction
from testbed import Node, NodeSpec, Testbed, check
from tests.faults.tenured import Tenured, until

pytestmark = pytest.mark.engines
MIB = 1 << 20
NODE_BYTES = 2048 * MIB


@pytest.fixture(scope="module")
def lent() -> Iterator[Node]:
    """A node of its own: one core, and memory that an owner can grow into."""
    if missing := check():
        pytest.skip("; ".join(missing))
    with Testbed([NodeSpec("lent", "nursery", memory_bytes=NODE_BYTES)]) as bed:
        yield bed.nodes["lent"]


@pytest.fixture
def agent(lent: Node, tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path, lent, core=cores().load)
    made.start()
    yield made
    made.stop()


def test_an_owner_gets_its_core_back(agent: Agent, tmp_path: Path) -> None:
    """By the agent's own record of looks; the benchmark holds the goals of time."""
    agent.set(PARAMS)
    try:
        found = jumps(tmp_path, agent, 3)  # an error, if the core is full and the quota stays
    except CoreTaken as taken:
        pytest.skip(f"a core that is not taken by other work: {taken}")
    judged = [jump for jump in found if jump.is_judged]
    if not judged:
        pytest.skip("a core that is not taken by other work: owner and harvest never filled it")
    # other work takes the core for parts of periods here: two looks are the benchmark's bound
    assert all(jump.floor and jump.floor.looks <= 10 for jump in judged), found


def test_harvest_dies_before_an_owner_that_grows(agent: Agent) -> None:
    agent.set(PARAMS)
    found = grow(agent, 2)
    assert all(growth.is_alive for growth in found), found
    assert all(growth.ended > 0 for growth in found), found


def test_what_the_kernel_ends_first_is_told_as_the_nodes_want_of_memory(
    agent: Agent, lent: Node
) -> None:
    agent.set(replace(PARAMS, memory_margin=0.0))  # it acts no sooner than the kernel
    tasks = [run_task(lent, f"short{n}", holding(600)) for n in range(2)]
    with removed([*tasks]) as made:
        until(lambda: _held(agent) > 1100 * MIB, 30, "tasks that hold their memory")
        made.append(run(lent, "fast", holding(1500)))
        found = until(lambda: _ended_by_kernel(agent), 60, "what the kernel ended to be told")
        assert {action.task for action in found} <= {task.id for task in tasks}
        assert {action.reason for action in found} == {"short"}
        assert made[-1].state["Running"], "the owner"
        own = run_task(lent, "own", ["sh", "-c", "hold 200; exit 1"], Memory=64 * MIB)
        made.append(own)
        until(lambda: not own.state["Running"], 60, "the task to meet its own limit")
        assert own.state["OOMKilled"]
        told = [action for action in _ended_by_kernel(agent) if action.task == own.id]
        assert not any(action.numbers["is_certain"] for action in told), "its own fault"


def _ended_by_kernel(agent: Agent) -> list[HarvestAction]:
    return [action for action in agent.actions(0) if action.kind == "oom"]


def test_protection_goes_on_without_tenured(agent: Agent, lent: Node, tmp_path: Path) -> None:
    """The daemon sets it and is killed: the latest-started task ends all the same."""
    config: dict[str, Any] = {
        "state_dir": str(tmp_path / "state"),
        "listen": [f"unix://{tmp_path / 'd.sock'}"],
        "generations": ["nursery"],
        "nodes": [
            {
                "name": "lent",
                "url": lent.url,
                "generation": "nursery",
                "capacity": {"cpus": 1, "memory": NODE_BYTES},
                "agent": {"url": agent.url},
                "harvest": {"mode": "act", "memory_margin": 0.15},
            }
        ],
    }
    daemon = Tenured(tmp_path, config, {})
    with removed([]) as made:
        try:
            daemon.start()
            until(lambda: agent.status["mode"] == "act", 20, "the controller is set")
            daemon.kill()
            tasks = [run_task(lent, f"kept{n}", holding(300)) for n in range(3)]
            made.extend(tasks)
            until(lambda: _held(agent) > 850 * MIB, 30, "tasks that hold their memory")
            assert all(task.state["Running"] for task in tasks)
            # 2048 less 15 % leaves 1741, half the margin may be entered: 1894 MiB
            made.append(run(lent, "owner", holding(1150)))
            until(lambda: not tasks[-1].state["Running"], 30, "the latest to end")
            until(lambda: _regular(agent) > 1100 * MIB, 30, "the owner to hold its memory")
            assert made[-1].state["Running"]
            assert tasks[0].state["Running"]
            daemon.start()
            events = until(lambda: _kills(daemon), 20, "the end of the task as an event")
            assert events[0]["data"]["task"] == tasks[-1].id
            shown = daemon.client.node("lent")["harvest"]
            assert shown["mode"] == "act"
            assert "tenure_harvest_kills_total" in daemon.client.metrics()
        finally:
            daemon.stop()


def _held(agent: Agent) -> int:
    return int(agent.status["numbers"].get("harvest_memory_bytes", 0))


def _regular(agent: Agent) -> int:
    return int(agent.status["numbers"].get("regular_memory_bytes", 0))


def _kills(daemon: Tenured) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.client.events(types="harvest.kill")["items"]
    return found
