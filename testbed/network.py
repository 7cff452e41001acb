"""One switch namespace with a bridge, one leg to the host, one port per node.

The bridge is in a namespace of its own: in the host's, bridge-nf-call-iptables and a FORWARD
DROP policy could drop the frames between nodes. No namespace has a name or a mount; each is
kept by a sleeping process, the holder, and ends with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed import bounded, cgroups, spawn
from testbed.errors import TestbedError
from testbed.layout import Layout

_HOLD = (
    'test -z "$0" || echo "$0" > /proc/sys/kernel/hostname; echo ready; exec sleep 2147483647 >&-'
)


def holders_group(layout: Layout) -> str:
    """Return the cgroup of the processes that keep the namespaces."""
    return f"{layout.group}/holders"


def setup_group(layout: Layout) -> str:
    """Return the cgroup of short commands."""
    return f"{layout.group}/setup"


def _hold(layout: Layout, pid_file: Path, hostname: str) -> int:
    """Start a process in fresh net and UTS namespaces; return its pid."""
    argv = ["unshare", "--net", "--uts", "sh", "-c", _HOLD, hostname]
    log = layout.directory / "setup.log"
    pid = spawn.start_detached(holders_group(layout), argv, log=log, is_announced=True)
    pid_file.write_text(str(pid))
    return pid


def _ip(layout: Layout, namespace_pid: int | None, lines: Sequence[str]) -> None:
    """Run lines of `ip -batch` in the namespaces of a process, or on the host."""
    enter = [] if namespace_pid is None else ["nsenter", f"--net=/proc/{namespace_pid}/ns/net"]
    spawn.run(setup_group(layout), [*enter, "ip", "-batch", "-"], text="\n".join(lines) + "\n")


def _holder(layout: Layout, pid_file: Path) -> int:
    """Return the pid of a holder; raise TestbedError if it is gone."""
    try:
        pid = int(pid_file.read_text())
    except (FileNotFoundError, ValueError):
        pid = 0
    if pid not in cgroups.processes(holders_group(layout)):
        raise TestbedError(f"{layout.directory}: the network of this testbed is gone")
    return pid


def node_holder(layout: Layout, name: str) -> int:
    """Return the pid of the process that keeps a node's net and UTS namespaces."""
    return _holder(layout, layout.node_dir(name) / "holder.pid")


def _switch_pid_file(layout: Layout) -> Path:
    return layout.directory / "switch.pid"


def make_switch(layout: Layout) -> None:
    """Make the bridge and join the host to it."""
    cgroups.make(holders_group(layout))
    cgroups.make(setup_group(layout))
    pid = _hold(layout, _switch_pid_file(layout), "")
    leg = layout.root_leg
    _ip(
        layout,
        None,
        [
            f"link add {leg} type veth peer name root netns {pid}",
            f"addr add {layout.gateway}/24 dev {leg}",
            f"link set {leg} up",
        ],
    )
    _ip(
        layout,
        pid,
        [
            "link add br0 type bridge",
            "link set br0 up",
            "link set lo up",
            "link set root master br0 up",
        ],
    )


def make_node(layout: Layout, name: str) -> None:
    """Make a node's net and UTS namespaces and plug it into the switch, its port down."""
    pid = _hold(layout, layout.node_dir(name) / "holder.pid", name)
    port = layout.port(name)
    switch = _holder(layout, _switch_pid_file(layout))
    _ip(
        layout,
        switch,
        [
            f"link add {port} type veth peer name eth0 netns {pid}",
            f"link set {port} master br0",
        ],
    )
    _ip(
        layout,
        pid,
        [
            "link set lo up",
            f"addr add {layout.address(name)}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {layout.gateway}",
        ],
    )


def set_link(layout: Layout, name: str, *, is_up: bool) -> None:
    """Set a node's switch port up or down; down, its packets vanish without an answer."""
    switch = _holder(layout, _switch_pid_file(layout))
    _ip(layout, switch, [f"link set {layout.port(name)} {'up' if is_up else 'down'}"])


def remove_root_leg(name: str) -> None:
    """Remove the host's interface if it still exists; its peer goes with it."""

    if Path(f"/sys/class/net/{name}").exists():
        # May already be going with the switch's namespace: the result is checked below.
        bounded.run(["ip", "link", "del", name])
    if Path(f"/sys/class/net/{name}").exists():
        raise TestbedError(f"the interface {name} cannot be removed")
