"""Tokens, Host, methods, sizes and media types; and what happens when the daemon itself fails."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
from pathlib import Path

import pytest

from tenure.api.routes import ENDPOINTS
from tenure.model.errors import EngineUnclear, Unavailable
from tests.api.server import JOB, TOKEN, WAIT_S, Server


def _tcp(server: Server, path: str = "/v1/nodes", **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.raw("GET", path, headers=named, is_tcp=True).status


def test_tcp_needs_the_token(server: Server) -> None:
    assert _tcp(server) == 401
    assert _tcp(server, Authorization=f"Bearer {TOKEN}") == 200
    assert _tcp(server, Authorization=f"bearer  {TOKEN}") == 200
    for wrong in ("", "Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff"):
        assert _tcp(server, Authorization=wrong) == 401
    assert server.get("/v1/nodes").status == 200  # the unix socket's mode stands for it


def test_unauthorized_says_how(server: Server) -> None:
    answer = server.raw("GET", "/v1/nodes", is_tcp=True)
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert answer.json["code"] == "unauthorized"
    assert answer.json["request_id"] == answer.headers["X-Request-Id"]


@pytest.mark.parametrize("path", [e.path for e in ENDPOINTS if "{" not in e.path])
def test_what_is_open(server: Server, path: str) -> None:
    is_open = path in ("/livez", "/readyz")
    assert (_tcp(server, path) == 200) is is_open


def test_openapi_is_open(server: Server) -> None:
    assert _tcp(server, "/openapi.json") == 200


def test_no_token_means_no_tcp(folder: Path) -> None:
    server = Server(folder, token=None)
    try:
        assert _tcp(server, Authorization="Bearer ") == 401
        assert _tcp(server, Authorization="Bearer None") == 401
        assert server.get("/v1/nodes").status == 200
    finally:
        server.close()


def test_host_is_checked_over_tcp(folder: Path) -> None:
    server = Server(folder, hosts=("tenure.example",))
    try:
        bearer = f"Bearer {TOKEN}"
        for host in ("localhost", "127.0.0.1:7480", "[::1]:1", "tenure.example:80", "LOCALHOST"):
            assert _tcp(server, Authorization=bearer, Host=host) == 200
        for host in ("evil.example", "", "127.0.0.1.evil.example", "localhost.evil:80"):
            assert _tcp(server, Authorization=bearer, Host=host) == 421
        assert server.get("/v1/nodes", Host="docker").status == 200
    finally:
        server.close()


def test_other_addresses_of_loopback_are_no_other_clients(folder: Path) -> None:
    """Each user of this machine has all sixteen million of them."""
    server = Server(folder, wrong_tokens_per_s=0.001)
    statuses = []
    try:
        for last in range(1, 5):
            connection = http.client.HTTPConnection(
                "127.0.0.1", server.port, timeout=WAIT_S, source_address=(f"127.0.1.{last}", 0)
            )
            connection.request("GET", "/v1/nodes", headers={"Authorization": "Bearer wrong"})
            statuses.append(connection.getresponse().status)
            connection.close()
    finally:
        server.close()
    assert statuses == [401, 429, 429, 429]


def test_unknown_paths_and_methods(server: Server) -> None:
    unknown = server.get("/v2/nodes")
    assert (unknown.status, unknown.json["code"]) == (404, "unknown_path")
    wrong = server.send("PUT", "/v1/jobs")
    assert (wrong.status, wrong.json["code"]) == (405, "method_not_allowed")
    assert set(wrong.headers["Allow"].split(", ")) == {"GET", "POST"}
    assert wrong.headers["Content-Type"] == "application/problem+json"


def test_bodies_must_be_json(server: Server) -> None:
    raw = json.dumps(JOB).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""):
        answer = server.raw("POST", "/v1/jobs", raw, headers={"Content-Type": kind})
        assert (answer.status, answer.fields) == (415, ["Content-Type"])
    typed = {"Content-Type": "application/json; charset=utf-8"}
    packed = server.raw(
        "POST", "/v1/jobs", gzip.compress(raw), headers={**typed, "Content-Encoding": "gzip"}
    )
    assert packed.status == 415
    assert server.raw("POST", "/v1/jobs", raw, headers=typed).status == 201


def test_size_limits(folder: Path) -> None:
    server = Server(folder, max_body_bytes=1000, max_plan_bytes=3000)
    try:
        large = {"name": "x" * 1200}
        assert server.post("/v1/jobs", large).json["code"] == "too_large"
        assert server.post("/v1/plans", large).status == 422
        assert server.post("/v1/plans", {"name": "x" * 4000}).status == 413
    finally:
        server.close()


def test_chunked_bodies_are_bounded_too(folder: Path) -> None:
    server = Server(folder, max_body_bytes=1000)
    try:
        head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(10)
            sock.connect(str(server.socket))
            sock.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
            sock.sendall(b"800\r\n" + b"x" * 0x800 + b"\r\n0\r\n\r\n")
            assert sock.recv(4096).startswith(b"HTTP/1.1 413")
    finally:
        server.close()


def test_a_body_where_none_belongs(server: Server) -> None:
    answer = server.post("/v1/jobs/x/cancel", {"force": True})
    assert (answer.status, answer.fields) == (422, ["body"])


def test_the_daemon_s_own_failures(server: Server) -> None:
    server.backend.broken = Unavailable("the core is stopping")
    away = server.post("/v1/jobs", JOB)
    assert (away.status, away.headers["Retry-After"]) == (503, "1")
    server.backend.broken = EngineUnclear("n1 did not answer")
    assert server.post("/v1/jobs", JOB).status == 502
    server.backend.broken = ZeroDivisionError("secret detail")
    defect = server.post("/v1/jobs", JOB)
    assert (defect.status, defect.json["code"]) == (500, "internal")
    assert b"secret detail" not in defect.body
    assert defect.headers["X-Request-Id"] in defect.json["detail"]


def test_a_silent_core_is_unavailable(folder: Path) -> None:
    server = Server(folder, ask_timeout_s=0.1)
    try:
        server.backend.broken = TimeoutError()
        assert server.post("/v1/jobs", JOB).status == 503
        server.backend.reasons = ["the disk is full"]
        told = server.post("/v1/jobs", JOB).json["detail"]
        assert told.startswith("there was no answer within 0.1 s")
        assert told.endswith(": the disk is full")
    finally:
        server.close()


def test_malformed_http(server: Server) -> None:
    for text in (b"NONSENSE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET \xff HTTP/1.1\r\n\r\n"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(10)
            sock.connect(str(server.socket))
            sock.sendall(text)
            assert sock.recv(4096)[9:10] == b"4"
