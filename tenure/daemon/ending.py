"""Ending tasks, whatever they make of being cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

log = logging.getLogger(__name__)

#: A task that goes on after it was cancelled is cancelled again after so long, in seconds.
AGAIN_S = 1.0


async def end(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Cancel tasks until they have ended; what they raise is not told.

    Once is not enough: a cancellation that comes in the moment in which an answer arrives, or
    another task of a group fails, is lost in ``asyncio.wait_for`` and ``asyncio.TaskGroup``.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        ended, left = await asyncio.wait(left, timeout=AGAIN_S)
        for task in ended:
            if not task.cancelled():
                task.exception()  # fetched, so that nobody complains
        if left:
            names = ", ".join(sorted(task.get_name() for task in left))
            log.warning("cancelled, and not ended yet: %s", names)
