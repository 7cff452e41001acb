"""What the testbed needs of the machine, told in words before anything is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from testbed import bounded, cgroups
from testbed.binaries import which

_PROGRAMS = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setsid": "util-linux",
    "mount": "mount",
    "sh": "dash",
}
_CONTROLLERS = ("cpu", "cpuacct", "memory", "devices", "freezer")
_PROBE = (
    "mount -t tmpfs none /run && ip link add probe0 type bridge && ip link add probe1 type veth"
)


def check() -> list[str]:
    """Return what is missing, one sentence each; an empty list means a testbed can start."""
    if sys.platform != "linux":
        return ["real engines need Linux"]
    missing = [
        f"the program {program} is missing (Debian package {package})"
        for program, package in _PROGRAMS.items()
        if which(program) is None
    ]
    if which("dockerd") is None and (which("apt-get") is None or which("dpkg") is None):
        missing.append("there is neither a dockerd in PATH nor apt-get and dpkg to fetch one")
    if os.geteuid() != 0:
        return [*missing, "real engines need root"]
    missing += _cgroup_faults()
    if "\toverlay\n" not in Path("/proc/filesystems").read_text() and not _load("overlay"):
        missing.append("the kernel has no overlay filesystem")
    if not missing:
        missing += _namespace_faults()
    return missing


def _load(module: str) -> bool:
    modprobe = which("modprobe")
    if modprobe is None:
        return False
    return bounded.run([modprobe, "-q", module]).returncode == 0


def _cgroup_faults() -> list[str]:
    if cgroups.is_v2():
        root = cgroups.tracker()
        known = (root / "cgroup.controllers").read_text().split()
        absent = [name for name in ("cpu", "memory") if name not in known]
        folders = [root]
    else:
        mounts = {name: cgroups.controller(name) for name in _CONTROLLERS}
        absent = [name for name, mount in mounts.items() if mount is None]
        folders = [mount for mount in mounts.values() if mount is not None]
    faults = [f"the cgroup controller {name} is not mounted" for name in absent]
    if any(os.statvfs(folder).f_flag & os.ST_RDONLY for folder in folders):
        faults.append("the cgroup hierarchy is mounted read-only")
    return faults


def _namespace_faults() -> list[str]:
    """Try the namespaces, the mount and the interfaces that each node needs."""
    argv = ["unshare", "--mount", "--uts", "--net", "sh", "-c", _PROBE]
    done = bounded.run(argv, text=True)
    if done.returncode:
        return [f"namespaces, mounts, bridges or veth pairs are not allowed: {done.stderr.strip()}"]
    return []
