"""Damaged records, and what is set aside for them: the words between store and core."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Damaged:
    """A stored record that is not what was written, or cannot be read; ``why`` says which."""

    kind: str
    key: str
    body: bytes
    why: str


@dataclass(frozen=True, slots=True)
class Aside:
    """A record that is set aside: a damaged one, or a whole one that goes with it.

    ``root`` is the job, batch or container that it is part of, else ``kind/key`` of its own.
    ``body`` is its text once it is set aside.
    """

    kind: str
    key: str
    root: str
    why: str
    is_whole: bool = False
    body: bytes = b""
