"""An engine behind ssh: one ``ssh -N -L private.sock:remote.sock``, kept alive while it is used.

There is no task here. Every call of the engine first asks ``ready``, and the watcher calls at
least every few seconds, so that is where an ended ssh is noticed and started again, ever more
slowly while it fails. A host that falls silent is noticed by ssh itself (ServerAliveInterval).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import shlex
import shutil
import socket
import time
from pathlib import Path

from tenure.engines.http.access import Access, Child
from tenure.engines.http.errors import EngineUnreachable
from tenure.model.access import SshAddress, SshOptions, check_ssh_path, parse_ssh
from tenure.model.errors import InvalidInput

CONNECT_S = 8
ALIVE_EVERY_S = 4
ALIVE_TRIES = 3
OPEN_S = 20.0
"""A login that takes longer has failed: ssh bounds the connection (CONNECT_S), not the login."""

STABLE_S = 10.0
RETRY_FIRST_S = 0.5
RETRY_LAST_S = 30.0
"""Pauses between starts double up to the last, times 0.5 to 1; STABLE_S without an end resets."""

POLL_S = 0.03
STOP_S = 2.0
LOG_BYTES = 64 << 10
"""Beyond this the log of an ssh is emptied: it says a line for each refused connection."""

TOLD_BYTES = 300
TOLD_S = 15.0
MAX_SOCKET_BYTES = 107

_FIXED = (
    *("-N", "-T", "-a", "-x"),
    *("-o", "BatchMode=yes"),
    *("-o", "ExitOnForwardFailure=yes"),
    *("-o", "StreamLocalBindUnlink=yes"),
    *("-o", "StreamLocalBindMask=0177"),
    *("-o", f"ServerAliveInterval={ALIVE_EVERY_S}"),
    *("-o", f"ServerAliveCountMax={ALIVE_TRIES}"),
    *("-o", f"ConnectTimeout={CONNECT_S}"),
    *("-o", "ControlMaster=no", "-o", "ControlPath=none"),
    *("-o", "PermitLocalCommand=no", "-o", "UpdateHostKeys=no"),
    *("-o", "EscapeChar=none", "-o", "LogLevel=INFO"),
)


def arguments(target: SshAddress, options: SshOptions, local: Path) -> list[str]:
    """Return ssh's arguments. Every part that comes from outside has been checked by its shape."""
    forwarding = ["-L", f"{local}:{target.socket}"]
    return [*_FIXED, *_login(target, options), *forwarding, "--", target.host]


def _login(target: SshAddress, options: SshOptions) -> list[str]:
    """Return the arguments that a person needs too, to try the same login by hand."""
    strict = "accept-new" if options.host_keys == "accept-new" else "yes"
    words = ["-F", options.config or "none", "-o", f"StrictHostKeyChecking={strict}"]
    if options.known_hosts:
        words += ["-o", f'UserKnownHostsFile="{options.known_hosts}"']
        words += ["-o", "GlobalKnownHostsFile=none"]
    if options.key:
        words += ["-o", f'IdentityFile="{options.key}"', "-o", "IdentitiesOnly=yes"]
    if target.user:
        words += ["-l", target.user]
    return [*words, "-p", str(target.port)]


class Tunnel:
    """The way to one engine by ssh. Raises InvalidInput for a URL or a path that ssh must not see.

    ``socket`` is where the engine answers while ``ready`` returns.
    """

    def __init__(self, url: str, access: Access) -> None:
        try:
            self._target = parse_ssh(url)
            options = access.ssh or SshOptions()
            for path in (options.key, options.known_hosts, options.config):
                check_ssh_path(path)
        except ValueError as error:
            raise InvalidInput(f"engine URL {url!r}: {error}", code="invalid_url") from error
        if access.folder is None or access.spawn is None:
            raise InvalidInput("ssh:// needs a folder for its sockets", code="invalid_url")
        self._options = options
        self.socket = _private_socket(access.folder)
        self._log = self.socket.with_suffix(".log")
        self._spawn = access.spawn
        self._child: Child | None = None
        self._is_open = False
        self._started_s = 0.0
        self._not_before_s = 0.0
        self._pause_s = RETRY_FIRST_S
        self._why = ""

    async def ready(self) -> None:
        """Return once the engine's socket is there, starting ssh if need be.

        Raises EngineUnreachable with ssh's own words if it ended, and until it is tried again.
        """
        if self._is_open and self._child is not None and self._child.is_alive:
            return
        while True:
            self._keep()
            if self._is_listening():
                self._is_open = True
                return
            await asyncio.sleep(POLL_S)
            if time.monotonic() - self._started_s > OPEN_S and self._child is not None:
                await asyncio.to_thread(self._child.stop, STOP_S)

    def _keep(self) -> None:
        """Start ssh if it does not run; raise EngineUnreachable while it must not be started."""
        if self._child is not None and self._child.is_alive:
            return
        now_s = time.monotonic()
        if self._started_s:
            self._note_end(now_s)
        if now_s < self._not_before_s:
            raise EngineUnreachable(self._why)
        self._start(now_s)

    def _note_end(self, now_s: float) -> None:
        """Remember why ssh ended, and when it may be started again."""
        code = self._child.exit_code if self._child is not None else None
        words = self._last_words() or f"ended with code {code}"
        self._why = f"ssh to {self._target.host}: {words} (to try by hand: {self._by_hand()})"
        if self._is_open and now_s - self._started_s > STABLE_S:
            self._pause_s = RETRY_FIRST_S
            self._not_before_s = now_s  # it was well until now: try at once
        else:
            self._not_before_s = now_s + self._pause_s * random.uniform(0.5, 1.0)
            self._pause_s = min(RETRY_LAST_S, 2 * self._pause_s)
        self._is_open = False
        self._started_s = 0.0

    def _by_hand(self) -> str:
        words = _login(self._target, self._options)
        return shlex.join(["ssh", *words, self._target.host, "true"])

    def _start(self, now_s: float) -> None:
        program = shutil.which("ssh")
        if program is None:
            raise EngineUnreachable("there is no ssh in PATH; install OpenSSH's client")
        self._clear()
        argv = [program, *arguments(self._target, self._options, self.socket)]
        try:
            self._log.write_bytes(b"")
            self._child = self._spawn(argv, self._log)
            self._child.start()
        except OSError as error:
            self._child = None
            raise EngineUnreachable(f"ssh cannot be started: {error}") from error
        self._started_s = now_s

    def _is_listening(self) -> bool:
        """Whether ssh has logged in: only then it makes the socket, and takes connections on it."""
        if not self.socket.exists():
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(str(self.socket))
            except OSError:
                return False
        return True

    def hint(self) -> str:
        """Return what ssh said within the last seconds: that its host has no such socket, say."""
        try:
            age_s = time.time() - self._log.stat().st_mtime
        except OSError:
            return ""
        return self._last_words() if age_s < TOLD_S else ""

    def _last_words(self) -> str:
        """Return the last line of ssh's log, printable; keep the log bounded."""
        try:
            with self._log.open("rb+") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - TOLD_BYTES))
                tail = file.read().decode(errors="replace")
                if size > LOG_BYTES:
                    file.truncate(0)
        except OSError:
            return ""
        lines = [line.strip() for line in tail.splitlines() if line.strip()]
        last = lines[-1] if lines else ""
        return "".join(c for c in last if c.isprintable()).rstrip(".")

    def _clear(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.unlink()

    async def close(self) -> None:
        """End ssh and remove its socket and log; a later call of the engine starts it again."""
        child, self._child = self._child, None
        self._is_open = False
        self._started_s = 0.0
        if child is not None:
            await asyncio.to_thread(child.stop, STOP_S)
        self._clear()
        with contextlib.suppress(OSError):
            self._log.unlink()


def _private_socket(folder: Path) -> Path:
    """Return a path of its own for one tunnel: two of one host may overlap while one is let go."""
    path = folder / f"{secrets.token_hex(4)}.sock"
    try:
        check_ssh_path(str(path), is_forwarded=True)
    except ValueError as error:
        raise InvalidInput(f"{folder}: {error}") from error
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES:
        raise InvalidInput(f"{folder}: the path is too long for the unix sockets of ssh")
    return path
