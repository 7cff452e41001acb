"""Open-ended answers: bounded in number, and ended when the server shuts down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tenure.api.call import Call
from tenure.api.problems import refused

TASKS = web.AppKey("streams", set[asyncio.Task[object]])


@asynccontextmanager
async def open_stream(call: Call) -> AsyncIterator[None]:
    """Count the present request as a stream; HttpProblem (429) when there are too many."""
    tasks = call.request.app[TASKS]
    if len(tasks) >= call.options.max_streams:
        detail = f"{len(tasks)} streams are open, the limit; close one and try again"
        raise refused(429, "too_many_streams", detail)
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a stream needs a task")
    tasks.add(task)
    try:
        yield
    finally:
        tasks.discard(task)


async def end_streams(app: web.Application) -> None:
    """Cancel every open stream, so that a shutdown waits for none of them."""
    tasks = app[TASKS]
    for task in tuple(tasks):
        task.cancel()
