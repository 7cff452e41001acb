"""What others notice while one client with a `submit` token asks as much and as badly as it can.

A daemon with 20 nodes (simulated engines) and its limits at their defaults. The attacker is a
process of its own that keeps every kind of attack at work at once; bystanders ask ``/livez`` and
submit jobs with another token, at a steady rate.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure, percentile
from benchmarks.http import Connection, Door, run
from benchmarks.rig import Daemon, engines, folder, kept_to, running, say
from testbed.host import cores
from tests.fleet.engines import IMAGE

NODES = 20
LIVEZ_PER_S = 20.0
SUBMISSIONS_PER_S = 5.0
#: Event streams that the attacker holds open, or tries to.
STREAMS = 95
#: Connections of each other kind of attack.
EACH = 4
JOB = {"image": IMAGE, "command": ["work", "60", "0", "0"], "cpus": 1, "memory": "1GiB"}
#: Bodies that are wrong in as many places as fit, and some that are right and large.
BODIES: tuple[tuple[str, str, bytes], ...] = (
    ("POST", "/v1/jobs", b'{"env":[' + b"1," * 500_000 + b"1]}"),
    ("POST", "/v1/jobs", json.dumps({**JOB, "env": [1] * 90_000}).encode()),
    ("POST", "/v1/jobs", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    ("POST", "/v1/batches", b'{"stages":[' + b"{}," * 300_000 + b"{}]}"),
    ("POST", "/v1/jobs/plan", json.dumps({**JOB, "name": "p", "executors": 500}).encode()),
)


@dataclass(slots=True)
class Noticed:
    """Latencies of bystanders in ms, and the daemon's memory in MiB at moments.

    ``told_to_wait``: how often a submission was answered 429, and sent again as it said.
    """

    livez_ms: list[float] = field(default_factory=list)
    submit_ms: list[float] = field(default_factory=list)
    memory_mib: list[float] = field(default_factory=list)
    told_to_wait: int = 0


def measure(*, is_quick: bool = False) -> Report:
    """Take the figures; a minute and a half, ``is_quick`` some seconds."""
    for_s = 3.0 if is_quick else 60.0
    place = cores()
    with kept_to(place.load), folder() as path, engines(path / "e", nodes=NODES) as fleet:
        daemon = Daemon(path / "d", {"nodes": fleet.nodes}, core=place.daemon)
        say(f"attack: a daemon with {NODES} simulated engines")
        with running(daemon):
            run(_bystand(daemon, 1.0))  # what is asked first loads the kernels
            daemon.compiled()
            daemon.rest()
            quiet = run(_bystand(daemon, for_s / 4))
            attacker, bystander = (run(_token(daemon.door, name)) for name in ("eve", "ann"))
            with _attacked(attacker):
                run(asyncio.sleep(1.0))
                under = run(_bystand(daemon, for_s, bystander))
            return Report("attack", _figures(quiet, under), _notes())


async def _token(door: Door, name: str) -> Door:
    """Return the daemon's address with a new ``submit`` token."""
    async with Connection(door) as connection:
        asked = json.dumps({"name": name, "role": "submit"}).encode()
        made = (await connection.ask("POST", "/v1/tokens", asked)).require(201)
        return Door(door.host, door.port, str(made.json["token"]))


async def _bystand(daemon: Daemon, for_s: float, door: Door | None = None) -> Noticed:
    noticed = Noticed()
    number = iter(range(10**9))
    prefix = f"b{time.monotonic_ns()}"

    async def livez(connection: Connection) -> None:
        (await connection.ask("GET", "/livez")).require(200)

    async def submit(connection: Connection) -> None:
        body = json.dumps({**JOB, "name": f"{prefix}-{next(number)}"}).encode()
        while (answer := await connection.ask("POST", "/v1/jobs", body)).status == 429:
            noticed.told_to_wait += 1
            await asyncio.sleep(float(answer.json["retry_after_s"]))
        answer.require(201)

    async def memory() -> None:
        while True:
            noticed.memory_mib.append(_resident_mib(daemon.pid))
            await asyncio.sleep(0.1)

    given = door or daemon.door
    watch = asyncio.create_task(memory())
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_at(LIVEZ_PER_S, given, livez, noticed.livez_ms, for_s))
        tasks.create_task(_at(SUBMISSIONS_PER_S, given, submit, noticed.submit_ms, for_s))
    watch.cancel()
    return noticed


async def _at(
    per_s: float,
    door: Door,
    act: Callable[[Connection], Awaitable[None]],
    found_ms: list[float],
    for_s: float,
) -> None:
    """Act at a steady rate, whether or not earlier ones were answered, as separate askers do.

    Latencies count from when each was due.
    """
    free: list[Connection] = []

    async def one(due_s: float) -> None:
        connection = free.pop() if free else Connection(door)
        await act(connection)
        found_ms.append((time.perf_counter() - due_s) * 1000)
        free.append(connection)

    due_s = time.perf_counter()
    end_s = due_s + for_s
    async with asyncio.TaskGroup() as tasks:
        while due_s < end_s:
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            tasks.create_task(one(due_s))
            due_s += 1 / per_s
    for connection in free:
        await connection.close()


def _resident_mib(pid: int) -> float:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


# the attacker


@contextmanager
def _attacked(door: Door) -> Iterator[None]:
    """Attack from a process of its own for the block; it must be at work to its end."""
    child = multiprocessing.get_context("spawn").Process(target=attack, args=(door,), daemon=True)
    child.start()
    try:
        yield
        if not child.is_alive():
            raise BenchError(f"the attacker ended by itself with {child.exitcode}")
    finally:
        child.kill()
        child.join(10)
        child.close()


def attack(door: Door) -> None:
    """Ask as much and as badly as can be, for ever.

    At low priority: what it takes of the load generator's core is not what bystanders wait for.
    """
    os.nice(19)
    run(_attack(door))


async def _attack(door: Door) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number in range(STREAMS):
            tasks.create_task(_always(door, _stream, number))
        for number in range(EACH):
            for method, path, body in BODIES:
                tasks.create_task(_always(door, _ask(method, path, body), number))
            tasks.create_task(_always(door, _submit, number))
            tasks.create_task(_always(door, _upload, number))


async def _always(
    door: Door, act: Callable[[Connection, int], Awaitable[None]], number: int
) -> None:
    """Do it again and again, on a new connection where the daemon hangs up."""
    while True:
        connection = Connection(door)
        try:
            while True:
                await act(connection, number)
        except (BenchError, OSError, ValueError):
            await asyncio.sleep(0.02)
        finally:
            await connection.close()


def _ask(method: str, path: str, body: bytes) -> Callable[[Connection, int], Awaitable[None]]:
    async def act(connection: Connection, _number: int) -> None:
        await connection.ask(method, path, body)

    return act


async def _submit(connection: Connection, number: int) -> None:
    name = f"e{number}-{time.monotonic_ns()}"
    labels = {f"k{i}": "x" * 200 for i in range(100)}
    body = json.dumps({**JOB, "name": name, "executors": 50, "labels": labels}).encode()
    await connection.ask("POST", "/v1/jobs", body)


async def _upload(connection: Connection, number: int) -> None:
    names = [f"{number}/{i}/" + "/".join("abcdefghij") + f"/{i}" for i in range(2000)]
    body = {"name": f"u{number}", "files": [{"name": n, "size": 0} for n in names]}
    await connection.ask("POST", "/v1/uploads", json.dumps(body).encode())


async def _stream(connection: Connection, number: int) -> None:
    """Follow events of a kind that never comes: each event is looked at, and none sent."""
    await connection.ask(
        "GET", f"/v1/events?types=node.forgotten&after={number}", Accept="text/event-stream"
    )


def _figures(quiet: Noticed, under: Noticed) -> tuple[Figure, ...]:
    return (
        figure(
            "livez_quiet_ms", "p99 of /livez, no attack", "ms", percentile(quiet.livez_ms, 0.99)
        ),
        figure(
            "submit_quiet_ms",
            "p99 of a submission, no attack",
            "ms",
            percentile(quiet.submit_ms, 0.99),
        ),
        figure(
            "livez_ms",
            "p99 of /livez under attack",
            "ms",
            percentile(under.livez_ms, 0.99),
            Goal("below", 100),
        ),
        figure("livez_max_ms", "longest /livez under attack", "ms", max(under.livez_ms)),
        figure(
            "submit_ms",
            "p99 of others' submissions under attack",
            "ms",
            percentile(under.submit_ms, 0.99),
            Goal("below", 250),
        ),
        figure("told_to_wait", "others' submissions told to wait", "", under.told_to_wait),
        figure(
            "memory_mib",
            "most memory of the daemon under attack",
            "MiB",
            max(under.memory_mib),
            Goal("below", 400),
        ),
    )


def _notes() -> tuple[str, ...]:
    return (
        f"One `submit` token holds {STREAMS} filtered event streams and, on {EACH} connections "
        f"each, sends {len(BODIES)} kinds of bodies that are large, wrong or deep, plans of 500 "
        "executors, jobs with 20 kB of labels, and uploads of 2,000 empty files in deep folders.",
        f"Another token asks /livez {LIVEZ_PER_S:.0f} times a second and submits "
        f"{SUBMISSIONS_PER_S:.0f} jobs a second; each counts from when it was due.",
    )
