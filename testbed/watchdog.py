"""A process that outlives the owner of a testbed by just as long as the clean-up takes.

It holds the reading end of a pipe whose only writing end the owner has. The end of the pipe
without a word means that the owner is dead, by whatever cause.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

from testbed import bounded, cleanup

_ALL_CLEAN = b"."
_POLL_MS = 1000
MAIN = Path(__file__).resolve().parent / "__main__.py"


class Watchdog:
    """The owner's side: the pipe and the process that watches it."""

    def __init__(self, directory: Path, lock_fd: int) -> None:
        """Start the watching process; it shares the lock of the testbed's index."""
        reading, self._writing = os.pipe()
        argv = [sys.executable, "-I", "-S", str(MAIN), "watch", str(reading), str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                [*argv, "--dir", str(directory)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(reading, lock_fd),
                start_new_session=True,
            )
        finally:
            os.close(reading)

    @property
    def pid(self) -> int:
        """Return the pid of the watching process."""
        return self._process.pid

    def dismiss(self) -> None:
        """Tell it that the testbed is clean, and wait for its end."""
        try:
            os.write(self._writing, _ALL_CLEAN)
        except BrokenPipeError:  # someone killed it
            pass
        finally:
            os.close(self._writing)
        bounded.wait(self._process)


def watch(directory: Path, reading_fd: int, owner: int) -> None:
    """Wait for the owner's word or end; clean the testbed in the second case."""
    poller = select.poll()
    poller.register(reading_fd, select.POLLIN | select.POLLHUP)
    # A fork of the owner that lives on would keep the pipe open: watch the owner itself too.
    owner_fd = _open_process(owner)
    if owner_fd is not None:
        poller.register(owner_fd, select.POLLIN)
    ready = poller.poll()
    if any(fd == reading_fd for fd, _ in ready) and os.read(reading_fd, 1) == _ALL_CLEAN:
        return
    cleanup.clean(directory)
    cleanup.discard_unborn(directory)


def _open_process(process: int) -> int | None:
    """Return a descriptor that is readable once the process has ended, None if there is none."""
    try:
        return os.pidfd_open(process)
    except OSError:  # already gone, or a kernel before 5.3: the pipe alone must do
        return None
