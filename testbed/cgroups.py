"""cgroups as lists of processes and as the capacity of a node.

Version 1 is what the tests run on. Version 2 is written from its documentation and
is NOT TESTED.

Each process of a testbed is in a group below the testbed's own one from before it does
anything, so ending a testbed needs no list of pids: end all in the group, remove the
group; a straggler that tries to join the removed group fails and exits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from testbed import bounded
from testbed.errors import TestbedError

_PERIOD_US = 100_000
_UNREACHED_BYTES_PER_S = 1 << 40
_END_TIMEOUT_S = 30.0
_POLL_S = 0.003


def _mounts() -> list[tuple[Path, str, set[str]]]:
    """Return mount point, type and super-block options of each cgroup hierarchy."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        head, _, tail = line.partition(" - ")
        kind, _source, options = tail.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            found.append((Path(head.split(" ")[4]), kind, set(options.split(","))))
    return found


def controller(name: str) -> Path | None:
    """Return the mount point of a version 1 controller, or None."""
    for mount, kind, options in _mounts():
        if kind == "cgroup" and name in options:
            return mount
    return None


def is_v2() -> bool:
    """Return whether the controllers are in the version 2 hierarchy."""
    return controller("memory") is None and any(kind == "cgroup2" for _, kind, _ in _mounts())


def tracker() -> Path:
    """Return the hierarchy in which a testbed keeps its processes together.

    Version 1: freezer, since a paused container must be thawed to be ended.
    """
    for mount, kind, options in _mounts():
        if kind == "cgroup" and "freezer" in options:
            return mount
    for mount, kind, _ in _mounts():
        if kind == "cgroup2":
            return mount
    raise TestbedError("no cgroup hierarchy with the freezer controller is mounted")


def make(group: str) -> None:
    """Make a group in the tracking hierarchy."""
    (tracker() / group).mkdir(parents=True, exist_ok=True)


def join_file(group: str) -> Path:
    """Return the file a process writes its pid to in order to join the group."""
    return tracker() / group / "cgroup.procs"


def make_node(group: str, *, cpus: float, memory_bytes: int) -> None:
    """Make the group of a node's containers and bound their CPUs and memory together."""
    make(group)
    quota_us = round(cpus * _PERIOD_US)
    if is_v2():
        _delegate(tracker(), group)
        (tracker() / group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        (tracker() / group / "memory.max").write_text(str(memory_bytes))
        return
    cpu, memory = controller("cpu"), controller("memory")
    if cpu is None or memory is None:
        raise TestbedError("the cpu and memory cgroup controllers are not mounted")
    for mount in (cpu, memory):
        (mount / group).mkdir(parents=True, exist_ok=True)
    (cpu / group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
    (cpu / group / "cpu.cfs_quota_us").write_text(str(quota_us))
    (memory / group / "memory.limit_in_bytes").write_text(str(memory_bytes))


def count_disk(group: str, folder: Path) -> None:
    """Make the disk of a folder count in blkio; nothing happens where that cannot be.

    Some kernels leave blkio.throttle.io_service_bytes at 0 until a rule for the device has been
    set once, on whatever group: so set one that no disk reaches.
    """
    blkio = controller("blkio")
    number = folder.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if blkio is None or not device.exists():
        return
    disk = device.resolve().parent if (device / "partition").exists() else device
    rule = f"{(disk / 'dev').read_text().strip()} {_UNREACHED_BYTES_PER_S}"
    (blkio / group).mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # a device without a queue
        (blkio / group / "blkio.throttle.write_bps_device").write_text(rule)


def _delegate(root: Path, group: str) -> None:
    """Version 2: hand cpu and memory down from the root to the group. NOT TESTED."""
    for parent in (root, *reversed((root / group).relative_to(root).parents)):
        (root / parent / "cgroup.subtree_control").write_text("+cpu +memory")


def _folders(group: str, hierarchy: Path) -> Iterator[Path]:
    """Yield the group's folders in one hierarchy, children before parents."""
    for folder, _, _ in os.walk(hierarchy / group, topdown=False):
        yield Path(folder)


def processes(group: str) -> list[int]:
    """Return the pids in a group and in the groups below it."""
    pids: list[int] = []
    for folder in _folders(group, tracker()):
        try:
            pids += map(int, (folder / "cgroup.procs").read_text().split())
        except OSError:  # removed meanwhile
            continue
    return pids


def _thaw(group: str) -> None:
    for folder in _folders(group, tracker()):
        state = folder / "freezer.state"
        if state.exists():
            try:
                state.write_text("THAWED")
            except OSError:  # removed meanwhile
                continue


def signal_all(group: str, number: signal.Signals) -> None:
    """Send a signal to each process in a group."""
    for pid in processes(group):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def end(group: str) -> None:
    """Kill all processes in a group and wait until there are none.

    Repeats until the group is empty, because a process may fork between the reading of the
    list and its own end. Raises TestbedError, with where they stand, after ``_END_TIMEOUT_S``: what
    the kernel keeps nobody ends, and the next who cleans up tries again.
    """
    deadline = time.monotonic() + _END_TIMEOUT_S
    while processes(group):
        signal_all(group, signal.SIGKILL)
        _thaw(group)
        if time.monotonic() > deadline:
            left = ", ".join(f"{pid} ({bounded.state(pid)})" for pid in processes(group))
            raise TestbedError(f"processes of {group} do not end: {left}")
        time.sleep(_POLL_S)


def remove(group: str) -> None:
    """Remove a group and all below it in every hierarchy; the caller has ended its processes."""
    deadline = time.monotonic() + _END_TIMEOUT_S
    while not _try_remove(group):
        if time.monotonic() > deadline:
            raise TestbedError(f"the cgroup {group} cannot be removed")
        end(group)
        time.sleep(_POLL_S)


def _try_remove(group: str) -> bool:
    """Remove what is empty; return whether all is gone (a dying process keeps its group busy)."""
    for hierarchy, _, _ in _mounts():
        for folder in _folders(group, hierarchy):
            try:
                folder.rmdir()
            except OSError:
                continue
    return not leftovers(group)


def leftovers(group: str) -> list[Path]:
    """Return the group's folders that exist, over all hierarchies."""
    return [mount / group for mount, _, _ in _mounts() if (mount / group).exists()]
