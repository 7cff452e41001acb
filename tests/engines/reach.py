"""Engines of nodes that are reached by TLS or ssh, as the daemon makes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tenure.config.certificates import client_context
from tenure.cycles.io.tether import Tethered
from tenure.engines.engine import Engine
from tenure.engines.http.access import Access, Child
from tenure.engines.http.transport import Timeouts
from tenure.model.access import SshOptions, TlsFiles
from testbed import Node
from tests.engines.lab import Kept

SLOW = Timeouts(
    connect_s=3.0,
    ping_s=2.0,
    read_s=6.0,
    write_s=10.0,
    start_s=10.0,
    stop_extra_s=5.0,
    registry_s=10.0,
    pull_s=20.0,
    quiet_s=1.0,
)
"""Handshakes and logins on two busy cores take their time."""


def spawn(argv: Sequence[str], log: Path) -> Child:
    return Tethered(argv, log=log)


def secured(files: TlsFiles) -> Access:
    return Access(tls=files, make_context=client_context)


def by_tls(node: Node, **changes: str) -> Engine:
    """Return the engine of a TLS node; ``changes`` replace ca, cert or key."""
    files = TlsFiles(**{**node.tls_files, **changes})
    return Engine(node.url, Kept().save, timeouts=SLOW, access=secured(files))


def by_ssh(node: Node, folder: Path, *, url: str = "", **changes: str) -> Engine:
    """Return the engine of an ssh node; ``changes`` replace options of ssh."""
    options = SshOptions(**{**node.ssh_files, **changes})
    access = Access(ssh=options, folder=folder, spawn=spawn)
    return Engine(url or node.url, Kept().save, timeouts=SLOW, access=access)
