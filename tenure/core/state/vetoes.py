"""Vetoes: rows of a table that says what forbids a step, for all who ask before they take it.

A table stands once for each step (``nodes/off_vetoes``, ``services/migration/move_vetoes``). Dry
runs, explanations and the acts themselves go through the same rows; ``asked`` says whom a row
concerns. The first row that forbids the step is the one that people are told. Owns nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag
from typing import Generic, TypeVar

from tenure.core.state.context import Context

Q = TypeVar("Q")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why not: a stable code, a sentence, what people can do about it.

    ``is_passing``: it ends by itself, at ``until_us`` at the latest (None: nobody knows when).
    """

    code: str
    text: str
    remedy: str = ""
    is_passing: bool = False
    until_us: int | None = None

    @property
    def advice(self) -> str:
        """Return why not, and what people can do about it, in one line."""
        return f"{self.text}; {self.remedy}" if self.remedy else self.text


@dataclass(frozen=True, slots=True)
class Veto(Generic[Q]):
    """What may forbid a step: its name, which is its code, and what is told of it.

    ``forbids`` answers for one question: no, yes, or with a reason of its own.
    """

    name: str
    told: str
    asked: Flag
    forbids: Callable[[Context, Q], bool | Reason]


class VetoTable(Generic[Q]):
    """The rows of one step, in the order in which they are told."""

    def __init__(self, who: type[Flag], *rows: Veto[Q]) -> None:
        """``who`` are those who may ask."""
        self.rows = rows
        self._concern = {one: [row for row in rows if one & row.asked] for one in who}

    def first(self, who: Flag, ctx: Context, question: Q) -> Reason | None:
        """Return why the step is forbidden to who asks, by the first row; None: it is not."""
        for row in self._concern[who]:
            found = row.forbids(ctx, question)
            if found:
                return found if isinstance(found, Reason) else Reason(row.name, row.told)
        return None
