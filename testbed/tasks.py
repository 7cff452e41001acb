"""A container's task in a node's containerd, and its end as an operator brings it about.

A shim whose engine and containerd were killed while it started a container may have missed its
process's exit: it then answers no removal, ever, and has to be ended itself.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from testbed import bounded, cgroups, engine
from testbed.errors import TestbedError
from testbed.layout import Layout

CTR_S = 15.0
"""What one command of ctr is given: some tenths of a second here, where the shim answers."""
GONE_S = 30.0
"""How long containerd may take to see that a shim is gone, and to clear what it kept."""
_SOCKET = "/run/tenure/exec/containerd/containerd.sock"


def clear(layout: Layout, name: str, container: str) -> None:
    """End the task of a container in the node's containerd: with ctr, else with its shim.

    Raises TestbedError if the machine is off, or if the task stays. The engine learns of it when
    it is started again.
    """
    for words in (["kill", "--signal", "SIGKILL", container], ["rm", "--force", container]):
        _ctr(layout, name, words)  # one that is gone is cleared
    if _is_gone(layout, name, container):
        return
    for folder in (cgroups.tracker() / layout.node_group(name)).rglob(container):
        cgroups.end(str(folder.relative_to(cgroups.tracker())))
    for shim in shims(layout, name, container):
        with suppress(ProcessLookupError):
            os.kill(shim, signal.SIGKILL)
    if not engine.wait_for(lambda: _is_gone(layout, name, container), GONE_S):
        raise TestbedError(f"the task of {container} on {name} stays, though its shim was killed")


def shims(layout: Layout, name: str, container: str) -> list[int]:
    """Return the pids of the shims that keep a container's task: one, or none."""
    found = []
    for process in cgroups.processes(layout.engine_group(name)):
        try:
            words = Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")
        except OSError:  # ended meanwhile
            continue
        if "shim" in Path(words[0]).name and container in words:
            found.append(process)
    return found


def _is_gone(layout: Layout, name: str, container: str) -> bool:
    """Whether containerd keeps no task of the container; False where it does not say."""
    kept = _ctr(layout, name, ["ls", "--quiet"])
    return kept is not None and container not in kept.split()


def _ctr(layout: Layout, name: str, words: Sequence[str]) -> str | None:
    """Run ``ctr tasks`` on a node; return its output, None if it failed or did not come back."""
    machine = engine.machine(layout, name)
    if machine is None:
        raise TestbedError(f"{name} is off")
    ctr = shutil.which("ctr", path=layout.toolchain.path)
    if ctr is None:
        raise TestbedError("there is no ctr beside the engine's containerd")
    enter = ["nsenter", "-t", str(machine), "--mount"]
    argv = [*enter, ctr, "--address", _SOCKET, "--namespace", "moby", "tasks", *words]
    try:
        done = bounded.run(argv, text=True, timeout_s=CTR_S)
    except bounded.Late:
        return None
    return done.stdout if done.returncode == 0 else None
