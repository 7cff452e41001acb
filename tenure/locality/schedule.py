"""Task scheduling over tiers: which task runs on which place (sections 2 and 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tenure.locality.arrays import Places, Wants
from tenure.locality.costs import join, price_of
from tenure.locality.matching import match
from tenure.locality.pruning import keep_slots, keep_tasks
from tenure.locality.scores import Rates
from tenure.model.placing import Ints


class Matching(NamedTuple):
    """Of each task (n,) its place, NOWHERE if it waits, and its cost in thousandths (0 then).

    ``kept_slots`` (p,) and ``tasks`` say how many slots and tasks the matching looked at.
    """

    place: Ints
    cost: Ints
    kept_slots: Ints
    tasks: int


def schedule(places: Places, wants: Wants, rates: Rates) -> Matching:
    """Return the cheapest of the largest matchings of tasks to free slots (Eq. 2 and 3)."""
    kept_slots, kept = keep_slots(places, wants), keep_tasks(places, wants, rates)
    at, cost = match(join(places, wants, rates, kept_slots, kept))
    return Matching(at, cost, kept_slots, int(np.sum(kept)))


@dataclass(frozen=True, slots=True)
class Option:
    """A place that a task could have had, and its cost in thousandths."""

    place: int
    cost: int


def explain(places: Places, wants: Wants, rates: Rates, task: int, most: int = 5) -> list[Option]:
    """Return the cheapest places of one task, whether free or not, at most ``most``; O(p e_i)."""
    rows = [
        Option(j, price_of(places, wants, rates, task, j)) for j in range(places.slots.shape[0])
    ]
    return sorted(rows, key=lambda option: (option.cost, option.place))[:most]
