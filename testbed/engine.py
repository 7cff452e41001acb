"""One engine: boot its machine, start dockerd in it, stop it, kill it.

A node's machine is made afresh at each boot: a mount namespace kept by a sleeping process in
the node's engine group, in which /run is an empty tmpfs (containerd keeps its shims' sockets
in /run/containerd whatever it is told) and /etc is an overlay (engines that share
/etc/docker/key.json have the same ID). Ending that group ends all mounts of the engine too.
CRIU locks no network: it would need iptables-restore, and what has open connections is not dumped.
No node reaches a name server, so names fail at once: an engine that waits for one while it asks a
registry answers no /info for 10 s.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from testbed import bounded, certificates, cgroups, criu, docker_api, image, network, spawn, sshd
from testbed.errors import TestbedError
from testbed.layout import ENGINE_PORT, TLS_PORT, Layout

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
"""What a SIGTERM is given before the rest is killed: a second here, several on a busy machine, and
exit codes are lost with who is killed."""
SHUTDOWN_S = 5
"""What dockerd gives its containers."""
_POLL_S = 0.01

_BOOT = """set -e
mount -t tmpfs -o mode=755 tenure-run /run
mkdir -p /run/etc/upper /run/etc/work /run/tenure
mount -t overlay tenure-etc -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work /etc
mkdir -p /etc/docker /etc/criu
echo network-lock skip > /etc/criu/runc.conf
mount --bind "$1" /etc/docker
echo "$0" > /etc/hostname
rm -f /etc/resolv.conf
echo nameserver 127.0.0.1 > /etc/resolv.conf
echo ready
exec sleep 2147483647 >&-
"""


# A pid file whose pid is a zombie by now, or another process, would make dockerd refuse to
# start, or wait for a containerd that is not there.
_FRESH = """rm -f "$0" /run/tenure/dockerd.pid /run/tenure/exec/containerd/containerd.pid
exec "$@"
"""


def storage_driver(folder: Path) -> str:
    """Return overlay2 if a data root in the folder can carry overlays, else vfs (slow, safe)."""
    probe = folder / "overlay-probe"
    script = 'mount -t overlay none -o "lowerdir=$0/l,upperdir=$0/u,workdir=$0/w" "$0/m"'
    for name in ("l", "u", "w", "m"):
        (probe / name).mkdir(parents=True, exist_ok=True)
    argv = ["unshare", "--mount", "sh", "-c", script, str(probe)]
    works = bounded.run(argv).returncode == 0
    shutil.rmtree(probe)
    return "overlay2" if works else "vfs"


def wait_for(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Return whether the condition became true within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _kept_pid(layout: Layout, name: str, file: str) -> int | None:
    """Return the pid written in a file if that process is still one of the node's."""
    try:
        kept = int((layout.node_dir(name) / file).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return kept if _is_alive(layout, name, kept) else None


def pid(layout: Layout, name: str) -> int | None:
    """Return the pid of the node's dockerd, None if it does not run."""
    return _kept_pid(layout, name, "engine.pid")


def machine(layout: Layout, name: str) -> int | None:
    """Return the pid of the process that keeps the machine's mount namespace, None if off."""
    return _kept_pid(layout, name, "machine.pid")


def _boot(layout: Layout, name: str) -> int:
    """Make the machine's mount namespace; return the pid of its keeper."""
    folder = layout.node_dir(name)
    (folder / "etc-docker").mkdir(parents=True, exist_ok=True)
    holder = network.node_holder(layout, name)
    enter = ["nsenter", f"--net=/proc/{holder}/ns/net", f"--uts=/proc/{holder}/ns/uts"]
    make = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", _BOOT, name]
    argv = [*enter, *make, str(folder / "etc-docker")]
    kept = spawn.start_detached(
        layout.engine_group(name), argv, log=folder / "boot.log", is_announced=True
    )
    (folder / "machine.pid").write_text(str(kept))
    return kept


def _flags(layout: Layout, name: str) -> list[str]:
    folder, chain = layout.node_dir(name), layout.toolchain
    flags = [
        f"--host=unix://{layout.socket(name)}",
        *_reach_flags(layout, name),
        f"--config-file={folder / 'daemon.json'}",
        f"--data-root={folder / 'data'}",
        "--exec-root=/run/tenure/exec",
        "--pidfile=/run/tenure/dockerd.pid",
        "--experimental",
        "--exec-opt=native.cgroupdriver=cgroupfs",
        f"--cgroup-parent=/{layout.node_group(name)}",
        f"--storage-driver={layout.storage_driver}",
    ]
    if chain.init_path:
        flags.append(f"--init-path={chain.init_path}")
    if not chain.has_iptables:
        flags += ["--iptables=false", "--ip-masq=false"]
    return flags


def _reach_flags(layout: Layout, name: str) -> list[str]:
    """Return where the engine listens beside its unix socket."""
    address, reach = layout.address(name), layout.spec(name).reach
    if reach == "ssh":
        return []
    if reach == "tls":
        own = certificates.of_node(layout, name)
        files = [f"--tlscacert={own.ca}", f"--tlscert={own.cert}", f"--tlskey={own.key}"]
        return [f"--host=tcp://{address}:{TLS_PORT}", "--tlsverify", *files]
    # left out, --tls=false has dockerd sleep 15 s to make its point
    return [f"--host=tcp://{address}:{ENGINE_PORT}", "--tls=false"]


def _environment(layout: Layout, name: str) -> dict[str, str]:
    """Return the engine's environment: nothing of the caller's, no proxy, no DOCKER_*."""
    chain = layout.toolchain
    path = f"{criu.folder()}:{chain.path}" if layout.spec(name).checkpoint else chain.path
    # containerd leaves the folders of its checkpoints there when it is killed
    own_tmp = layout.node_dir(name) / "tmp"
    own_tmp.mkdir(exist_ok=True)
    env = {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8", "TMPDIR": str(own_tmp)}
    if chain.library_path:
        env["LD_LIBRARY_PATH"] = chain.library_path
    if chain.xtables_path:
        env["XTABLES_LIBDIR"] = chain.xtables_path
    return env


def _configure(layout: Layout, name: str, *, live_restore: bool) -> None:
    """Write the part of the engine's configuration that a SIGHUP can change."""
    settings = {"live-restore": live_restore, "shutdown-timeout": SHUTDOWN_S}
    (layout.node_dir(name) / "daemon.json").write_text(json.dumps(settings))


def start(layout: Layout, name: str) -> None:
    """Boot the machine if it is off, start the engine, wait for its API and the image."""
    if layout.stopping.exists():
        raise TestbedError(f"{layout.directory}: this testbed is being stopped")
    keeper = machine(layout, name) or _boot(layout, name)
    kill(layout, name)  # a containerd left over from a dockerd that died alone
    _configure(layout, name, live_restore=layout.live_restore)
    enter = ["nsenter", "-t", str(keeper), "--mount", "--uts", "--net"]
    fresh = ["sh", "-c", _FRESH, str(layout.socket(name))]
    argv = [*enter, *fresh, layout.toolchain.dockerd, *_flags(layout, name)]
    log = layout.node_dir(name) / "dockerd.log"
    started = spawn.start_detached(
        layout.engine_group(name), argv, log=log, env=_environment(layout, name)
    )
    (layout.node_dir(name) / "engine.pid").write_text(str(started))
    if layout.spec(name).reach == "ssh":
        sshd.start(layout, name, keeper)
    _await_api(layout, name, started)
    docker_api.ensure_image(
        layout.socket(name), image.IMAGE, image.archive(layout.toolchain.busybox)
    )


def _await_api(layout: Layout, name: str, started: int) -> None:
    """Wait until the engine answers; raise TestbedError if it ends or takes over 60 s."""
    log = layout.node_dir(name) / "dockerd.log"

    def is_settled() -> bool:
        return docker_api.is_up(layout.socket(name)) or not _is_alive(layout, name, started)

    if not (wait_for(is_settled, START_TIMEOUT_S) and _is_alive(layout, name, started)):
        raise TestbedError(f"the engine of {name} did not start: {spawn.tail(log)}")


def _is_alive(layout: Layout, name: str, process: int) -> bool:
    return process in cgroups.processes(layout.engine_group(name))


def terminate(layout: Layout, name: str, timeout_s: float) -> bool:
    """Ask dockerd to end; return whether it did within `timeout_s` (true if it did not run)."""
    engine = pid(layout, name)
    if engine is None:
        return True
    os.kill(engine, signal.SIGCONT)  # it may be frozen
    os.kill(engine, signal.SIGTERM)
    return wait_for(lambda: not _is_alive(layout, name, engine), timeout_s)


def shut_down(layout: Layout, name: str) -> None:
    """End the engine and its containers as a machine's shutdown does, killing what is late.

    Live restore is switched off first, so that dockerd ends its containers itself and keeps
    their exit codes and restart policies.
    """
    engine = pid(layout, name)
    if engine is not None and layout.live_restore:
        os.kill(engine, signal.SIGCONT)
        _configure(layout, name, live_restore=False)
        os.kill(engine, signal.SIGHUP)
        wait_for(lambda: not _has_live_restore(layout, name), STOP_TIMEOUT_S)
    terminate(layout, name, STOP_TIMEOUT_S)
    destroy(layout, name)


def _has_live_restore(layout: Layout, name: str) -> bool:
    try:
        status, body = docker_api.call(layout.socket(name), "GET", "/info", timeout_s=2.0)
    except OSError:
        return False  # it will not get better: the kill that follows ends the containers
    return status == 200 and bool(json.loads(body).get("LiveRestoreEnabled"))


def is_stopped(process: int) -> bool:
    """Return whether no thread of a process runs: a SIGSTOP reaches one after the other."""
    for stat in Path(f"/proc/{process}/task").glob("*/stat"):
        try:
            state = stat.read_text().rpartition(")")[2].split()[0]
        except OSError:  # that thread ended meanwhile
            continue
        if state not in ("T", "Z"):
            return False
    return True


def kill(layout: Layout, name: str) -> None:
    """Kill dockerd and containerd; shims and containers run on."""
    doomed = [p for p in (pid(layout, name), _containerd(layout, name)) if p is not None]
    for process in doomed:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if not wait_for(lambda: not any(_is_alive(layout, name, p) for p in doomed), STOP_TIMEOUT_S):
        raise TestbedError(f"the engine of {name} does not end")


def _containerd(layout: Layout, name: str) -> int | None:
    """Return the pid of the node's containerd, None if it does not run."""
    for process in cgroups.processes(layout.engine_group(name)):
        try:
            if Path(f"/proc/{process}/comm").read_text() == "containerd\n":
                return process
        except OSError:  # ended meanwhile
            continue
    return None


def destroy(layout: Layout, name: str) -> None:
    """Kill all of the node at once: engine, shims, containers, machine with its mounts."""
    cgroups.end(layout.engine_group(name))
    cgroups.end(layout.node_group(name))
    cgroups.end(layout.engine_group(name))
