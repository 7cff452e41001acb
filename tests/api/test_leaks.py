"""What goes wrong before a request is one: answered as a problem, logged without what was sent."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.api.app import build_app
from tenure.api.server.listeners import serve
from tenure.config.certificates import client_context, server_context
from tenure.daemon.answers.uploads import UploadParams, Uploads
from tenure.model.access import TlsFiles
from testbed import binaries, certificates
from tests.api.server import TOKEN, Server, options

SECRET = "s3cr3t-t0k3n-of-somebody"
NOBODY = 65_534
Dial = Callable[[], socket.socket]


@pytest.fixture(params=["tcp", "https"])
def dial(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[Dial]:
    """Return what connects to a listener: each of these tests runs over both kinds."""
    if request.param == "tcp":
        yield lambda: socket.create_connection(("127.0.0.1", server.port), timeout=60)
        return
    if binaries.which("openssl") is None:
        pytest.skip("openssl is missing")
    authority = certificates.Authority(tmp_path)
    authority.issue(tmp_path / "own", ["localhost"])
    files = TlsFiles("", str(tmp_path / "own.pem"), str(tmp_path / "own.key"))
    app = build_app(server.backend, options(body_s=2.0))
    listeners = server.run(serve(app, ["https://127.0.0.1:0"], tls=server_context(files)))
    port = int(listeners.addresses[0].rsplit(":", 1)[1])
    context = client_context(TlsFiles(str(tmp_path / "ca.pem")))

    def connect() -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", port), timeout=60)
        return context.wrap_socket(plain, server_hostname="localhost")

    yield connect
    server.run(listeners.close())


def answer(dial: Dial, data: bytes) -> tuple[bytes, Any]:
    """Return head and JSON of what is answered to bytes."""
    with dial() as sock:
        sock.sendall(data)
        found = b""
        while part := sock.recv(1 << 16):
            found += part
    head, _, body = found.partition(b"\r\n\r\n")
    return head, json.loads(body) if body else None


HEADS = {
    "a return that is none": b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\n"
    b"Authorization: Bearer %s\r\r\n\r\n",
    "bare newlines": b"GET /v1/nodes HTTP/1.1\nHost: localhost\nAuthorization: Bearer %s\n\n",
    "a folded header": b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\n"
    b"Authorization:\r\n Bearer\x00 %s\r\n\r\n",
    "a token for a method": b"Bearer:%s / HTTP/1.1\r\n\r\n",
    "a token for a version": b"GET / %s\r\n\r\n",
    "a long token": b"GET / HTTP/1.1\r\nAuthorization: Bearer %s" + b"x" * 9000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("name", HEADS)
def test_nothing_of_a_head_that_cannot_be_read_is_logged(
    dial: Dial, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.DEBUG)
    head, problem = answer(dial, HEADS[name] % SECRET.encode())
    assert head.startswith(b"HTTP/1.1 400 ") or head.startswith(b"HTTP/1.0 400 ")
    assert b"application/problem+json" in head
    assert problem["code"] == "malformed_request"
    assert problem["status"] == 400
    assert SECRET not in caplog.text
    assert "a request that cannot be read" in caplog.text
    assert not [row for row in caplog.records if row.levelno >= logging.WARNING]


def test_the_server_header_names_no_versions(dial: Dial, server: Server) -> None:
    for data in (b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n", b"nonsense\r\n\r\n"):
        head, _ = answer(dial, data)
        assert b"\r\nServer: tenure\r\n" in head + b"\r\n"
        assert b"aiohttp" not in head
    assert server.get("/v1/events?limit=1").headers["Server"] == "tenure"


HUNG_UP = {
    "in a body": b"Content-Length: 1000\r\n\r\n{",
    "in a chunk": b"Transfer-Encoding: chunked\r\n\r\n10\r\n{",
    "after bad chunks": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{",
}


@pytest.mark.parametrize("how", HUNG_UP)
def test_a_client_that_hangs_up_in_mid_body_is_no_error(
    dial: Dial, server: Server, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    caplog.set_level(logging.INFO)
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    begun = head.encode() + b"Content-Type: application/json\r\n" + HUNG_UP[how]
    for is_reset in (False, True):
        with dial() as sock:
            sock.sendall(begun)
            time.sleep(0.05)  # so that the handler is reading; without it the test is as true
            if is_reset:
                linger = b"\x01\0\0\0\0\0\0\0"
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    assert server.get("/livez").status == 200
    server.restart_listeners()  # every connection has ended
    assert not [row for row in caplog.records if row.levelno >= logging.WARNING], caplog.text


def test_readyz_tells_details_to_whom_it_knows_alone(server: Server) -> None:
    server.backend.degraded = {"nodes": "unreachable: n1"}
    asked = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {TOKEN}"}]
    found = [server.raw("GET", "/readyz", headers=headers, is_tcp=True) for headers in asked]
    assert [one.status for one in found] == [200, 200, 200]
    assert found[0].json == found[1].json == {"is_ready": True, "status": "ok"}
    assert found[2].json["status"] == "degraded"
    assert found[2].json["degraded"] == {"nodes": "unreachable: n1"}
    assert server.get("/readyz").json["degraded"] == {"nodes": "unreachable: n1"}
    server.backend.reasons = ["the store cannot be written"]
    failing = server.raw("GET", "/readyz", is_tcp=True)
    assert (failing.status, failing.json) == (503, {"is_ready": False, "status": "not_ready"})


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Be somebody whom modes of files bind: tests may run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_cannot_be_read_is_a_clear_503(
    server: Server, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = folder / "uploads"
    here.mkdir(mode=0o000)
    folder.chmod(0o755)
    server.backend._uploads = Uploads(UploadParams(here, 1 << 20), server.backend.now_us)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with unprivileged():
        found = server.raw("GET", "/v1/uploads", headers=headers, is_tcp=True)
    assert (found.status, found.json["code"]) == (503, "disk_failed")
    assert found.json["detail"] == "the daemon cannot use its files: Permission denied"
    assert str(here) in caplog.text
    assert "Traceback" not in caplog.text
