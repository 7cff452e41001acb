"""Engine URLs and how to reach them.

A new scheme is a new ``Address`` and a branch in ``parse`` and ``connector``; nothing else knows
how an engine is reached. ``ssh://`` becomes a unix socket that ``tunnel`` keeps alive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from urllib.parse import SplitResult, urlsplit

import aiohttp

from tenure.model.errors import InvalidInput

DEFAULT_PORT = 2375
DEFAULT_TLS_PORT = 2376


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed engine URL.

    ``base`` is the URL prefix for HTTP; ``socket`` the path of a unix socket, "" for TCP;
    ``docker_url`` the same engine as the docker package writes it.
    """

    base: str
    socket: str
    docker_url: str

    @property
    def is_tls(self) -> bool:
        return self.base.startswith("https:")


def parse(url: str, *, is_tls: bool = False) -> Address:
    """Return the address of an engine; raise InvalidInput for a URL that is none.

    ``is_tls`` makes TLS of ``tcp://`` too. ``ssh://`` is not for here: see ``tunnel``.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _invalid(f"engine URL {url!r}: {error}") from error
    if parts.scheme == "unix":
        return at_socket(_absolute(url, parts.netloc + parts.path))
    if parts.scheme == "https" or (parts.scheme == "tcp" and is_tls):
        place = _place(url, parts, port or DEFAULT_TLS_PORT)
        return Address(f"https://{place}", "", f"https://{place}")
    if parts.scheme == "tcp":
        place = _place(url, parts, port or DEFAULT_PORT)
        return Address(f"http://{place}", "", f"tcp://{place}")
    raise _invalid(f"engine URL {url!r}: the schemes are unix://, tcp://, https:// and ssh://")


def at_socket(path: str) -> Address:
    """Return the address of an engine behind a unix socket."""
    return Address("http://localhost", path, f"unix://{path}")


def _absolute(url: str, path: str) -> str:
    if not path.startswith("/"):
        raise _invalid(f"engine URL {url!r}: expected unix:///PATH")
    return path


def _place(url: str, parts: SplitResult, port: int) -> str:
    is_bare = not (parts.path.strip("/") or parts.query or parts.username)
    if not parts.hostname or not is_bare:
        raise _invalid(f"engine URL {url!r}: expected {parts.scheme}://HOST:PORT")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{port}"


def _invalid(detail: str) -> InvalidInput:
    return InvalidInput(detail, code="invalid_url")


def connector(address: Address, *, limit: int, kept_s: float) -> aiohttp.BaseConnector:
    """Return a connection pool of at most ``limit`` connections (0: unbounded).

    ``kept_s`` is how long an idle connection stays to be used again; 0: none is. Needs a running
    event loop.
    """
    make: Callable[..., aiohttp.BaseConnector] = (
        partial(aiohttp.UnixConnector, address.socket)
        if address.socket
        else partial(aiohttp.TCPConnector, limit_per_host=limit)
    )
    return make(limit=limit, **({"keepalive_timeout": kept_s} if kept_s else {"force_close": True}))
