"""Who asks: the Host header, and a token, a certificate or the user of the unix socket.

Loopback is not trust: any local user and any page in a browser reaches it, so TCP needs a token (or
a certificate that has a role) and a known Host. Of a unix socket the kernel tells who connects, and
no browser reaches it. A token counts where one is sent.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

from aiohttp import web

from tenure.api.requests.options import LISTENER_SHARE, LOOPBACK_HOSTS, Options
from tenure.api.server.guard import Identity, client_of, identity_of, listener_of
from tenure.api.server.problems import HttpProblem, refused
from tenure.model.errors import Problem, Unauthorized
from tenure.model.roles import Caller

#: What a client saved up by being silent, in seconds of its rate.
BURST_S = 2.0
#: Clients remembered; beyond it the one heard of longest ago is forgotten, its bucket full again.
MAX_CLIENTS = 4096
#: Asked by supervisors, who restart a daemon that does not answer: never refused for its rate.
UNLIMITED = "/livez"


@dataclass(slots=True)
class _Bucket:
    left: float
    at_s: float


class Buckets:
    """Token buckets, one per client, by any key: how many requests it may make (ours; the usual).

    A bucket refills at ``per_s`` and holds ``BURST_S`` seconds of it. The time comes as argument.
    """

    def __init__(self, per_s: float, *, max_clients: int = MAX_CLIENTS) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s * BURST_S)
        self._max_clients = max_clients
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, client: str, now_s: float) -> float:
        """Take one token; return 0.0, or after how many seconds there will be one."""
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = _Bucket(self._most, now_s)
            if len(self._buckets) > self._max_clients:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(client)
            gained = max(0.0, now_s - bucket.at_s) * self._per_s
            bucket.left = min(self._most, bucket.left + gained)
            bucket.at_s = max(bucket.at_s, now_s)
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / self._per_s
        bucket.left -= 1.0
        return 0.0


class Gate:
    """The gate of one application, with what it remembers of its clients."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._hosts = {*LOOPBACK_HOSTS} | {one.lower() for one in options.hosts}
        self._clients = Buckets(options.requests_per_s)
        self._listeners = Buckets(options.requests_per_s * LISTENER_SHARE)
        self._wrong = Buckets(options.wrong_tokens_per_s)

    def check(self, request: web.Request, *, is_open: bool) -> Caller | None:
        """Let a request in, and return whom it is from (None: nobody known, where it is open).

        Raises HttpProblem (421, 429) or Unauthorized.
        """
        identity = identity_of(request)
        if not identity.is_unix:
            check_host(request, self._hosts)
        try:
            caller = self._caller(request, identity)
        except Unauthorized:
            client = client_of(request)
            self._pace(request, client, listener_of(request))
            if is_open:
                return None
            # the right token is never refused: guessing is hopeless at any rate (256 bits), and
            # whoever shares an address with a guesser must not be locked out by it
            wait_s = self._wrong.take(client, time.monotonic())
            if wait_s:
                raise _too_many("too many wrong tokens from this address", wait_s) from None
            raise
        self._pace(request, caller.key)
        return caller

    def _caller(self, request: web.Request, identity: Identity) -> Caller:
        access, header = self._options.access, request.headers.get("Authorization")
        if header is not None:
            return access.of_token(bearer(header))
        if identity.is_unix:
            found = None if identity.uid is None else access.of_peer(identity.uid, identity.groups)
            wanted = "no group of yours has a role (api.socket_roles); join one, or send a token"
        else:
            found = access.of_certificate(identity.certificate) if identity.certificate else None
            wanted = "a valid bearer token is needed; it lies in the daemon's token file"
        if found is None:
            raise Unauthorized(wanted)
        return found

    def _pace(self, request: web.Request, client: str, listener: str = "") -> None:
        """Refuse what is more than a client may ask; all who are unknown share their listener's."""
        if request.path == UNLIMITED:
            return
        now_s = time.monotonic()
        wait_s = self._clients.take(client, now_s)
        if wait_s:
            limit = f"{self._options.requests_per_s:g} requests a second"
            raise _too_many(f"more than {limit} (limits.requests_per_s)", wait_s)
        wait_s = self._listeners.take(listener, now_s) if listener else 0.0
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


def bearer(header: str) -> bytes:
    """Return the token of an Authorization header; b"" where it holds none."""
    scheme, _, given = header.partition(" ")
    return _raw(given.strip()) if scheme.lower() == "bearer" else b""


def _raw(text: str) -> bytes:
    # header bytes that are no UTF-8 arrive as surrogates
    return text.encode("utf-8", "surrogateescape")
