"""Tasks as the paper has them: nodes that each prefers (section 2.1), as arrays for the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reproductions.trident.replicas import Preference, ReplicaMap
from tenure.locality.arrays import NOT_READ, PREFERS, Wants, weights_of
from tenure.locality.scores import SCORE, Scores, Tier, thousandths


@dataclass(frozen=True, slots=True)
class Task:
    """A task with its preferred nodes; ``is_indifferent`` if it runs as well anywhere (a shuffle).

    A task with neither, all of whose replicas are away, costs c2 everywhere. ``process`` names the
    place that holds its partition in a process, which costs 0. ``weight`` is its input size over
    the usual one.
    """

    preferences: Sequence[Preference] = ()
    is_indifferent: bool = False
    process: str | None = None
    weight: float = 1.0


def wants_of(tasks: Sequence[Task], index: Mapping[str, int], scores: Scores) -> Wants:
    """Return the arrays of tasks; ``index`` says which place a node's (or process's) name is.

    ``index`` holds every node that can be read from, those without free slots too: racks are near
    their replicas. Others are left out. Raises InvalidInput for a weight out of bounds.
    """
    weight = weights_of([task.weight for task in tasks])
    indifferent = thousandths(scores.indifferent)
    first, flat = [0], []
    place: list[int] = []
    score: list[int] = []
    base: list[int] = []
    for task in tasks:
        if task.process is not None and task.process in index:
            place.append(index[task.process])
            score.append(0)
            base.append(NOT_READ)
        for node, cost, lowest in task.preferences:
            if node in index:
                place.append(index[node])
                score.append(cost)
                base.append(lowest)
        first.append(len(place))
        flat.append(indifferent if task.is_indifferent else PREFERS)
    rows = (first, place, score, base, flat, weight)
    return Wants(*(np.array(row, dtype=np.int64) for row in rows))


def wants_over(known: ReplicaMap, blocks: Sequence[str], scores: Scores) -> Wants:
    """Return the arrays of a task for each block; of places the map's numbers are the order.

    "" is the block of a task that runs as well anywhere. As ``wants_of`` with the preferences of
    each, without a look at names.
    """
    first, place, kind = known.entries(blocks)
    base = np.array([scores.of(tier) for tier in Tier], dtype=np.int64)[kind >> 1]
    score = np.where(kind & 1, thousandths(scores.pending), base)
    flat = np.full(len(blocks), PREFERS, dtype=np.int64)
    if "" in blocks:
        indifferent = [i for i, block in enumerate(blocks) if not block]
        flat[indifferent] = thousandths(scores.indifferent)
    weight = np.full(len(blocks), SCORE, dtype=np.int64)
    return Wants(first, place, score, base, flat, weight)
