"""Who is at the other end of a connection, by what the kernel and TLS vouch for."""

from __future__ import annotations

import os
import pwd
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tenure.api.guard import guard_of

_CREDENTIALS = struct.Struct("3i")
#: linux/socket.h; Python names it not. The groups of the peer when it connected.
_SO_PEERGROUPS = 59
#: Python asks for so many bytes at most, those of 256 groups.
_MAX_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Identity:
    """``uid`` and ``groups`` of the peer of a unix socket; ``certificate`` the common name of TLS.

    ``uid`` None: it is none, or nobody can tell. ``certificate`` empty: none was shown.
    """

    is_unix: bool = False
    uid: int | None = None
    groups: frozenset[int] = frozenset()
    certificate: str = ""


UNKNOWN = Identity()


def identity_of(request: web.Request) -> Identity:
    """Return who is at the other end, which one connection asks once. Unknown counts as TCP."""
    guard = guard_of(request)
    if guard is None:
        return _looked_up(request.transport)
    if guard.identity is None:
        guard.identity = _looked_up(request.transport)
    found: Identity = guard.identity
    return found


def _looked_up(transport: Any) -> Identity:
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None:
        return UNKNOWN
    if sock.family == socket.AF_UNIX:
        return _peer(sock)
    return Identity(certificate=common_name(transport.get_extra_info("peercert") or {}))


def _peer(sock: Any) -> Identity:
    try:
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return Identity(is_unix=True)  # gone already
    _, uid, gid = _CREDENTIALS.unpack(raw)
    return Identity(is_unix=True, uid=uid, groups=frozenset((gid, *_groups_of(sock, uid, gid))))


def _groups_of(sock: Any, uid: int, gid: int) -> Sequence[int]:
    """Return the groups of a peer beside its first one; as the system lists them where many."""
    try:
        raw = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MAX_BYTES)
    except OSError:
        try:
            return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
        except KeyError:
            return ()
    return struct.unpack(f"{len(raw) // 4}I", raw)


def common_name(certificate: dict[str, Any]) -> str:
    """Return the common name of a certificate as Python's ssl tells it; "" for none or several."""
    parts = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in parts if key == "commonName"]
    return names[0] if len(names) == 1 else ""
