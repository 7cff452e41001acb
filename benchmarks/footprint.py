"""What the daemon itself needs: CPU beside 4 engines and 60 containers, memory, time to start."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure
from benchmarks.http import Connection, run
from benchmarks.rig import Daemon, engines, folder, running, say
from testbed import IMAGE, NodeSpec, Testbed
from testbed.host import CpuMeter, memory_mib
from tests.fleet.engines import IMAGE as SIMULATED

SPECS = (
    NodeSpec("node1", "nursery"),
    NodeSpec("node2", "nursery"),
    NodeSpec("node3", "young"),
    NodeSpec("node4", "tenured"),
)
#: A fleet on which the kernels are compiled.
KERNEL_NODES = 60
LOADED_S = 120.0
#: Between two looks of a client at the containers.
POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How many containers, for how long, and how many starts."""

    containers: int = 60
    settle_s: float = 15.0
    look_s: float = 120.0
    starts: int = 5


FULL = Plan()
QUICK = Plan(containers=8, settle_s=2.0, look_s=30.0, starts=1)


def measure(*, is_quick: bool = False) -> Report:
    """Take the figures on engines of the testbed, and the memory with kernels on simulated ones."""
    plan = QUICK if is_quick else FULL
    with folder() as path, Testbed(SPECS, path / "bed") as bed:
        nodes = {"nodes": bed.config()["nodes"]}
        say("footprint: starts of an empty daemon")
        fresh = [_start(Daemon(path / f"f{n}", nodes)) for n in range(plan.starts)]
        daemon = Daemon(path / "d", nodes)
        with running(daemon):
            daemon.rest()
            before = memory_mib(daemon.pid)
            say(f"footprint: {plan.containers} containers")
            run(_create(daemon, plan.containers))
            time.sleep(plan.settle_s)
            use = run(_look(daemon, plan.look_s))
        again = [_start(daemon) for _ in range(plan.starts)]
    figures = (
        *use,
        figure("start_s", "start to ready, empty state", "s", fresh, Goal("most", 1.0)),
        figure("restart_s", f"start to ready, {plan.containers} containers", "s", again),
        *_memory("before", "before the first placement", before, 120),
        *_memory("kernels", "with kernels loaded", _with_kernels(), 200),
    )
    return Report("footprint", figures, _notes(plan))


def _start(daemon: Daemon) -> float:
    with running(daemon) as ready_s:
        return ready_s


def _memory(key: str, when: str, memory: dict[str, float], limit_mib: float) -> Iterator[Figure]:
    below = Goal("below", limit_mib)
    yield figure(f"rss_{key}_mib", f"memory (RSS) {when}", "MiB", memory["rss"], below)
    yield figure(f"pss_{key}_mib", f"memory (PSS) {when}", "MiB", memory["pss"])
    yield figure(f"peak_{key}_mib", f"the most it ever was (RSS) {when}", "MiB", memory["hwm"])


async def _create(daemon: Daemon, count: int) -> None:
    """Create containers that do little, spread over the generations, and wait until all run."""
    async with Connection(daemon.door) as connection:
        for number in range(count):
            body = json.dumps(_container(number)).encode()
            (await connection.ask("POST", "/v1/containers", body)).require(201)
        end_s = time.monotonic() + LOADED_S
        while time.monotonic() < end_s:
            page = await connection.ask("GET", "/v1/containers?state=running&limit=1000")
            if len(page.require(200).json["items"]) == count:
                return
            await asyncio.sleep(0.5)
    raise BenchError(f"not all {count} containers run")


def _container(number: int) -> dict[str, Any]:
    return {
        "name": f"idle-{number}",
        "Image": IMAGE,
        "Cmd": ["sleep", "100000"],
        "HostConfig": {"Init": True},
        "tenure": {"generation": SPECS[number % len(SPECS)].generation, "migrate": "never"},
    }


async def _look(daemon: Daemon, look_s: float) -> list[Figure]:
    """Watch the daemon while a client reads the containers once a second."""
    meter, part = CpuMeter(daemon.pid), CpuMeter(daemon.pid)
    shares = []
    begun_s = time.monotonic()
    async with Connection(daemon.door) as connection:
        for tick in range(1, int(look_s / POLL_S) + 1):
            (await connection.ask("GET", "/v1/containers?limit=1000")).require(200)
            await asyncio.sleep(max(0.0, begun_s + tick * POLL_S - time.monotonic()))
            if tick % max(1, int(look_s / POLL_S) // 4) == 0:
                shares.append(100 * part.share())
    whole, memory = 100 * meter.share(), memory_mib(daemon.pid)
    return [
        figure("cpu_percent", f"of a core, over {look_s:.0f} s", "%", whole, Goal("below", 2)),
        figure("cpu_percent_quarters", "the same, by quarters of the time", "%", shares),
        figure("rss_mib", "memory (RSS) meanwhile", "MiB", memory["rss"]),
    ]


def _with_kernels() -> dict[str, float]:
    """Return the memory of a daemon whose fleet is large enough for compiled kernels."""
    say(f"footprint: memory with kernels, {KERNEL_NODES} simulated engines")
    with large_fleet() as daemon:
        run(submit_first(daemon))
        daemon.compiled()
        daemon.rest(LOADED_S)
        return memory_mib(daemon.pid)


@contextmanager
def large_fleet() -> Iterator[Daemon]:
    """Run a daemon with so many simulated engines that kernels are compiled."""
    with folder() as path, engines(path / "e", nodes=KERNEL_NODES) as fleet:
        daemon = Daemon(path / "d", {"nodes": fleet.nodes})
        with running(daemon):
            yield daemon


async def submit_first(daemon: Daemon) -> None:
    """Have one job placed: it is what makes a daemon load its kernels."""
    job = {
        "name": "first",
        "image": SIMULATED,
        "command": ["work", "1000", "0", "0"],
        "cpus": 1,
        "memory": "1GiB",
        "deadline_s": 5000,
        "estimate": {"local_s": 1000},
    }
    async with Connection(daemon.door) as connection:
        (await connection.ask("POST", "/v1/jobs", json.dumps(job).encode())).require(201)


def _notes(plan: Plan) -> tuple[str, ...]:
    return (
        f"{len(SPECS)} real engines, {plan.containers} containers that stay where they are, "
        "sampling every 30 s, one client that reads all containers once a second. CPU is utime + "
        "stime of the process `tenured` alone, its Redis, cron and worker are others.",
        "Start to ready: from the fork to the file that says where the API listens; its code is "
        "compiled, as pip leaves it.",
        f"With kernels: {KERNEL_NODES} simulated engines and one job, once the daemon is at rest.",
    )
