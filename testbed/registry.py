"""Which testbeds exist on this machine: one locked file per index, naming its folder.

The lock is held by the owner and by its watchdog, which shares the owner's open file, so it
is free only when both are gone. A free lock with a file is a testbed that nobody cleaned.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from testbed import cgroups
from testbed.errors import TestbedError
from testbed.layout import name_of

_FOLDER = Path("/run/lock/tenure-testbed")
MAX_TESTBEDS = 251


def _path(index: int) -> Path:
    return _FOLDER / f"{index}"


def _lock(path: Path, flags: int = 0) -> int | None:
    """Return a locked descriptor of the file at `path`, None if another has it or it is gone."""
    try:
        fd = os.open(path, os.O_RDWR | flags, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between open and lock its last owner may have removed the file.
        if os.stat(path).st_ino == os.fstat(fd).st_ino:
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(fd)
    return None


def acquire(directory: Path) -> tuple[int, int]:
    """Claim a free index for a testbed in `directory`; return the index and its lock."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for index in range(MAX_TESTBEDS):
        fd = _lock(_path(index), os.O_CREAT)
        if fd is None:
            continue
        if not _is_unclean(index):  # an unclean one is left for `down --all`
            os.ftruncate(fd, 0)
            os.write(fd, os.fsencode(directory))
            return index, fd
        if claimed(index) is None:
            _path(index).unlink(missing_ok=True)
        os.close(fd)
    raise TestbedError("no free testbed index; see `python -m testbed down --all`")


def _is_unclean(index: int) -> bool:
    """Return whether a testbed of the index has left something to clean, its folder or not."""
    folder = claimed(index)
    if folder is not None and (folder / "testbed.json").exists():
        return True
    name = name_of(index)
    return bool(cgroups.leftovers(name)) or Path(f"/sys/class/net/{name}").exists()


def forget(directory: Path) -> None:
    """Remove the claim of a testbed that was cleaned, by its owner or by another."""
    for index in range(MAX_TESTBEDS):
        if claimed(index) == directory:
            _path(index).unlink(missing_ok=True)


def claimed(index: int) -> Path | None:
    """Return the folder of the testbed that claimed an index, None if none did."""
    try:
        text = _path(index).read_bytes()
    except FileNotFoundError:
        return None
    return Path(os.fsdecode(text)) if text else None


def unowned() -> Iterator[tuple[int, Path]]:
    """Yield index and folder of each testbed whose owner and watchdog are both gone.

    Each is locked until the next is asked for, so nobody takes its index while it is cleaned.
    """
    for index in range(MAX_TESTBEDS):
        fd = _lock(_path(index))
        if fd is None:
            continue
        try:
            folder = claimed(index)
            if folder is None:  # its owner died between making the file and writing to it
                _path(index).unlink(missing_ok=True)
            else:
                yield index, folder
        finally:
            os.close(fd)
