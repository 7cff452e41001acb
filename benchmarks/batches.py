"""A batch of 10,000 tasks on 1,000 nodes that lend: how long the daemon's loop is held by it.

The engines and their agents are simulated, the daemon is `tenured run`, and the batch is submitted
and cancelled over REST, while `GET /livez` is asked fifty times a second. Twice: the second batch
is planned beside the first, of which some tasks run and the others wait.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure, percentile
from benchmarks.http import Connection, Door, run
from benchmarks.rig import Daemon, engines, folder, kept_to, running, say
from testbed.host import cores
from tests.fleet.engines import IMAGE

PROBES_PER_S = 50.0
#: A task takes so much of a node; an hour, so that none ends meanwhile.
CPUS, MEMORY, TASK_S = 2, "1GiB", 3600
NODE_CPUS = 16
READY_S, PLACED_S = 120.0, 300.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The size."""

    nodes: int = 1000
    tasks: int = 10_000
    settle_s: float = 10.0


FULL = Plan()
QUICK = Plan(nodes=6, tasks=60, settle_s=0.1)


@dataclass(slots=True)
class Crowd:
    """The clients: whoever submits, and a probe."""

    door: Door
    plan: Plan
    held_ms: dict[str, list[float]] = field(default_factory=dict)

    @asynccontextmanager
    async def probing(self, phase: str) -> AsyncIterator[None]:
        """Ask for a sign of life for the block, and note the time of each answer."""
        found = self.held_ms.setdefault(phase, [])
        task = asyncio.create_task(self._probe(found))
        try:
            yield
            if task.done():
                task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _probe(self, found: list[float]) -> None:
        due_s = time.perf_counter()
        async with Connection(self.door) as connection:
            while True:
                await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                (await connection.ask("GET", "/livez")).require(200)
                now_s = time.perf_counter()
                found.append((now_s - due_s) * 1000)
                due_s = max(due_s + 1 / PROBES_PER_S, now_s)

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer's body."""
        raw = b"" if body is None else json.dumps(body).encode()
        async with Connection(self.door) as connection:
            return (await connection.ask(method, path, raw)).require(200, 201).json

    async def until_lent(self) -> None:
        """Wait until a batch of one task for each node would begin everywhere at once."""
        end_s = time.monotonic() + READY_S
        body = self.batch("dry", self.plan.nodes)
        while time.monotonic() < end_s:
            async with Connection(self.door) as connection:
                path, raw = "/v1/batches/plan", json.dumps(body).encode()
                answer = await connection.ask("POST", path, raw)
            if answer.status == 200:
                starts = answer.json["plan"]["starts"]
                if len({start["node"] for start in starts}) == self.plan.nodes:
                    return
            await asyncio.sleep(1.0)
        raise BenchError(f"not all nodes lend: {answer.body[:300]!r}")

    def batch(self, name: str, tasks: int) -> dict[str, Any]:
        """Return a batch of so many tasks."""
        stage = {
            "name": "work",
            "command": ["work", str(TASK_S), "0", "0"],
            "cpus": CPUS,
            "memory": MEMORY,
            "tasks": tasks,
            "estimate": {"task_s": TASK_S},
        }
        return {"name": name, "image": IMAGE, "stages": [stage]}

    async def until_running(self, batch: str, tasks: int) -> None:
        """Wait until so many tasks of a batch run."""
        end_s = time.monotonic() + PLACED_S
        while (running := await self._running(batch)) < tasks:
            if time.monotonic() > end_s:
                raise BenchError(f"{running} tasks run, not {tasks}")
            await asyncio.sleep(1.0)

    async def _running(self, batch: str) -> int:
        states = (await self.ask("GET", f"/v1/batches/{batch}"))["stages"][0]["states"]
        return int(states.get("running", 0))

    async def until_over(self, batch: str) -> None:
        """Wait until nothing of a batch is left."""
        end_s = time.monotonic() + PLACED_S
        while not (await self.ask("GET", f"/v1/batches/{batch}"))["finished_at"]:
            if time.monotonic() > end_s:
                raise BenchError("a cancelled batch does not end")
            await asyncio.sleep(1.0)


def measure(*, is_quick: bool = False, plan: Plan | None = None) -> Report:
    """Take the figures."""
    plan = plan or (QUICK if is_quick else FULL)
    place = cores()
    with kept_to(place.load), folder() as path:
        options = {"nodes": plan.nodes, "cpus": NODE_CPUS, "lent": 1}
        with engines(path / "e", **options) as fleet:
            config = {
                "nodes": fleet.nodes,
                "generations": ["young"],
                "harvest": {"require_forecast": False, "planner": {"solver": "first_fit"}},
            }
            daemon = Daemon(path / "d", config, core=place.daemon)
            say(f"batches: a daemon with {plan.nodes} simulated engines that lend")
            with running(daemon, timeout_s=READY_S):
                return run(_measure(Crowd(daemon.door, plan)))


async def _measure(crowd: Crowd) -> Report:
    plan = crowd.plan
    await crowd.until_lent()
    async with crowd.probing("idle"):
        await asyncio.sleep(plan.settle_s)
    fitting = plan.nodes * int(NODE_CPUS * 0.9 / CPUS)
    answers, batches = [], []
    for name in ("first", "second"):
        async with crowd.probing(name):
            begun_s = time.perf_counter()
            made = await crowd.ask("POST", "/v1/batches", crowd.batch(name, plan.tasks))
            answers.append(time.perf_counter() - begun_s)
            say(f"batches: {name} answered after {answers[-1]:.1f} s")
            batches.append(str(made["id"]))
            if name == "first":
                await crowd.until_running(batches[0], min(plan.tasks, fitting))
            await asyncio.sleep(plan.settle_s)
    async with crowd.probing("cancel"):
        begun_s = time.perf_counter()
        for batch in reversed(batches):
            await crowd.ask("POST", f"/v1/batches/{batch}/cancel", {})
        for batch in batches:
            await crowd.until_over(batch)
        over_s = time.perf_counter() - begun_s
    return Report("batches", tuple(_figures(crowd, answers, over_s)), _notes(plan))


def _figures(crowd: Crowd, answers: list[float], over_s: float) -> list[Figure]:
    told = {
        "idle": "nothing submitted",
        "first": "the first batch is planned, stored and placed",
        "second": "the second is, beside it",
        "cancel": "both are cancelled, and all containers removed",
    }
    rows = [
        figure(f"{phase}_{name}_ms", f"GET /livez while {text}: {name}", "ms", found)
        for phase, text in told.items()
        for name, found in (
            ("p50", percentile(crowd.held_ms[phase], 0.5)),
            ("p99", percentile(crowd.held_ms[phase], 0.99)),
            ("max", max(crowd.held_ms[phase])),
        )
    ]
    below = Goal("below", 10.0)
    return [
        *rows,
        figure("answer_s", "POST /v1/batches to its answer", "s", answers, below),
        figure("over_s", "both cancelled to both over", "s", over_s),
    ]


def _notes(plan: Plan) -> tuple[str, ...]:
    return (
        f"{plan.nodes} simulated engines and agents on unix sockets, and batches of {plan.tasks} "
        f"tasks of {CPUS} cores and {MEMORY} that last for an hour; nodes have {NODE_CPUS} cores. "
        "The planner is `first_fit`; engines answer at once.",
        f"How long the loop is held is seen by `GET /livez`, {PROBES_PER_S:g} a second: it holds "
        "the time of the request itself.",
    )
