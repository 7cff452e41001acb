"""Who may ask at all: the Host header and the token (SECURITY.md).

Loopback is not trust: any local user and any page in a browser reaches it, so TCP needs the token
and a known Host. A unix socket is guarded by its mode, and no browser reaches it.
"""

from __future__ import annotations

import hmac
import socket
import time
from collections.abc import Collection

from aiohttp import web

from tenure.api.guard import guard_of
from tenure.api.options import LISTENER_SHARE, LOOPBACK_HOSTS, Options
from tenure.api.problems import HttpProblem, refused
from tenure.api.rates import Buckets
from tenure.model.errors import Problem, Unauthorized

#: Asked by supervisors, who restart a daemon that does not answer: never refused for its rate.
UNLIMITED = "/livez"


class Gate:
    """The gate of one application, with what it remembers of its clients."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._hosts = {*LOOPBACK_HOSTS} | {one.lower() for one in options.hosts}
        self._token = _raw(options.token or "")
        self._clients = Buckets(options.requests_per_s)
        self._listeners = Buckets(options.requests_per_s * LISTENER_SHARE)
        self._wrong = Buckets(options.wrong_tokens_per_s)

    def check(self, request: web.Request, *, is_open: bool) -> bool:
        """Let a request in, and return whether it is from somebody known.

        Raises HttpProblem (421, 429) or Unauthorized.
        """
        is_trusted = is_unix(request)
        if not is_trusted:
            check_host(request, self._hosts)
        guard = guard_of(request)
        client = guard.peer if guard is not None else "unknown"
        if request.path != UNLIMITED:
            listener = guard.listener if guard is not None else "unknown"
            self._pace(client, listener)
        if is_trusted:
            return True
        try:
            check_token(request, self._token)
        except Unauthorized:
            if is_open:
                return False
            # the right token is never refused: guessing is hopeless at any rate (256 bits), and
            # whoever shares an address with a guesser must not be locked out by it
            wait_s = self._wrong.take(client, time.monotonic())
            if wait_s:
                raise _too_many("too many wrong tokens from this address", wait_s) from None
            raise
        return True

    def _pace(self, client: str, listener: str) -> None:
        now_s = time.monotonic()
        wait_s = self._clients.take(client, now_s)
        if wait_s:
            limit = f"{self._options.requests_per_s:g} requests a second"
            raise _too_many(f"more than {limit} (limits.requests_per_s)", wait_s)
        wait_s = self._listeners.take(listener, now_s)
        if wait_s:
            raise _too_many("this listener is asked more than it may answer", wait_s)


def _too_many(detail: str, wait_s: float) -> HttpProblem:
    extra: dict[str, object] = {"retry_after_s": round(wait_s, 3)}
    return HttpProblem(Problem("too_many_requests", detail, 429, extra=extra))


def check_host(request: web.Request, known: Collection[str]) -> None:
    """Raise HttpProblem (421) for a request whose Host header is not one of ``known``."""
    if _bare(request.headers.get("Host", "")) not in known:
        detail = "the Host header names no host of this daemon; add it to the configured hosts"
        raise refused(421, "wrong_host", detail, field="Host")


def _bare(host: str) -> str:
    name, colon, port = host.strip().lower().rpartition(":")
    return name if colon and port.isdigit() else host.strip().lower()


def check_token(request: web.Request, expected: bytes) -> None:
    """Raise Unauthorized for a request without the right bearer token; none is right if b""."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    is_right = hmac.compare_digest(_raw(given.strip()), expected)
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
