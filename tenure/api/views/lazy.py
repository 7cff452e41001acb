"""Arrays and objects of an answer that are made row by row while they are sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rows:
    """An array; the iterable makes each value when it is asked for it."""

    values: Iterable[object]


@dataclass(frozen=True, slots=True)
class Pairs:
    """An object; the iterable makes each member when it is asked for it."""

    members: Iterable[tuple[str, object]]
