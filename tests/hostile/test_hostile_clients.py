"""Clients that are slow, many, or deaf; none of them holds anything for long."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.hostile.lab import JOB, Daemon, Probe, statuses, watched

pytestmark = pytest.mark.engines
MANY = 1000
#: The daemon's own patience with a head, and with a body and a stalled reader; how late it may be.
HEAD_S = 10
BODY_S = 30
LATE_S = 30


@pytest.fixture(scope="module", params=["tcp", "https"])
def daemon(request: pytest.FixtureRequest, daemon: Daemon) -> Daemon:
    return replace(daemon, is_tls=request.param == "https")


@pytest.fixture(scope="module", autouse=True)
def bystander(daemon: Daemon) -> Iterator[Probe]:
    with watched(daemon) as probe:
        yield probe


def ended_after(sock: socket.socket, begun: float, within_s: float) -> float:
    """Return after how long the other side closed; fails if it did not within the time."""
    sock.settimeout(within_s)
    with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
        while sock.recv(1 << 16):
            pass
    return time.monotonic() - begun


def dribble(sock: socket.socket, data: bytes, pause_s: float, within_s: float) -> bool:
    """Send a byte at a time until cut; return whether it was."""
    until = time.monotonic() + within_s
    for byte in data:
        try:
            sock.sendall(bytes((byte,)))
        except OSError:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(pause_s)
    return False


def endless_head(daemon: Daemon) -> float:
    """Send a head byte by byte; return after how long that was cut."""
    with daemon.connect() as sock:
        begun = time.monotonic()
        sock.sendall(b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\n")
        assert dribble(sock, b"X: " + b"a" * 200, 0.25, HEAD_S + LATE_S)
        return time.monotonic() - begun


def silent(daemon: Daemon) -> float:
    """Say nothing; return after how long that was cut."""
    with daemon.connect() as sock:
        return ended_after(sock, time.monotonic(), HEAD_S + LATE_S)


def endless_second_head(daemon: Daemon) -> float:
    """Ask well, then begin to ask again; return after how long that was cut."""
    with daemon.connect() as sock:
        sock.sendall(daemon.head("GET /v1/version HTTP/1.1"))
        assert statuses(sock.recv(4096)) == [200]
        sock.sendall(b"GET /v1/nodes HT")
        return ended_after(sock, time.monotonic(), HEAD_S + LATE_S)


def endless_body(daemon: Daemon) -> float:
    """Send one byte of a body of a thousand; return after how long that was answered by 408."""
    head = daemon.head(
        "POST /v1/jobs HTTP/1.1", "Content-Type: application/json", "Content-Length: 1000"
    )
    with daemon.connect() as sock:
        begun = time.monotonic()
        sock.sendall(head + b"{")
        sock.settimeout(BODY_S + LATE_S)
        answer = sock.recv(1 << 16)
        took = time.monotonic() - begun
    assert statuses(answer) == [408], answer
    return took


def deaf(daemon: Daemon) -> float:
    """Ask without end and take no answer; return after how long that was cut."""
    request = daemon.head("GET /openapi.json HTTP/1.1")
    with daemon.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(1.0)
        begun = time.monotonic()
        while (took := time.monotonic() - begun) < BODY_S + LATE_S:
            try:
                sock.sendall(request * 50)
            except TimeoutError:
                continue
            except OSError:
                return took
    raise AssertionError("a reader that takes nothing is still served")


Slow = dict[str, Future[float]]
SLOW = (endless_head, silent, endless_second_head, endless_body, deaf)


@pytest.fixture(scope="module")
def slow(daemon: Daemon) -> Iterator[Slow]:
    """All who try the daemon's patience, at once, for it has patience with each by itself."""
    with ThreadPoolExecutor(len(SLOW)) as pool:
        yield {client.__name__: pool.submit(client, daemon) for client in SLOW}


def test_a_thousand_connections(daemon: Daemon) -> None:
    socks: list[socket.socket] = []
    try:
        for i in range(MANY):
            sock = daemon.connect()
            socks.append(sock)
            if i % 3 == 0:
                continue  # says nothing
            if i % 3 == 1:
                sock.sendall(b"GET /v1/nodes HTTP/1.1\r\nHost: loc")  # half a head
            else:
                sock.sendall(daemon.head("GET /v1/version HTTP/1.1"))  # then idle
        for sock in socks[2::3]:
            assert statuses(sock.recv(4096)) == [200]
        assert daemon.ask("GET", "/v1/nodes")[0] == 200
    finally:
        for sock in socks:
            sock.close()


def test_a_head_that_never_ends(slow: Slow) -> None:
    assert slow["endless_head"].result() < HEAD_S + LATE_S


def test_a_connection_without_a_word(slow: Slow) -> None:
    assert slow["silent"].result() < HEAD_S + LATE_S


def test_a_second_head_that_never_ends(slow: Slow) -> None:
    assert slow["endless_second_head"].result() < HEAD_S + LATE_S


def test_a_body_that_never_ends(slow: Slow) -> None:
    assert BODY_S - 1 < slow["endless_body"].result() < BODY_S + LATE_S


def test_a_reader_that_reads_nothing_is_cut(slow: Slow) -> None:
    """Requests without end on one connection, and no answer taken: the daemon stops reading too."""
    assert slow["deaf"].result() < BODY_S + LATE_S


def test_a_slow_reader_of_events_is_cut_and_resumes(daemon: Daemon) -> None:
    """It is served nothing twice, misses nothing, and is told of gaps: see test_event_stream."""
    head = daemon.head("GET /v1/events?after=0 HTTP/1.1", "Accept: text/event-stream")
    with daemon.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(head)
        for i in range(60):
            status, job = daemon.ask("POST", "/v1/jobs", {**JOB, "name": f"slow-{i}"})
            assert status == 201, job
            daemon.ask("POST", f"/v1/jobs/{job['id']}/cancel", {})
        text = b""
        while b"event: job.accepted" not in text:
            part = sock.recv(1 << 16)
            assert part, "it ended without having told of a job"
            text += part


def test_connections_are_reset(daemon: Daemon) -> None:
    for _ in range(200):
        sock = daemon.connect()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.sendall(daemon.head("GET /v1/nodes HTTP/1.1"))
        sock.close()
    assert daemon.ask("GET", "/v1/nodes")[0] == 200
