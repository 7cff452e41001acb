"""File systems of a size of their own for the tiers of nodes: loop devices and tmpfs.

They have to be mounted before an engine starts that is to see them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed import bounded
from testbed.binaries import which
from testbed.errors import TestbedError

_PROGRAMS = {"mkfs.ext4": "e2fsprogs", "losetup": "mount"}
_CONTROL = Path("/dev/loop-control")


@dataclass(frozen=True, slots=True)
class Disk:
    """A mounted file system: its directory, and the device as ``major:minor``; "" for memory."""

    path: Path
    device: str


def check() -> list[str]:
    """Return what ``loop`` lacks beside what the testbed needs, one sentence each."""
    missing = [
        f"the program {program} is missing (Debian package {package})"
        for program, package in _PROGRAMS.items()
        if which(program) is None
    ]
    if not _CONTROL.exists():
        missing.append(f"there are no loop devices: {_CONTROL} is missing")
    return missing


@contextmanager
def loop(where: Path, image: Path, size_bytes: int) -> Iterator[Disk]:
    """Mount a file as a disk (ext4) at a directory; both are made. Needs root."""
    where.mkdir(parents=True, exist_ok=True)
    with image.open("wb") as file:
        file.truncate(size_bytes)
    _do("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
    device = _do("losetup", "-f", "--show", str(image))
    try:
        with _mounted(where, device):
            yield Disk(where, _number(device))
    finally:
        _do("losetup", "-d", device)


@contextmanager
def memory(where: Path, size_bytes: int) -> Iterator[Disk]:
    """Mount a tmpfs of a size at a directory, which is made. Needs root."""
    where.mkdir(parents=True, exist_ok=True)
    with _mounted(where, "-t", "tmpfs", "-o", f"size={size_bytes}", "tenure-tier"):
        yield Disk(where, "")


def fill(where: Path) -> Path:
    """Write a file until not a byte is left on its disk; return the file."""
    path = where / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1 << 8, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return path


@contextmanager
def _mounted(where: Path, *what: str) -> Iterator[None]:
    _do("mount", *what, str(where))
    try:
        yield
    finally:
        _do("umount", "-l", str(where))


def _do(*argv: str) -> str:
    try:
        found = [which(argv[0]) or argv[0], *argv[1:]]
        ran = bounded.run(found, text=True)
    except FileNotFoundError:
        raise TestbedError(f"there is no {argv[0]} on this machine") from None
    if ran.returncode:
        raise TestbedError(f"{' '.join(argv)}: {ran.stderr.strip()}")
    return ran.stdout.strip()


def _number(device: str) -> str:
    found = os.stat(device).st_rdev
    return f"{os.major(found)}:{os.minor(found)}"
