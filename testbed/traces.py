"""What of a testbed exists on the machine, found without asking the testbed's own records.

For tests that prove a clean-up: whatever is listed here after one is a leak.
"""

from __future__ import annotations

from pathlib import Path

from testbed import cgroups, registry
from testbed.cleanup import mounts_below


def traces(directory: Path, index: int | None = None) -> list[str]:
    """Return all that is left of the testbed of a folder, and of its index if that is known.

    Looks for processes (by cgroup, command line, environment and working folder), mounts,
    interfaces, cgroups and index claims; not for files.
    """
    found = [f"mount {point}" for point in mounts_below(directory)]
    found += [f"process {pid}: {what}" for pid, what in _processes(directory, index)]
    claims = {number: registry.claimed(number) for number in range(registry.MAX_TESTBEDS)}
    found += [
        f"claim {number} of {folder}"
        for number, folder in claims.items()
        if folder is not None and folder.is_relative_to(directory)
    ]
    if index is not None:
        name = f"tntb{index}"
        found += [f"cgroup {folder}" for folder in cgroups.leftovers(name)]
        if Path(f"/sys/class/net/{name}").exists():
            found.append(f"interface {name}")
    return found


def _processes(directory: Path, index: int | None) -> list[tuple[int, str]]:
    """Return pid and command line of the processes that have to do with the testbed."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
            groups = (folder / "cgroup").read_text()
            working = str((folder / "cwd").readlink())
        except OSError:  # ended meanwhile
            continue
        is_in_group = index is not None and f"/tntb{index}/" in f"{groups}/"
        if is_in_group or str(directory) in command or Path(working).is_relative_to(directory):
            found.append((int(folder.name), command))
    return found


def namespaces(pid: int) -> set[str]:
    """Return the net, mount and UTS namespaces of a process, as the kernel names them."""
    return {str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in ("net", "mnt", "uts")}


def used_namespaces() -> set[str]:
    """Return the net, mount and UTS namespaces that any process is in."""
    used: set[str] = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                used |= namespaces(int(folder.name))
            except OSError:  # ended meanwhile, or a zombie
                continue
    return used
