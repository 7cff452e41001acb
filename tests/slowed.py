"""Calls of threads that last until they may go on: to cut off who waits for them just then."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

#: Nothing of a test takes so long unless it hangs.
LIMIT_S = 30.0


class Slowed:
    """A call that waits, in its thread, until it may go on."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.is_begun, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.is_begun.set()
        assert self.may_go_on.wait(LIMIT_S)
        return self._call(*args, **kwargs)


async def cut_off(work: Awaitable[object], slowed: Slowed) -> None:
    """Cut off who waits for a call, and only then let that go on."""
    waiting = asyncio.ensure_future(work)
    assert await asyncio.to_thread(slowed.is_begun.wait, LIMIT_S)
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert waiting.cancelled()
    slowed.may_go_on.set()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what a thread has been let go on to."""
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
