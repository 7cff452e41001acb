"""Who may ask at all: the Host header and the token (DESIGN.md section 9).

Loopback is not trust: any local user and any page in a browser reaches it, so TCP needs the token
and a known Host. A unix socket is guarded by its mode, and no browser reaches it.
"""

from __future__ import annotations

import hmac
import socket

from aiohttp import web

from tenure.api.options import LOOPBACK_HOSTS, Options
from tenure.api.problems import refused
from tenure.model.errors import Unauthorized


def check_host(request: web.Request, options: Options) -> None:
    """Raise HttpProblem (421) for a TCP request whose Host header is not one of ours."""
    if is_unix(request):
        return
    host = _bare(request.headers.get("Host", ""))
    known = {*LOOPBACK_HOSTS, *(one.lower() for one in options.hosts)}
    if host not in known:
        detail = "the Host header names no host of this daemon; add it to the configured hosts"
        raise refused(421, "wrong_host", detail, field="Host")


def _bare(host: str) -> str:
    name, colon, port = host.strip().lower().rpartition(":")
    return name if colon and port.isdigit() else host.strip().lower()


def check_token(request: web.Request, options: Options) -> None:
    """Raise Unauthorized for a TCP request without the right bearer token."""
    if is_unix(request):
        return
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    expected = options.token or ""
    is_right = hmac.compare_digest(_raw(given.strip()), _raw(expected))
    if not expected or scheme.lower() != "bearer" or not is_right:
        raise Unauthorized("a valid bearer token is needed; it lies in the daemon's token file")


def _raw(text: str) -> bytes:
    # header bytes that are no UTF-8 arrive as surrogates
    return text.encode("utf-8", "surrogateescape")


def is_unix(request: web.Request) -> bool:
    """Whether the request came over a unix socket. Unknown counts as TCP."""
    transport = request.transport
    peer = transport.get_extra_info("socket") if transport is not None else None
    return peer is not None and peer.family == socket.AF_UNIX
