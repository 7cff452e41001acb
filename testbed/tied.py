"""Processes that end with the process that started them, even where that one is killed outright.

A daemon that outlived its test would go on speaking to the addresses that the next testbed gets.
So tests and benchmarks start whatever runs for long here. Linux alone: the kernel does it.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Literal, overload

from testbed import binaries
from testbed.errors import TestbedError

#: Run with the pid of the starter, which may have died before the kernel knew whom to tell.
_CHECK = '[ "$PPID" = "$0" ] || exit 1; exec "$@"'


def words(starter: int) -> list[str]:
    """Return the words before a command that end it (SIGKILL) with its parent, ``starter``.

    They run no command and exit with 1 under any other parent. Raises TestbedError without setpriv.
    """
    setpriv = binaries.which("setpriv")
    if setpriv is None:
        raise TestbedError("no setpriv (util-linux) in PATH: processes could outlive their tests")
    return [setpriv, "--pdeathsig", "KILL", "/bin/sh", "-c", _CHECK, str(starter)]


@overload
def start(argv: Sequence[str], *, text: Literal[True], **options: Any) -> subprocess.Popen[str]: ...


@overload
def start(
    argv: Sequence[str], *, text: Literal[False] = False, **options: Any
) -> subprocess.Popen[bytes]: ...


def start(argv: Sequence[str], *, text: bool = False, **options: Any) -> subprocess.Popen[Any]:
    """Start a command that is killed when this process ends; ``options`` are Popen's.

    Its pid is the command's own. What the command starts itself is not tied, so it has to end that
    with itself, as tenured does. From any thread: the kernel tells of the end of the thread that
    forked, so what others than the main thread ask for is forked by one that never ends.
    """
    whole = [*words(os.getpid()), *argv]

    def fork() -> subprocess.Popen[Any]:
        return subprocess.Popen(whole, text=text, **options)

    is_lasting = threading.current_thread() is threading.main_thread()
    return fork() if is_lasting else _forker().submit(fork).result()


@cache
def _forker() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="forker")
