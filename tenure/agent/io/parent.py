"""Harvest's parent cgroup: what it uses, its tasks, and the files that hold it back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from tenure.agent import counters
from tenure.agent.gauges import Counters, TaskCounters
from tenure.agent.io.files import KeptFiles, below, read
from tenure.agent.io.groups import CGROUPS, Groups, folders_in
from tenure.agent.io.host import TICKS_PER_S
from tenure.agent.io.release import Releaser
from tenure.model.harvest import HARVEST_GROUP, HARVEST_SLICE_PATH
from tenure.model.resources import Resources

#: The kernel's period between two refills of a CPU quota, and its default.
CFS_PERIOD_US = 100_000
#: The least weights that the kernel takes, by version.
_LEAST = {1: ("cpu.shares", 2), 2: ("cpu.weight", 1)}
#: Tasks looked at, levels below a task, and rounds of killing in one go: bounds of loops.
MAX_TASKS, MAX_DEPTH, KILL_ROUNDS = 4096, 4, 3
_STARTED_WORD = 19  # of /proc/PID/stat after the name, which is in brackets


class Parent:
    """One node's harvest: made beside the reader of its cgroups, used by one thread alone.

    ``group`` is the path of the parent below the root of cgroups, ``proc`` the node's ``/proc``.
    """

    def __init__(self, root: Path, groups: Groups) -> None:
        self.version = groups.version
        self._folders = groups.folders
        self._node = groups.node
        self.proc = below(root, "/proc")
        self._pressure = (
            f"{self.proc}/pressure/memory"
            if not self._node
            else f"{below(root, CGROUPS)}/{self._node}/memory.pressure"
        )
        self._files = KeptFiles()
        self._releaser = Releaser()
        self._started: dict[tuple[str, int], int] = {}
        self.group = self._find()

    @property
    def memory_folder(self) -> str:
        """Return the parent's folder in the tree that accounts memory."""
        return self._path("memory", self.group, "")

    def prepare(self) -> list[str]:
        """Make the parent where it is absent, with the least weight; returns what failed.

        Made before the first task, it never has a moment without the weight and the quota. Under
        the systemd driver the engine makes it; its slice lies in another one, which holds nothing
        else and gets the least weight too.
        """
        self.group = self._find()
        faults = list(self._make())
        levels = [self.group]
        if self.group.endswith(HARVEST_SLICE_PATH):
            levels.append(os.path.dirname(self.group))
        name, least = _LEAST[self.version]
        for level in levels:
            path = self._path("cpu", level, name)
            if counters.number(read(path)) not in (least, None):
                faults += self._write(path, str(least))
        return faults

    def counters(self, machine: Resources, *, with_tasks: bool, with_cpu: bool) -> Counters:
        """Return the counters of now; what cannot be read is None, nothing is raised.

        ``machine`` is the capacity of the node; ``with_cpu``: of each task as well.
        """
        # tasks before sums: what ends in between counts neither as dying nor as used
        tasks = tuple(self._tasks(with_cpu=with_cpu)) if with_tasks else ()
        at_us = time.monotonic_ns() // 1000
        harvest_ns = self._cpu_ns(self.group)
        node_ns = self._cpu_ns(self._node) if self._node or self.version == 1 else self._host_ns()
        has_parent = os.path.isdir(self._path("memory", self.group, ""))
        held = self._memory(self.group)
        return Counters(
            at_us,
            machine,
            node_ns,
            harvest_ns if has_parent else 0,
            self._node_memory(),
            held if has_parent else 0,
            has_parent,
            self._quota_m(),
            self._soft_bytes(),
            counters.stalled_us(read(self._pressure)),
            tasks,
        )

    def set_quota(self, quota_m: int) -> list[str]:
        """Hold all tasks together to thousandths of a core; returns what failed."""
        quota_us = quota_m * CFS_PERIOD_US // 1000
        if self.version == 2:
            return self._write(self._path("cpu", self.group, "cpu.max"), f"{quota_us} 100000")
        return self._write(self._path("cpu", self.group, "cpu.cfs_quota_us"), str(quota_us))

    def set_soft(self, soft_bytes: int) -> list[str]:
        """Ask the kernel to take memory above ``soft_bytes`` back; returns what failed."""
        name = "memory.high" if self.version == 2 else "memory.soft_limit_in_bytes"
        return self._write(self._path("memory", self.group, name), str(soft_bytes))

    def kill(self, key: str) -> list[str]:
        """End every process of a task at once; returns what failed. One that is gone is ended.

        Their memory is taken back in the agent's time (``release``): the quota stays as it is.
        """
        group = f"{self.group}/{key}"
        if self.version == 2:
            path = self._path("memory", group, "cgroup.kill")
            if os.path.exists(path) and self._is_ended_by(path, group):
                return []
        for _ in range(KILL_ROUNDS):  # what was forked meanwhile is there in the next round
            pids = set(self._processes(group))
            if 0 in pids:
                return [f"{key}: processes of another pid namespace (run with the host's)"]
            if not pids:
                return []
            for pid in pids:
                try:
                    self._releaser.end(pid)
                except ProcessLookupError:
                    continue
                except OSError as error:
                    return [f"{key}: kill {pid}: {error.strerror}"]
        return []

    @property
    def releases(self) -> bool:
        """Return whether the kernel takes the memory of ended tasks back for us."""
        return self._releaser.is_supported

    def _is_ended_by(self, path: str, group: str) -> bool:
        """End a group by its ``cgroup.kill``; returns whether the kernel did."""
        fds = self._releaser.hold(pid for pid in self._processes(group) if pid)
        is_ended = not self._write(path, "1")
        self._releaser.let_go(fds, is_ended=is_ended)
        return is_ended

    def close(self) -> None:
        """Close the files that are kept open; what is to be released is before."""
        self._releaser.close()
        self._files.close()

    def end_round(self) -> None:
        """Let go of the files of tasks that are gone."""
        self._files.end_round()

    # reading

    def _find(self) -> str:
        places = [f"{self._node}/{p}".lstrip("/") for p in (HARVEST_SLICE_PATH, HARVEST_GROUP)]
        found = (place for place in places if os.path.isdir(self._path("memory", place, "")))
        return next(found, places[-1])

    def _cpu_ns(self, group: str) -> int | None:
        if self.version == 1:
            return counters.number(self._files.read(self._path("cpuacct", group, "cpuacct.usage")))
        usage_us = counters.value(
            self._files.read(self._path("cpu", group, "cpu.stat")), b"usage_usec"
        )
        return None if usage_us is None else usage_us * 1000

    def _host_ns(self) -> int | None:
        return counters.cpu_ns(self._files.read(f"{self.proc}/stat"), TICKS_PER_S)

    def _node_memory(self) -> int | None:
        if self._node:
            return self._memory(self._node)
        found = counters.memory(self._files.read(f"{self.proc}/meminfo"))
        return None if found is None else found.used_bytes

    def _memory(self, group: str) -> int | None:
        """Return a working set, or on a whole machine what ``MemAvailable`` counts as used.

        Regular use is the node's less harvest's, so both must mean the same: a machine's cached
        files count as available, those in a group's working set do not.
        """
        name = "memory.current" if self.version == 2 else "memory.usage_in_bytes"
        usage = counters.number(self._files.read(self._path("memory", group, name)))
        if usage is None:
            return None
        pages = self._files.read(self._path("memory", group, "memory.stat"))
        if pages is None:
            return None
        prefix = b"" if self.version == 2 else b"total_"
        if self._node:
            return max(0, usage - (counters.value(pages, prefix + b"inactive_file") or 0))
        cached = counters.value(pages, b"file" if self.version == 2 else b"total_cache") or 0
        shared = counters.value(pages, prefix + b"shmem") or 0
        return max(0, usage - max(0, cached - shared))

    def _quota_m(self) -> int | None:
        if self.version == 2:
            return counters.quota_m(self._files.read(self._path("cpu", self.group, "cpu.max")))
        quota = counters.number(self._files.read(self._path("cpu", self.group, "cpu.cfs_quota_us")))
        period = counters.number(
            self._files.read(self._path("cpu", self.group, "cpu.cfs_period_us"))
        )
        return counters.share_m(quota, period)

    def _soft_bytes(self) -> int | None:
        name = "memory.high" if self.version == 2 else "memory.soft_limit_in_bytes"
        return counters.limit_bytes(self._files.read(self._path("memory", self.group, name)))

    def _tasks(self, *, with_cpu: bool) -> Iterator[TaskCounters]:
        base = self._path("memory", self.group, "")
        known = {}
        for name in folders_in(base)[:MAX_TASKS]:
            group = f"{self.group}/{name}"
            try:
                mark = (name, os.stat(f"{base}/{name}").st_ino)
            except OSError:
                continue  # it has just ended
            started = self._started.get(mark) or self._first_start(group)
            if started is None:
                continue  # nothing runs in it, or not yet
            known[mark] = started
            cpu_ns = self._cpu_ns(group) if with_cpu else None
            yield TaskCounters(name, group, started, self._memory(group) or 0, cpu_ns)
        self._started = known

    def _first_start(self, group: str) -> int | None:
        """Return when the first of a group's processes started, ticks since the machine did."""
        found = [self._start_of(pid) for pid in self._processes(group)]
        return min((ticks for ticks in found if ticks is not None), default=None)

    def _start_of(self, pid: int) -> int | None:
        text = read(f"{self.proc}/{pid}/stat") or b""
        words = text.rpartition(b")")[2].split()
        return counters.number(words[_STARTED_WORD]) if len(words) > _STARTED_WORD else None

    def _processes(self, group: str, depth: int = 0) -> Iterator[int]:
        base = self._path("memory", group, "")
        for word in (read(f"{base}/cgroup.procs") or b"").split():
            pid = counters.number(word)
            if pid is not None:
                yield pid
        if depth < MAX_DEPTH:
            for name in folders_in(base):
                yield from self._processes(f"{group}/{name}", depth + 1)

    # writing

    def _make(self) -> Iterator[str]:
        for controller in ("memory", "cpu", "cpuacct"):
            if (folder := self._folders.get(controller)) is None:
                continue
            try:
                os.makedirs(f"{folder}/{self.group}", exist_ok=True)
            except OSError as error:
                yield f"{folder}/{self.group}: {error.strerror}"
        if self.version == 2:  # what its own files need is asked for in the group above
            above = self._path("cpu", os.path.dirname(self.group), "cgroup.subtree_control")
            if not {b"cpu", b"memory"} <= set((read(above) or b"").split()):
                yield from self._write(above, "+cpu +memory")

    def _path(self, controller: str, group: str, name: str) -> str:
        folder = self._folders.get(controller) or self._folders["memory"]
        return f"{folder}/{group}/{name}".rstrip("/")

    def _write(self, path: str, text: str) -> list[str]:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_TRUNC)
        except OSError as error:
            return [f"{path}: {error.strerror}"]
        try:
            os.write(fd, text.encode())
        except OSError as error:
            return [f"{path}: {error.strerror}"]
        finally:
            os.close(fd)
        return []
