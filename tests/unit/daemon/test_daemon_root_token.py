"""A root token that is replaced: whoever had the one before is out at once, with open streams."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.daemon import DaemonProcess

WAIT_S = 60.0


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    """A daemon whose only node is away."""
    state = tmp_path / "state"
    config = {
        "state_dir": str(state),
        "listen": ["tcp://127.0.0.1:0"],
        "nodes": [{"name": "away", "url": f"unix://{tmp_path}/away.sock", "generation": "nursery"}],
    }
    file = tmp_path / "tenured.yml"
    file.write_text(json.dumps(config))
    argv = [sys.executable, "-m", "tenure.cli.daemon", "run", "--config", str(file)]
    running = DaemonProcess(argv, state, tmp_path / "log")
    running.start()
    try:
        yield running
    finally:
        assert running.stop() == 0, running.tail()


def status_of(port: int, token: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("GET", "/v1/version", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_root_token_that_is_replaced_takes_its_streams_along(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    port, file = int(daemon.addresses[0].rsplit(":", 1)[1]), tmp_path / "state" / "token"
    before = file.read_text().strip()
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as stream:
        head = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
        stream.sendall(f"{head}Authorization: Bearer {before}\r\n\r\n".encode())
        assert stream.recv(4096).startswith(b"HTTP/1.1 200")
        file.write_text("the-root-token-after\n")
        daemon.signal(signal.SIGHUP)
        begun = time.monotonic()
        while stream.recv(4096):
            assert time.monotonic() - begun < WAIT_S, "the stream goes on"
    assert status_of(port, before) == 401
    assert status_of(port, "the-root-token-after") == 200
