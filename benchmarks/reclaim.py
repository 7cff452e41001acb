"""What becomes of protection and of tasks around a daemon: killed, and beside one that runs.

Killed outright, the daemon leaves its nodes to their agents: an owner's CPU and memory are taken
back as before. While it runs, a task that an agent ended for an owner finishes on another node.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure
from benchmarks.harvest import (
    GROWN_MIB,
    MIB,
    NODE_BYTES,
    PARAMS,
    TRIES,
    Floor,
    Growth,
    grow,
    jumped,
)
from benchmarks.lent import BUSY, GROWER, Agent, Owner, removed, run, run_task
from benchmarks.rig import Daemon, folder, running, say, until
from tenure.client.client import Client
from tenure.client.target import parse
from tenure.model.errors import InvalidInput
from tenure.model.units import US
from testbed import IMAGE, NodeSpec, Testbed
from testbed.host import cores

NODES = ("a", "b")
WAIT_S = 60.0
#: What a task of a batch holds.
HELD_MIB = 400
#: A node that lends as much has forgotten the owner before.
PROBE_MIB = 1200
#: Its first attempt goes on until it is ended; any other says how much it read.
SCRIPT = (
    f"hold {HELD_MIB} & [ $TENURE_ATTEMPT -gt 1 ] || sleep 300; "
    "wc -c < /tenure/in/chunk > /tenure/out/o"
)
CONTENT = b"x" * 999 + b"\n"


@dataclass(frozen=True, slots=True)
class Plan:
    """How often the daemon is killed, and how often a task is ended beside one that runs."""

    kills: int = 20
    tasks: int = 20


FULL = Plan()
QUICK = Plan(kills=1, tasks=1)


@dataclass(frozen=True, slots=True)
class Orphaned:
    """What an agent did for owners while its daemon was dead."""

    floor: Floor | None
    growth: Growth


@dataclass(frozen=True, slots=True)
class Moved:
    """A task that was ended for an owner: whether it finished elsewhere, and whether at no cost.

    ``elsewhere_s``: from its end in the agent's record to its start on the other node; None where
    the daemon, which looks once a second, had it give way first.
    """

    is_elsewhere: bool
    is_free: bool
    is_right: bool
    is_alive: bool
    elsewhere_s: float | None


@dataclass(frozen=True, slots=True)
class Bench:
    """Engines with agents, and a daemon over them that is started or not."""

    bed: Testbed
    agents: dict[str, Agent]
    daemon: Daemon
    path: Path

    @property
    def client(self) -> Client:
        return Client(parse(self.daemon.socket), timeout_s=20.0, patience_s=20.0)


def measure(*, is_quick: bool = False) -> Report:
    """Take the figures; engines, agents, owners, tasks and the daemon are real."""
    plan = QUICK if is_quick else FULL
    with _bench() as bench:
        found = _orphaned(bench, plan.kills)
        with running(bench.daemon):
            moved = _moved(bench, plan.tasks)
    notes = (
        "cgroup version 1. The daemon is killed (SIGKILL) before each owner that jumps and grows, "
        "and started again after it; nodes of one core, or what both cores leave.",
        f"Owners grow to {GROWN_MIB} MiB on nodes of {NODE_BYTES // MIB} MiB, beside four tasks of "
        f"150 MiB each, or one of {HELD_MIB} MiB of a batch without retries.",
    )
    return Report("reclaim", (*_killed(found), *_ended(moved)), notes)


@contextmanager
def _bench() -> Iterator[Bench]:
    specs = [NodeSpec(name, "nursery", memory_bytes=NODE_BYTES) for name in NODES]
    with ExitStack() as stack:
        path = stack.enter_context(folder())
        bed = stack.enter_context(Testbed(specs, path / "bed"))
        agents: dict[str, Agent] = {}
        for name in NODES:
            (path / name).mkdir()
            agents[name] = Agent(path / name, bed.nodes[name], core=cores().load)
            agents[name].start()
            stack.callback(agents[name].stop)
        inputs = path / "inputs"
        inputs.mkdir()
        (inputs / "chunk").write_bytes(CONTENT)
        yield Bench(bed, agents, Daemon(path / "daemon", _config(bed, agents, inputs)), path)


def _config(bed: Testbed, agents: dict[str, Agent], inputs: Path) -> dict[str, Any]:
    margins = {"cpu_margin": PARAMS.cpu_margin, "memory_margin": PARAMS.memory_margin}
    nodes = [
        row | {"agent": {"url": agents[row["name"]].url}} | {"harvest": {"mode": "act", **margins}}
        for row in bed.config()["nodes"]
    ]
    return {
        "generations": ["nursery"],
        "nodes": nodes,
        "harvest": {"require_forecast": False},
        "batches": {"input_dirs": [str(inputs)]},
        "stats": {"interval_s": 1},
    }


def _orphaned(bench: Bench, times: int) -> list[Orphaned]:
    """Have owners jump and grow on the first node, each time with the daemon killed before."""
    agent = bench.agents[NODES[0]]
    core, found = cores().daemon, []
    with removed([]) as made:
        owner = Owner(bench.path, agent.node, core)
        made.append(owner.container)
        for n in range(3):
            made.append(run_task(agent.node, f"busy{n}", BUSY, CpusetCpus=str(core)))
        for number in range(times):
            say(f"reclaim: daemon killed, {number + 1} of {times}")
            bench.daemon.process.start()
            until(lambda: agent.status["mode"] == "act", WAIT_S, "the controller to be set")
            bench.daemon.process.kill()
            found.append(Orphaned(_floor(agent, owner), grow(agent, 1)[0]))
    return found


def _floor(agent: Agent, owner: Owner) -> Floor | None:
    """Have an owner jump, until the core was the node's while it did: others may take it here."""
    for _ in range(TRIES):
        _, floor, _ = jumped(agent, owner)
        if floor is not None:
            return floor
    return None


def _moved(bench: Bench, times: int) -> list[Moved]:
    found = []
    for number in range(times):
        say(f"reclaim: task ended, {number + 1} of {times}")
        until(lambda: _lends(bench), WAIT_S, "both nodes to lend")
        found.append(_one_moved(bench, number))
    return found


def _lends(bench: Bench) -> bool:
    """Whether the plan would have both nodes begin at once what fills most of one.

    An owner that was removed stays in what was measured for some seconds.
    """
    stage: dict[str, Any] = {"name": "s", "command": ["true"], "tasks": len(NODES), "cpus": 0.5}
    stage |= {"memory": f"{PROBE_MIB}MiB", "estimate": {"task_s": 100}}
    try:
        answer = bench.client.plan_batch({"name": "probe", "image": IMAGE, "stages": [stage]})
    except InvalidInput:
        return False
    return {start["node"] for start in answer["plan"]["starts"]} == set(NODES)


def _batch(bench: Bench, name: str) -> dict[str, Any]:
    given = {"file": str(bench.path / "inputs" / "chunk"), "split": {"size": "1MiB"}}
    stage: dict[str, Any] = {
        "name": "s",
        "command": ["sh", "-ec", SCRIPT],
        "memory": f"{HELD_MIB + 60}MiB",
    }
    stage |= {"cpus": 0.5, "input": given, "estimate": {"task_s": 1}}
    return {"name": name, "image": IMAGE, "retries": 0, "stages": [stage]}


def _one_moved(bench: Bench, number: int) -> Moved:
    """Submit a task, have an owner grow where it runs, and wait for its end."""
    client = bench.client
    key = client.submit_batch(_batch(bench, f"moved{number}"))["id"]
    until(lambda: client.batch_tasks(key)[0]["state"] == "running", WAIT_S, "the task to run")
    first = client.batch_tasks(key)[0]["node"]
    agent = bench.agents[first]
    until(lambda: _held(agent) >= HELD_MIB * MIB, WAIT_S, "the task to be full")
    begun_us = time.time_ns() // 1000
    with removed([]) as made:
        made.append(run(agent.node, "grower", ["sh", "-c", GROWER, "grow", str(GROWN_MIB)]))
        batch = until(lambda: _over(client, key), WAIT_S, "the batch to end")
        state = made[0].state
    (task,) = client.batch_tasks(key)
    ends = [a.at_us for a in agent.actions(0) if a.kind in ("kill", "oom") and a.at_us >= begun_us]
    if not batch["reclaimed"]:
        raise BenchError(f"nothing was ended on {first} for its owner: {batch}")
    return Moved(
        is_elsewhere=batch["state"] == "succeeded" and task["node"] != first,
        is_free=(batch["retried"], batch["reclaimed"]) == (0, 1),
        is_right=b"".join(client.batch_output(key)) == b"%d\n" % len(CONTENT),
        is_alive=bool(state["Running"]) and not state["OOMKilled"],
        elsewhere_s=_started_s(client, key) - ends[0] / US if ends else None,
    )


def _over(client: Client, key: str) -> dict[str, Any] | None:
    found = client.batch(key)
    return found if found["finished_at"] else None


def _held(agent: Agent) -> int:
    return int(agent.status["numbers"].get("harvest_memory_bytes", 0))


def _started_s(client: Client, key: str) -> float:
    """Return when the last attempt of a batch's only task was seen to run (UTC)."""
    rows = client.events(types="task.running")["items"]
    at = [row["at"] for row in rows if row["subject"] == f"{key}/0"][-1]
    return datetime.fromisoformat(at).timestamp()


def _killed(found: Sequence[Orphaned]) -> list[Figure]:
    growths = [one.growth for one in found]
    times = len(found)
    floors = [one.floor.after_ms for one in found if one.floor]
    return [
        figure(
            "orphaned_floors",
            f"of {times} jumps with the daemon killed, those with the quota at its floor after it",
            "",
            len(floors),
            Goal("least", times),
        ),
        figure("orphaned_floor_ms", "from the jump to the floor", "ms", floors),
        figure(
            "orphaned_owners",
            f"of {times} owners that grew with the daemon killed, those that live",
            "",
            sum(one.is_alive for one in growths),
            Goal("least", times),
        ),
        figure(
            "orphaned_ends",
            "tasks that the controller ended for it",
            "",
            [one.by_controller for one in growths],
        ),
    ]


def _ended(found: Sequence[Moved]) -> list[Figure]:
    times = len(found)
    rows = (
        ("elsewhere", "those that finished on another node", [m.is_elsewhere for m in found]),
        ("free", "those that cost no retry", [m.is_free for m in found]),
        ("right", "those whose output is right", [m.is_right for m in found]),
        ("owners", "those whose owner lives", [m.is_alive for m in found]),
    )
    return [
        *(
            figure(
                f"ended_{key}",
                f"of {times} tasks that were ended for owners, {text}",
                "",
                sum(each),
                Goal("least", times),
            )
            for key, text, each in rows
        ),
        figure(
            "by_agent",
            "those of them that an agent ended, before the daemon saw that it should give way",
            "",
            sum(one.elsewhere_s is not None for one in found),
        ),
        figure(
            "elsewhere_s",
            "from the end of a task to its start elsewhere",
            "s",
            [one.elsewhere_s for one in found if one.elsewhere_s is not None],
        ),
    ]
