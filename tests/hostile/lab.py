"""A running daemon, raw sockets to it, and a probe that watches how it answers others meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from testbed import IMAGE
from tests.faults.tenured import Tenured

WAIT_S = 30.0
#: How late an answer to a bystander may come on two cores that others keep busy as well; a loop
#: that waits for a slow client, which the daemon does for 10 s, is later than this.
LATE_S = 9.0


@dataclass
class Daemon:
    """The daemon's process and how to reach it over TCP, where ``is_tls`` over TLS."""

    tenured: Tenured
    plain_port: int
    tls_port: int
    context: ssl.SSLContext
    token: str
    is_tls: bool = False

    @property
    def port(self) -> int:
        return self.tls_port if self.is_tls else self.plain_port

    @property
    def bearer(self) -> str:
        return f"Bearer {self.token}"

    def connect(self, timeout_s: float = WAIT_S) -> socket.socket:
        """Return a raw connection."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s)
        return self.context.wrap_socket(sock, server_hostname="localhost") if self.is_tls else sock

    def head(self, line: str, *headers: str, is_last: bool = False) -> bytes:
        """Return a request's head with Host and token; ``is_last``: it ends the connection."""
        given = [line, "Host: localhost", f"Authorization: {self.bearer}", *headers]
        given += ["Connection: close", "", ""] if is_last else ["", ""]
        return "\r\n".join(given).encode("latin-1")

    def raw(self, data: bytes) -> bytes:
        """Send bytes and return all that is answered until the connection ends or falls silent."""
        with self.connect() as sock:
            with contextlib.suppress(OSError):  # it may refuse before it read everything
                sock.sendall(data)
            return read_all(sock)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return status and JSON of one well-formed request."""
        connection = http.client.HTTPConnection("localhost", self.port, timeout=WAIT_S)
        connection.sock = self.connect()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            named = {"Content-Type": "application/json", **named}
        try:
            connection.request(method, path, data, {"Authorization": self.bearer, **named})
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        is_json = "json" in response.headers.get("Content-Type", "")
        return response.status, json.loads(text) if is_json and text else text


def read_all(sock: socket.socket, quiet_s: float = 0.3) -> bytes:
    """Return what comes until the end, or until nothing came for ``quiet_s`` after something."""
    found = b""
    with contextlib.suppress(OSError):
        while part := sock.recv(1 << 16):
            found += part
            sock.settimeout(quiet_s)
    return found


def statuses(answer: bytes) -> list[int]:
    """Return the statuses of all HTTP answers in ``answer``; 100 Continue is none."""
    found = [int(status) for status in re.findall(rb"HTTP/1\.[01] ([0-9]{3}) ", answer)]
    return [status for status in found if status != 100]


JOB = {
    "image": IMAGE,
    "command": ["true"],
    "cpus": 0.01,
    "memory": "6MiB",
}


@dataclass
class Probe:
    """A bystander: lists nodes and tries submissions all the time, and notes what it gets."""

    daemon: Daemon
    latencies_s: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def ask_once(self) -> None:
        for method, path, body in (
            ("GET", "/v1/nodes", None),
            ("POST", "/v1/jobs/plan", {**JOB, "name": "probe"}),
            ("POST", "/v1/cycles/none/run", {}),
        ):
            begun = time.monotonic()
            status, answer = self.daemon.ask(method, path, body)
            self.latencies_s.append(time.monotonic() - begun)
            if status not in (200, 404):
                self.faults.append(f"{method} {path}: {status} {answer}")

    def core_turns(self) -> float:
        """Return how many events the core has handled."""
        status, text = self.daemon.ask("GET", "/metrics")
        assert status == 200
        lines = text.decode().splitlines()
        (line,) = [row for row in lines if row.startswith("tenure_events_handled_total ")]
        return float(line.split()[1])


@contextlib.contextmanager
def watched(daemon: Daemon) -> Iterator[Probe]:
    """Run a probe beside the body; fail if it met an error, waited long, or the core stood."""
    probe = Probe(daemon)
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            try:
                probe.ask_once()
            except OSError as error:
                probe.faults.append(repr(error))
            ended.wait(0.05)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield probe
    finally:
        ended.set()
        thread.join(WAIT_S)
    assert not probe.faults, probe.faults[:3]
    assert probe.latencies_s, "the probe asked nothing"
    assert max(probe.latencies_s) < LATE_S, f"an answer took {max(probe.latencies_s):.2f} s"
    accept_a_job(daemon)


def accept_a_job(daemon: Daemon) -> None:
    """The core takes a submission and a cancellation: it is not stalled."""
    status, job = daemon.ask("POST", "/v1/jobs", {**JOB, "name": f"p-{time.monotonic_ns()}"})
    assert status == 201, job
    assert daemon.ask("POST", f"/v1/jobs/{job['id']}/cancel", {})[0] in (200, 409)
