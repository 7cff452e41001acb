"""The TLS context of one engine, made again when its files change.

Certificates are renewed in place, often by a program that knows nothing of tenure; new connections
then use the new ones, and no signal is needed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time

from yarl import URL

from tenure.engines.access import MakeContext
from tenure.engines.errors import EngineUnreachable
from tenure.model.access import TlsFiles
from tenure.model.errors import InvalidInput

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
