"""Every route with every role; tokens made, used, revoked and expired over REST."""

from __future__ import annotations

import asyncio
import grp
import http.client
import json
import os
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.api.app import build_app
from tenure.api.routes import ENDPOINTS
from tenure.api.server.guard import common_name
from tenure.api.server.listeners import SHARED_MODE, SOCKET_MODE, bind
from tenure.daemon.access.access import Access
from tenure.daemon.access.tokens import ROOT, Tokens
from tenure.model.roles import NEEDS, Role
from testbed import bounded
from tests.api.fleet import CoreBackend
from tests.api.server import JOB, TOKEN, WAIT_S, Answer, Server, access_of, options, tokens_of

#: None: no token at all.
ASKERS: tuple[Role | None, ...] = (None, *Role)


@pytest.fixture(scope="module")
def roled() -> Iterator[tuple[Server, dict[Role, str]]]:
    """A server with a token of each role."""
    tokens = tokens_of(TOKEN)
    texts = {role: tokens.build_in_new(f"of-{role}", role) for role in Role}
    with tempfile.TemporaryDirectory(prefix="tn-") as name:
        server = Server(Path(name), access=Access(tokens), wrong_tokens_per_s=1e6)
        try:
            yield server, texts
        finally:
            server.close()


def asked(connection: http.client.HTTPConnection, route: str, token: str | None) -> Answer:
    """Ask for what is not there, with a body that nothing takes."""
    method, path = route.split(" ")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    body = None if method == "GET" else b"{}"
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request(method, re.sub(r"{\w+}", "no-such", path), body, headers)
    response = connection.getresponse()
    return Answer(response.status, dict(response.getheaders()), response.read())


def test_every_role_may_do_what_the_table_says_and_no_more(
    roled: tuple[Server, dict[Role, str]],
) -> None:
    server, texts = roled
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
    before = server.on_loop(server.backend.sizes)
    for route, need in NEEDS.items():
        for role in ASKERS:
            answer = asked(connection, route, None if role is None else texts[role])
            case = (route, role, answer.status, answer.body)
            if need.is_open:
                assert answer.status == 200, case
            elif role is None:
                assert (answer.status, answer.json["code"]) == (401, "unauthorized"), case
            elif need.allows(role):
                assert answer.status not in (401, 403, 405, 500), case
            else:
                assert (answer.status, answer.json["code"]) == (403, "forbidden"), case
                assert answer.json["role_needed"] == str(need), case
                assert answer.json["role_held"] == role.value, case
    connection.close()
    assert server.on_loop(server.backend.sizes) == before


def test_every_route_is_in_the_table_and_nothing_else() -> None:
    app = build_app(CoreBackend(), options())
    routes = {
        f"{route.method} {route.resource.canonical}"
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    assert routes == set(NEEDS)


def test_the_document_names_the_role_of_each_operation(
    roled: tuple[Server, dict[Role, str]],
) -> None:
    api = roled[0].get("/openapi.json").json
    for endpoint in ENDPOINTS:
        operation = api["paths"][endpoint.path][endpoint.method.lower()]
        assert operation["x-tenure-role"] == str(NEEDS[f"{endpoint.method} {endpoint.path}"])
        assert ("403" in operation["responses"]) is not endpoint.need.is_open


def test_unknown_paths_are_told_to_nobody_unknown(roled: tuple[Server, dict[Role, str]]) -> None:
    server, texts = roled
    headers = {"Authorization": f"Bearer {texts[Role.METRICS]}"}
    assert server.raw("GET", "/v1/nothing", is_tcp=True).status == 401
    assert server.raw("GET", "/v1/nothing", headers=headers, is_tcp=True).status == 404
    assert server.raw("PUT", "/v1/jobs", headers=headers, is_tcp=True).status == 405


# tokens


def over_tcp(server: Server, token: str, path: str = "/v1/nodes") -> Answer:
    headers = {"Authorization": f"Bearer {token}"}
    return server.raw("GET", path, headers=headers, is_tcp=True)


def test_a_token_is_made_used_and_revoked_at_once(server: Server) -> None:
    made = server.post("/v1/tokens", {"name": "ann", "role": "read"})
    assert made.status == 201, made.body
    assert made.headers["Cache-Control"] == "no-store"
    token = made.json["token"]
    assert (made.json["role"], made.json["made_by"]) == ("read", f"uid {os.geteuid()}")
    assert over_tcp(server, token).status == 200
    listed = server.get("/v1/tokens")
    assert token.encode() not in listed.body
    shown = {one["name"]: one["state"] for one in listed.json["items"]}
    assert shown == {"ann": "active", "root-token": "active"}
    again = server.post("/v1/tokens", {"name": "ann", "role": "admin"})
    assert (again.status, again.json["code"]) == (409, "token_exists")
    assert server.send("DELETE", "/v1/tokens/ann").json["state"] == "revoked"
    late = over_tcp(server, token)
    assert (late.status, late.json["detail"]) == (401, "the token ann is revoked; ask for another")
    assert server.send("DELETE", "/v1/tokens/root-token").json["code"] == "builtin_token"
    assert server.send("DELETE", "/v1/tokens/eve").status == 404


def test_a_token_that_is_revoked_while_a_body_comes_changes_nothing(server: Server) -> None:
    token = server.post("/v1/tokens", {"name": "ann", "role": "submit"}).json["token"]
    body = json.dumps(JOB).encode()
    head = (
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\nAuthorization: Bearer {token}\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S) as sock:
        sock.sendall(f"{head}\r\n".encode())
        assert sock.recv(4096).startswith(b"HTTP/1.1 100")  # it is known, and its body is awaited
        server.send("DELETE", "/v1/tokens/ann")
        sock.sendall(body)
        assert sock.recv(4096).startswith(b"HTTP/1.1 401")
    assert server.get("/v1/jobs").json["items"] == []


def test_a_token_expires(server: Server) -> None:
    body = {"name": "short", "role": "read", "expires_s": 0.5}
    token = server.post("/v1/tokens", body).json["token"]
    deadline = time.monotonic() + 60
    while (answer := over_tcp(server, token)).status == 200:
        assert time.monotonic() < deadline
    assert (answer.status, answer.json["detail"]) == (
        401,
        "the token short is expired; ask for another",
    )


def test_only_admins_make_tokens(roled: tuple[Server, dict[Role, str]]) -> None:
    server, texts = roled
    for role in set(Role) - {Role.ADMIN}:
        headers = {"Authorization": f"Bearer {texts[role]}", "Content-Type": "application/json"}
        body = json.dumps({"name": "mine", "role": "admin"}).encode()
        answer = server.raw("POST", "/v1/tokens", body, headers=headers, is_tcp=True)
        assert answer.status == 403


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "Ann"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a" * 64}, "name"),
        ({"role": "root"}, "role"),
        ({"expires_s": 0}, "expires_s"),
        ({"expires_s": -1}, "expires_s"),
        ({"token": "mine"}, "token"),
    ],
)
def test_faults_of_a_token(
    roled: tuple[Server, dict[Role, str]], change: dict[str, object], field: str
) -> None:
    answer = roled[0].post("/v1/tokens", {"name": "ann", "role": "read", **change})
    assert (answer.status, answer.fields) == (422, [field])


def streamed(server: Server, token: str) -> socket.socket:
    """Open a stream of events; return it once it has begun."""
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S)
    head = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
    sock.sendall(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
    assert sock.recv(4096).startswith(b"HTTP/1.1 200")
    return sock


def drained(sock: socket.socket) -> float:
    """Return how long a stream still goes on, seconds."""
    begun = time.monotonic()
    while sock.recv(4096):
        assert time.monotonic() - begun < WAIT_S, "the stream goes on"
    return time.monotonic() - begun


def test_a_stream_ends_with_its_token(server: Server) -> None:
    tokens = {
        name: server.post("/v1/tokens", {"name": name, "role": "read"}).json["token"]
        for name in ("ann", "bob")
    }
    with streamed(server, tokens["ann"]) as ann, streamed(server, tokens["bob"]) as bob:
        server.send("DELETE", "/v1/tokens/ann")
        drained(ann)
        assert bob.recv(4096)  # the others go on
    assert server.get("/v1/nodes").status == 200


class SlowDisk(Tokens):
    """Tokens on a disk that stands still until it is ``released``."""

    def __init__(self) -> None:
        super().__init__(None, lambda: time.time_ns() // 1000)
        self.released = threading.Event()

    async def store(self) -> None:
        await asyncio.to_thread(self.released.wait, WAIT_S)
        await super().store()


def test_a_stream_ends_with_its_token_though_the_disk_stands_still(folder: Path) -> None:
    tokens = SlowDisk()
    tokens.build_in(ROOT, Role.ADMIN, TOKEN)
    server = Server(folder, access=Access(tokens))
    text = server.post("/v1/tokens", {"name": "ann", "role": "read"}).json["token"]
    revoking = threading.Thread(target=server.send, args=("DELETE", "/v1/tokens/ann"))
    try:
        with streamed(server, text) as ann:
            revoking.start()
            drained(ann)
        assert revoking.is_alive()
        assert over_tcp(server, text).status == 401
    finally:
        tokens.released.set()
        revoking.join(WAIT_S)
        server.close()


def test_a_stream_ends_when_its_token_expires(server: Server) -> None:
    body = {"name": "short", "role": "read", "expires_s": 1.0}
    with streamed(server, server.post("/v1/tokens", body).json["token"]) as sock:
        drained(sock)


# other ways in


def test_a_token_counts_over_the_unix_socket_too(server: Server) -> None:
    token = server.post("/v1/tokens", {"name": "ann", "role": "read"}).json["token"]
    assert server.get("/v1/nodes", Authorization=f"Bearer {token}").status == 200
    assert server.send("POST", "/v1/jobs", JOB, Authorization=f"Bearer {token}").status == 403
    assert server.get("/v1/nodes", Authorization="Bearer wrong").status == 401


ASK = """
import os, socket, sys
_, path, gid, *groups = sys.argv
os.setgroups([int(group) for group in groups])
os.setgid(int(gid))
os.setuid(65534)
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(60)
sock.connect(path)
sock.sendall(b"GET /v1/nodes HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
print(sock.recv(100).split()[1].decode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it becomes another user")
def test_users_of_the_socket_have_the_role_of_their_groups(folder: Path) -> None:
    group = next(g for g in grp.getgrall() if g.gr_gid not in (0, 65_534))
    access = access_of(TOKEN, groups={group.gr_name: Role.METRICS})
    server = Server(folder, access=access)
    folder.chmod(0o755)
    server.socket.chmod(SHARED_MODE)

    def status(groups: list[int], gid: int = 65_534) -> str:
        words = [str(server.socket), str(gid), *map(str, groups)]
        done = bounded.run([sys.executable, "-I", "-c", ASK, *words], text=True, check=True)
        return str(done.stdout).strip()

    try:
        assert status([]) == "401"
        assert status([group.gr_gid]) == "403"  # metrics may not list nodes
        assert status([], gid=group.gr_gid) == "403"
        assert status([group.gr_gid + 1]) == "401"
        assert server.get("/v1/nodes").status == 200  # root
    finally:
        server.close()


@pytest.mark.parametrize(("group", "mode"), [("no-such-group", SOCKET_MODE), (None, SHARED_MODE)])
def test_the_socket_is_open_to_all_only_for_several_groups(
    folder: Path, group: str | None, mode: int
) -> None:
    with bind(f"unix://{folder}/s", group=group) as sock:
        assert Path(sock.getsockname()).stat().st_mode & 0o777 == mode


def test_a_certificate_has_one_name() -> None:
    def subject(*names: str) -> dict[str, object]:
        return {"subject": tuple((("commonName", name),) for name in names)}

    assert common_name(subject("ann")) == "ann"
    assert common_name(subject("ann", "root")) == ""
    assert common_name({"subject": ((("organizationName", "ann"),),)}) == ""
    assert common_name({}) == ""
