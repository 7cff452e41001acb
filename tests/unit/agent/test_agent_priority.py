"""Who goes first: the loop before others, and memory of ended tasks back without their CPU time."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from tenure.agent.io import priority, release
from tenure.agent.io.priority import NICE, Priority, hurry, lock_memory, slow_down
from tenure.agent.io.release import Releaser
from testbed import bounded, tied

HELD = 64 << 20
T = TypeVar("T")
TASK = f"held = bytearray({HELD}); print(1, flush=True); import time; time.sleep(60)"


def in_thread(work: Callable[[], T]) -> T:
    """Return the answer of a thread that ends: what it was given is gone with it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def may_be_realtime() -> bool:
    def ask() -> bool:
        try:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        except OSError:
            return False
        return True

    return in_thread(ask)


def nice() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(not may_be_realtime(), reason="this user may not use SCHED_RR")
def test_a_thread_is_realtime_alone_and_can_be_taken_back() -> None:
    def work() -> tuple[Priority, int, int, int]:
        got = hurry(is_realtime=True)
        was = os.sched_getscheduler(0)
        slow_down()
        return got, was, os.sched_getscheduler(0), nice()

    before = os.sched_getscheduler(0)
    got, was, after, niceness = in_thread(work)
    assert got == Priority("realtime")
    assert (was, after, niceness) == (os.SCHED_RR, os.SCHED_OTHER, NICE)
    assert os.sched_getscheduler(0) == before


def test_without_leave_it_falls_back_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    told = "SCHED_RR: Operation not permitted"
    got = in_thread(lambda: hurry(is_realtime=True))
    assert got.fault.startswith(told)
    monkeypatch.setattr(os, "setpriority", refuse)
    got = in_thread(lambda: hurry(is_realtime=True))
    assert got == Priority("usual", f"{told}; nice: Operation not permitted")


def test_it_is_not_realtime_where_that_is_not_wanted() -> None:
    def work() -> tuple[Priority, int]:
        return hurry(is_realtime=False), os.sched_getscheduler(0)

    got, scheduler = in_thread(work)
    assert got.scheduling in ("nice", "usual")
    assert scheduler == os.SCHED_OTHER


def test_memory_is_not_locked_under_a_limit_that_allocations_would_meet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
    monkeypatch.setattr(priority, "_capabilities", lambda: 0)
    assert lock_memory() is False


def test_locked_memory_shows_in_the_process() -> None:
    code = (
        "from tenure.agent.io.priority import lock_memory; got = lock_memory()\n"
        "rows = open('/proc/self/status').read().split('\\n')\n"
        "locked = next(r.split()[1] for r in rows if r.startswith('VmLck'))\n"
        "assert got == (int(locked) > 0), (got, locked)"
    )
    bounded.run([sys.executable, "-c", code], check=True, timeout_s=60)


def held_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_task_that_gets_no_cpu_gives_its_memory_back() -> None:
    """Stopped and traced by nobody, it is killed, and its memory is gone when we are done."""
    task = tied.start([sys.executable, "-c", TASK], stdout=subprocess.PIPE)
    assert task.stdout is not None
    releaser = Releaser()
    try:
        bounded.line(task)
        assert held_bytes(task.pid) > HELD
        task.send_signal(signal.SIGSTOP)
        releaser.end(task.pid)
        releaser.close()
        assert task.wait(20) == -signal.SIGKILL
        with pytest.raises(ProcessLookupError):
            releaser.end(task.pid)
    finally:
        task.kill()
        bounded.wait(task)
        task.stdout.close()
        releaser.close()
    assert releaser.is_supported


def test_a_kernel_that_takes_long_keeps_no_agent_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call stands still, as for a process whose memory another thread of it has locked."""
    over = threading.Event()
    monkeypatch.setattr(release, "CLOSE_S", 0.2)
    releaser = Releaser()
    monkeypatch.setattr(releaser, "_take_back", lambda fd: over.wait(600))
    task = tied.start(["sleep", "600"])
    with bounded.ending(task):
        releaser.end(task.pid)
        thread, begun = releaser._worker._thread, time.monotonic()
        releaser.close()
        assert time.monotonic() - begun < 60
    over.set()
    assert thread is not None
    bounded.join(thread)


def test_descriptors_are_closed_and_the_thread_ends() -> None:
    before = len(os.listdir("/proc/self/fd"))
    task = tied.start([sys.executable, "-c", "import time; time.sleep(60)"])
    releaser = Releaser()
    fds = releaser.hold([task.pid, 1 << 22])
    assert len(fds) == 1
    releaser.let_go(fds, is_ended=False)
    releaser.let_go(releaser.hold([task.pid]), is_ended=True)  # not ended: the kernel refuses
    releaser.close()
    assert task.poll() is None
    releaser.end(task.pid)
    releaser.close()
    task.wait(20)
    assert len(os.listdir("/proc/self/fd")) == before
    assert not any(one.name == "release" for one in threading.enumerate())


def test_of_very_many_processes_few_descriptors_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.agent.io.release.MAX_WAITING", 3)
    releaser = Releaser()
    fds = releaser.hold([os.getpid()] * 1000)
    releaser.let_go(fds, is_ended=False)
    assert len(fds) == 3


def test_without_descriptors_a_process_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    task = tied.start([sys.executable, "-c", "import time; time.sleep(60)"])
    Releaser().end(task.pid)
    assert task.wait(20) == -signal.SIGKILL
