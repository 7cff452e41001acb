"""The sockets the API is served on: unix, 0660 or 0666, TCP on loopback, and TLS anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import logging
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from tenure.api.server.acceptor import Acceptor, BoundedSite, Terms
from tenure.api.server.protocol import Connection
from tenure.model.errors import Conflict, InvalidInput

log = logging.getLogger("tenure.api")
GROUP = "tenure"
SOCKET_MODE = 0o660
#: Where several groups have roles: anybody may connect, and the gate looks at who it is.
SHARED_MODE = 0o666
#: Open requests get this long to end before a shutdown cuts them.
SHUTDOWN_S = 5.0
#: What is left of a refused body is read for this long, so that the refusal is not lost in a reset.
LINGER_S = 5.0
#: Bytes of the request line, and of one header; there may be 128 headers.
MAX_LINE_BYTES = 8190


class Listeners:
    """The running server on all of its sockets."""

    def __init__(
        self,
        runner: web.AppRunner,
        make: Callable[[], asyncio.Protocol],
        terms: Terms,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._runner = runner
        self._make = make
        self._terms = terms
        self._tls = tls
        self._sites: list[BoundedSite] = []
        self._paths: list[Path] = []
        self._addresses: list[str] = []

    async def add(self, url: str, group: str | None) -> None:
        """Serve one more URL. Raises as ``serve`` does."""
        is_tls = urlsplit(url).scheme == "https"
        if is_tls and self._tls is None:
            raise InvalidInput(f"cannot listen on {url!r} without a certificate")
        sock = bind(url, group=group)
        if sock.family == socket.AF_UNIX:
            self._paths.append(Path(sock.getsockname()))
        tls = self._tls if is_tls else None
        self._addresses.append(_url(sock.getsockname(), "https" if is_tls else "tcp"))
        site = BoundedSite(self._runner, Acceptor(sock, self._make, self._terms, tls), tls)
        self._sites.append(site)
        await site.start()

    @property
    def addresses(self) -> list[str]:
        """Return the URLs it serves; a TCP port of 0 shows as the one that was given."""
        return list(self._addresses)

    def secure(self, tls: ssl.SSLContext) -> None:
        """Have new connections to ``https://`` listeners be under other certificates."""
        self._tls = tls
        for site in self._sites:
            if site.acceptor.tls is not None:
                site.acceptor.tls = tls

    async def close(self) -> None:
        """Take no more requests, end the streams, wait for the rest, remove the sockets."""
        for path in self._paths:
            path.unlink(missing_ok=True)
        for site in self._sites:
            await site.acceptor.finish()
        await self._runner.cleanup()


async def serve(
    app: web.Application,
    urls: Sequence[str],
    *,
    group: str | None = GROUP,
    terms: Terms | None = None,
    tls: ssl.SSLContext | None = None,
) -> Listeners:
    """Serve ``app`` on every URL (``unix:///path``, ``tcp://host:port`` or ``https://host:port``).

    ``tls`` is for the last; what it shows may be renewed while it is in use. ``terms`` bound the
    connections of each. A unix socket belongs to ``group`` where that exists and the daemon may
    give it away; None: anybody may connect to it. Raises Conflict when an address is taken,
    InvalidInput for another kind of URL or TLS without a context.
    """
    terms = terms or Terms()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    listeners = Listeners(runner, _maker(runner, terms), terms, tls)
    try:
        for url in urls:
            await listeners.add(url, group)
    except BaseException:
        await listeners.close()
        raise
    return listeners


def _maker(runner: web.AppRunner, terms: Terms) -> Callable[[], Connection]:
    """Return what makes the server's side of each connection."""
    server, loop = runner.server, asyncio.get_running_loop()
    if server is None:
        raise RuntimeError("the runner is not set up")

    def make() -> Connection:
        # encoded bodies are refused; what is left of one must not be unpacked either
        return Connection(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # none, which aiohttp takes and does not state
            keepalive_timeout=terms.patience.idle_s,
            lingering_time=LINGER_S,
            auto_decompress=False,
            logger=log,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
        )

    return make


def bind(url: str, *, group: str | None = GROUP) -> socket.socket:
    """Return a bound socket for a listener's URL. Raises as ``serve`` does."""
    parts = urlsplit(url)
    if parts.scheme == "unix" and parts.path:
        return _bind_unix(Path(parts.path), group)
    if parts.scheme in ("tcp", "https") and parts.hostname and parts.port is not None:
        return _bind_tcp(parts.hostname, parts.port)
    raise InvalidInput(
        f"cannot listen on {url!r}: give unix:///path, tcp://host:port or https://host:port"
    )


def _bind_unix(path: Path, group: str | None) -> socket.socket:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and _answers(path):
            raise Conflict(f"another daemon listens on {path}; stop it or choose another socket")
        path.unlink(missing_ok=True)
    except OSError as error:
        raise Conflict(f"cannot listen on {path}: {error.strerror or error}") from error
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # nobody else may connect between bind and chmod
        before = os.umask(0o177)
        try:
            sock.bind(str(path))
        finally:
            os.umask(before)
        if group is not None:
            with contextlib.suppress(KeyError, PermissionError):
                os.chown(path, -1, grp.getgrnam(group).gr_gid)
        path.chmod(SHARED_MODE if group is None else SOCKET_MODE)
    except OSError as error:
        sock.close()
        raise Conflict(f"cannot listen on {path}: {error.strerror or error}") from error
    return sock


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError as error:
            raise Conflict(f"cannot listen on {path}: {error.strerror or error}") from error
    return True


def _bind_tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # a restarted daemon must not wait for its old connections to be forgotten
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise Conflict(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return sock


def _url(address: str | tuple[str, int], scheme: str) -> str:
    if isinstance(address, str):
        return f"unix://{address}"
    host, port = address[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
