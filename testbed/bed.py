"""The testbed as an object: start, power, faults, stop."""

from __future__ import annotations

import os
import secrets
import signal
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from testbed import (
    certificates,
    cgroups,
    cleanup,
    config,
    engine,
    network,
    power,
    registry,
    sshd,
    tasks,
)
from testbed.binaries import toolchain
from testbed.errors import TestbedError
from testbed.image import archive
from testbed.layout import Layout
from testbed.prerequisites import check
from testbed.spec import NodeSpec, validate
from testbed.watchdog import Watchdog


@dataclass(frozen=True)
class Node:
    """One node of a running testbed."""

    layout: Layout = field(repr=False)
    spec: NodeSpec

    @property
    def name(self) -> str:
        """Return the node's name, which is its engine's name too."""
        return self.spec.name

    @property
    def address(self) -> str:
        """Return the node's IPv4 address, reachable from the host and from all nodes."""
        return self.layout.address(self.name)

    @property
    def url(self) -> str:
        """Return the engine's URL: tcp://address:2375, or what the spec's ``reach`` says."""
        return self.layout.url(self.name)

    @property
    def socket(self) -> Path:
        """Return the path of the engine's unix socket."""
        return self.layout.socket(self.name)

    @property
    def cgroup_parent(self) -> str:
        """Return the cgroup, relative to a hierarchy's root, of the node's containers."""
        return f"/{self.layout.node_group(self.name)}"

    @property
    def tls_files(self) -> dict[str, str]:
        """Return the paths that a client of a TLS node needs: ca, cert, key."""
        return self.layout.tls_files()

    @property
    def ssh_files(self) -> dict[str, str]:
        """Return the paths that a login on an ssh node needs: key, known_hosts."""
        return self.layout.ssh_files()

    def sshd_pid(self) -> int | None:
        """Return the pid of the node's own sshd, None if it does not run."""
        return sshd.pid(self.layout, self.name)

    def pid(self) -> int | None:
        """Return the pid of dockerd, None if it does not run."""
        return engine.pid(self.layout, self.name)


class Testbed:
    """N engines; a context manager. Whatever becomes of the owner, a watchdog cleans up."""

    __test__ = False  # pytest: not a test class despite its name

    def __init__(
        self,
        specs: Sequence[NodeSpec],
        directory: Path | None = None,
        *,
        live_restore: bool = True,
    ) -> None:
        """Describe a testbed. Without a directory, a temporary one is made and removed."""
        self._specs = validate(specs)
        self._directory = directory
        self._live_restore = live_restore
        self._layout: Layout | None = None
        self._lock_fd = -1
        self._watchdog: Watchdog | None = None

    def __enter__(self) -> Testbed:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def layout(self) -> Layout:
        """Return the names of the running testbed; raise TestbedError if it does not run."""
        if self._layout is None:
            raise TestbedError("this testbed is not running")
        return self._layout

    @property
    def directory(self) -> Path:
        """Return the testbed's folder."""
        return self.layout.directory

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Return the nodes by name."""
        return {spec.name: Node(self.layout, spec) for spec in self.layout.specs}

    def start(self) -> None:
        """Start all nodes that are to be on; return when their engines answer.

        Raises TestbedError with the reason, leaving nothing behind.
        """
        if self._layout is not None:
            raise TestbedError("this testbed is running")
        if missing := check():
            raise TestbedError("; ".join(missing))
        chain = toolchain()
        archive(chain.busybox)
        folder = self._folder()
        index, self._lock_fd = registry.acquire(folder)
        self._layout = Layout(
            directory=folder,
            index=index,
            specs=self._specs,
            toolchain=chain,
            storage_driver="vfs",
            live_restore=self._live_restore,
            remove_directory=self._directory is None,
        )
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _folder(self) -> Path:
        """Return the folder, not made yet; raise TestbedError if it cannot be a testbed's."""
        if self._directory is None:
            return Path(tempfile.gettempdir()).resolve() / f"tenure-tb-{secrets.token_hex(4)}"
        folder = self._directory.resolve()
        if folder.is_relative_to("/run"):
            raise TestbedError(f"{folder}: each node has a /run of its own; use another folder")
        if (folder / "testbed.json").exists():
            raise TestbedError(f"{folder}: holds a testbed; `python -m testbed down --dir` it")
        return folder

    def _start(self) -> None:
        """Make everything; the watchdog comes first, so that nothing is ever without one."""
        self._watchdog = Watchdog(self.directory, self._lock_fd)
        self.layout.save()
        self._layout = replace(self.layout, storage_driver=engine.storage_driver(self.directory))
        layout = self._layout
        layout.save()
        network.make_switch(layout)
        certificates.make(layout)
        sshd.make_keys(layout)
        _in_parallel(lambda name: _start_node(layout, name), (s.name for s in layout.specs))
        config.write(layout)

    def stop(self) -> None:
        """Take everything away; nothing happens if the testbed does not run."""
        if self._layout is None:
            return
        layout, self._layout = self._layout, None
        cleanup.clean(layout.directory)
        os.close(self._lock_fd)
        if self._watchdog is not None:
            self._watchdog.dismiss()
            self._watchdog = None

    def config(self) -> dict[str, Any]:
        """Return the content of tenured.yml."""
        return config.config(self.layout)

    def power_on(self, name: str) -> None:
        """Switch a node on; return once its engine answers."""
        power.on(self.layout, name)

    def power_off(self, name: str) -> None:
        """Shut a node down, containers and all; its data stays."""
        power.off(self.layout, name)

    def is_on(self, name: str) -> bool:
        """Return whether a node has power; a killed node has."""
        return self.layout.is_on(name)

    def power_log(self) -> list[dict[str, object]]:
        """Return the power changes so far: node, event, at_us (UTC microseconds)."""
        return power.read_log(self.layout)

    def kill_engine(self, name: str) -> None:
        """Kill dockerd and containerd; the node's containers run on."""
        engine.kill(self.layout, name)

    def clear_task(self, name: str, container: str) -> None:
        """End what a node's containerd holds of a container that its engine does not know to run.

        Then starts the engine again, which learns only so that it is gone.
        """
        tasks.clear(self.layout, name, container)
        power.restart_engine(self.layout, name)

    def kill_node(self, name: str) -> None:
        """Let a whole node die in silence; `power_on` boots it again."""
        power.kill_node(self.layout, name)

    def restart_engine(self, name: str) -> None:
        """Stop the engine, if it runs, and start it; under live restore containers run on."""
        power.restart_engine(self.layout, name)

    def freeze(self, name: str) -> None:
        """Stop dockerd with SIGSTOP and return once it stands; TestbedError if it does not run."""
        pid = self._engine_pid(name)
        os.kill(pid, signal.SIGSTOP)
        if not engine.wait_for(lambda: engine.is_stopped(pid), engine.STOP_TIMEOUT_S):
            raise TestbedError(f"the engine of {name} does not stop")

    def thaw(self, name: str) -> None:
        """Let a frozen dockerd go on; raise TestbedError if it does not run."""
        os.kill(self._engine_pid(name), signal.SIGCONT)

    def _engine_pid(self, name: str) -> int:
        pid = engine.pid(self.layout, name)
        if pid is None:
            raise TestbedError(f"the engine of {name} does not run")
        return pid

    def cut(self, name: str) -> None:
        """Cut a node's network: its packets vanish without an answer."""
        power.cut(self.layout, name)

    def heal(self, name: str) -> None:
        """Undo `cut`."""
        power.heal(self.layout, name)


def _start_node(layout: Layout, name: str) -> None:
    """Make a node and, unless it is to be off, switch it on."""
    spec = layout.spec(name)
    layout.node_dir(name).mkdir(parents=True, exist_ok=True)
    cgroups.make(layout.engine_group(name))
    cgroups.make_node(layout.node_group(name), cpus=spec.cpus, memory_bytes=spec.memory_bytes)
    cgroups.count_disk(layout.node_group(name), layout.node_dir(name))
    network.make_node(layout, name)
    if spec.initially_on:
        power.on(layout, name)


def _in_parallel(work: Any, names: Iterable[str]) -> None:
    """Call `work` for all names at once; raise the first error after all have ended."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=16) as pool:
        futures = [pool.submit(work, name) for name in names]
    for future in futures:
        future.result()
