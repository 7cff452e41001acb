"""A measured figure, its spread over repetitions, and the goal beside it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Goal:
    """``least``: the figure must be at least ``value``; ``below``: less than it."""

    kind: Literal["least", "below", "most"]
    value: float

    def is_met(self, measured: float) -> bool:
        """Return whether a figure meets the goal; one that is no number never does."""
        if math.isnan(measured):
            return False
        if self.kind == "least":
            return measured >= self.value
        return measured < self.value if self.kind == "below" else measured <= self.value

    def __str__(self) -> str:
        return f"{ {'least': '≥', 'below': '<', 'most': '≤'}[self.kind] } {shown(self.value)}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a report. ``values`` are its repetitions, of which the median counts."""

    key: str
    what: str
    unit: str
    values: tuple[float, ...]
    goal: Goal | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values) if self.values else math.nan

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met, None where there is none."""
        return None if self.goal is None else self.goal.is_met(self.median)

    def as_json(self) -> dict[str, Any]:
        """Return the figure as plain data."""
        return {
            "key": self.key,
            "what": self.what,
            "unit": self.unit,
            "median": self.median,
            "min": min(self.values, default=math.nan),
            "max": max(self.values, default=math.nan),
            "repetitions": len(self.values),
            "goal": None if self.goal is None else str(self.goal),
            "is_met": self.is_met,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What one benchmark found; ``notes`` are sentences about how."""

    name: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_met(self) -> bool:
        return all(figure.is_met is not False for figure in self.figures)


def figure(
    key: str, what: str, unit: str, values: Sequence[float] | float, goal: Goal | None = None
) -> Figure:
    """Return a figure of one or several values."""
    many = (float(values),) if isinstance(values, int | float) else tuple(values)
    return Figure(key, what, unit, many, goal)


def percentile(values: Sequence[float], ratio: float) -> float:
    """Return the smallest value that at least ``ratio`` of the values do not exceed (nearest rank).

    NaN of nothing.
    """
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(ratio * len(values)) - 1)]


def shown(value: float) -> str:
    """Return a figure as people read it: three digits that count."""
    if math.isnan(value):
        return "none"
    if value >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
