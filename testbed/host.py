"""This machine, and what a process of it uses, by /proc."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
KIB = 1024


@dataclass(frozen=True, slots=True)
class Cores:
    """Where processes are put: ``daemon`` on the first core, ``load`` (the rest) on the last."""

    daemon: int
    load: int

    @property
    def is_apart(self) -> bool:
        return self.daemon != self.load


def cores() -> Cores:
    """Return the cores to use; the same one twice where there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(allowed[0], allowed[-1])


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process, all its threads and no child, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def memory_mib(pid: int) -> dict[str, float]:
    """Return MiB held by a process: ``rss``, its peak ``hwm``, ``pss`` (shared ones by parts)."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = {row.partition(":")[0]: row.partition(":")[2] for row in rows}
    maps = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    pss = next(row for row in maps if row.startswith("Pss:")).partition(":")[2]
    return {
        "rss": int(status["VmRSS"].split()[0]) / KIB,
        "hwm": int(status["VmHWM"].split()[0]) / KIB,
        "pss": int(pss.split()[0]) / KIB,
    }


class CpuMeter:
    """The share of a core that a process uses from one look to the next."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu_s, self._at_s = cpu_s(pid), time.monotonic()

    def share(self) -> float:
        """Return the share since the last call (or the beginning): 1.0 is one whole core."""
        now_cpu_s, now_s = cpu_s(self._pid), time.monotonic()
        spent_s, passed_s = now_cpu_s - self._cpu_s, now_s - self._at_s
        self._cpu_s, self._at_s = now_cpu_s, now_s
        return spent_s / passed_s if passed_s > 0 else 0.0


def machine() -> dict[str, Any]:
    """Return what a reader needs to know of this machine."""
    rows = Path("/proc/cpuinfo").read_text().splitlines()
    models = [row.partition(":")[2].strip() for row in rows if row.startswith("model name")]
    total_kib = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(total_kib / KIB / KIB, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def filesystem(path: Path) -> str:
    """Return the kind of file system that holds a path, such as ext4."""
    best, kind = "", "unknown"
    for row in Path("/proc/mounts").read_text().splitlines():
        _, where, what, *_ = row.split()
        if path.is_relative_to(where) and len(where) >= len(best):
            best, kind = where, what
    return kind
