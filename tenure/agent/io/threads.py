"""A thread that works off a bounded queue, for what may stand still while nobody waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Worker(Generic[T]):
    """Has ``work`` done on what is put, in a thread that the first of it starts.

    ``work`` is given the items one after the other until ``close``; at most ``most`` of them wait.
    """

    def __init__(self, name: str, work: Callable[[Iterator[T]], None], most: int) -> None:
        self._name = name
        self._work = work
        self._waiting: queue.Queue[T | None] = queue.Queue(most)
        self._thread: threading.Thread | None = None

    def put(self, item: T) -> bool:
        """Have an item worked on soon; returns whether there was room for it. Never waits."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(item)
        except queue.Full:
            return False
        return True

    def close(self, limit_s: float) -> bool:
        """Finish what waits and end the thread; return whether it did. Twice is fine.

        A queue that stays full, and a thread that does not answer, are waited for for ``limit_s``
        each.
        """
        thread, self._thread = self._thread, None
        if thread is None:
            return True
        with suppress(queue.Full):  # as it stands still it stays full
            self._waiting.put(None, timeout=limit_s)
        thread.join(limit_s)
        return not thread.is_alive()

    def _run(self) -> None:
        self._work(iter(self._waiting.get, None))
