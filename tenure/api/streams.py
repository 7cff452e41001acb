"""Open-ended answers: bounded in number, also for each client, and ended by a shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tenure.api.call import Call
from tenure.api.guard import guard_of
from tenure.api.problems import refused

#: The open streams, each with its client.
TASKS = web.AppKey("streams", dict[asyncio.Task[object], str])
#: Of all streams that may be open, one client may have this part.
CLIENT_SHARE = 2


@asynccontextmanager
async def open_stream(call: Call) -> AsyncIterator[None]:
    """Count the present request as a stream; HttpProblem (429) when there are too many."""
    tasks = call.request.app[TASKS]
    if len(tasks) >= call.options.max_streams:
        detail = f"{len(tasks)} streams are open, the limit; close one and try again"
        raise refused(429, "too_many_streams", detail)
    guard = guard_of(call.request)
    client = guard.peer if guard is not None else "unknown"
    own, most = list(tasks.values()).count(client), max(1, call.options.max_streams // CLIENT_SHARE)
    if own >= most:
        detail = f"{own} streams of yours are open, the limit for one client; close one"
        raise refused(429, "too_many_streams", detail)
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a stream needs a task")
    tasks[task] = client
    try:
        yield
    finally:
        tasks.pop(task, None)


async def end_streams(app: web.Application) -> None:
    """Cancel every open stream, so that a shutdown waits for none of them."""
    tasks = app[TASKS]
    for task in tuple(tasks):
        task.cancel()
