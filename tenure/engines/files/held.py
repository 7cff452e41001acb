"""What threads open and use for a coroutine that may be cut off meanwhile.

A thread goes on when whoever waits for it is cancelled, and what it returns then is lost: a file
that it opened would stay open, and one that it reads would keep the event loop waiting, to be
closed, until the disk has answered. So what is opened is held here, and whoever is last, the
coroutine or a thread of its, closes it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar


class Closable(Protocol):
    """What is closed in the end; to close it again changes nothing."""

    def close(self) -> None:
        """Let go of it."""


T = TypeVar("T", bound=Closable)
R = TypeVar("R")
P = ParamSpec("P")


class Held(Generic[T]):
    """Something open, used by one thread at a time. Made by ``held``."""

    def __init__(self) -> None:
        self._thing: T | None = None
        self._turn = threading.Lock()
        self._is_over = False

    @property
    def thing(self) -> T:
        """Return it, for what needs no thread; raises ValueError after the end."""
        if self._thing is None or self._is_over:
            raise ValueError("it was let go of")
        return self._thing

    async def use(
        self, work: Callable[Concatenate[T, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Return what ``work`` makes of it, in a thread; raises ValueError after the end."""
        return await asyncio.to_thread(self._in_turn, lambda: work(self.thing, *args, **kwargs))

    async def _open(self, work: Callable[[], T]) -> None:
        def run() -> None:
            if not self._is_over:
                self._thing = work()

        await asyncio.to_thread(self._in_turn, run)

    def _in_turn(self, run: Callable[[], R]) -> R:
        try:
            with self._turn:
                return run()
        finally:
            if self._is_over:  # meanwhile, and who said so did not wait
                self._let_go()

    def _let_go(self) -> None:
        """Close it; where a thread opens or uses it just now, that thread will."""
        self._is_over = True
        if self._turn.acquire(blocking=False):
            try:
                if self._thing is not None:
                    self._thing.close()
            finally:
                self._turn.release()


@asynccontextmanager
async def held(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Held[T]]:
    """Have what ``work`` returns, opened in a thread; in the end it is closed, whenever that is."""
    thing = Held[T]()
    try:
        await thing._open(lambda: work(*args, **kwargs))
        yield thing
    finally:
        thing._let_go()
