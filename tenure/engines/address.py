"""Engine URLs and how to reach them.

TLS and ssh have their seam here: a new scheme is a new ``Address`` and a branch in ``connector``;
nothing else knows how an engine is reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

from tenure.model.errors import InvalidInput

DEFAULT_PORT = 2375


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed engine URL.

    ``base`` is the URL prefix for HTTP; ``socket`` the path of a unix socket, "" for TCP;
    ``docker_url`` the same engine as the docker package writes it.
    """

    base: str
    socket: str
    docker_url: str


def parse(url: str) -> Address:
    """Return the address of an engine; raise InvalidInput for what cannot be reached yet."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _invalid(f"engine URL {url!r}: {error}") from error
    if parts.scheme == "unix":
        return _unix(url, parts.netloc + parts.path)
    if parts.scheme == "tcp":
        if not parts.hostname or parts.path.strip("/") or parts.query or parts.username:
            raise _invalid(f"engine URL {url!r}: expected tcp://HOST:PORT")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        place = f"{host}:{port or DEFAULT_PORT}"
        return Address(f"http://{place}", "", f"tcp://{place}")
    raise _invalid(f"engine URL {url!r}: the schemes are unix:// and tcp://")


def _unix(url: str, path: str) -> Address:
    if not path.startswith("/"):
        raise _invalid(f"engine URL {url!r}: expected unix:///PATH")
    return Address("http://localhost", path, f"unix://{path}")


def _invalid(detail: str) -> InvalidInput:
    return InvalidInput(detail, code="invalid_url")


def connector(address: Address, *, limit: int, is_kept: bool) -> aiohttp.BaseConnector:
    """Return a connection pool of at most ``limit`` connections (0: unbounded).

    ``is_kept`` says whether connections are used again. Needs a running event loop.
    """
    if address.socket:
        return aiohttp.UnixConnector(address.socket, limit=limit, force_close=not is_kept)
    return aiohttp.TCPConnector(limit=limit, limit_per_host=limit, force_close=not is_kept)
