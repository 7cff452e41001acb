"""One `tenured` as a child process: start, wait until it says that it is ready, kill, stop."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed import bounded, tied
from testbed.errors import TestbedError

READY_S = 90.0
#: Moves in flight get 30 s from the daemon, everything else a few.
STOP_S = 90.0
_TAIL_LINES = 40
_POLL_S = 0.005


class DaemonProcess:
    """A daemon over all its lives. ``argv`` starts it with a configuration of ``state_dir``."""

    def __init__(
        self,
        argv: Sequence[str],
        state_dir: Path,
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.log = log
        self._argv = list(argv)
        self._ready = state_dir / "tenured.json"
        self._env, self._cwd = env, cwd
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return its pid; raise TestbedError before the first start."""
        if self._child is None:
            raise TestbedError("tenured was not started")
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    def start(self, timeout_s: float = READY_S) -> float:
        """Start it; return after how many seconds it was ready.

        Raises TestbedError with the end of its log if it ends, or is not ready in time and killed.
        A session of its own: Ctrl-C reaches whoever started it alone, who then stops it in order;
        one that is killed takes the daemon along.
        """
        begun_s = time.monotonic()
        with self.log.open("ab") as log:
            self._child = tied.start(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=None if self._env is None else dict(self._env),
                cwd=self._cwd,
                start_new_session=True,
            )
        try:
            self._await_ready(begun_s, timeout_s)
        except BaseException:  # nobody stops what was never ready
            self._child.kill()
            bounded.wait(self._child)
            raise
        return time.monotonic() - begun_s

    def _await_ready(self, begun_s: float, timeout_s: float) -> None:
        while self._document().get("pid") != self.pid:
            self.require_alive()
            if time.monotonic() - begun_s > timeout_s:
                raise TestbedError(f"tenured is not ready after {timeout_s:g} s:\n{self.tail()}")
            time.sleep(_POLL_S)

    def _document(self) -> dict[str, Any]:
        """Return what it wrote when it became ready; {} before."""
        try:
            found = json.loads(self._ready.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def addresses(self) -> list[str]:
        """Return where its API listens, [] while it is not ready."""
        return list(self._document().get("addresses", []))

    def require_alive(self) -> None:
        """Raise TestbedError with the end of its log if it has ended."""
        if not self.is_running:
            raise TestbedError(f"tenured has ended:\n{self.tail()}")

    def tail(self) -> str:
        """Return the end of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-_TAIL_LINES:])

    def signal(self, sign: signal.Signals) -> None:
        """Send it a signal; raise TestbedError if it was not started."""
        if self._child is None:
            raise TestbedError("tenured was not started")
        self._child.send_signal(sign)

    def kill(self) -> None:
        """Kill it (SIGKILL) and wait; its children end with it."""
        self.require_alive()
        self.signal(signal.SIGKILL)
        if self._child is not None:
            bounded.wait(self._child)

    def stop(self, timeout_s: float = STOP_S) -> int:
        """Stop it in order and return its exit code, 0 if it does not run.

        Raises TestbedError, and has killed it, if that takes too long.
        """
        if self._child is None or self._child.poll() is not None:
            return 0
        self.signal(signal.SIGTERM)
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            bounded.wait(self._child)
            raise TestbedError(f"tenured did not stop in {timeout_s:g} s:\n{self.tail()}") from None
