"""One connection under guard: who is at its other end, and whether it keeps up.

A client may be slow, dead or malicious; none of these may hold a connection, or memory, for long.
The guard stands between the transport and aiohttp's protocol, passes everything on, and notes since
when it waits: for the head of a request (slowloris), for the next request, or for a reader to take
what was sent. The body of a request has its own time limit, where it is read.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import pwd
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tenure.model.jsons import Json

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


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a connection may keep us waiting, seconds.

    ``head_s`` from the first byte of a request (at first: from the connection) until its head is
    whole; ``idle_s`` between two requests; ``stall_s`` while nothing that was sent is taken.
    """

    head_s: float = 10.0
    idle_s: float = 75.0
    stall_s: float = 30.0


class Guard(asyncio.Protocol):
    """Passes a connection's events to ``inner``; ``on_end`` is called once it is over."""

    def __init__(
        self, inner: asyncio.Protocol, patience: Patience, on_end: Callable[[Guard], None]
    ) -> None:
        self._inner = inner
        self._patience = patience
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._due_s: float | None = None
        self._stalled_s: float | None = None
        self._is_busy = False
        self._is_idle = False
        self.peer = ""
        self.listener = ""
        self.identity: Identity | None = None

    @property
    def was_made(self) -> bool:
        """Whether there ever was a connection: a TLS handshake may fail before."""
        return self._transport is not None

    # what the transport says

    def connection_made(self, transport: Any) -> None:
        """Take the connection; the head of its first request is due."""
        self._transport = transport
        self.peer = peer_of(transport.get_extra_info("socket"))
        self.listener = str(transport.get_extra_info("sockname"))
        self._due_s = self._loop.time() + self._patience.head_s
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on; the first after a pause begin a request."""
        if self._is_idle:
            self._is_idle = False
            self._due_s = self._loop.time() + self._patience.head_s
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on that the other side sends no more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Note that the reader does not keep up."""
        self._stalled_s = self._loop.time()
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Note that it does again."""
        self._stalled_s = None
        if self._is_idle:
            self._due_s = self._loop.time() + self._patience.idle_s
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on the end."""
        self._on_end(self)
        self._inner.connection_lost(exc)

    # what the application says

    def begin(self) -> None:
        """Note that a request's head is whole."""
        self._is_busy, self._is_idle, self._due_s = True, False, None

    def end(self) -> None:
        """Note that the request is answered; the next may take its time."""
        self._is_busy, self._is_idle = False, True
        self._due_s = self._loop.time() + self._patience.idle_s

    # what the sweeper asks

    def check(self, now_s: float) -> None:
        """End the connection if it kept us waiting for too long."""
        if self._transport is None:
            return
        is_stalled = (
            self._stalled_s is not None and now_s - self._stalled_s > self._patience.stall_s
        )
        is_waiting = not self._is_busy and self._stalled_s is None
        is_late = is_waiting and self._due_s is not None and now_s > self._due_s
        if is_stalled or is_late:
            self._transport.abort()


def guard_of(request: web.Request) -> Guard | None:
    """Return the guard of a request's connection; None where another server took it."""
    transport = request.transport
    protocol = transport.get_protocol() if transport is not None else None
    return protocol if isinstance(protocol, Guard) else None


def client_of(request: web.Request) -> str:
    """Return who is at the other end of a request's connection, as ``peer_of`` tells it."""
    guard = guard_of(request)
    return "unknown" if guard is None else guard.peer


def listener_of(request: web.Request) -> str:
    """Return the address of the listener that a request came to."""
    guard = guard_of(request)
    return "unknown" if guard is None else guard.listener


def peer_of(sock: socket.socket | None) -> str:
    """Return who is at the other end: a user id, an IPv4 address, or an IPv6 network of 64 bits.

    All of IPv4's loopback network is one: each user of this machine has all of its addresses.
    """
    if sock is None:
        return "unknown"
    try:
        if sock.family == socket.AF_UNIX:
            return f"uid {_credentials(sock)[0]}"
        host = sock.getpeername()[0].partition("%")[0]
    except OSError:
        return "unknown"  # gone already
    address = ipaddress.ip_address(host)
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            # one client has a whole network of these
            return str(ipaddress.ip_network((address, 64), strict=False))
        address = address.ipv4_mapped
    return "127.0.0.1" if address.is_loopback else str(address)


def identity_of(request: web.Request) -> Identity:
    """Return who is at the other end, which one connection asks once. Unknown counts as TCP."""
    guard = guard_of(request)
    if guard is None:
        return _looked_up(request.transport)
    if guard.identity is None:
        guard.identity = _looked_up(request.transport)
    return guard.identity


def _looked_up(transport: asyncio.BaseTransport | None) -> Identity:
    sock = None if transport is None else transport.get_extra_info("socket")
    if transport is None or sock is None:
        return UNKNOWN
    if sock.family == socket.AF_UNIX:
        return _peer(sock)
    return Identity(certificate=common_name(transport.get_extra_info("peercert") or {}))


def _credentials(sock: socket.socket) -> tuple[int, int]:
    """Return user and group of the peer of a unix socket. Raises OSError where it is gone."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, gid = _CREDENTIALS.unpack(raw)
    return uid, gid


def _peer(sock: socket.socket) -> Identity:
    try:
        uid, gid = _credentials(sock)
    except OSError:
        return Identity(is_unix=True)  # gone already
    return Identity(is_unix=True, uid=uid, groups=frozenset((gid, *_groups_of(sock, uid, gid))))


def _groups_of(sock: socket.socket, uid: int, gid: int) -> Sequence[int]:
    """Return the groups of a peer beside its first one; as the system lists them where many."""
    try:
        raw = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MAX_BYTES)
    except OSError:
        try:
            return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
        except KeyError:
            return ()
    return struct.unpack(f"{len(raw) // 4}I", raw)


def common_name(certificate: Json) -> str:
    """Return the common name of a certificate as Python's ssl tells it; "" for none or several."""
    parts = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in parts if key == "commonName"]
    return names[0] if len(names) == 1 else ""
