"""What an agent takes of its node: a share of a core at one reading a second, and memory."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.errors import BenchError
from benchmarks.figures import Goal, Report, figure
from benchmarks.rig import folder, say
from testbed import IMAGE, Node, NodeSpec, Testbed, docker_api, tied
from testbed.host import CpuMeter, memory_mib

ROOT = Path(__file__).resolve().parents[1]
INTERVAL_S = 1.0
READY_S = 20.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How many containers, and how many looks of how long."""

    containers: int = 50
    looks: int = 3
    look_s: float = 15.0


FULL = Plan()
QUICK = Plan(containers=3, looks=1, look_s=3.0)


def measure(*, is_quick: bool = False) -> Report:
    """Take the figures beside one real engine."""
    plan = QUICK if is_quick else FULL
    with folder() as path, Testbed([NodeSpec("node1", "nursery")], path / "bed") as bed:
        node = bed.nodes["node1"]
        say(f"agent: {plan.containers} containers")
        for number in range(plan.containers):
            _start(node, number)
        with _agent(path / "a.sock", node) as pid:
            say(f"agent: {plan.looks} looks of {plan.look_s:g} s")
            meter, shares = CpuMeter(pid), []
            for _ in range(plan.looks):
                time.sleep(plan.look_s)
                shares.append(100 * meter.share())
            memory = memory_mib(pid)
    what = f"of a core, {plan.containers} containers read every {INTERVAL_S:g} s"
    figures = (
        figure("cpu_percent", what, "%", shares, Goal("below", 0.5)),
        figure("rss_mib", "memory (RSS)", "MiB", memory["rss"]),
        figure("pss_mib", "memory (PSS)", "MiB", memory["pss"]),
    )
    notes = (
        "cgroup version 1, cgroupfs, containers that sleep; utime + stime of the process, nobody "
        "asks it for its readings. Its own interval is 5 s, a fifth of this.",
    )
    return Report("agent", figures, notes)


def _start(node: Node, number: int) -> None:
    body = {"Image": IMAGE, "Cmd": ["sleep", "100000"], "HostConfig": {"Init": True}}
    create = f"/containers/create?name=idle-{number}"
    status, answer = docker_api.call(node.socket, "POST", create, body)
    if status == 201:
        engine_id = json.loads(answer)["Id"]
        status, answer = docker_api.call(node.socket, "POST", f"/containers/{engine_id}/start")
    if status >= 300:
        raise BenchError(f"a container does not start: {answer!r}")


@contextmanager
def _agent(socket: Path, node: Node) -> Iterator[int]:
    words = ["agent", "--listen", f"unix://{socket}", "--node-cgroup", node.cgroup_parent]
    argv = [sys.executable, "-m", "tenure.cli.daemon", *words, "--interval-s", f"{INTERVAL_S:g}"]
    process = tied.start(argv, cwd=ROOT)
    try:
        end_s = time.monotonic() + READY_S
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > end_s:
                raise BenchError("the agent does not serve")
            time.sleep(0.05)
        time.sleep(1)
        yield process.pid
    finally:
        process.terminate()
        process.wait(READY_S)
