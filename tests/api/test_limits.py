"""Rates, connections and patience."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from tenure.api.access.gate import BURST_S, Buckets
from tenure.api.server.acceptor import Terms
from tenure.api.server.guard import Patience
from tests.api.server import JOB, TOKEN, Server


def test_a_bucket_holds_its_burst_and_refills() -> None:
    buckets = Buckets(10.0)
    taken = [buckets.take("a", 100.0) for _ in range(21)]
    assert taken[:20] == [0.0] * 20
    assert taken[20] == pytest.approx(0.1)
    assert buckets.take("b", 100.0) == 0.0  # another client's is its own
    assert buckets.take("a", 100.125) == 0.0
    assert buckets.take("a", 100.125) > 0
    assert buckets.take("a", 99.0) > 0  # a clock that steps back gives nothing
    assert buckets.take("a", 100.125) > 0  # nor does its return
    assert [buckets.take("a", 1000.0) for _ in range(21)].count(0.0) == 10 * BURST_S


def test_a_rate_below_one_lets_one_pass() -> None:
    buckets = Buckets(0.1)
    assert buckets.take("a", 0.0) == 0.0
    assert buckets.take("a", 0.0) == pytest.approx(10.0)


def test_clients_remembered_are_bounded() -> None:
    buckets = Buckets(1.0, max_clients=3)
    for i in range(100):
        buckets.take(f"client {i}", 0.0)
    assert len(buckets) == 3


def test_too_many_requests_are_told_when_to_come_back(folder: Path) -> None:
    server = Server(folder, requests_per_s=0.5)  # a slow machine may ask for twenty seconds
    try:
        found = [server.get("/v1/version") for _ in range(12)]
        assert found[0].status == 200
        late = found[-1]
        assert (late.status, late.json["code"]) == (429, "too_many_requests")
        assert int(late.headers["Retry-After"]) >= 1
        assert "limits.requests_per_s" in late.json["detail"]
        assert server.get("/livez").status == 200  # a supervisor must never be refused
        # another client has a bucket of its own
        assert server.raw("GET", "/readyz", is_tcp=True).status == 200
    finally:
        server.close()


def test_at_the_defaults_a_thousand_submissions_a_second_pass(server: Server) -> None:
    """3,000 of them within a second, which no client of this daemon manages."""
    buckets = Buckets(server.options.requests_per_s)
    assert sum(buckets.take("a", i / 3000) == 0.0 for i in range(9000)) == 9000


def test_wrong_tokens_are_refused_harder_but_the_right_one_passes(folder: Path) -> None:
    server = Server(folder, wrong_tokens_per_s=0.5)
    try:

        def ask(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return server.raw("GET", "/v1/version", headers=headers, is_tcp=True).status

        found = [ask(f"wrong-{i}") for i in range(10)]
        assert found[0] == 401
        assert 429 in found
        assert ask(TOKEN) == 200
    finally:
        server.close()


def _connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def test_connections_beyond_the_bound_are_told_so(folder: Path) -> None:
    server = Server(folder, terms=Terms(connections=5))
    socks = []
    try:
        socks = [_connect(server) for _ in range(5)]
        with _connect(server) as late:
            late.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = late.recv(4096)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"too_many_connections" in answer
        assert server.get("/livez").status == 200  # the unix socket has a bound of its own
        socks.pop().close()
        deadline = time.monotonic() + 60
        while server.raw("GET", "/livez", is_tcp=True).status != 200:
            assert time.monotonic() < deadline
    finally:
        for sock in socks:
            sock.close()
        server.close()


#: Each short in one thing alone: a busy machine may be late with the others.
HASTY, RESTLESS, PUSHING = Patience(head_s=0.5), Patience(idle_s=1.0), Patience(stall_s=1.0)


def _cut_after(sock: socket.socket) -> float:
    begun = time.monotonic()
    while sock.recv(4096):
        pass
    return time.monotonic() - begun


@pytest.mark.parametrize("first", [b"", b"GET /livez HTT"])
def test_a_head_has_its_time(folder: Path, first: bytes) -> None:
    server = Server(folder, terms=Terms(patience=HASTY))
    try:
        with _connect(server) as sock:
            sock.sendall(first)
            assert _cut_after(sock) < 30
    finally:
        server.close()


def test_an_idle_connection_has_its_time(folder: Path) -> None:
    server = Server(folder, terms=Terms(patience=RESTLESS))
    try:
        with _connect(server) as sock:
            begun = time.monotonic()
            sock.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")
            assert _cut_after(sock) < 30
            assert time.monotonic() - begun > RESTLESS.idle_s / 2
    finally:
        server.close()


def test_a_stream_is_not_idle(folder: Path) -> None:
    server = Server(folder, terms=Terms(patience=RESTLESS), heartbeat_s=0.3)
    try:
        head = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
        with _connect(server) as sock:
            sock.sendall(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
            begun = time.monotonic()
            beats = b""
            while beats.count(b"heartbeat") < 6 or time.monotonic() - begun < 2 * RESTLESS.idle_s:
                some = sock.recv(4096)
                assert some, "it was cut"
                beats += some
    finally:
        server.close()


def test_a_reader_that_takes_nothing_is_cut(folder: Path) -> None:
    server = Server(folder, terms=Terms(patience=PUSHING))
    try:
        server.on_loop(server.backend.logs.update, {"x": b""})
        job = server.post("/v1/jobs", {**JOB, "executors": 1}).json["id"]
        server.on_loop(server.backend.logs.update, {f"{job}/0": b"line\n" * 4_000_000})
        head = f"GET /v1/jobs/{job}/logs HTTP/1.1\r\nHost: localhost\r\n"
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.settimeout(60)
            sock.connect(("127.0.0.1", server.port))
            sock.sendall(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
            assert sock.recv(100).startswith(b"HTTP/1.1 200")
            deadline = time.monotonic() + 60
            while _open(server):
                assert time.monotonic() < deadline, "still held"
                time.sleep(0.1)
    finally:
        server.close()


def _open(server: Server) -> int:
    return server.on_loop(lambda: server._listeners._sites[-1].acceptor._open)


def test_a_body_has_its_time(folder: Path) -> None:
    server = Server(folder, body_s=0.3)
    try:
        head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(60)
            sock.connect(str(server.socket))
            sock.sendall(head + b"Content-Length: 100\r\n\r\n{")
            answer = sock.recv(4096)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"too_slow" in answer
    finally:
        server.close()


def test_clients_are_told_apart(server: Server) -> None:
    def peers() -> set[str]:
        guards = (g for s in server._listeners._sites for g in s.acceptor._guards)
        return {g.peer for g in guards if g.peer}  # one that is being taken has none yet

    with socket.socket(socket.AF_UNIX) as one, _connect(server) as other:
        one.connect(str(server.socket))
        one.sendall(b"GET /livez HTTP/1.1\r\n")
        other.sendall(b"GET /livez HTTP/1.1\r\n")

        deadline = time.monotonic() + 60
        while len(found := server.on_loop(peers)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert "127.0.0.1" in found
    assert any(peer.startswith("uid ") for peer in found)
