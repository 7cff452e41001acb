"""Room on the disk of the state folder: how much is left, an alarm, and a reserve for a start.

After a clean end SQLite makes its write-ahead logs anew at the next start, which a full disk does
not let it. So a file of ``RESERVE_BYTES`` lies in the folder; a start that finds no room gives it
up, and can serve what it knows. It is made again once there is room.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from tenure.model.units import MIB, size_text

log = logging.getLogger(__name__)

RESERVE = "reserve"
#: The logs of four databases, and what a daemon stores until it is told that there is no room.
RESERVE_BYTES = 4 * MIB


class Room:
    """The room of one folder. ``free_bytes`` is how much is left, as of the last look."""

    def __init__(self, folder: Path, low_bytes: int) -> None:
        """``low_bytes``: below it ``alarm`` says so."""
        self._folder = folder
        self._low_bytes = low_bytes
        self.free_bytes = self._free()

    def make(self) -> None:
        """Give up the reserve where a start has no room otherwise."""
        if self.free_bytes >= RESERVE_BYTES:
            return
        try:
            (self._folder / RESERVE).unlink()
        except FileNotFoundError:
            return
        log.warning("the disk of %s is full; its reserve is given up for this start", self._folder)

    def look(self) -> None:
        """See how much is left, and keep a reserve where that leaves as much again."""
        self.free_bytes = self._free()
        path = self._folder / RESERVE
        if self.free_bytes < 2 * RESERVE_BYTES or path.exists():
            return
        try:
            _allocate(path)
        except OSError as error:
            log.warning("no reserve for a start on a full disk: %s: %s", path, error.strerror)

    @property
    def alarm(self) -> str:
        """Say that little is left, "" where enough is."""
        if self.free_bytes >= self._low_bytes:
            return ""
        left, least = size_text(self.free_bytes), size_text(self._low_bytes)
        return f"{left} are left on the disk of {self._folder}, under {least}: make room"

    def _free(self) -> int:
        try:
            found = os.statvfs(self._folder)
        except FileNotFoundError:  # before the first start
            return self._low_bytes
        return found.f_bavail * found.f_frsize


def _allocate(path: Path) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(file, 0, RESERVE_BYTES)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(file)
