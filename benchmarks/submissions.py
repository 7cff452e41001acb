"""Accepted submissions per second, and their latency at an offered rate.

60 nodes (simulated engines over unix sockets) are full with one long job; 100 jobs with deadlines
wait behind it, so that every submission is admitted against a full queue. The queue is kept there
by cancelling the oldest, in pauses that are not counted, or (sustained) at the same time.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure, percentile
from benchmarks.http import Connection, Door, run
from benchmarks.rig import Daemon, Engines, engines, folder, kept_to, running, say
from tenure.daemon.app import WARM_NODES
from testbed.host import CpuMeter, cores, filesystem
from tests.fleet.engines import CPUS, IMAGE

CONNECTIONS = 32
OFFERED_PER_S = 200.0
#: Connections that cancel, beside those that submit.
CANCELLERS = 16
FILLER_S = 7200
SEED = 7


@dataclass(frozen=True, slots=True)
class Plan:
    """The size, and how long to measure what; times in seconds.

    ``queue`` is how many jobs wait in the mean, ``waves`` the submissions of each connection in a
    round.
    """

    nodes: int = 60
    queue: int = 100
    waves: int = 3
    warm_s: float = 5.0
    rounds_s: float = 15.0
    sustained_s: float = 15.0
    offered_s: float = 20.0
    repetitions: int = 3

    @property
    def round(self) -> int:
        """How many submissions a round has."""
        return self.waves * CONNECTIONS

    @property
    def least(self) -> int:
        """How many jobs wait when a round begins."""
        return self.queue - self.round // 2


FULL = Plan()
#: Too few nodes for kernels to be compiled, which takes longer than all the rest.
QUICK = Plan(6, 24, 1, warm_s=0.1, rounds_s=0.4, sustained_s=0.3, offered_s=0.3, repetitions=1)


@dataclass(slots=True)
class Load:
    """The clients: connections that submit and cancel, and the ids of the jobs that wait."""

    door: Door
    plan: Plan
    random: Random = field(default_factory=lambda: Random(SEED))
    waiting: deque[str] = field(default_factory=deque)
    prefix: str = field(default_factory=lambda: secrets.token_hex(3))
    submitters: list[Connection] = field(default_factory=list)
    cancellers: list[Connection] = field(default_factory=list)
    _number: int = 0

    async def __aenter__(self) -> Load:
        self.submitters = [Connection(self.door) for _ in range(CONNECTIONS)]
        self.cancellers = [Connection(self.door) for _ in range(CANCELLERS)]
        await asyncio.gather(*(one.open() for one in (*self.submitters, *self.cancellers)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(one.close() for one in (*self.submitters, *self.cancellers)))

    def job(self) -> bytes:
        """Return a job whose place in the order of deadlines is random."""
        self._number += 1
        local_s = self.random.randrange(60, 600)
        job: dict[str, Any] = {
            "name": f"{self.prefix}-{self._number}",
            "app": f"app{self._number % 20}",
            "image": IMAGE,
            "command": ["work", "60", "0", "0"],
            "executors": self.random.randrange(1, 9),
            "cpus": 1,
            "memory": "1GiB",
            "deadline_s": self.random.randrange(4 * FILLER_S, 40 * FILLER_S),
            "estimate": {"local_s": local_s},
        }
        return json.dumps(job).encode()

    async def submit(self, connection: Connection) -> None:
        """Submit a job as the command does, with an idempotency key; it must be accepted."""
        key = secrets.token_hex(16)
        answer = await connection.ask("POST", "/v1/jobs", self.job(), Idempotency_Key=key)
        self.waiting.append(str(answer.require(201).json["id"]))

    async def cancel_oldest(self, connection: Connection) -> None:
        """Cancel the job that was accepted first."""
        answer = await connection.ask("POST", f"/v1/jobs/{self.waiting.popleft()}/cancel", b"{}")
        answer.require(200)

    async def fill(self, engines_: Engines) -> None:
        """Have one job take every core for hours, and ``queue`` jobs wait behind it."""
        filler = {
            "name": f"{self.prefix}-filler",
            "image": IMAGE,
            "command": ["work", str(FILLER_S), "0", "0"],
            "executors": len(engines_.nodes),
            "cpus": CPUS,
            "memory": "1GiB",
            "estimate": {"local_s": FILLER_S},
        }
        first = self.submitters[0]
        made = await first.ask("POST", "/v1/jobs", json.dumps(filler).encode())
        path = f"/v1/jobs/{made.require(201).json['id']}"
        end_s = time.monotonic() + 60
        while (await first.ask("GET", path)).require(200).json["state"] != "running":
            if time.monotonic() > end_s:
                raise BenchError("the job that fills the nodes does not run")
            await asyncio.sleep(0.1)
        await self._each(self.submitters, self.submit, self.plan.queue)
        await self._must_wait()

    async def _must_wait(self) -> None:
        """Raise BenchError unless all jobs wait: else something other than a queue is measured."""
        page = await self.submitters[0].ask("GET", "/v1/jobs?state=waiting&limit=1000")
        count = len(page.require(200).json["items"])
        if count != len(self.waiting):
            raise BenchError(f"{count} jobs wait, not {len(self.waiting)}")

    async def _each(
        self, on: list[Connection], act: Callable[[Connection], Awaitable[None]], count: int
    ) -> None:
        """Do ``count`` times ``act``, on all connections at once, one after the other on each."""
        left = iter(range(count))

        async def work(connection: Connection) -> None:
            for _ in left:
                await act(connection)

        async with asyncio.TaskGroup() as tasks:
            for connection in on:
                tasks.create_task(work(connection))

    async def rounds(self, for_s: float) -> float:
        """Submit in rounds, ``queue`` waiting in the mean; return accepted per second."""
        spent_s, accepted = 0.0, 0
        end_s = time.monotonic() + for_s
        while time.monotonic() < end_s:
            await self._each(
                self.submitters, self.cancel_oldest, len(self.waiting) - self.plan.least
            )
            begun_s = time.perf_counter()
            await self._each(self.submitters, self.submit, self.plan.round)
            spent_s += time.perf_counter() - begun_s
            accepted += self.plan.round
        await self.trim()
        return accepted / spent_s

    async def trim(self) -> None:
        """Cancel the oldest until ``queue`` wait."""
        await self._each(self.submitters, self.cancel_oldest, len(self.waiting) - self.plan.queue)

    async def sustained(self, for_s: float) -> float:
        """Submit without a pause, each connection cancelling the oldest after each; per second."""
        accepted = 0
        end_s = time.perf_counter() + for_s
        begun_s = time.perf_counter()

        async def work(connection: Connection) -> None:
            nonlocal accepted
            while time.perf_counter() < end_s:
                await self.submit(connection)
                accepted += 1
                await self.cancel_oldest(connection)

        async with asyncio.TaskGroup() as tasks:
            for connection in self.submitters:
                tasks.create_task(work(connection))
        return accepted / (time.perf_counter() - begun_s)

    async def offered(self, for_s: float) -> list[float]:
        """Submit at random times (Poisson), whether or not earlier ones were answered.

        Returns each latency in ms from the time at which it was due: what waits for a connection
        waits for its answer too.
        """
        free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
        for connection in self.submitters:
            free.put_nowait(connection)
        latencies_ms: list[float] = []

        async def one(due_s: float) -> None:
            connection = await free.get()
            await self.submit(connection)
            latencies_ms.append((time.perf_counter() - due_s) * 1000)
            free.put_nowait(connection)

        due_s = time.perf_counter()
        end_s = due_s + for_s
        trim = [asyncio.create_task(self._keep_short(canceller)) for canceller in self.cancellers]
        async with asyncio.TaskGroup() as tasks:
            while (due_s := due_s + self.random.expovariate(OFFERED_PER_S)) < end_s:
                await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                tasks.create_task(one(due_s))
        for task in trim:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for canceller in self.cancellers:
            await canceller.close()  # one may have been cut off amid an answer
        return latencies_ms

    async def _keep_short(self, connection: Connection) -> None:
        """Keep the queue at its length until cancelled."""
        while True:
            if len(self.waiting) > self.plan.queue:
                await self.cancel_oldest(connection)
            else:
                await asyncio.sleep(0.002)


def measure(*, is_quick: bool = False) -> Report:
    """Take the figures; under 90 s, ``is_quick`` a few."""
    plan = QUICK if is_quick else FULL
    place = cores()
    with kept_to(place.load), folder() as path, engines(path / "e", nodes=plan.nodes) as fleet:
        daemon = Daemon(path / "d", {"nodes": fleet.nodes}, core=place.daemon)
        say(f"submissions: a daemon with {plan.nodes} simulated engines")
        with running(daemon):
            return run(_measure(daemon, fleet, plan, path))


async def _measure(daemon: Daemon, fleet: Engines, plan: Plan, path: Path) -> Report:
    rates, shares, sustained, offered = [], [], [], []
    async with Load(daemon.door, plan) as load:
        await load.fill(fleet)
        if plan.nodes >= WARM_NODES:
            await asyncio.to_thread(daemon.compiled)
        await asyncio.to_thread(daemon.rest)
        say("submissions: warming up")
        await load.rounds(plan.warm_s)
        meter = CpuMeter(daemon.pid)
        for _ in range(plan.repetitions):
            meter.share()
            rates.append(await load.rounds(plan.rounds_s / plan.repetitions))
            shares.append(100 * meter.share())
            sustained.append(await load.sustained(plan.sustained_s / plan.repetitions))
            await load.trim()
            offered.append(await load.offered(plan.offered_s / plan.repetitions))
            say(f"submissions: {rates[-1]:.0f}/s, p99 {percentile(offered[-1], 0.99):.1f} ms")
    return Report("submissions", _figures(rates, sustained, offered, shares), _notes(plan, path))


def _figures(
    rates: list[float], sustained: list[float], offered: list[list[float]], shares: list[float]
) -> tuple[Figure, ...]:
    at = f"at an offered {OFFERED_PER_S:.0f}/s"
    p99 = [percentile(one, 0.99) for one in offered]
    return (
        figure("accepted_per_s", "accepted submissions", "/s", rates, Goal("least", 1000)),
        figure("accepted_with_cancels_per_s", "the same, as many cancels besides", "/s", sustained),
        figure(
            "latency_p50_ms", f"median latency {at}", "ms", [percentile(o, 0.5) for o in offered]
        ),
        figure("latency_p99_ms", f"p99 latency {at}", "ms", p99, Goal("most", 25)),
        figure("latency_max_ms", f"longest latency {at}", "ms", [max(o) for o in offered]),
        figure("daemon_cpu", "the daemon's core while it accepts", "%", shares),
    )


def _notes(plan: Plan, path: Path) -> tuple[str, ...]:
    where = "on the other core" if cores().is_apart else "on the same core, the only one"
    return (
        f"{CONNECTIONS} keep-alive connections over TCP with token and idempotency keys; load "
        f"generator and engines {where}; the state is on {filesystem(path)}, synchronous=FULL.",
        f"{plan.nodes} nodes are simulated engines over unix sockets, full with one long job; in "
        f"each round the queue grows from {plan.least} to {plan.least + plan.round}. Cancels "
        "between rounds are not counted. Deadlines are random, so that a new job goes anywhere in "
        "the queue.",
        "Latency counts from the time at which a submission was due (Poisson arrivals), not from "
        "when a connection was free.",
    )
