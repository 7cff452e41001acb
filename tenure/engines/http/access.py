"""How an engine is reached: its URL, files for TLS, and what ssh takes to be started.

A new scheme is a new ``Address`` and a branch in ``parse`` and ``connector``; nothing else knows
how an engine is reached. ``ssh://`` becomes a unix socket that ``tunnel`` keeps alive. Certificates
are renewed in place, often by a program that knows nothing of tenure: new connections use the new
ones, and no signal is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

import aiohttp
from yarl import URL

from tenure.engines.http.errors import EngineUnreachable
from tenure.model.access import SshOptions, TlsFiles
from tenure.model.errors import InvalidInput, TenureError

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


class Child(Protocol):
    """A child process that is killed when this process ends, however it ends."""

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""

    @property
    def exit_code(self) -> int | None:
        """How it ended (negative: the signal), None while it runs."""

    def start(self) -> None:
        """Start it again after its end. Raises OSError."""

    def stop(self, timeout_s: float = ...) -> int | None:
        """End it, by force after ``timeout_s``; blocks until then."""


Spawn = Callable[[Sequence[str], Path], Child]
"""Makes the child of an argument vector, not started yet; its output is appended to a file."""


MakeContext = Callable[[TlsFiles], ssl.SSLContext]
"""Makes a client's context that checks the host name; raises InvalidInput naming a faulty file."""


@dataclass(frozen=True, slots=True)
class Access:
    """How an engine is reached: ``tls`` None means no TLS, else ``make_context`` is needed.

    ``folder`` is private to the daemon and holds the sockets that ssh makes; ``spawn`` starts ssh.
    Both are needed for ``ssh://`` only.
    """

    tls: TlsFiles | None = None
    make_context: MakeContext | None = None
    ssh: SshOptions | None = None
    folder: Path | None = None
    spawn: Spawn | None = None


def prepare_folder(folder: Path) -> None:
    """Make the folder of the tunnels' sockets, 0700, and empty it of a killed daemon's.

    Raises TenureError where it cannot be made, as where a file of its name lies there.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        told = f"cannot make the folder {folder}: {error.strerror}; remove what lies there"
        raise TenureError(told) from None
    for leftover in folder.iterdir():
        with contextlib.suppress(OSError):
            leftover.unlink()


_log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
"""Between two looks at the files; a look costs three calls of stat."""

ALERT_S = 1.0
"""An engine that has not refused a handshake by then has accepted it."""

Stamp = tuple[tuple[int, int, int], ...]


class Credentials:
    """What we show an engine and whom we trust to be it."""

    def __init__(self, files: TlsFiles, make: MakeContext) -> None:
        self.files = files
        self._make = make
        self._context: ssl.SSLContext | None = None
        self._stamp: Stamp = ()
        self._looked_s = 0.0

    @property
    def has_certificate(self) -> bool:
        return bool(self.files.cert)

    def context(self) -> ssl.SSLContext:
        """Return the context of the files as they are.

        While a replacement is faulty (half written, or cert and key of two generations) the old
        context stays. Raises EngineUnreachable if there was never a usable one.
        """
        now_s = time.monotonic()
        if self._context is not None and now_s - self._looked_s < LOOK_EVERY_S:
            return self._context
        self._looked_s = now_s
        stamp = self._look()
        if self._context is None or stamp != self._stamp:
            self._renew(stamp)
        assert self._context is not None
        return self._context

    def _renew(self, stamp: Stamp) -> None:
        try:
            self._context = self._make(self.files)
        except InvalidInput as error:
            if self._context is None:
                raise EngineUnreachable(f"no TLS: {error.detail}") from error
            _log.warning("the old TLS certificates stay in use: %s", error.detail)
        self._stamp = stamp

    def _look(self) -> Stamp:
        paths = (self.files.ca, self.files.cert, self.files.key)
        return tuple(stamp_of(path) for path in paths if path)


def stamp_of(path: str) -> tuple[int, int, int]:
    """Return what another content of a file would change; the same for every absent one."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


async def alert_of(base: str, context: ssl.SSLContext) -> ssl.SSLError | None:
    """Return why the engine at ``base`` (``https://host:port``) ends our handshakes, None if not.

    In TLS 1.3 a refused client certificate is told after the handshake, and a request already under
    way makes a reset of it. Here nothing is sent, so the engine's word arrives.
    """
    url = URL(base)
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(ALERT_S):
            reader, writer = await asyncio.open_connection(url.host, url.port, ssl=context)
            await reader.read(1)
    except ssl.SSLError as error:
        return error
    except OSError:  # TimeoutError too: it waits for our request, so we were let in
        return None
    finally:
        if writer is not None:
            writer.transport.abort()
    return None
