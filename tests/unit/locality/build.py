"""Clusters and tasks in a few words, for the tests of the room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reproductions.trident.paper import schedule_pruned
from reproductions.trident.replicas import Preference
from reproductions.trident.wants import Task, wants_of
from tenure.locality.arrays import Places, Wants, places_of
from tenure.locality.schedule import Matching, schedule
from tenure.locality.scores import SCORE, Scores

SCORES = Scores()
M, S, H = (round(score * SCORE) for score in (1, 8, 20))
C1, C2 = SCORES.rates


class Lab:
    """Named nodes with racks and free slots, and tasks that name scores by node."""

    def __init__(
        self,
        racks: Sequence[str],
        slots: Mapping[str, int],
        tasks: Sequence[Mapping[str, float]],
    ) -> None:
        self.names = [name for rack in racks for name in rack.split()]
        rack_of = [g for g, rack in enumerate(racks) for _ in rack.split()]
        index = {name: j for j, name in enumerate(self.names)}
        self.places: Places = places_of([slots.get(name, 0) for name in self.names], rack_of)
        self.wants: Wants = wants_of([task(**entries) for entries in tasks], index, SCORES)

    def match(self) -> Matching:
        return schedule(self.places, self.wants, SCORES.rates)

    def match_pruned(self, pruning: int) -> Matching:
        return schedule_pruned(self.places, self.wants, SCORES.rates, pruning)

    def chosen(self, matching: Matching) -> list[str]:
        return [self.names[j] if j >= 0 else "" for j in matching.place]


def task(**scores: float) -> Task:
    """Return a task with a score (1, 8, 20, ...) by node."""
    rows = [
        Preference(node, round(score * SCORE), round(score * SCORE))
        for node, score in scores.items()
    ]
    return Task(rows)


def cost(matching: Matching) -> float:
    return float(matching.cost.sum()) / SCORE
