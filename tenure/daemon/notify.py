"""Tell systemd how the daemon is: the datagram protocol of ``sd_notify(3)``, without its library.

A few words on a unix socket whose path is in the environment. Without one nothing is said. The
watchdog is fed from the event loop, so that a loop that stands still is noticed and restarted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import MutableMapping

from tenure.daemon.ending import end

log = logging.getLogger(__name__)


class Notifier:
    """Says READY, RELOADING, STOPPING, STATUS and WATCHDOG to whoever started the daemon.

    ``environment`` loses the variables of the protocol: children must not speak in our name.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._address = environment.pop("NOTIFY_SOCKET", "")
        period = environment.pop("WATCHDOG_USEC", "")
        is_ours = environment.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._watchdog_s = int(period) / 1e6 if period.isdigit() and is_ours else 0.0
        self._feeding: asyncio.Task[None] | None = None

    def ready(self, status: str) -> None:
        """Say that requests are answered (again)."""
        self._say("READY=1", f"STATUS={_line(status)}")

    def reloading(self) -> None:
        """Say that the configuration is being read; ``ready`` must follow."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._say("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    def stopping(self, status: str) -> None:
        """Say that the daemon is about to end."""
        self._say("STOPPING=1", f"STATUS={_line(status)}")

    def begin(self) -> None:
        """Feed the watchdog from the running event loop, at twice the rate that is asked for."""
        if self._watchdog_s and self._feeding is None:
            self._feeding = asyncio.create_task(self._feed(), name="watchdog")

    async def _feed(self) -> None:
        while True:
            self._say("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_s / 2)

    async def end(self) -> None:
        """Stop to feed the watchdog."""
        if self._feeding is not None:
            await end([self._feeding])
            self._feeding = None

    def _say(self, *words: str) -> None:
        """Send one datagram; what goes wrong is no reason to fail."""
        if not self._address:
            return
        # a leading @ stands for the zero byte of Linux's abstract names
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaker:
                speaker.setblocking(False)
                speaker.sendto("\n".join(words).encode(), address)
        except OSError as error:
            log.warning("cannot tell the service manager %s: %s", words[0], error)


def _line(text: str) -> str:
    """Return one line: a line break would begin another word of the protocol."""
    return " ".join(text.split())
