"""`tenured` on a machine whose wall is stepped at will: ``python stepped.py FOLDER run ...``.

``FOLDER/wall`` holds by how many seconds the wall is ahead of the real one, ``FOLDER/boot_id``
which boot of the machine this is. The time since boot is the real one.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path


class Machine:
    """The two files, as a test writes them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.off_s = self.boots = 0
        self.step(0)
        self.reboot()

    def step(self, by_s: int) -> None:
        """Step the wall."""
        self.off_s += by_s
        self._write("wall", self.off_s)

    def reboot(self) -> None:
        """Have it be another boot."""
        self.boots += 1
        self._write("boot_id", self.boots)

    def _write(self, name: str, value: int) -> None:
        fresh = self.folder / f"{name}.new"
        fresh.write_text(f"{value}\n")
        fresh.rename(self.folder / name)


def main(folder: Path) -> int:
    """Run `tenured` with the words that are left."""
    real_ns, wall = time.time_ns, folder / "wall"
    time.time_ns = lambda: real_ns() + int(wall.read_text()) * 10**9
    time.time = lambda: time.time_ns() / 1e9
    from tenure.cli import daemon as cli
    from tenure.daemon.events import clock

    clock.BOOT_ID = folder / "boot_id"
    return cli.main()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv.pop(1))))
