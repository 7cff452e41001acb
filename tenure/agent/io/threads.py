"""The end of a thread that works off a queue, for one that may stand still."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from typing import Any


def end(thread: threading.Thread, waiting: queue.Queue[Any], limit_s: float) -> bool:
    """Have a thread finish what waits and end at None; return whether it did.

    A queue that stays full, and a thread that does not answer, are waited for for ``limit_s`` each.
    """
    with suppress(queue.Full):  # as it stands still it stays full
        waiting.put(None, timeout=limit_s)
    thread.join(limit_s)
    return not thread.is_alive()
