"""An sshd in a node's namespaces, with keys of its own; the host's sshd and ~/.ssh are not used.

It runs in the node's engine group, so it dies with the machine. Logins are by key, as root; the
engine's socket is at /var/run/docker.sock there, as on any host.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from testbed import binaries, bounded, cgroups, spawn
from testbed.errors import TestbedError
from testbed.layout import SSH_PORT, Layout

START_TIMEOUT_S = 60.0
_POLL_S = 0.02
_PACKAGE = "openssh-server"
_LISTEN = "0A"  # the state of a listening socket in /proc/net/tcp

_CONFIG = """\
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
UseDNS no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowTcpForwarding local
AllowStreamLocalForwarding local
X11Forwarding no
LogLevel VERBOSE
"""

# In the node's mount namespace: /etc is an overlay and /run a tmpfs there. The program is copied
# to none of them: sshd starts itself again by its path for every connection.
_RUN = """set -e
mkdir -p /run/sshd
chmod 755 /run/sshd
grep -q ^sshd: /etc/passwd || echo 'sshd:x:174:65534::/run/sshd:/usr/sbin/nologin' >> /etc/passwd
ln -sfn "$0" /run/docker.sock
exec "$@"
"""


def pid(layout: Layout, name: str) -> int | None:
    """Return the pid of the node's sshd, None if it does not run."""
    try:
        kept = int((layout.node_dir(name) / "sshd.pid").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return kept if kept in cgroups.processes(layout.engine_group(name)) else None


def make_keys(layout: Layout) -> None:
    """Make a login key, a host key per ssh node and their known_hosts; nothing without such nodes.

    The binaries are fetched here too, before several nodes want them at once.
    """
    wanted = [spec.name for spec in layout.specs if spec.reach == "ssh"]
    if not wanted:
        return
    program()
    layout.ssh_dir.mkdir(mode=0o700)
    _keygen(layout.ssh_dir / "key")
    known = []
    for name in wanted:
        folder = layout.node_dir(name) / "sshd"
        folder.mkdir(mode=0o700, parents=True)
        _keygen(folder / "host_key")
        shutil.copy(layout.ssh_dir / "key.pub", folder / "authorized_keys")
        (folder / "sshd_config").write_text(_CONFIG.format(port=SSH_PORT, folder=folder))
        known.append(f"{layout.address(name)} {(folder / 'host_key.pub').read_text()}")
    (layout.ssh_dir / "known_hosts").write_text("".join(known))


def _keygen(path: Path) -> None:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "testbed", "-f", str(path)]
    try:
        bounded.run(argv, check=True, timeout_s=START_TIMEOUT_S)
    except FileNotFoundError:
        raise TestbedError("ssh-keygen is missing (Debian package openssh-client)") from None


def start(layout: Layout, name: str, machine: int) -> None:
    """Start the node's sshd in the namespaces of ``machine`` and wait until it listens."""
    if pid(layout, name) is not None:
        return
    folder = layout.node_dir(name)
    binary, libraries = program()
    enter = ["nsenter", "-t", str(machine), "--mount", "--uts", "--net"]
    run = ["sh", "-c", _RUN, str(layout.socket(name))]
    argv = [*enter, *run, str(binary), "-D", "-e", "-f", str(folder / "sshd" / "sshd_config")]
    env = {"PATH": layout.toolchain.path, **({"LD_LIBRARY_PATH": libraries} if libraries else {})}
    log = folder / "sshd.log"
    started = spawn.start_detached(layout.engine_group(name), argv, log=log, env=env)
    (folder / "sshd.pid").write_text(str(started))
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _is_listening(started):
        if pid(layout, name) is None or time.monotonic() > deadline:
            raise TestbedError(f"the sshd of {name} did not start: {spawn.tail(log)}")
        time.sleep(_POLL_S)


def _is_listening(process: int) -> bool:
    """Return whether anything in the network namespace of a process listens on port 22."""
    try:
        lines = Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return False
    rows = [line.split() for line in lines]
    return any(row[1].endswith(f":{SSH_PORT:04X}") and row[3] == _LISTEN for row in rows)


def program() -> tuple[Path, str]:
    """Return sshd and the library path that it needs, unpacking Debian's package if need be.

    An sshd in PATH is run as a program, with our configuration alone. Raises TestbedError.
    """
    if found := binaries.which("sshd"):
        return Path(found), ""
    folder = binaries.cache_dir() / "sshd"
    binary, library = folder / "bin" / "sshd", folder / "lib"
    binaries.cache_dir().mkdir(parents=True, exist_ok=True)
    with (binaries.cache_dir() / "lock").open("w") as lock:
        bounded.lock(lock)
        if not (folder / "complete").exists():
            binaries.unpack_program(folder, _PACKAGE, "sshd")
            (folder / "complete").touch()
    return binary, str(library) if any(library.iterdir()) else ""
