"""BLEND: the heads of the envelopes in turn, so that unlike containers meet (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TypeVar

T = TypeVar("T")


def blend(envelopes: Sequence[Sequence[T]]) -> list[T]:
    """Return one head of each non-empty envelope in turn until all are empty.

    GENPACK Algorithm 1, lines 17-31, corrected: as printed ``emptied`` says whether the last
    envelope that had something is empty, and the loop ends while others are not.
    """
    turns: list[list[tuple[T, ...]]] = [[(head,) for head in one] for one in envelopes]
    return [head for heads in zip_longest(*turns, fillvalue=()) for turn in heads for head in turn]
