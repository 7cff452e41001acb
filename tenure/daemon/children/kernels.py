"""Compiled kernels for the daemon: made by a child process, loaded from the files it leaves.

Compiling takes hundreds of megabytes that an allocator does not give back, and half a minute of
CPU. The child takes both with it when it ends; a later start finds the files and only loads them.

    python -m tenure.daemon.children.kernels DIRECTORY placement | planning | locality
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import mmap
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tenure.cycles.io.tether import Tethered

log = logging.getLogger(__name__)

#: The daemon and its engines come first.
NICE = 10
LOOK_S = 0.1
MODULE = "tenure.daemon.children.kernels"
#: The library that turns kernels into machine code: 30 to 60 MB of it stay mapped after loading.
COMPILER = "libllvmlite"
#: Which word of a line of /proc/self/maps is the file.
NAMED = 5
#: As second argument: compile what places jobs one by one, what plans a queue, or what matches
#: tasks to the tiers of data.
PLACEMENT, PLANNING, LOCALITY = "placement", "planning", "locality"
#: Held by who compiles: whoever loads what is being compiled ahead waits for it.
_MAKING = asyncio.Lock()
_TAKING = asyncio.Lock()


async def ahead(directory: Path, bundles: Sequence[str]) -> None:
    """Have bundles compiled before anybody needs them, in their order; none is loaded."""
    for bundle in bundles:
        await _made(directory, bundle)
    log.info("all kernels are compiled, or tried")


async def load(compiling: Callable[[str], object], directory: Path, bundle: str) -> None:
    """Have the kernels of a bundle compiled, then loaded by ``compiling``; plain ones serve so far.

    Each bundle is kept and loaded apart. Where the child cannot compile, or nothing can be written,
    the plain ones stay.
    """
    log.info("%s runs uncompiled until its kernels are compiled or loaded", bundle)
    if await _made(directory, bundle):
        await take(compiling, directory)
        give_back(COMPILER)
        log.info("%s runs compiled", bundle)


async def _made(directory: Path, bundle: str) -> bool:
    """Have a child compile what of a bundle is not there; return whether all is."""
    argv = [sys.executable, "-m", MODULE, str(directory), bundle]
    async with _MAKING:
        child = Tethered(argv)
        child.start()
        try:
            while child.is_alive:  # noqa: ASYNC110 - a process tells of its end to who asks
                await asyncio.sleep(LOOK_S)
        finally:
            child.stop()
    if child.exit_code != 0:
        log.warning("%s runs uncompiled: see `%s`", bundle, " ".join(argv[1:]))
    return child.exit_code == 0


async def take(compiling: Callable[[str], object], directory: Path) -> None:
    """Load what a child compiled into ``directory``, in a thread.

    One at a time: numba has one setting for all threads that says where machine code is kept. Were
    it another's by then, the daemon would compile anew what is there.
    """
    async with _TAKING:
        await asyncio.to_thread(compiling, str(directory))


def give_back(library: str, *, maps: Path = Path("/proc/self/maps")) -> int:
    """Let go of the code of a library that was only needed to load; return how many bytes.

    The kernel maps a page of it again, from the page cache, should anything still run there. Only
    code is let go of: it was never written to, so nothing of it can be lost.
    """
    try:
        rows = [line.split(maxsplit=5) for line in maps.read_text().splitlines()]
        call = ctypes.CDLL(None, use_errno=True).madvise
    except (OSError, AttributeError):
        return 0  # not Linux
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    given = 0
    for row in rows:
        if row[1] == "r-xp" and len(row) > NAMED and library in row[NAMED]:
            first, last = (int(number, 16) for number in row[0].split("-"))
            if call(first, last - first, mmap.MADV_DONTNEED) == 0:
                given += last - first
    return given


def give_way() -> None:
    """Let all others have the processor first: nobody waits for what is compiled.

    A child is a session of its own, and a kernel that shares out by sessions (autogroup) heeds the
    nice of processes within one alone: the session has to be nice as well.
    """
    os.nice(NICE)
    with suppress(OSError):  # no autogroup: the process's own nice counts
        Path("/proc/self/autogroup").write_text(str(NICE))


def main(argv: list[str]) -> int:
    """Compile into the directory named; what fails ends the child with a traceback."""
    from tenure.locality.kernels import PLAIN as LOCALIZING
    from tenure.placement.compiling import code_of
    from tenure.placement.kernels import PLAIN
    from tenure.placement.planning.repair import renew

    kept = {code_of(PLAIN), code_of((renew,)), code_of(LOCALIZING)}
    directory = Path(argv[1])
    give_way()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in directory.iterdir():
        if old.name not in kept:
            shutil.rmtree(old, ignore_errors=True)
    MAKERS[argv[2]](str(directory))
    return 0


def _compile_placement(directory: str) -> None:
    from tenure.placement.kernels import compile_kernels

    compile_kernels(directory)


def _compile_planning(directory: str) -> None:
    from tenure.placement.kernels import compile_planning

    compile_planning(directory)


def _compile_locality(directory: str) -> None:
    from tenure.locality.kernels import compile_kernels as compiling
    from tenure.locality.kernels import warm

    warm(compiling(directory))


#: What compiles each bundle.
MAKERS: Mapping[str, Callable[[str], None]] = {
    PLACEMENT: _compile_placement,
    PLANNING: _compile_planning,
    LOCALITY: _compile_locality,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv))
