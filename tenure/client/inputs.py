"""Submissions whose input the daemon reads first, to tell where its lines end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tenure.model.errors import Unavailable

A = TypeVar("A")
#: One that is not read by then (a terabyte at 300 MB/s) changes all the time.
PATIENCE_S = 3600.0
#: Where others' inputs are read before it the daemon says so at once.
AGAIN_S = 1.0


def once_read(ask: Callable[[], A]) -> A:
    """Return what ``ask`` does, which is called again for as long as its input is being read.

    The daemon goes on with that between two calls, and has each wait for some seconds.
    """
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except Unavailable as error:
            if error.code != "input_being_read" or time.monotonic() >= until:
                raise
        time.sleep(AGAIN_S)
