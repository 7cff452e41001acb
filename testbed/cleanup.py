"""Take a testbed away: processes, mounts, namespaces, interfaces, cgroups, folders.

Everything here may be repeated and may meet a testbed in any state, half made or half gone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from testbed import bounded, cgroups, network, registry
from testbed.layout import Layout, load, name_of


def clean(directory: Path) -> None:
    """Take the testbed of a folder away; nothing happens if there is none (any more)."""
    if not (directory / "testbed.json").exists():
        registry.forget(directory)
        return
    layout = load(directory)
    if not _is_ours(layout):
        _remove_folders(layout)
        return
    layout.stopping.touch()
    _end(layout.group)
    _unmount_below(layout.directory)
    _remove_folders(layout)
    registry.forget(layout.directory)


def clean_unowned(index: int, directory: Path) -> None:
    """Take away a testbed without an owner, also where somebody removed its folder."""
    clean(directory)
    _end(name_of(index))
    registry.forget(directory)


def _end(name: str) -> None:
    """End the processes of a testbed; remove its interface and its groups."""
    cgroups.end(name)
    network.remove_root_leg(name)
    cgroups.remove(name)


def discard_unborn(directory: Path) -> None:
    """Remove the folder of a testbed whose owner died before it wrote testbed.json."""
    (directory / "testbed.json.part").unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # gone, or not empty: a kept folder
        directory.rmdir()


def _is_ours(layout: Layout) -> bool:
    """Return whether the index is not another testbed's by now: then ours has been cleaned."""
    return registry.claimed(layout.index) in (layout.directory, None)


def mounts_below(directory: Path) -> list[str]:
    """Return the mount points at or below a folder in this namespace, deepest last."""
    points = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split(" ")[4].encode().decode("unicode_escape")
        if point == str(directory) or point.startswith(f"{directory}{os.sep}"):
            points.append(point)
    return points


def _unmount_below(directory: Path) -> None:
    """Detach mounts that came into the host's namespace; there should be none."""
    for point in reversed(mounts_below(directory)):
        bounded.run(["umount", "-l", point])


def _remove_folders(layout: Layout) -> None:
    """Remove the whole folder, or all but logs, power.log and the configuration."""
    if layout.remove_directory:
        shutil.rmtree(layout.directory, ignore_errors=True)
        return
    for spec in layout.specs:
        for name in ("data", "etc-docker", "tls", "sshd", "tmp"):
            shutil.rmtree(layout.node_dir(spec.name) / name, ignore_errors=True)
        pids = ("holder.pid", "machine.pid", "engine.pid", "sshd.pid")
        for name in ("docker.sock", *pids, "lock", "on", "cut"):
            (layout.node_dir(spec.name) / name).unlink(missing_ok=True)
    for folder in (layout.tls_dir, layout.ssh_dir):  # they hold private keys
        shutil.rmtree(folder, ignore_errors=True)
    for name in ("switch.pid", "testbed.json", "stopping"):
        (layout.directory / name).unlink(missing_ok=True)
