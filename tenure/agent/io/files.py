"""The kernel's files below a root folder, read as they are at one moment.

A file that is gone, unreadable or no file is None: containers end while they are read, and a
kernel without a controller has no files of it.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

#: More than any file that is read here holds; the rest of a larger one is left.
MAX_BYTES = 1 << 20
CHUNK_BYTES = 1 << 16
#: The kernel hands out long files in parts of a page, less a line: what is shorter is the end.
PART_BYTES = 2048
#: Files kept open at most, and at most half of what the process may have.
MAX_KEPT = 4096
#: A fifo or a device in the place of a file would stop the agent.
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def read(path: str) -> bytes | None:
    """Return a file's content, None where there is none to be had."""
    try:
        fd = os.open(path, FLAGS)
    except (OSError, ValueError):
        return None
    try:
        return _content(fd)
    except OSError:
        return None
    finally:
        os.close(fd)


class KeptFiles:
    """Files that are read again and again, kept open in between: half of a reading is opening them.

    For cgroups alone: an open file of a process's ``net`` would keep its network from going away.
    """

    def __init__(self) -> None:
        self._bound = min(MAX_KEPT, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._kept: dict[str, int] = {}
        self._used: set[str] = set()

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None where there is none to be had."""
        fd = self._kept.get(path)
        if fd is not None:
            try:
                self._used.add(path)
                return _content(fd)
            except OSError:
                self._drop(path)  # its group is gone; there may be another of that name
        if len(self._kept) >= self._bound:
            return read(path)
        try:
            fd = os.open(path, FLAGS)
        except (OSError, ValueError):
            return None
        self._kept[path] = fd
        self._used.add(path)
        try:
            return _content(fd)
        except OSError:
            self._drop(path)
            return None

    def end_round(self) -> None:
        """Close what was not read since the last call."""
        for path in [path for path in self._kept if path not in self._used]:
            self._drop(path)
        self._used.clear()

    def close(self) -> None:
        """Close everything; it may be used again."""
        self._used.clear()
        self.end_round()

    def _drop(self, path: str) -> None:
        os.close(self._kept.pop(path))


def _content(fd: int) -> bytes:
    found = part = os.pread(fd, CHUNK_BYTES, 0)
    while len(part) >= PART_BYTES and len(found) < MAX_BYTES:
        part = os.pread(fd, CHUNK_BYTES, len(found))
        found += part
    return found


def names(path: str) -> list[str]:
    """Return the names in a folder, in order; nothing where there is no such folder."""
    try:
        return sorted(os.listdir(path))
    except (OSError, ValueError):
        return []


def below(root: Path, path: str) -> str:
    """Return where an absolute path of the node is, seen from ``root``."""
    return str(root / path.lstrip("/"))
