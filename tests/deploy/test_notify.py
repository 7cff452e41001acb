"""The daemon tells systemd how it is, over a real datagram socket."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure.daemon.notify import Notifier
from testbed import bounded, tied

WAIT_S = 40.0
#: Short enough for several pings while the daemon starts.
WATCHDOG_US = 400_000


class Manager:
    """What systemd's end of the socket hears."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + path[1:] if path.startswith("@") else path)
        self.heard: list[dict[str, str]] = []

    def close(self) -> None:
        self._socket.close()

    def hear(self, timeout_s: float = WAIT_S) -> dict[str, str]:
        """Return the next datagram's words."""
        self._socket.settimeout(timeout_s)
        text = self._socket.recv(4096).decode()
        words = dict(line.split("=", 1) for line in text.splitlines())
        self.heard.append(words)
        return words

    def hear_until(self, word: str) -> dict[str, str]:
        """Return the next datagram that has a word; pings in between are kept in ``heard``."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            if word in (words := self.hear()):
                return words
        raise AssertionError(f"{word} was not said")

    def drain(self) -> int:
        """Return how many datagrams wait."""
        count = 0
        self._socket.setblocking(False)
        while True:
            try:
                self._socket.recv(4096)
            except BlockingIOError:
                return count
            count += 1


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path short enough for unix sockets."""
    with tempfile.TemporaryDirectory(prefix="tnn-") as name:
        yield Path(name)


@pytest.fixture
def manager(folder: Path) -> Iterator[Manager]:
    made = Manager(str(folder / "notify"))
    yield made
    made.close()


CONFIG = """\
state_dir: {folder}/state
listen: ["unix://{folder}/t.sock"]
generations: [nursery]
nodes: [{{name: away, url: "unix://{folder}/no-engine", generation: nursery}}]
"""


@pytest.fixture
def daemon(folder: Path, manager: Manager) -> Iterator[subprocess.Popen[bytes]]:
    """A real tenured, started as systemd starts it."""
    config = folder / "tenured.yml"
    config.write_text(CONFIG.format(folder=folder))
    env = {**os.environ, "NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": str(WATCHDOG_US)}
    with (folder / "log").open("wb") as log:
        process = tied.start(
            [sys.executable, "-m", "tenure.cli.daemon", "run", "--config", str(config)],
            env=env,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        bounded.wait(process)
        print((folder / "log").read_text()[-4000:])


@pytest.mark.redis
def test_a_daemon_says_ready_reloading_and_stopping_and_feeds_the_watchdog(
    folder: Path, manager: Manager, daemon: subprocess.Popen[bytes]
) -> None:
    ready = manager.hear_until("READY")
    assert ready["READY"] == "1"
    assert f"{folder}/t.sock" in ready["STATUS"]
    assert (folder / "state" / "tenured.json").exists(), "READY means that the API answers"
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(f"{folder}/t.sock")
    manager.hear_until("WATCHDOG")
    before_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    daemon.send_signal(signal.SIGHUP)
    assert int(manager.hear_until("RELOADING")["MONOTONIC_USEC"]) >= before_us
    manager.hear_until("READY")
    (folder / "tenured.yml").write_text("nonsense: 1\n")
    daemon.send_signal(signal.SIGHUP)
    manager.hear_until("RELOADING")
    manager.hear_until("READY")  # a faulty configuration changes nothing: it goes on serving
    daemon.send_signal(signal.SIGTERM)
    assert manager.hear_until("STOPPING")["STOPPING"] == "1"
    assert daemon.wait(WAIT_S) == 0
    assert all("NOTIFY_SOCKET" not in words for words in manager.heard)


@pytest.mark.redis
def test_children_cannot_speak_for_the_daemon(
    folder: Path, manager: Manager, daemon: subprocess.Popen[bytes]
) -> None:
    manager.hear_until("READY")

    def said(pid: int | str, what: str) -> bytes:
        try:
            return Path(f"/proc/{pid}/{what}").read_bytes()
        except OSError:  # some run for a moment
            return b""

    def children() -> list[str]:
        """Return those that run a program of their own; a fork still shows the daemon's words."""
        pids = said(daemon.pid, f"task/{daemon.pid}/children").decode().split()
        return [
            pid for pid in pids if said(pid, "cmdline") not in (b"", said(daemon.pid, "cmdline"))
        ]

    deadline = time.monotonic() + WAIT_S
    while not (found := children()):
        assert time.monotonic() < deadline, "no child was started"
        time.sleep(0.05)
    for child in found:
        assert b"NOTIFY_SOCKET" not in said(child, "environ")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - a datagram sets no event
            await asyncio.sleep(0.01)


async def test_a_loop_that_stands_still_is_not_vouched_for(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "100000"})
    notifier.begin()
    await until(lambda: manager.drain() > 0)
    time.sleep(0.5)  # noqa: ASYNC251 - this is the loop that stands still
    assert manager.drain() <= 1
    await until(lambda: manager.drain() > 0)
    await notifier.end()
    manager.drain()
    await asyncio.sleep(0.3)
    assert manager.drain() == 0


def test_another_processs_watchdog_is_not_fed(manager: Manager) -> None:
    env = {"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"}

    async def live() -> None:
        notifier = Notifier(env)
        notifier.begin()
        await asyncio.sleep(0.2)
        await notifier.end()

    asyncio.run(live())
    assert manager.drain() == 0
    assert env == {}


def test_an_abstract_address_and_one_line_a_word() -> None:
    name = f"@tenure-notify-{os.getpid()}"
    manager = Manager(name)
    try:
        Notifier({"NOTIFY_SOCKET": name}).ready("two\nlines")
        assert manager.hear() == {"READY": "1", "STATUS": "two lines"}
    finally:
        manager.close()


def test_nobody_listens_and_nothing_fails(caplog: pytest.LogCaptureFixture) -> None:
    Notifier({}).ready("nobody asked")
    Notifier({"NOTIFY_SOCKET": "/no/such/socket"}).ready("gone")
    assert "cannot tell the service manager READY=1" in caplog.text
