"""``tenure node drain`` at a terminal: it asks after the plan; Ctrl-C leaves the drain running."""

from __future__ import annotations

import codecs
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from testbed import bounded, tied
from tests.api.server import CONTAINER, Server

MAIN = "from tenure.cli.main import main; main()"
PATIENCE_S = 60.0


class Terminal:
    """A command at a terminal of its own; ``fd`` is the person's side of it."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process, self._fd = process, fd
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a part may end amid a character

    def read_until(self, wanted: str) -> None:
        """Read what the command shows until it shows ``wanted``."""
        until = time.monotonic() + PATIENCE_S
        while wanted not in self.text:
            assert time.monotonic() < until, self.text
            if select.select([self._fd], [], [], 0.2)[0]:
                self.text += self._decoder.decode(os.read(self._fd, 4096))

    def type(self, keys: str) -> None:
        """Press keys."""
        self.text = ""
        os.write(self._fd, keys.encode())

    def end(self) -> int:
        """Read to the end and return the exit code."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                is_read = select.select([self._fd], [], [], 0.2)[0]
                part = os.read(self._fd, 4096) if is_read else None
            except OSError:  # how a terminal says that nobody writes any more
                part = b""
            if part == b"":
                return bounded.wait(self.process)
            assert time.monotonic() < until, self.text
            self.text += self._decoder.decode(part or b"")


@contextmanager
def terminal(server: Server, *words: str, columns: int = 120) -> Iterator[Terminal]:
    """Run the command at a terminal."""
    person, theirs = pty.openpty()
    env = {**os.environ, "TENURE_HOST": f"unix://{server.socket}", "COLUMNS": str(columns)}
    argv = [sys.executable, "-c", MAIN, *words]
    process = tied.start(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    with bounded.ending(process):
        os.close(theirs)
        try:
            yield Terminal(process, person)
        finally:
            os.close(person)


def test_it_asks_after_the_plan_and_no_means_no(server: Server) -> None:
    server.post("/v1/containers", CONTAINER)
    with terminal(server, "node", "drain", "n1") as person:
        person.read_until("[y/N]")
        assert "blocked by web-1 (no_node)" in person.text
        person.type("n\n")
        assert person.end() == 1
        assert "nothing was done" in person.text
    assert server.get("/v1/nodes/n1").json["scheduling"] == "yes"


def test_ctrl_c_leaves_the_drain_running_and_says_how_to_end_it(server: Server) -> None:
    server.post("/v1/containers", CONTAINER)
    with terminal(server, "node", "drain", "n1", "--wait") as person:
        person.read_until("[y/N]")
        person.type("y\n")
        person.read_until("n1 draining: 0 moved, 1 left")
        person.process.send_signal(signal.SIGINT)
        assert person.end() == 130
        assert "tenure node drain n1 --cancel" in person.text
    assert server.get("/v1/nodes/n1").json["drain"]["state"] == "draining"
