"""Where everything of one testbed lives: paths, addresses, cgroups, kept in testbed.json.

The file is written before anything else is made, so that any later process (the
watchdog, a power command, `down`) finds all there is to clean from the folder alone.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.errors import TestbedError
from testbed.spec import NodeSpec

ENGINE_PORT = 2375
TLS_PORT = 2376
SSH_PORT = 22
_FILE = "testbed.json"
_MAX_SOCKET_PATH = 107  # bytes in sockaddr_un.sun_path, less the final zero


def name_of(index: int) -> str:
    """Return the name of a testbed's cgroup and of the interface that joins the host to it."""
    return f"tntb{index}"


@dataclass(frozen=True)
class Toolchain:
    """The binaries an engine needs, found in PATH or unpacked into the cache."""

    dockerd: str
    path: str
    """PATH of the engine."""
    library_path: str
    """LD_LIBRARY_PATH of the engine; empty: the system's libraries are enough."""
    xtables_path: str
    """XTABLES_LIBDIR: where iptables finds its extensions; empty: its default."""
    has_iptables: bool
    init_path: str
    """A static tini; empty: dockerd looks for docker-init itself."""
    busybox: str
    """A statically linked busybox for the image."""


@dataclass(frozen=True)
class Layout:
    """The names of one testbed, all derived from its folder and its index on the machine."""

    directory: Path
    index: int
    """0-250, unique among the testbeds of the machine while its lock is held."""
    specs: tuple[NodeSpec, ...]
    toolchain: Toolchain
    storage_driver: str
    live_restore: bool
    remove_directory: bool
    """Whether the clean-up also removes the folder itself, logs included."""

    @property
    def group(self) -> str:
        """Return the cgroup, relative to each hierarchy, that holds all of the testbed."""
        return name_of(self.index)

    @property
    def root_leg(self) -> str:
        """Return the name of the interface that joins the host to the testbed's switch."""
        return name_of(self.index)

    @property
    def gateway(self) -> str:
        """Return the host's address in the testbed's network."""
        return f"10.77.{self.index}.1"

    @property
    def power_log(self) -> Path:
        """Return the path of the JSON lines of power changes."""
        return self.directory / "power.log"

    @property
    def stopping(self) -> Path:
        """Return the path of the mark that forbids any further start."""
        return self.directory / "stopping"

    def spec(self, name: str) -> NodeSpec:
        """Return the spec of a node; raise TestbedError if there is none of that name."""
        return self.specs[self.position(name)]

    def position(self, name: str) -> int:
        """Return the node's place in the specs, from 0; raise TestbedError if unknown."""
        for i, spec in enumerate(self.specs):
            if spec.name == name:
                return i
        known = ", ".join(spec.name for spec in self.specs)
        raise TestbedError(f"no node {name!r} here; there are: {known}")

    def port(self, name: str) -> str:
        """Return the node's interface name on the switch."""
        return f"port{self.position(name)}"

    def address(self, name: str) -> str:
        """Return the node's IPv4 address."""
        return f"10.77.{self.index}.{11 + self.position(name)}"

    def url(self, name: str) -> str:
        """Return the node's engine URL, as the node's ``reach`` has it."""
        address = self.address(name)
        match self.spec(name).reach:
            case "tls":
                return f"https://{address}:{TLS_PORT}"
            case "ssh":
                return f"ssh://root@{address}"
        return f"tcp://{address}:{ENGINE_PORT}"

    def reach_port(self, name: str) -> int:
        """Return the TCP port by which the node is reached."""
        return {"tls": TLS_PORT, "ssh": SSH_PORT}.get(self.spec(name).reach, ENGINE_PORT)

    @property
    def tls_dir(self) -> Path:
        """Return the folder of the authority of all TLS nodes and of the client's certificate."""
        return self.directory / "tls"

    @property
    def ssh_dir(self) -> Path:
        """Return the folder of the login key and the known hosts of all ssh nodes."""
        return self.directory / "ssh"

    def tls_files(self) -> dict[str, str]:
        """Return what a client of the TLS nodes needs: ca, cert and key."""
        names = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
        return {part: str(self.tls_dir / name) for part, name in names.items()}

    def ssh_files(self) -> dict[str, str]:
        """Return what a login on the ssh nodes needs: key and known_hosts."""
        return {part: str(self.ssh_dir / part) for part in ("key", "known_hosts")}

    def node_dir(self, name: str) -> Path:
        """Return the node's folder."""
        return self.directory / "nodes" / name

    def is_on(self, name: str) -> bool:
        """Return whether the node has power, be its engine well or not."""
        self.position(name)
        return (self.node_dir(name) / "on").exists()

    def socket(self, name: str) -> Path:
        """Return the path of the engine's unix socket."""
        return self.node_dir(name) / "docker.sock"

    def node_group(self, name: str) -> str:
        """Return the cgroup of the node's containers; the node's capacity is set on it."""
        return f"{self.group}/{name}"

    def engine_group(self, name: str) -> str:
        """Return the cgroup of the node's own processes: engine, containerd, shims."""
        return f"{self.group}/{name}.engine"

    def save(self) -> None:
        """Write testbed.json; raise TestbedError if a socket's path would be too long."""
        import json

        for spec in self.specs:
            if len(os.fsencode(self.socket(spec.name))) > _MAX_SOCKET_PATH:
                raise TestbedError(f"{self.directory}: path too long for a unix socket in it")
        self.directory.mkdir(parents=True, exist_ok=True)
        partial = self.directory / f"{_FILE}.part"
        partial.write_text(json.dumps(asdict(self), default=str, indent=1))
        partial.replace(self.directory / _FILE)


def load(directory: Path) -> Layout:
    """Read the testbed.json of a folder; raise TestbedError if there is no testbed in it."""
    import json

    try:
        fields: dict[str, Any] = json.loads((directory / _FILE).read_text())
    except FileNotFoundError:
        raise TestbedError(f"{directory}: no testbed here (no {_FILE})") from None
    fields["directory"] = directory.resolve()
    fields["specs"] = tuple(NodeSpec(**spec) for spec in fields["specs"])
    fields["toolchain"] = Toolchain(**fields["toolchain"])
    return Layout(**fields)
