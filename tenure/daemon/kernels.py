"""Compiled kernels for the daemon: made by a child process, loaded from the files it leaves.

Compiling takes hundreds of megabytes that an allocator does not give back, and half a minute of
CPU. The child takes both with it when it ends; a later start finds the files and only loads them.

    python -m tenure.daemon.kernels DIRECTORY
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from pathlib import Path

from tenure.cycles.io.tether import Tethered
from tenure.placement.kernels import compile_kernels, fingerprint
from tenure.placement.policies import Policies

log = logging.getLogger(__name__)

#: The daemon and its engines come first.
NICE = 10
LOOK_S = 0.1
MODULE = "tenure.daemon.kernels"


async def load(policies: Policies, directory: Path) -> None:
    """Have ``policies`` use compiled kernels once they are there; plain ones serve until then.

    Where no compiler is installed, or nothing can be written, the plain ones stay.
    """
    child = Tethered([sys.executable, "-m", MODULE, str(directory)])
    child.start()
    try:
        while child.is_alive:  # noqa: ASYNC110 - a process tells of its end to who asks
            await asyncio.sleep(LOOK_S)
    finally:
        child.stop()
    if child.exit_code != 0:
        log.warning("placement runs uncompiled: see `python -m %s %s`", MODULE, directory)
        return
    await asyncio.to_thread(policies.compile, str(directory))
    log.info("placement runs compiled")


def main(argv: list[str]) -> int:
    """Compile into the directory named; 1 where there is no compiler."""
    directory = Path(argv[1])
    os.nice(NICE)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in directory.iterdir():
        if old.name != fingerprint():
            shutil.rmtree(old, ignore_errors=True)
    return 0 if compile_kernels(str(directory)) is not None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
