"""Memory of ended tasks back at once, in our CPU time rather than in what harvest has left of its.

A process that is killed gives its memory back in its own time. One below harvest's parent has the
least weight and, before Linux 6.18, a quota at its floor: on a busy node that takes seconds. The
kernel lets another process do it (``process_mrelease``, Linux 5.15).
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import signal
from collections.abc import Iterable, Iterator

from tenure.agent.io.priority import slow_down
from tenure.agent.io.threads import Worker

log = logging.getLogger(__name__)

#: The same number on every architecture that the agent runs on.
_PROCESS_MRELEASE = 448
#: Processes that wait for it; those beyond give their memory back themselves.
MAX_WAITING = 1024
#: What waits is released within this at the end, else the processes do it themselves.
CLOSE_S = 10.0


class Releaser:
    """Ends processes and takes their memory back; ``end`` from one thread alone."""

    def __init__(self) -> None:
        self._worker = Worker("release", self._run, MAX_WAITING)
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self.is_supported = True

    def end(self, pid: int) -> None:
        """Kill a process; its memory is taken back soon after. Raises OSError, also if it is gone.

        By a descriptor, so that no other process that got the number meanwhile is meant; where none
        is to be had (before Linux 5.3, or too many are open) by its number.
        """
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise
        except OSError:
            os.kill(pid, signal.SIGKILL)
            return
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        except OSError:
            os.close(fd)
            raise
        self._release(fd)

    def hold(self, pids: Iterable[int]) -> list[int]:
        """Return descriptors of processes that are about to be ended otherwise, for ``let_go``.

        Of the first ``MAX_WAITING``: the others give their memory back themselves.
        """
        found: list[int] = []
        for pid in pids:
            if len(found) >= MAX_WAITING:
                break
            try:
                found.append(os.pidfd_open(pid))
            except OSError:
                continue  # gone by itself
        return found

    def let_go(self, fds: Iterable[int], *, is_ended: bool) -> None:
        """Take the memory of ended processes back; of others, only close the descriptors."""
        for fd in fds:
            if is_ended:
                self._release(fd)
            else:
                os.close(fd)

    def close(self) -> None:
        """Finish what waits, for about ``CLOSE_S`` at most, and end the thread; twice is fine."""
        if not self._worker.close(CLOSE_S):
            log.error("ended tasks give their memory back themselves: the kernel takes long")

    def _release(self, fd: int) -> None:
        if not self._worker.put(fd):
            os.close(fd)

    def _run(self, fds: Iterator[int]) -> None:
        slow_down()
        for fd in fds:
            try:
                self._take_back(fd)
            finally:
                os.close(fd)

    def _take_back(self, fd: int) -> None:
        if not self.is_supported or not self._syscall(_PROCESS_MRELEASE, fd, 0):
            return
        code = ctypes.get_errno()
        if code in (errno.ENOSYS, errno.EPERM):
            self.is_supported = False
            log.info("ended tasks give their memory back themselves: %s", os.strerror(code))
