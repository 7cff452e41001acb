"""The cgroup tree: which containers there are, and what each of them has used."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tenure.agent import counters, layout
from tenure.agent.io.files import KeptFiles, below, read
from tenure.model.errors import InvalidInput, Unavailable
from tenure.model.resources import Resources
from tenure.profiling.readings.decode import MOST
from tenure.profiling.readings.sample import Reading

CGROUPS = "/sys/fs/cgroup"
#: Folders looked at for containers, and levels: bounds against a tree that does not end.
MAX_FOLDERS = 20_000
MAX_DEPTH = 12
#: A folder of the kernel's with so many links has no folder in it.
LEAF_LINKS = 2


class _Used(NamedTuple):
    """Counters as a version's files tell them: nanoseconds, bytes, microseconds."""

    cpu_ns: int | None
    usage: int | None
    inactive: int | None
    disk: int | None
    throttled_us: int | None


class Groups:
    """Reads one node's cgroups, those below ``node_cgroup``; make it with ``open_groups``.

    ``folders`` is the root of each controller's tree; ``node`` the group that is the node, without
    a leading slash, "" for the machine.
    """

    def __init__(self, version: int, folders: dict[str, str], node_cgroup: str) -> None:
        self.version = version
        self.folders = folders
        self.node = node_cgroup.strip("/")
        self._files = KeptFiles()
        self._blkio_file = ""
        if version == 1:
            self._blkio_bytes("")  # the root knows which file counts

    @property
    def is_whole_machine(self) -> bool:
        """Whether the node is all of the machine."""
        return not self.node

    def containers(self) -> dict[str, str]:
        """Return the cgroup of each container, by the container's id."""
        base = self.folders["memory"]
        found: dict[str, str] = {}
        todo = [(self.node, 0)]
        seen = 0
        while todo and seen < MAX_FOLDERS:
            group, depth = todo.pop()
            for name in folders_in(f"{base}/{group}"):
                seen += 1
                inner = f"{group}/{name}" if group else name
                if (key := layout.container_of(name)) is not None:
                    found[key] = inner
                elif depth < MAX_DEPTH:
                    todo.append((inner, depth + 1))
        return found

    def reading(self, group: str, network: tuple[int, int] | None = None) -> Reading | None:
        """Return what a group has used, with the bytes received and sent in its ``network``.

        None where it is gone.
        """
        used = self._v2(group) if self.version == 2 else self._v1(group)
        if used.cpu_ns is None or used.usage is None or used.usage > MOST:
            return None
        return Reading(
            time.time_ns() // 1000,
            used.cpu_ns,
            max(0, used.usage - (used.inactive or 0)),
            used.disk,
            None if network is None else sum(network),
            None if network is None else network[1],
            used.throttled_us,
            source="agent",
        )

    def total(self) -> Reading | None:
        """Return what the node's group has used; the root of a tree has no such counters."""
        return None if self.is_whole_machine else self.reading(self.node)

    def end_round(self) -> None:
        """Let go of the files of groups that were not read since the last call."""
        self._files.end_round()

    def close(self) -> None:
        """Close the files that are kept open."""
        self._files.close()

    def capacity(self) -> Resources:
        """Return the bounds of the node's group; 0 where it has none."""
        if self.version == 2:
            cpu_m = counters.quota_m(self._read("cpu", self.node, "cpu.max"))
            memory = counters.limit_bytes(self._read("memory", self.node, "memory.max"))
        else:
            quota = counters.number(self._read("cpu", self.node, "cpu.cfs_quota_us"))
            period = counters.number(self._read("cpu", self.node, "cpu.cfs_period_us"))
            cpu_m = counters.share_m(quota, period)
            text = self._read("memory", self.node, "memory.limit_in_bytes")
            memory = counters.limit_bytes(text)
        return Resources(cpu_m or 0, memory or 0)

    def first_process(self, group: str) -> int | None:
        """Return a process of the group, or of one right below it; None where it has none."""
        base = f"{self.folders['memory']}/{group}"
        if (pid := _process_in(base)) is not None:
            return pid
        inner = (_process_in(f"{base}/{name}") for name in folders_in(base))
        return next((pid for pid in inner if pid is not None), None)

    def _v1(self, group: str) -> _Used:
        throttled_ns = counters.value(self._read("cpu", group, "cpu.stat"), b"throttled_time")
        pages = self._read("memory", group, "memory.stat")
        return _Used(
            counters.number(self._read("cpuacct", group, "cpuacct.usage")),
            counters.number(self._read("memory", group, "memory.usage_in_bytes")),
            counters.value(pages, b"total_inactive_file"),
            self._blkio_bytes(group),
            None if throttled_ns is None else throttled_ns // 1000,
        )

    def _v2(self, group: str) -> _Used:
        cpu = self._read("cpu", group, "cpu.stat")
        cpu_us = counters.value(cpu, b"usage_usec")
        return _Used(
            None if cpu_us is None else cpu_us * 1000,
            counters.number(self._read("memory", group, "memory.current")),
            counters.value(self._read("memory", group, "memory.stat"), b"inactive_file"),
            counters.io_bytes(self._read("blkio", group, "io.stat")),
            counters.value(cpu, b"throttled_usec"),
        )

    def _blkio_bytes(self, group: str) -> int | None:
        """Return bytes of v1's block I/O, by the first of its files that counts on this machine."""
        for name in (self._blkio_file,) if self._blkio_file else layout.BLKIO_FILES:
            found = counters.blkio_bytes(self._read("blkio", group, name))
            if found is not None:
                self._blkio_file = name
                return found
        return None

    def _read(self, controller: str, group: str, name: str) -> bytes | None:
        folder = self.folders.get(controller)
        return None if folder is None else self._files.read(f"{folder}/{group}/{name}")


def open_groups(root: Path, node_cgroup: str) -> Groups:
    """Return the cgroups below ``root``. Raises InvalidInput where there are none.

    Raises Unavailable where ``node_cgroup`` is not there: who makes it may not have done so yet.

    Version 2 where the tree itself is one (``cgroup.controllers``); a version 1 tree with version 2
    beside it for systemd alone counts as version 1, as it does for engines.
    """
    base = below(root, CGROUPS)
    wanted = node_cgroup.strip("/")
    if ".." in wanted.split("/"):
        raise InvalidInput(f"--node-cgroup {node_cgroup}: may not hold '..'")
    if os.path.exists(f"{base}/cgroup.controllers"):
        groups = Groups(2, dict.fromkeys(("cpu", "memory", "blkio"), base), wanted)
    else:
        found = {
            "memory": _first(base, ("memory",)),
            "cpuacct": _first(base, layout.CPUACCT),
            "cpu": _first(base, layout.CPU),
            "blkio": _first(base, ("blkio",)),
        }
        groups = Groups(1, {key: path for key, path in found.items() if path}, wanted)
        missing = [key for key in ("memory", "cpuacct") if not found[key]]
        if missing:
            raise InvalidInput(
                f"no cgroups of {' and '.join(missing)} below {base}: in a container mount the "
                "node's /sys and /proc and name them by --root (docs/agent.md)"
            )
    if not os.path.isdir(f"{groups.folders['memory']}/{wanted}"):
        raise Unavailable(f"--node-cgroup {node_cgroup}: there is no such cgroup below {base} yet")
    return groups


def _first(base: str, candidates: Sequence[str]) -> str:
    paths = (f"{base}/{name}" for name in candidates)
    return next((path for path in paths if os.path.isdir(path)), "")


def folders_in(path: str) -> list[str]:
    """Return the names of the folders right in one of the kernel's; none where it is gone."""
    try:
        if os.stat(path).st_nlink == LEAF_LINKS:
            return []
        with os.scandir(path) as found:
            return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _process_in(folder: str) -> int | None:
    # 0 is a process outside our pid namespace
    pids = map(counters.number, (read(f"{folder}/cgroup.procs") or b"").split())
    return next((pid for pid in pids if pid), None)
