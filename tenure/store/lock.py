"""The lock file that keeps two daemons from sharing a state directory."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from tenure.store.errors import StoreLocked, translated


class DirectoryLock:
    """An exclusive lock, held until ``release`` or the end of the process, however it ends.

    ``flock`` rather than a pid file: the kernel drops it after kill -9, so that no stale pid ever
    has to be judged. The file keeps the holder's pid for the other's error message, and is never
    removed: removing it would let two processes hold locks on two files of the same name.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock or raise StoreLocked naming the holder's pid."""
        with translated(path):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._held(path) from None
        # the pid only serves that message, so a full disk must not keep the daemon down
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def _held(self, path: Path) -> StoreLocked:
        holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        self.release()
        return StoreLocked(
            f"the state directory {path.parent} is in use by process {holder}; "
            "stop it first, or give this daemon a state_dir of its own"
        )

    def release(self) -> None:
        """Give the lock up; a second call is a no-op."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
