"""Open-ended answers: bounded in number, also for each client, and ended by a shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from tenure.api.requests.call import Call
from tenure.api.requests.fairness import settle
from tenure.api.server.guard import client_of
from tenure.api.server.problems import refused
from tenure.model.roles import Caller
from tenure.model.units import US


@dataclass(frozen=True, slots=True)
class Opened:
    """Whom an open stream is for: the caller, and the client (an address, or a user)."""

    caller: Caller
    client: str

    def is_as(self, other: Opened) -> bool:
        """Whether both are of one client, or of one token used from several addresses."""
        return self.client == other.client or self.caller.key == other.caller.key


#: The open streams.
TASKS = web.AppKey("streams", dict[asyncio.Task[object], Opened])
#: Of all streams that may be open, one client or one token may have this part.
CLIENT_SHARE = 2


@asynccontextmanager
async def open_stream(call: Call) -> AsyncIterator[None]:
    """Count the present request as a stream; HttpProblem (429) when there are too many.

    It ends with the token that it was opened by, as with a cut.
    """
    tasks = call.request.app[TASKS]
    if len(tasks) >= call.options.max_streams:
        detail = f"{len(tasks)} streams are open, the limit; close one and try again"
        raise refused(429, "too_many_streams", detail)
    opener = Opened(call.caller, client_of(call.request))
    own = sum(opened.is_as(opener) for opened in tasks.values())
    most = max(1, call.options.max_streams // CLIENT_SHARE)
    if own >= most:
        detail = f"{own} streams of yours are open, the limit for one client; close one"
        raise refused(429, "too_many_streams", detail)
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a stream needs a task")
    tasks[task] = opener
    settle()
    limit = asyncio.timeout(_left_s(call))
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise asyncio.CancelledError from None
    finally:
        tasks.pop(task, None)


def _left_s(call: Call) -> float | None:
    """Return for how long the caller's token is still good, seconds; None: for ever."""
    expires_us = call.caller.expires_us
    return None if expires_us is None else max(0.0, (expires_us - call.backend.now_us()) / US)


def end_streams_of(app: web.Application, name: str) -> None:
    """Cancel the open streams of a token."""
    for task, opened in tuple(app[TASKS].items()):
        if opened.caller.key == f"token {name}":
            task.cancel()


async def end_streams(app: web.Application) -> None:
    """Cancel every open stream, so that a shutdown waits for none of them."""
    tasks = app[TASKS]
    for task in tuple(tasks):
        task.cancel()
