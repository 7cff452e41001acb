"""A root token that is replaced, whose holder is out at once; and tokens whose file went."""

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

from tenure.client.client import Client
from tenure.client.target import Target
from testbed.daemon import DaemonProcess
from testbed.errors import TestbedError

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


@pytest.mark.parametrize("place", [0, 20, -2, -1])
def test_a_root_token_with_a_flipped_bit_is_damaged_and_another_one_is_told(
    daemon: DaemonProcess, tmp_path: Path, place: int
) -> None:
    file = tmp_path / "state" / "token"
    before = bytearray(file.read_bytes())
    wrong = bytearray(before)
    wrong[place] ^= 0x40 if place == -1 else 1  # the end of the line becomes a letter
    file.write_bytes(wrong)
    port = int(daemon.addresses[0].rsplit(":", 1)[1])
    daemon.signal(signal.SIGHUP)
    deadline = time.monotonic() + WAIT_S
    while "token is damaged" not in daemon.log.read_text():
        assert time.monotonic() < deadline, daemon.tail()
        time.sleep(0.05)
    assert status_of(port, before.decode().strip()) == 200
    assert daemon.stop() == 0
    with pytest.raises(TestbedError, match="token is damaged"):
        daemon.start()
    file.write_text("the-root-token-after\n")
    daemon.start()
    port = int(daemon.addresses[0].rsplit(":", 1)[1])
    client = Client(Target(host="127.0.0.1", port=port, token="the-root-token-after"))
    acts = [row["who"] for row in client.audit() if row["act"] == "token.replaced"]
    assert acts == ["configuration"]
    assert daemon.stop() == 0
    daemon.start()  # and it is known from now on
    assert daemon.log.read_text().count("another root token than before") == 1


@pytest.mark.parametrize("name", ["token", "tokens.json"])
@pytest.mark.parametrize("how", ["missing", "emptied"])
def test_a_file_of_tokens_that_went_keeps_the_daemon_from_starting(
    daemon: DaemonProcess, tmp_path: Path, name: str, how: str
) -> None:
    """Neither a new root token nor a daemon that knows nobody's token comes of it."""
    file = tmp_path / "state" / name
    assert daemon.stop() == 0
    before = file.read_text()
    file.unlink()
    if how == "emptied":
        file.touch(mode=0o600)
    with pytest.raises(TestbedError, match=f"{name} (is gone|holds no|needs)"):
        daemon.start()
    assert file.exists() is (how == "emptied")
    file.write_text(before)
    file.chmod(0o600)
    daemon.start()


@pytest.mark.parametrize("name", ["token", "tokens.json"])
def test_sighup_says_that_a_file_of_tokens_went(
    daemon: DaemonProcess, tmp_path: Path, name: str
) -> None:
    port, file = int(daemon.addresses[0].rsplit(":", 1)[1]), tmp_path / "state" / name
    token, before = (tmp_path / "state" / "token").read_text().strip(), file.read_text()
    file.unlink()
    daemon.signal(signal.SIGHUP)
    deadline = time.monotonic() + WAIT_S
    while "the tokens stay as they were" not in daemon.log.read_text():
        assert time.monotonic() < deadline, daemon.tail()
        time.sleep(0.05)
    assert name in daemon.log.read_text()
    assert not file.exists()
    assert status_of(port, token) == 200
    file.write_text(before)
