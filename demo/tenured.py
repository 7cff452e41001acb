"""One `tenured` as a child process: start, wait until it is ready, stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from demo.errors import DemoError
from tenure.client import Client
from tenure.client.target import parse
from tenure.model.errors import TenureError
from testbed import bounded

READY_S = 60.0
#: Moves in flight get 30 s from the daemon, everything else a few.
STOP_S = 45.0
#: The kernel kills the daemon when the demo is killed (Linux; elsewhere nothing does): one that
#: ended in order would write into a folder that is being removed. The demo may be gone before that
#: is asked for, hence the comparison.
_BOOTSTRAP = f"""
import ctypes, os, sys
prctl = getattr(ctypes.CDLL(None), "prctl", None)
prctl and prctl(1, {int(signal.SIGKILL)}, 0, 0, 0)
os.getppid() == int(sys.argv[1]) or sys.exit(1)
os.execv(sys.argv[2], [sys.argv[2], "-m", "tenure.cli.daemon", *sys.argv[3:]])
"""
_TAIL_LINES = 15


def plain_environment() -> dict[str, str]:
    """Return the environment without overrides of the configuration: the demo writes its own."""
    return {key: value for key, value in os.environ.items() if not key.startswith("TENURE_")}


class Tenured:
    """A running daemon with its embedded Redis, cron scheduler and worker."""

    def __init__(self, config: Path, socket: Path, log: Path) -> None:
        self._config = config
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{socket}"
        self.client = Client(parse(self.url), patience_s=10.0)

    @property
    def pid(self) -> int | None:
        """Return the daemon's pid, None before it was started."""
        return self._child.pid if self._child else None

    def start(self) -> None:
        """Start it and wait for its API, Redis and worker; raise DemoError with the log's end."""
        words = ["run", "--config", str(self._config)]
        argv = [sys.executable, "-c", _BOOTSTRAP, str(os.getpid()), sys.executable, *words]
        with self._log.open("ab") as log:
            # a session of its own: Ctrl-C reaches this process alone, which then stops in order
            self._child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=plain_environment(),
                start_new_session=True,
            )
        deadline = time.monotonic() + READY_S
        while not self._is_ready():
            self.require_alive()
            if time.monotonic() > deadline:
                raise DemoError(f"tenured is not ready after {READY_S:.0f} s:\n{self._tail()}")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            ready = self.client.readyz()
        except TenureError:
            return False
        return bool(ready["status"] in ("ok", "degraded") and not ready["degraded"].get("redis"))

    def require_alive(self) -> None:
        """Raise DemoError with the end of its log if the daemon has ended."""
        if self._child is None or self._child.poll() is not None:
            raise DemoError(f"tenured has ended:\n{self._tail()}")

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_TAIL_LINES:])

    def stop(self) -> None:
        """Ask it to end and wait; kill it when it does not."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            bounded.wait(child)
