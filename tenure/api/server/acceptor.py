"""Takes connections from one listening socket: bounded in number, each under guard.

asyncio's own server takes whatever comes until the process has no file left, and then the engines'
connections fail with everything else. Here a connection beyond the bound is told so and closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web

from tenure.api.server.guard import Guard, Patience

log = logging.getLogger("tenure.api")

BACKLOG = 1024
HANDSHAKE_S = 10.0
SWEEP_S = 0.5
#: A pause after the system refused a connection: it has no file or memory left.
REFUSED_S = 0.5
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n%s"
)
_PROBLEM = (
    b'{"type":"urn:tenure:problem:too_many_connections","title":"Service Unavailable",'
    b'"status":503,"code":"too_many_connections",'
    b'"detail":"this listener serves as many connections as it may; close some, or raise '
    b'limits.connections","request_id":""}'
)


@dataclass(frozen=True, slots=True)
class Terms:
    """``connections`` at a time on this listener."""

    connections: int = 2048
    patience: Patience = field(default_factory=Patience)


class Acceptor:
    """A bound socket being listened on; ``tls`` may be replaced while it is."""

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[], asyncio.Protocol],
        terms: Terms,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._sock, self._make, self._terms, self.tls = sock, make, terms, tls
        self._loop = asyncio.get_running_loop()
        self._open = 0
        self._guards: set[Guard] = set()
        self._arriving: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """Return the socket's address."""
        return str(self._sock.getsockname())

    def start(self) -> None:
        """Begin to take connections."""
        self._sock.setblocking(False)
        self._sock.listen(BACKLOG)
        self._sweeper = self._loop.create_task(self._sweep(), name="api sweeper")
        self._listen()

    def _listen(self) -> None:
        self._again = None
        self._loop.add_reader(self._sock.fileno(), self._accept)

    def _accept(self) -> None:
        """Take what waits, but let the loop go on now and then."""
        for _ in range(BACKLOG // 8):
            try:
                conn, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("cannot take connections: %s; trying again", error.strerror)
                self._loop.remove_reader(self._sock.fileno())
                self._again = self._loop.call_later(REFUSED_S, self._listen)
                return
            conn.setblocking(False)
            if self._open >= self._terms.connections:
                self._turn_away(conn)
                continue
            self._open += 1
            guard = Guard(self._make(), self._terms.patience, self._on_end)
            self._guards.add(guard)
            task = self._loop.create_task(self._serve(conn, guard))
            self._arriving.add(task)
            task.add_done_callback(partial(self._arrived, conn, guard))

    def _turn_away(self, conn: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self.tls is None:
                conn.send(BUSY % (len(_PROBLEM), _PROBLEM))
                # what lies unread at a close makes it a reset, and the answer is lost
                conn.recv(1 << 16)
                conn.shutdown(socket.SHUT_WR)
        conn.close()

    async def _serve(self, conn: socket.socket, guard: Guard) -> None:
        tls = self.tls
        wait_s = None if tls is None else HANDSHAKE_S
        try:
            await self._loop.connect_accepted_socket(
                lambda: guard, conn, ssl=tls, ssl_handshake_timeout=wait_s
            )
        except OSError:
            self._give_up(guard, conn)  # a handshake that failed, or took too long

    def _arrived(self, conn: socket.socket, guard: Guard, task: asyncio.Task[None]) -> None:
        """Give up what was not taken: a task that is cancelled before it begins runs nothing."""
        self._arriving.discard(task)
        if task.cancelled():
            self._give_up(guard, conn)
        elif (error := task.exception()) is not None:
            self._give_up(guard, conn)
            log.error("a connection could not be taken", exc_info=error)

    def _give_up(self, guard: Guard, conn: socket.socket) -> None:
        if not guard.was_made:
            conn.close()
            self._on_end(guard)

    def _on_end(self, guard: Guard) -> None:
        self._guards.discard(guard)
        self._open -= 1

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now_s = self._loop.time()
            for guard in tuple(self._guards):
                guard.check(now_s)

    # the end

    def close(self) -> None:
        """Take no more connections and give the socket up; those there are go on."""
        if self._sock.fileno() < 0:
            return
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()

    async def finish(self) -> None:
        """Close; return once no connection is half taken and nothing watches the others."""
        self.close()
        for task in self._arriving:
            task.cancel()
        tasks = [*self._arriving, *([self._sweeper] if self._sweeper else [])]
        if self._sweeper is not None:
            self._sweeper.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class BoundedSite(web.BaseSite):
    """aiohttp's name for a listening socket, on an ``Acceptor``."""

    def __init__(
        self, runner: web.AppRunner, acceptor: Acceptor, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(runner, ssl_context=tls)
        self._address = acceptor.address
        self.acceptor = acceptor

    @property
    def name(self) -> str:
        """Return the socket's address."""
        return self._address

    async def start(self) -> None:
        """Begin to take connections."""
        await super().start()
        self.acceptor.start()

    async def stop(self) -> None:
        """Take no more connections."""
        self.acceptor.close()
        await super().stop()
