"""1,000 nodes and 20,000 containers behind real HTTP: what the daemon uses, and how it answers.

The engines are simulated, each on a unix socket of its own; the daemon is `tenured run`, and lists,
follows, pings and samples them as it does real ones, at its default intervals. Every container is
asked for through REST: services fill the nursery, jobs the other two thirds of the nodes.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure, percentile
from benchmarks.http import Connection, Door, run
from benchmarks.rig import Daemon, Engines, engines, folder, kept_to, running, say
from testbed.host import CpuMeter, cores, memory_mib
from tests.fleet.engines import IMAGE

PER_NODE = 20
#: Services are parted among so many apps.
APPS = 100
#: One more fits on each node than the fill puts there: room for what comes and goes.
EACH_CPUS = 0.75
EXECUTORS = 20
FILLERS = 16
PROBES_PER_S, SUBMITS_PER_S, RESTARTS_PER_S = 20.0, 2.0, 10.0
SHORT_EXECUTORS, SHORT_S = 2, 10
PAGE = 100
SEED = 7


@dataclass(frozen=True, slots=True)
class Plan:
    """Size, and for how long to look; ``fill_s`` bounds the filling."""

    nodes: int = 1000
    settle_s: float = 30.0
    look_s: float = 90.0
    fill_s: float = 900.0


FULL = Plan()
#: Too few nodes for kernels to be compiled, which takes longer than all the rest.
QUICK = Plan(nodes=9, settle_s=0.2, look_s=1.5, fill_s=60.0)


@dataclass(slots=True)
class Seen:
    """Latencies in ms by what was asked, each from the time at which it was due."""

    latencies_ms: dict[str, list[float]] = field(default_factory=dict)

    def add(self, what: str, since_s: float) -> None:
        """Note an answer that arrives now."""
        self.latencies_ms.setdefault(what, []).append((time.perf_counter() - since_s) * 1000)


class Crowd:
    """The clients of one fleet."""

    def __init__(self, door: Door, nodes: int) -> None:
        self._door = door
        self._nodes = nodes
        self._random = Random(SEED)
        self._number = 0
        self.seen = Seen()

    # filling

    async def fill(self, limit_s: float) -> float:
        """Have every node run ``PER_NODE`` containers; return the seconds until all run."""
        begun_s = time.monotonic()
        nursery = -(-self._nodes // 3)
        services = [self._service() for _ in range(nursery * PER_NODE)]
        jobs = [self._long_job() for _ in range((self._nodes - nursery) * PER_NODE // EXECUTORS)]
        asked = iter([*(("/v1/jobs", j) for j in jobs), *(("/v1/containers", s) for s in services)])

        async def work() -> None:
            async with Connection(self._door) as connection:
                for path, body in asked:
                    (await connection.ask("POST", path, json.dumps(body).encode())).require(201)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(FILLERS):
                tasks.create_task(work())
        say(f"scale: all submitted after {time.monotonic() - begun_s:.0f} s")
        wanted = {"tenure_containers": len(services), "tenure_jobs": len(jobs)}
        await self._await_running(wanted, begun_s + limit_s)
        return time.monotonic() - begun_s

    async def _await_running(self, wanted: dict[str, int], limit_s: float) -> None:
        while True:
            async with Connection(self._door) as connection:
                text = (await connection.ask("GET", "/metrics")).require(200).body.decode()
            found = {name: _metric(text, f'{name}{{state="running"}}') for name in wanted}
            if all(found[name] >= count for name, count in wanted.items()):
                return
            if time.monotonic() > limit_s:
                raise BenchError(f"running are {found} of {wanted}")
            await asyncio.sleep(1.0)

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number}"

    def _service(self) -> dict[str, Any]:
        host = {"NanoCpus": int(EACH_CPUS * 1e9), "RestartPolicy": {"Name": "always"}}
        body = {"Image": IMAGE, "Cmd": ["serve", "-1"], "HostConfig": host}
        return {"name": self._name("s"), **body, "tenure": {"app": f"app{self._number % APPS}"}}

    def _long_job(self) -> dict[str, Any]:
        return self._job("long", EXECUTORS, 100_000) | {"estimate": {"local_s": 100_000}}

    def _short_job(self) -> dict[str, Any]:
        return self._job("short", SHORT_EXECUTORS, SHORT_S) | {
            "estimate": {"local_s": SHORT_S},
            "deadline_s": self._random.randrange(600, 3600),
        }

    def _job(self, kind: str, executors: int, run_s: int) -> dict[str, Any]:
        return {
            "name": self._name(kind),
            "app": kind,
            "image": IMAGE,
            "command": ["work", str(run_s), "0", "0"],
            "executors": executors,
            "cpus": EACH_CPUS,
            "memory": "1GiB",
        }

    # looking

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Have all clients work for the block."""
        work = [
            self._repeat("livez", PROBES_PER_S, lambda c: c.ask("GET", "/livez")),
            self._repeat("submit", SUBMITS_PER_S, self._submit),
            self._repeat("nodes", 1.0, lambda c: c.ask("GET", f"/v1/nodes?limit={self._nodes}")),
            self._repeat("containers", 1.0, lambda c: c.ask("GET", f"/v1/containers?limit={PAGE}")),
            self._repeat("snapshot", 0.1, lambda c: c.ask("GET", "/v1/snapshot")),
            self._repeat("metrics", 1 / 15, lambda c: c.ask("GET", "/metrics")),
        ]
        tasks = [asyncio.create_task(one) for one in work]
        try:
            yield
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _submit(self, connection: Connection) -> Any:
        return await connection.ask("POST", "/v1/jobs", json.dumps(self._short_job()).encode())

    async def _repeat(
        self, what: str, per_s: float, ask: Callable[[Connection], Awaitable[Any]]
    ) -> None:
        """Ask at a steady rate; one that is late delays no time at which another is due."""
        due_s = time.perf_counter() + self._random.random() / per_s
        async with Connection(self._door) as connection:
            while True:
                await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                (await ask(connection)).require(200, 201)
                self.seen.add(what, due_s)
                due_s += 1 / per_s


def _metric(text: str, name: str) -> float:
    rows = (row for row in text.splitlines() if row.startswith(name + " "))
    return float(next(rows, "x 0").split()[1])


def measure(*, is_quick: bool = False, plan: Plan | None = None) -> Report:
    """Take the figures."""
    plan = plan or (QUICK if is_quick else FULL)
    place = cores()
    with kept_to(place.load), folder() as path:
        options = {"nodes": plan.nodes, "generations": 3}
        with engines(path / "e", restarts_per_s=RESTARTS_PER_S, **options) as fleet:
            daemon = Daemon(path / "d", {"nodes": fleet.nodes}, core=place.daemon)
            say(f"scale: a daemon with {plan.nodes} simulated engines")
            with running(daemon, timeout_s=120.0) as ready_s:
                say(f"scale: ready after {ready_s:.1f} s")
                return run(_measure(daemon, fleet, plan, ready_s))


async def _measure(daemon: Daemon, fleet: Engines, plan: Plan, ready_s: float) -> Report:
    crowd = Crowd(daemon.door, plan.nodes)
    await await_nodes(daemon.door, plan)
    fill_s = await crowd.fill(plan.fill_s)
    total = plan.nodes * PER_NODE
    say(f"scale: {total} containers run after {fill_s:.0f} s ({total / fill_s:.0f}/s)")
    async with crowd.at_work():
        await asyncio.sleep(plan.settle_s)
        crowd.seen.latencies_ms.clear()
        usage = await _watch(daemon, fleet, plan.look_s)
    figures = (
        *usage,
        *_latencies(crowd.seen),
        figure("ready_s", f"start to ready, {plan.nodes} nodes", "s", ready_s),
        figure("fill_per_s", f"{total} containers asked for and running", "/s", total / fill_s),
    )
    return Report("scale", figures, _notes(plan))


async def await_nodes(door: Door, plan: Plan) -> None:
    """Wait until all engines were met."""
    end_s = time.monotonic() + 120
    while True:
        async with Connection(door) as connection:
            page = await connection.ask("GET", f"/v1/nodes?limit={plan.nodes}")
        if sum(node["reach"] == "ok" for node in page.require(200).json["items"]) == plan.nodes:
            return
        if time.monotonic() > end_s:
            raise BenchError("not all nodes are reachable")
        await asyncio.sleep(0.5)


async def _watch(daemon: Daemon, fleet: Engines, look_s: float) -> list[Figure]:
    """Watch the daemon's use, in tenths of the time: the median of ten shares, and the whole."""
    whole, part, load = CpuMeter(daemon.pid), CpuMeter(daemon.pid), CpuMeter(fleet.pid)
    shares = []
    for _ in range(10):
        await asyncio.sleep(look_s / 10)
        daemon.process.require_alive()
        shares.append(part.share())
    memory = memory_mib(daemon.pid)
    below = Goal("below", 1.0)
    return [
        figure(
            "cpu_cores", "the daemon, of one core, over the whole time", "", whole.share(), below
        ),
        figure("cpu_cores_tenths", "the same, by tenths of the time", "", shares),
        figure("rss_mib", "its memory (RSS)", "MiB", memory["rss"], Goal("below", 1024)),
        figure("rss_peak_mib", "the most it ever was", "MiB", memory["hwm"], Goal("below", 1024)),
        figure("engines_cpu", "the simulated engines, of the other core", "", load.share()),
    ]


def _latencies(seen: Seen) -> list[Figure]:
    asked = {
        "livez": "GET /livez (how long the loop is held)",
        "nodes": "GET /v1/nodes, all of them",
        "containers": f"GET /v1/containers, a page of {PAGE}",
        "submit": "POST /v1/jobs with a deadline",
        "snapshot": "GET /v1/snapshot",
        "metrics": "GET /metrics",
    }
    return [
        figure(
            f"{key}_{name}_ms", f"{text}: {name}", "ms", percentile(seen.latencies_ms[key], ratio)
        )
        for key, text in asked.items()
        if seen.latencies_ms.get(key)
        for name, ratio in _ratios(seen.latencies_ms[key])
    ]


def _ratios(values: Sequence[float]) -> list[tuple[str, float]]:
    """Return the percentiles that so many values can tell."""
    few = [("p50", 0.5), ("max", 1.0)]
    return few if len(values) < 100 else [few[0], ("p99", 0.99), few[1]]


def _notes(plan: Plan) -> tuple[str, ...]:
    return (
        f"{plan.nodes} simulated engines, each with a unix socket and {PER_NODE} containers: "
        "services in the nursery, executors on the others, all asked for through REST. Engines are "
        "listed, pinged, followed and sampled at the default intervals, over HTTP.",
        f"Meanwhile {RESTARTS_PER_S:g} containers a second die and are started again by their "
        f"engines, {SUBMITS_PER_S:g} jobs a second of {SHORT_EXECUTORS} executors and "
        f"{SHORT_S} s are submitted with deadlines, and clients read lists every second, the "
        "snapshot every 10 s and the metrics every 15 s. Latencies count from when a request "
        "was due.",
    )
