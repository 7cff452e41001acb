"""The agent's HTTP interface: ``GET /samples?after=SEQ&every_s=N`` and ``GET /livez``.

Over a unix socket its mode decides; over TCP every request but for ``/livez`` needs the token. What
it says of harvest, and takes, is in ``control``.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import socket
import time
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from tenure.agent.io.control import Control
from tenure.agent.io.problem import invalid, problem, seq_in
from tenure.agent.io.reader import NodeReader
from tenure.agent.journal import Journal
from tenure.profiling.readings.wire import encode

US = 1_000_000
#: An interval between readings to be left out may be a day at most.
MAX_EVERY_S = 86_400.0
#: The parameters of the controller are the one body that is read.
MAX_BODY_BYTES = 1 << 14
#: Readings are stale after so many intervals without one, and a second.
STALE_INTERVALS = 3


class Sampling:
    """Reads the node at an interval into the journal."""

    def __init__(self, reader: NodeReader, journal: Journal, interval_us: int) -> None:
        self._reader = reader
        self.journal = journal
        self.interval_us = interval_us
        self._read_s = time.monotonic()

    @property
    def age_us(self) -> int:
        """Return how long ago the newest reading was made."""
        return round((time.monotonic() - self._read_s) * US)

    def take(self) -> None:
        """Make one reading."""
        self.journal.add(self._reader.read())
        self._read_s = time.monotonic()

    async def run(self) -> None:
        """Read until cancelled; a reading that is late does not hasten the next one."""
        interval_s = self.interval_us / US
        due_s = time.monotonic()
        while True:
            self.take()
            due_s = max(due_s + interval_s, time.monotonic())
            await asyncio.sleep(due_s - time.monotonic())


SAMPLING: web.AppKey[Sampling] = web.AppKey("sampling", Sampling)


def build_app(sampling: Sampling, token: Callable[[], str], control: Control) -> web.Application:
    """Return the interface; while ``token`` is empty nobody gets anything over TCP."""
    app = web.Application(middlewares=[_guard(token)], client_max_size=MAX_BODY_BYTES)
    app[SAMPLING] = sampling
    control.add_to(app)
    app.router.add_get("/samples", _samples)
    app.router.add_get("/livez", _live)
    return app


def _guard(token: Callable[[], str]) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path != "/livez" and not _may_read(request, token()):
            return problem(
                HTTPStatus.UNAUTHORIZED,
                "unauthorized",
                "samples need the agent's token: Authorization: Bearer TOKEN",
            )
        try:
            return await handler(request)
        except web.HTTPException as error:
            return problem(HTTPStatus(error.status), "refused", error.reason)

    return guard


def _may_read(request: web.Request, token: str) -> bool:
    transport = request.transport
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is not None and connection.family == socket.AF_UNIX:
        return True
    kind, _, shown = request.headers.get("Authorization", "").partition(" ")
    known = hmac.compare_digest(shown.strip().encode(errors="replace"), token.encode())
    return bool(token) and kind.lower() == "bearer" and known


async def _samples(request: web.Request) -> web.Response:
    after = seq_in(request)
    if after is None:
        return invalid("after: must be the number (seq) of a reading, or 0 for all")
    every_s = _seconds(request.query.get("every_s", "0"))
    if every_s is None:
        return invalid(f"every_s: must be seconds from 0 to {MAX_EVERY_S:g}")
    sampling = request.app[SAMPLING]
    found = sampling.journal.after(after, round(every_s * US))
    text = encode(found, age_us=sampling.age_us, interval_us=sampling.interval_us)
    return web.Response(text=text, content_type="application/json")


async def _live(request: web.Request) -> web.Response:
    """Answer 503 where the readings have stopped: the agent is then no better than none."""
    sampling = request.app[SAMPLING]
    is_live = sampling.age_us <= STALE_INTERVALS * sampling.interval_us + US
    body = {"status": "ok" if is_live else "stale", "age_us": sampling.age_us}
    status = HTTPStatus.OK if is_live else HTTPStatus.SERVICE_UNAVAILABLE
    return web.json_response(body, status=status)


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= MAX_EVERY_S else None
