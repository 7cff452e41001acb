"""How a node is reached beyond its URL: files for TLS, options and addresses for ssh.

What stands here ends up among the arguments of ``ssh``, so it is checked by shape: nothing may
start with a dash, or hold what ssh expands (``%``, ``$``) or splits at (``:``, quotes).
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

REMOTE_SOCKET = "/var/run/docker.sock"
SSH_PORT = 22

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_LABEL = re.compile(r"[a-z0-9_][a-z0-9_-]{0,62}")
_MAX_HOST = 253
_REMOTE_PATH = re.compile(r"/[A-Za-z0-9._/@+,=-]{1,100}")
_EXPANDED = frozenset("\"'\\%$`")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of one side of TLS: ``ca`` signs the other side, ``cert`` and ``key`` are ours.

    Absolute paths. Empty ``cert`` and ``key``: we show no certificate; empty ``ca``: a client
    trusts the system's authorities, a server asks for no certificate.
    """

    ca: str = ""
    cert: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class SshOptions:
    """Files of ssh (absolute paths; empty: those of the daemon's user, and no ssh_config).

    ``host_keys``: ``strict`` takes hosts in ``known_hosts`` only, ``accept-new`` adds a host that
    is met for the first time; a changed key is refused by both.
    """

    key: str = ""
    known_hosts: str = ""
    host_keys: str = "strict"
    config: str = ""


@dataclass(frozen=True, slots=True)
class SshAddress:
    """An engine behind ssh: ``user`` empty means ssh's default, ``socket`` is on the host."""

    host: str
    user: str = ""
    port: int = SSH_PORT
    socket: str = REMOTE_SOCKET


def parse_ssh(url: str) -> SshAddress:
    """Return the address in ``ssh://[user@]host[:port][/path/to/docker.sock]``.

    Raises ValueError, with words that follow "the URL", for anything that is not exactly that.
    """
    parts = urlsplit(url)
    user, host = parts.username or "", parts.hostname or ""
    if parts.scheme != "ssh" or parts.query or parts.fragment or parts.password is not None:
        raise ValueError("must be ssh://user@host:port/path and nothing more")
    if "@" in parts.netloc and not _USER.fullmatch(user):
        raise ValueError("names no user of a host before the @")
    if not _is_host(host):
        raise ValueError("names no host: ssh://user@host")
    port = SSH_PORT if parts.port is None else parts.port
    if port == 0:
        raise ValueError("port 0 is no port of sshd")
    path = parts.path if parts.path not in ("", "/") else REMOTE_SOCKET
    if not _REMOTE_PATH.fullmatch(path) or path.endswith("/"):
        raise ValueError(
            "the path of the engine's socket may hold letters, digits and ._/@+,=- only"
        )
    return SshAddress(host, user, port, path)


def _is_host(host: str) -> bool:
    if ":" in host:
        try:
            return "%" not in host and ipaddress.ip_address(host).version == 6
        except ValueError:
            return False
    return len(host) <= _MAX_HOST and all(map(_LABEL.fullmatch, host.split(".")))


def check_ssh_path(path: str, *, is_forwarded: bool = False) -> str:
    """Return a path that ssh takes as it is; raise ValueError for one that it would expand.

    ``is_forwarded``: it stands in a forwarding, where a colon separates.
    """
    wrong = _EXPANDED | {":"} if is_forwarded else _EXPANDED
    if not path.isprintable() or wrong & set(path):
        raise ValueError(f"may not hold {' '.join(sorted(wrong))} where ssh reads it")
    return path
