"""The control loop goes before other work of its node, as far as the kernel lets it."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import threading
from dataclasses import dataclass
from typing import Literal

log = logging.getLogger(__name__)

#: Of SCHED_RR, the least that goes before every usual thread: kernel threads of this class do too.
RT_PRIORITY = 1
#: Where no real-time class is had. It counts within a session (autogroup) or a cgroup alone.
NICE = -10
_CURRENT, _FUTURE, _ON_FAULT = 1, 2, 4  # of mlockall
_CAP_IPC_LOCK = 1 << 14

Scheduling = Literal["realtime", "nice", "usual"]


@dataclass(frozen=True, slots=True)
class Priority:
    """What a thread got, and in ``fault`` what it asked for and did not get ("": nothing)."""

    scheduling: Scheduling = "usual"
    fault: str = ""


def hurry(*, is_realtime: bool) -> Priority:
    """Move the calling thread ahead: SCHED_RR where it is asked for and may, else nice, else not.

    Kernels keep a twentieth of each second for others (``sched_rt_runtime_us``), so that a loop
    that spins cannot take a core for good.
    """
    fault = ""
    if is_realtime:
        try:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(RT_PRIORITY))
        except OSError as error:
            fault = f"SCHED_RR: {error.strerror}"
        else:
            return Priority("realtime")
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
    except OSError as error:
        return Priority("usual", "; ".join(filter(None, (fault, f"nice: {error.strerror}"))))
    return Priority("nice", fault)


def slow_down() -> None:
    """Take the calling thread back from the real-time class that it inherited, to nice."""
    try:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except OSError as error:
        log.info("a thread keeps its scheduling: %s", error.strerror)
    hurry(is_realtime=False)


def lock_memory() -> bool:
    """Keep this process's pages in memory, so that a node without any does not stop the loop.

    Returns whether they are. Only where no limit would make a later allocation fail.
    """
    endless = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    if not (endless or _capabilities() & _CAP_IPC_LOCK):
        return False
    return bool(ctypes.CDLL(None).mlockall(_CURRENT | _FUTURE | _ON_FAULT) == 0)


def _capabilities() -> int:
    """Return the capabilities in force, as bits."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        found = (line.split()[1] for line in file if line.startswith("CapEff:"))
        return int(next(found, "0"), 16)
