"""The API on real sockets, in a thread of its own, and a bare HTTP client to hit it with."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tenure.api.app import build_app
from tenure.api.requests.options import Options
from tenure.api.server.acceptor import Terms
from tenure.api.server.listeners import Listeners, serve
from tenure.daemon.access.access import Access
from tenure.daemon.access.tokens import ROOT, Tokens
from tenure.model.roles import Grant, Role
from tenure.model.units import HOUR_US
from tenure.placement.constraints import parse
from tenure.store.audit import Audit
from tests.api.fleet import CoreBackend

T = TypeVar("T")
TOKEN = "test-token-1"
WAIT_S = 60.0


def options(**changes: Any) -> Options:
    given: dict[str, Any] = {"parse_constraint": parse, "heartbeat_s": 0.2}
    given["policies"] = ("ff", "gio", "tenure")
    given["access"] = access_of(changes.pop("token", TOKEN))
    return Options(**(given | changes))


def access_of(token: str | None, **roles: Mapping[str, Role]) -> Access:
    """Return who may ask a server whose root token this is (None: it has none).

    ``roles`` are those of ``certificates`` and ``groups``.
    """
    given = {of: {name: Grant(role) for name, role in one.items()} for of, one in roles.items()}
    return Access(tokens_of(token), **given)


def tokens_of(token: str | None) -> Tokens:
    """Return tokens with a root token (None: without)."""
    tokens = Tokens(None, lambda: time.time_ns() // 1000)
    if token is not None:
        tokens.build_in(ROOT, Role.ADMIN, token)
    return tokens


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def fields(self) -> list[str]:
        return [fault["field"] for fault in self.json["errors"]]


class Server:
    """The application over a ``CoreBackend``, serving a unix socket and a loopback port."""

    def __init__(
        self,
        folder: Path,
        make: Callable[[], CoreBackend] = CoreBackend,
        terms: Terms | None = None,
        **changes: Any,
    ) -> None:
        self._terms = terms
        self.folder = folder
        self.socket = folder / "t.sock"
        self.audit = Audit.open(folder / "audit.db", keep_us=HOUR_US)
        self.options = options(**{"audit": self.audit} | changes)
        self._make = make
        self._loop = asyncio.new_event_loop()
        # a start that fails leaves it behind: it must not keep the tests from ending
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.backend: CoreBackend
        self._listeners: Listeners
        self.run(self._start())
        self.port = int(self._listeners.addresses[-1].rsplit(":", 1)[1])

    async def _start(self) -> None:
        self.backend = self._make()
        app = self._app = build_app(self.backend, self.options)
        urls = [f"unix://{self.socket}", "tcp://127.0.0.1:0"]
        self._listeners = await serve(app, urls, group="no-such-group", terms=self._terms)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's loop and return its result."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(WAIT_S)

    def on_loop(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function on the server's loop, where the backend lives."""

        async def call() -> T:
            return function(*args)

        return self.run(call())

    def close(self) -> None:
        self.run(self._listeners.close())
        self.run(self.audit.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    def restart_listeners(self) -> None:
        """Close every socket and open new ones at the same places, with the same state."""

        async def again() -> None:
            await self._listeners.close()
            app = build_app(self.backend, self.options)
            urls = [f"unix://{self.socket}", f"tcp://127.0.0.1:{self.port}"]
            self._listeners = await serve(app, urls)

        self.run(again())

    # requests

    def raw(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        is_tcp: bool = False,
    ) -> Answer:
        """Send a request as it is; over TCP nothing is added for the gate."""
        if is_tcp:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        else:
            connection = http.client.HTTPConnection("localhost", timeout=WAIT_S)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(WAIT_S)
            connection.sock.connect(str(self.socket))
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.raw("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.send("POST", path, body, **headers)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is None:
            return self.raw(method, path, headers=named)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.raw(method, path, data, headers={"Content-Type": "application/json", **named})


SERVICE: dict[str, Any] = {"name": "shop", "replicas": 2, "container": {"Image": "web:1"}}
JOB: dict[str, Any] = {
    "name": "wc-1",
    "app": "wc",
    "image": "app:1",
    "command": ["work", "1"],
    "executors": 2,
    "cpus": 0.5,
    "memory": "256MiB",
    "deadline_s": 600,
    "estimate": {"local_s": 20, "hybrid_s": 26},
}
BATCH: dict[str, Any] = {
    "name": "many",
    "image": "app:1",
    "stages": [{"name": "s", "memory": "64MiB", "tasks": 3, "estimate": {"task_s": 5}}],
}
CONTAINER: dict[str, Any] = {
    "name": "web-1",
    "Image": "web:1",
    "Cmd": ["serve"],
    "HostConfig": {"NanoCpus": 250_000_000, "Memory": 134_217_728},
    "tenure": {"app": "web"},
}


def dataset_of(server: Server, size: int = 10_000) -> dict[str, Any]:
    """Return a dataset of one file that the server may read, in blocks of 4 KiB."""
    folder = server.folder / "inputs"
    folder.mkdir(exist_ok=True)
    (folder / "data").write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    server.backend.outputs = folder
    return {"name": "data", "path": str(folder / "data"), "block": 4096}
