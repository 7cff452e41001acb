"""Child processes that end with their parent, even when it is killed.

The kernel sends the chosen signal when the parent's *thread* that started the child ends
(prctl(2), PR_SET_PDEATHSIG), so a tethered child is started from the main thread only.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

PR_SET_PDEATHSIG = 1
STOP_S = 5.0
#: A killed child is gone at once, unless the kernel keeps it: a disk that does not answer.
KILLED_S = 5.0

#: Run by a bare interpreter, which then becomes the program; a ``preexec_fn`` could deadlock in a
#: process with threads. The parent may have died before prctl, hence the comparison.
_BOOTSTRAP = (
    "import ctypes, os, sys\n"
    "prctl = getattr(ctypes.CDLL(None), 'prctl', None)\n"
    f"prctl and prctl({PR_SET_PDEATHSIG}, {int(signal.SIGKILL)}, 0, 0, 0)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(1)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


def tie_to_parent(parent_pid: int, sign: signal.Signals = signal.SIGTERM) -> None:
    """Have this process get ``sign`` when its parent ends; raises SystemExit if it has already.

    Does nothing where the system has no prctl (not Linux).
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, int(sign), 0, 0, 0)
    if os.getppid() != parent_pid:
        raise SystemExit(1)


class Tethered:
    """A child process that is killed when this process ends.

    ``program`` is an absolute path and its arguments; ``stdin`` is given to it and closed, so that
    secrets do not show in the list of processes. ``log`` takes its output (None: ours).
    """

    def __init__(self, program: Sequence[str], *, stdin: str = "", log: Path | None = None) -> None:
        self._program = tuple(program)
        self._stdin = stdin
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def is_alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int | None:
        """Return the pid of the latest child, None before the first start."""
        return self._child.pid if self._child else None

    @property
    def exit_code(self) -> int | None:
        """Return how the latest child ended (negative: the signal); None while it runs."""
        return self._child.poll() if self._child else None

    def start(self) -> None:
        """Start the program (again); does nothing while it runs. Raises OSError, RuntimeError."""
        if self.is_alive:
            return
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("a tethered child must be started from the main thread")
        argv = [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, str(os.getpid()), *self._program]
        with open(self._log or os.devnull, "ab") as output:
            target = output if self._log else None
            self._child = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=target, stderr=target, start_new_session=True
            )
        assert self._child.stdin is not None
        try:
            with self._child.stdin as pipe:
                pipe.write(self._stdin.encode())
        except BrokenPipeError:
            pass  # it has ended already; ``exit_code`` tells how

    def stop(self, timeout_s: float = STOP_S) -> int | None:
        """End the child by SIGTERM, by SIGKILL after ``timeout_s``; return its exit code.

        Blocks for at most ``timeout_s`` and ``KILLED_S``; None if the kernel keeps it even then,
        and it is left behind. Stopped already is fine.
        """
        child = self._child
        if child is None:
            return None
        for end, wait_s in ((child.terminate, timeout_s), (child.kill, KILLED_S)):
            if child.poll() is None:
                end()
                with suppress(subprocess.TimeoutExpired):
                    child.wait(wait_s)
        if child.returncode is None:
            log.error("process %d was killed and is left behind: the kernel keeps it", child.pid)
        return child.returncode


def python_child(module: str, *, stdin: str = "", log: Path | None = None) -> Tethered:
    """Return a tethered ``python -m module`` with this interpreter and import path."""
    return Tethered([sys.executable, "-m", module], stdin=stdin, log=log)
