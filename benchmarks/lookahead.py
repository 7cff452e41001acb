"""One run of a forecast cycle for a whole fleet: what it takes the worker, and what the daemon.

The fleet is that of ``scale``: simulated engines behind real HTTP, services and jobs asked for
through REST, clients at work meanwhile. Its past is made, and is in the daemon's own statistics
store before the daemon starts: each node's remainder, and what containers of each app used.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import scale
from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure, percentile
from benchmarks.http import Connection, Door, run
from benchmarks.rig import Daemon, engines, folder, kept_to, running, say
from tenure.model.units import HOUR_US, MIB
from tenure.profiling.io.sqlite.embedded import EmbeddedStats
from tenure.profiling.io.sqlite.schema import BUCKET_COLUMNS
from tenure.profiling.io.store import HISTORY_US
from testbed.host import cores, cpu_s, memory_mib
from tests.fleet.engines import CPUS, MEMORY_GIB

CYCLE = "foresee"
#: Due but once a year: it is run by hand.
CYCLES = {CYCLE: {"class": "ForecastCycle", "cron": "0 0 1 1 *"}}
DAY_BUCKETS = 24 * HOUR_US // HISTORY_US
#: Pages that stay in memory while the past is recorded: rows of one series are far apart in the
#: index by time.
CACHE_KIB = 768 << 10
SEED = 11
WORKER_S, POLL_S = 60.0, 0.5
#: Bounds of the daemon's record of its loop's rounds.
HELD_S = (0.025, 0.1, 0.5, 2.5)
#: Cores and MiB that are used on average: by a node's remainder, by a container of an app.
REMAINDER, CONTAINER = (CPUS / 8, MEMORY_GIB * 1024 / 8), (0.4, 600.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """The fleet, and of how many days its past is known; ``run_s`` bounds the run.

    A fleet of fewer than 3 days and 8 hours is not forecast. The daemon gives a run 900 s.
    Each app had ``app_containers``, of which the daemon reads the latest 16. ``is_compiled``: wait
    for kernels to be compiled, which a small fleet does not have.
    """

    fleet: scale.Plan = scale.FULL
    days: int = 14
    app_containers: int = 4
    run_s: float = 900.0
    is_compiled: bool = True


FULL = Plan()
QUICK = Plan(
    scale.Plan(nodes=3, settle_s=0.0, fill_s=60.0), days=4, app_containers=1, is_compiled=False
)


def measure(*, is_quick: bool = False) -> Report:
    """Take the figures."""
    plan = QUICK if is_quick else FULL
    nodes = plan.fleet.nodes
    with folder() as path:
        options = {"nodes": nodes, "generations": 3}
        with engines(path / "e", restarts_per_s=scale.RESTARTS_PER_S, **options) as fleet:
            daemon = Daemon(path / "d", {"nodes": fleet.nodes}, is_new=True)
            (path / "d/cycles.yml").write_text(json.dumps(CYCLES))  # JSON is YAML
            names = [node["name"] for node in fleet.nodes]
            say(f"lookahead: recording {plan.days} days of {nodes} nodes")
            record(path / "d/state/stats.db", names, plan)
            with running(daemon, timeout_s=120.0), kept_to(cores().load):
                figures = run(_measure(daemon, plan))
    return Report("lookahead", tuple(figures), _notes(plan))


# the past


def record(path: Path, nodes: Sequence[str], plan: Plan) -> None:
    """Write a made past into a new statistics store: roll-ups of 5 min up to now, as it has them.

    Each series has a level and a day's rhythm of its own, and noise.
    """

    async def make() -> None:
        await (await EmbeddedStats.open(path)).close()

    asyncio.run(make())
    random = np.random.default_rng(SEED)
    apps = [f"app{number}" for number in range(scale.APPS)]
    whose = [("", node, "", REMAINDER) for node in nodes]
    whose += [
        (f"{app}-{number}", nodes[0], app, CONTAINER)
        for app in apps
        for number in range(plan.app_containers)
    ]
    end_us = time.time_ns() // 1000 // HISTORY_US * HISTORY_US
    starts = np.arange(end_us - plan.days * DAY_BUCKETS * HISTORY_US, end_us, HISTORY_US)
    names = ", ".join(("width_us", "start_us", "series", "samples", *BUCKET_COLUMNS))
    marks = ", ".join("?" * (4 + len(BUCKET_COLUMNS)))
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        for container, node, app, (cpus, mebibytes) in whose:
            made = db.execute(
                "INSERT INTO series (container_name, machine, app, last_us) VALUES (?, ?, ?, ?)",
                (container, node, app, end_us),
            )
            cpu = _series(random, starts, 1000 * cpus)
            memory = _series(random, starts, mebibytes * MIB)
            db.executemany(
                f"INSERT INTO rollup ({names}) VALUES ({marks})",
                _rows(starts, made.lastrowid, cpu, memory),
            )
        db.commit()


def _series(random: np.random.Generator, starts: NDArray[Any], mean: float) -> NDArray[Any]:
    """Return whole amounts, (buckets,): a level around the mean, its rhythm and its noise."""
    turn = 2 * np.pi * (starts % (24 * HOUR_US)) / (24 * HOUR_US)
    level = mean * random.uniform(0.5, 1.5)
    wave = random.uniform(0, 0.5) * np.sin(turn + random.uniform(0, 2 * np.pi))
    values = level * (1 + wave + random.normal(0, 0.1, len(starts)))
    whole: NDArray[Any] = np.maximum(values, 0).astype(np.int64)
    return whole


def _rows(
    starts: NDArray[Any], series: int | None, cpu: NDArray[Any], memory: NDArray[Any]
) -> Iterator[tuple[int | None, ...]]:
    """Yield rows of ``rollup``; disk and network were not observed."""
    for at_us, cpu_m, held in zip(starts.tolist(), cpu.tolist(), memory.tolist(), strict=True):
        yield HISTORY_US, at_us, series, 10, *((cpu_m, held, None, None) * 3)


# the run


async def _measure(daemon: Daemon, plan: Plan) -> list[Figure]:
    crowd = scale.Crowd(daemon.door, plan.fleet.nodes)
    await scale.await_nodes(daemon.door, plan.fleet)
    fill_s = await crowd.fill(plan.fleet.fill_s)
    say(f"lookahead: filled after {fill_s:.0f} s")
    if plan.is_compiled:
        await asyncio.to_thread(daemon.compiled)
    worker = await _worker(daemon.door)
    async with crowd.at_work():
        await asyncio.sleep(plan.fleet.settle_s)
        crowd.seen.latencies_ms.clear()
        used_s = {pid: cpu_s(pid) for pid in (worker, daemon.pid)}
        before = await _rounds(daemon.door)
        begun_s = time.monotonic()
        ended = await _run(daemon.door, plan.run_s)
        took_s = time.monotonic() - begun_s
        after = await _rounds(daemon.door)
        latencies = {what: list(found) for what, found in crowd.seen.latencies_ms.items()}
        spent_s = {pid: cpu_s(pid) - before_s for pid, before_s in used_s.items()}
    made = sum(note["code"] == "forecast" for note in ended["nodes"])
    peak_mib, memory = (memory_mib(pid)["hwm"] for pid in (worker, daemon.pid))
    return [
        figure("forecast_nodes", "nodes forecast", "", made, Goal("least", plan.fleet.nodes)),
        figure("run_s", "the run, from the request to its end", "s", took_s, Goal("below", 900)),
        figure("worker_cpu_s", "CPU of the worker", "s", spent_s[worker]),
        figure("worker_peak_mib", "the most memory of the worker (RSS)", "MiB", peak_mib),
        figure("daemon_cpu_s", "CPU of the daemon meanwhile", "s", spent_s[daemon.pid]),
        figure("rss_peak_mib", "the most memory of the daemon", "MiB", memory),
        *_held(before, after),
        *_latencies(latencies),
    ]


async def _worker(door: Door) -> int:
    """Return the pid of the daemon's worker, once it takes cycles."""
    end_s = time.monotonic() + WORKER_S
    async with Connection(door) as connection:
        while time.monotonic() < end_s:
            health = (await connection.ask("GET", "/readyz")).require(200, 503).json
            pid = health.get("parts", {}).get("children", {}).get("worker")
            if pid and "worker" not in health.get("degraded", ()):
                return int(pid)
            await asyncio.sleep(POLL_S)
    raise BenchError("the daemon has no worker")


async def _run(door: Door, limit_s: float) -> dict[str, Any]:
    """Have the cycle run and return the run once it is done."""
    end_s = time.monotonic() + limit_s
    async with Connection(door) as connection:
        asked = await connection.ask("POST", f"/v1/cycles/{CYCLE}/run", b'{"dry_run": false}')
        found = asked.require(200, 201, 202).json
        while not found["finished_at"]:
            if time.monotonic() > end_s:
                raise BenchError(f"the run is {found['state']} after {limit_s:g} s")
            await asyncio.sleep(POLL_S)
            found = (await connection.ask("GET", f"/v1/runs/{found['id']}")).require(200).json
    if found["state"] != "done":
        raise BenchError(f"the run is {found['state']}: {found.get('reason')}")
    return dict(found)


async def _rounds(door: Door) -> dict[float, float]:
    """Return how many rounds the daemon's loop has had, by what they took at most, in seconds."""
    async with Connection(door) as connection:
        text = (await connection.ask("GET", "/metrics")).require(200).body.decode()
    found = re.findall(r'^tenure_loop_held_seconds_bucket{le="(\S+)"} (\S+)$', text, re.MULTILINE)
    return {float(bound): float(count) for bound, count in found}


def _held(before: dict[float, float], after: dict[float, float]) -> Iterator[Figure]:
    """Yield how long the daemon's loop was held during the run, by its own record."""
    passed = {bound: after[bound] - before[bound] for bound in after}
    rounds = max(passed.values())
    longest = min(bound for bound, count in passed.items() if count == rounds)
    if math.isfinite(longest):  # beyond the record's last bound nobody knows by how much
        yield figure("held_max_ms", "the loop was held for at most", "ms", 1000 * longest)
    for bound_s in HELD_S:
        text = f"rounds of the loop of more than {1000 * bound_s:g} ms"
        yield figure(f"held_{1000 * bound_s:g}_ms", text, "", rounds - passed[bound_s])


def _latencies(latencies: dict[str, list[float]]) -> Iterator[Figure]:
    for name, ratio in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        taken = percentile(latencies["submit"], ratio)
        yield figure(f"submit_{name}_ms", f"POST /v1/jobs with a deadline: {name}", "ms", taken)


def _notes(plan: Plan) -> tuple[str, ...]:
    return (
        f"The fleet and the clients of `scale`. {plan.days} days are known of each node's "
        f"remainder and of {plan.app_containers} containers of each of {scale.APPS} apps, whose "
        "mean stands in for the past of the services, which are new; all series are made.",
        "The worker and the daemon share the cores with the engines and the clients.",
    )
