"""Long answers at full size: whole, right, and the loop goes on beside them."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.daemon.events.garbage import spare_records
from tenure.model.container import ContainerState, Profile, Service
from tenure.model.events import UsageObserved
from tenure.model.job import Job, JobSpec, JobState
from tenure.model.ledger import Interval
from tenure.model.node import Node, NodeSpec, Power, Reach, Site
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from testbed import tied
from tests.api.fleet import SIZE, CoreBackend
from tests.api.server import Server
from tests.fleet.states import store

NODES, CONTAINERS, JOBS = 1000, 20_000, 20_000
#: A slice and what follows it are some 5 ms; the watch may see two in a row, and the collector
#: of garbage comes on top. A slow processor takes longer, for all of it.
HELD_S, HELD_SHARE = 0.03, 0.2
#: A slow processor, and caches that others empty, make one of them too long now and then.
TRIES = 3
SMALL = Resources(cpu_m=10, memory_bytes=8 * MIB)


class FullBackend(CoreBackend):
    """The largest fleet that tenure is designed for, put straight into the records."""

    def __init__(self) -> None:
        super().__init__()
        spec = NodeSpec(name="", url="tcp://10.1.0.1:2375", generation="young", site=Site.LOCAL)
        for i in range(NODES):
            name = f"m{i:04d}"
            node = Node(replace(spec, name=name), capacity=SIZE, power=Power.ON, reach=Reach.OK)
            store(self.state, node)
            store(self.state, Interval(f"i{i}", name, Site.LOCAL, "young", 10**7, 1, off_us=None))
        for i in range(CONTAINERS):
            service = Service(
                id=f"{i:064x}",
                name=f"c{i}",
                app=f"a{i % 50}",
                body={"Image": "app:1", "Env": ["A=1"], "Labels": {"x": "y"}},
                generation="young",
                request=SMALL,
                created_us=i + 1,
                state=ContainerState.RUNNING,
                node=f"m{i % NODES:04d}",
            )
            store(self.state, service)
        base = JobSpec("j", "app", "app:1", ("run",), 1, SMALL)
        for i in range(JOBS):
            row = Job(f"j-{i:06d}", i, replace(base, name=f"j{i}", app=f"a{i % 7}"), i + 1)
            self.state.tables.jobs.put(
                row.id, replace(row, state=JobState.SUCCEEDED, finished_us=i + 2)
            )
        told = (SMALL, 10, 300 * US, ("cpu", "memory"))
        self.profiles = {f"{i:064x}": Profile(f"{i:064x}", *told) for i in range(CONTAINERS)}
        self.state.handle(UsageObserved(at_us=0, profiles=tuple(self.profiles.values())))
        self.state.take_changes()
        spare_records()  # as the daemon does after loading


#: Reads an answer in a process of its own: a reader in this one would hold up the loop's thread.
READER = """
import socket, sys
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect(sys.argv[1])
    for path in sys.argv[2:]:
        head = f"GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n"
        sock.sendall(head.encode())
        first = sock.recv(1 << 16)
        while sock.recv(1 << 20):
            pass
        assert first.startswith(b"HTTP/1.1 200"), first
"""


def read(server: Server, path: str) -> subprocess.Popen[bytes]:
    """Start to read an answer."""
    return tied.start([sys.executable, "-S", "-c", READER, str(server.socket), path])


@pytest.fixture(scope="module")
def full() -> Iterator[Server]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tn-") as folder:
        server = Server(Path(folder), FullBackend)
        try:
            yield server
        finally:
            server.close()


class Lag:
    """The longest stretch of work between two turns of the server's loop.

    ``held_s`` is processor time of the loop's thread, so that other processes on a busy machine do
    not count; ``late_s`` is what a bystander sees, with them; ``worked_s`` is all of its work.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.held_s = self.late_s = self.worked_s = 0.0

    @property
    def bound_s(self) -> float:
        """Return how long a stretch may be."""
        return max(HELD_S, HELD_SHARE * self.worked_s)

    def __str__(self) -> str:
        rows = (("held", self.held_s), ("late", self.late_s), ("worked", self.worked_s))
        return ", ".join(f"{word} {span_s * 1000:.1f} ms" for word, span_s in rows)

    async def _watch(self) -> None:
        last, worked = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now, work = time.perf_counter(), time.thread_time()
            self.late_s = max(self.late_s, now - last - 0.001)
            self.held_s = max(self.held_s, work - worked)
            self.worked_s += work - worked
            last, worked = now, work

    def __enter__(self) -> Lag:
        async def begin() -> asyncio.Task[None]:
            return asyncio.create_task(self._watch())

        self._task = self._server.run(begin())
        return self

    def __exit__(self, *_: object) -> None:
        async def end() -> None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

        self._server.run(end())


PATHS = [
    "/v1/snapshot",
    "/v1/cost",
    "/metrics",
    "/v1/nodes?limit=1000",
    "/v1/containers?limit=1000",
    "/v1/containers?app=none",
    "/v1/jobs?limit=1000",
    "/v1/jobs?state=running",
    "/v1/profiles?limit=1000",
    "/v1/nodes/m0001",
    f"/v1/containers/{7:064x}",
]


@pytest.mark.parametrize("path", PATHS)
def test_the_loop_goes_on(full: Server, path: str) -> None:
    full.get(path)
    for _ in range(TRIES):
        with Lag(full) as lag:
            assert read(full, path).wait(120) == 0
        print(f"{path}: {lag}")
        if lag.held_s < lag.bound_s:
            return
    raise AssertionError(f"{path} held the loop: {lag}")


def test_many_long_answers_at_once(full: Server) -> None:
    with Lag(full) as lag:
        readers = [read(full, path) for path in PATHS[:8]]
        assert [reader.wait(240) for reader in readers] == [0] * len(readers)
    print(f"eight at once: {lag}")
    assert lag.held_s < 2 * lag.bound_s


def test_pages_show_everything_once(full: Server) -> None:
    for path, count in (("/v1/containers", CONTAINERS), ("/v1/jobs", JOBS)):
        names: list[str] = []
        cursor = ""
        while True:
            page = full.get(
                f"{path}?limit=1000&cursor={cursor}" if cursor else f"{path}?limit=1000"
            )
            names += [row["name"] for row in page.json["items"]]
            cursor = page.json["next_cursor"]
            if not cursor:
                break
        assert len(names) == len(set(names)) == count
        assert names == sorted(names, key=lambda name: int(name[1:]))


def test_a_long_answer_is_one_document(full: Server) -> None:
    answer = full.get("/v1/snapshot")
    assert answer.headers.get("Transfer-Encoding") == "chunked"
    snapshot = json.loads(answer.body)
    assert len(snapshot["services"]) == len(snapshot["profiles"]) == CONTAINERS
    from tenure.cycles.snapshot import snapshot_from_json

    assert len(snapshot_from_json(snapshot).services) == CONTAINERS


def test_a_reader_that_goes_away_in_mid_answer(
    full: Server, caplog: pytest.LogCaptureFixture
) -> None:
    import socket

    for _ in range(5):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(full.socket))
            sock.sendall(b"GET /v1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert sock.recv(1000)
    assert full.get("/v1/version").status == 200
    full.get("/v1/snapshot")  # its turn comes after those of the readers that left
    assert caplog.records == []


def test_a_defect_in_mid_answer_cuts_it(full: Server) -> None:
    """Half an answer must not look whole, nor end with another one's text."""

    def spoil(value: float) -> None:
        last = full.backend.profiles[f"{CONTAINERS - 1:064x}"]
        told = replace(last, samples=value)  # type: ignore[arg-type]
        full.backend.handle(UsageObserved(at_us=full.backend.now_us(), profiles=(told,)))

    full.on_loop(spoil, float("nan"))
    try:
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            full.get("/v1/snapshot")
    finally:
        full.on_loop(spoil, 10)
    assert full.get("/v1/snapshot").status == 200
