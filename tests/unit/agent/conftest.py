"""What a control loop does to its whole process is undone."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _memory_is_let_go() -> Iterator[None]:
    """A loop locks its process's memory; in this one others give theirs back."""
    yield
    ctypes.CDLL(None).munlockall()
