"""The time-out of a test goes on being one until all that the test leaves is cleared up.

pytest-timeout's alarm rings once, and is taken back when a test has failed: whatever hangs then, in
a ``finally`` or in the teardown of a fixture, would hang for ever. So it rings again and again, and
breaks each of these waits in turn. Where an event loop waits it tells for what, since pytest shows
the loop alone. What it cannot break (a thread that the interpreter waits for at its end) is bounded
by ``tools/run-tests``.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Generator
from types import FrameType
from typing import Any

import pytest

#: What one part of the clearing up may take: engines end within a minute, a daemon within two.
AGAIN_S = 300.0
SETTINGS = pytest.StashKey[Any]()


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """Have the alarm ring again every ``AGAIN_S`` once it has rung."""
    item.stash[SETTINGS] = settings
    found = yield
    left_s, _ = signal.getitimer(signal.ITIMER_REAL)
    if left_s:
        ring = signal.getsignal(signal.SIGALRM)
        assert callable(ring)

        def tell_and_ring(number: int, frame: FrameType | None) -> None:
            tell()
            ring(number, frame)

        signal.signal(signal.SIGALRM, tell_and_ring)
        signal.setitimer(signal.ITIMER_REAL, left_s, AGAIN_S)
    return found


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Set the alarm anew for the teardown of a test that has failed."""
    settings = item.stash.get(SETTINGS, None)
    if settings is not None and not signal.getitimer(signal.ITIMER_REAL)[0]:
        anew = settings._replace(timeout=AGAIN_S)
        item.config.hook.pytest_timeout_set_timer(item=item, settings=anew)
    return (yield)


def tell() -> None:
    """Print where each task of the running event loop waits."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:  # no loop runs
        return
    for task in tasks:
        print(f"{task.get_name()} waits:", *places(task.get_coro()), sep="\n  ", file=sys.stderr)


def places(waiting: Any) -> list[str]:
    """Return the lines at which a coroutine waits, from its outermost to its innermost frame."""
    found = []
    while waiting is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(waiting, f"{kind}_frame")), "")
        frame = getattr(waiting, f"{kind}_frame", None)
        if frame is None:
            break
        found.append(f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}")
        waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
    return found
