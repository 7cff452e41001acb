"""Waits that end: for commands, processes, threads and locks.

One command that never comes back would keep a whole suite until its hardest time-out, which then
says nothing of it. So every wait here has a bound, and who is late is told: which command, how
long, what it had said by then, and, where not even SIGKILL ends it, in which call the kernel keeps
it. Such a process (a device or a file system that does not answer) cannot be ended by anyone: it
is left to the kernel, and the caller goes on with the error.

The bounds are generous, for a machine that is three times slower and busy; nothing waits for them
that is well. A test (``tests/architecture/test_bounds.py``) keeps other ways of waiting out.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, AnyStr, Literal, overload

from testbed.errors import TestbedError

#: A command that looks or changes something: ip, mount, nsenter, dpkg, a tenure command.
COMMAND_S = 120.0
#: A process that was told to end, in order.
END_S = 60.0
#: A process after SIGKILL, which the kernel ends as soon as it is in no call that cannot be broken.
KILLED_S = 20.0
#: A lock that others hold while they fetch and unpack packages.
LOCK_S = 900.0
_POLL_S = 0.02
_SAID_BYTES = 4000
#: What the kernel keeps though it was killed, so that nobody who drops it warns of it or waits.
_LEFT: list[subprocess.Popen[Any]] = []


class Late(TestbedError):
    """What was waited for did not come within its bound; the text says what, and what is known."""


@overload
def run(
    argv: Sequence[str | Path],
    *,
    text: Literal[True],
    check: bool = ...,
    given: str | None = ...,
    timeout_s: float = ...,
    **options: Any,
) -> subprocess.CompletedProcess[str]: ...


@overload
def run(
    argv: Sequence[str | Path],
    *,
    text: Literal[False] = False,
    check: bool = ...,
    given: bytes | None = ...,
    timeout_s: float = ...,
    **options: Any,
) -> subprocess.CompletedProcess[bytes]: ...


def run(
    argv: Sequence[str | Path],
    *,
    text: bool = False,
    check: bool = False,
    given: Any = None,
    timeout_s: float = COMMAND_S,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a command with ``given`` on its stdin; return its exit code and what it said.

    ``options`` are Popen's; both outputs are kept unless they say otherwise. With ``check`` an exit
    code other than 0 is a TestbedError with its stderr. Raises Late, having killed it, if it has
    not ended in time. Whatever else breaks the wait, such as a test's time-out, kills it as well.
    """
    stdin = subprocess.DEVNULL if given is None else subprocess.PIPE
    streams = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(argv, text=text, **(streams | options))
    try:
        out, err = process.communicate(given, timeout_s)
    except subprocess.TimeoutExpired:
        raise Late(_late(process, timeout_s, *_give_up(process))) from None
    except BaseException:
        _give_up(process)
        raise
    if check and process.returncode:
        said = _text(err) or _text(out)
        raise TestbedError(f"{_words(process)} ended with {process.returncode}: {said}")
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def wait(process: subprocess.Popen[Any], timeout_s: float = END_S) -> int:
    """Return the exit code of a process that is ending; raises Late, having killed it."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        stood = state(process.pid)
        process.kill()
        if not _has_ended(process):
            stood = _unkillable(process)
        words = f"{_words(process)} (pid {process.pid}, {stood})"
        raise Late(f"{words} had not ended after {timeout_s:g} s") from None


def output(process: subprocess.Popen[Any], timeout_s: float = COMMAND_S) -> tuple[Any, Any]:
    """Return what a process writes to its pipes until it ends; raises Late, having killed it."""
    try:
        return process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise Late(_late(process, timeout_s, *_give_up(process))) from None
    except BaseException:
        _give_up(process)
        raise


def line(process: subprocess.Popen[Any], stream: IO[Any] | None = None) -> Any:
    """Return the next line of a process's stdout, or of another pipe of its, "" at the end.

    Raises Late, having killed it, if none comes within ``COMMAND_S``.
    """
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        process.kill()

    pipe = process.stdout if stream is None else stream
    if pipe is None:
        raise TestbedError(f"{_words(process)} was not given a pipe")
    timer = threading.Timer(COMMAND_S, end)
    timer.start()
    try:
        found = pipe.readline()
    finally:
        timer.cancel()
        timer.join(END_S)
    if is_late.is_set():
        raise Late(f"{_words(process)} said no line within {COMMAND_S:g} s, only {found!r}")
    return found


@contextmanager
def ending(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """Give a process that is gone after the block: killed there if it runs, its pipes closed."""
    try:
        yield process
    finally:
        process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):  # what it has not read by now
                    pipe.close()
        wait(process, KILLED_S)


def wait_pid(pid: int, timeout_s: float = END_S) -> int:
    """Return the wait status of a forked child; raises Late, having killed it."""
    until_s = time.monotonic() + timeout_s
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > until_s:
            stood = state(pid)
            os.kill(pid, signal.SIGKILL)
            raise Late(f"the child {pid} ({stood}) had not ended after {timeout_s:g} s")
        time.sleep(_POLL_S)
    return ended[1]


def join(thread: threading.Thread, timeout_s: float = END_S) -> None:
    """Wait for the end of a thread; raises Late with where it stands."""
    thread.join(timeout_s)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        raise Late(f"the thread {thread.name} had not ended after {timeout_s:g} s:\n{stack}")


def lock(file: IO[Any], timeout_s: float = LOCK_S) -> None:
    """Take the exclusive lock of an open file; raises Late with who holds it."""
    until_s = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until_s:
                held = ", ".join(_holders(file)) or "nobody who is known"
                raise Late(
                    f"{file.name} was locked for {timeout_s:g} s; its holder: {held}"
                ) from None
        time.sleep(_POLL_S)


def state(pid: int) -> str:
    """Return in words what a process is at; in the state D no signal reaches it."""
    folder = Path(f"/proc/{pid}")
    try:
        name, _, rest = (folder / "stat").read_text().rpartition(")")
        letter = rest.split()[0]
    except OSError:
        return "gone"
    call = ""
    with suppress(OSError):
        call = (folder / "wchan").read_text().strip("0\n")
    return f"{name.partition('(')[2]}, state {letter}{f' in {call}' if call else ''}"


def _unkillable(process: subprocess.Popen[Any]) -> str:
    _LEFT.append(process)
    return f"SIGKILL does not end it: {state(process.pid)}"


def _has_ended(process: subprocess.Popen[Any]) -> bool:
    """Return whether a killed process has ended, waiting for that."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_S)
    return process.returncode is not None


def _give_up(process: subprocess.Popen[Any]) -> tuple[str, str, str]:
    """Kill a command; return what became of it, its stdout and its stderr so far.

    What it has started itself may live on and keep the pipes open: that is not waited for.
    """
    stood = state(process.pid)
    process.kill()
    if not _has_ended(process):
        stood = _unkillable(process)
    try:
        out, err = process.communicate(timeout=_POLL_S)
    except subprocess.TimeoutExpired as late:
        out, err = late.output, late.stderr
    except ValueError:  # its pipes were closed when the wait was broken
        out, err = "", ""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    return stood, _text(out), _text(err)


def _late(process: subprocess.Popen[Any], timeout_s: float, *known: str) -> str:
    stood, out, err = known
    return (
        f"{_words(process)} (pid {process.pid}, {stood}) had not ended after {timeout_s:g} s;"
        f" stdout so far: {out!r}; stderr so far: {err!r}"
    )


def _words(process: subprocess.Popen[Any]) -> str:
    argv = process.args
    words = [str(word) for word in argv] if isinstance(argv, list | tuple) else [str(argv)]
    return " ".join(words)


def _text(said: str | bytes | None) -> str:
    """Return the end of what a command has said."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else said or ""
    return text[-_SAID_BYTES:]


def _holders(file: IO[Any]) -> list[str]:
    """Return the processes that hold the lock of a file, by the kernel's list."""
    found = os.fstat(file.fileno())
    inode = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with suppress(OSError):
        rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        pids = [int(row[4]) for row in rows if row[1] == "FLOCK" and row[5] == inode]
        return [f"pid {pid} ({state(pid)})" for pid in pids]
    return []
