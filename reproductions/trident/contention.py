"""Contention: readers that share a node's devices, as costs that grow with their number (ours).

Eq. 1 prices each task as if it read alone, so that the cheapest matching may crowd one node whose
copies are fast while slower ones idle elsewhere. Here each slot of a node is a place of its own,
and reading from its devices costs more on the second than on the first: costs that rise are taken
lowest first, so the matching of ``schedule`` stays exact. It cannot tell a node's devices apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.locality.arrays import NOT_READ, Places, Wants
from tenure.locality.schedule import Matching, schedule
from tenure.locality.scores import SCORE, Rates
from tenure.model.placing import Ints


class Contention(NamedTuple):
    """``readers`` (p,) that read on each place already; ``share`` by which each makes one slower.

    In thousandths of the reading's own cost: 1000 where two readers of a device take twice as long.
    """

    readers: Ints
    share: int


def schedule_contended(
    places: Places, wants: Wants, rates: Rates, contention: Contention
) -> Matching:
    """Return the cheapest of the largest matchings where readers slow each other down.

    Costs are those with contention. O(slots) more places and entries than ``schedule``.
    """
    n = wants.flat.shape[0]
    first, number, owner = slots_of(np.minimum(places.slots, n))
    parts = Places(
        np.minimum(1, places.slots)[owner],
        places.rack[owner],
        places.term[owner],
        np.argsort(places.term[owner], kind="mergesort"),
    )
    matching = schedule(parts, grown(wants, rates, (first, number), contention), rates)
    kept = np.zeros(places.slots.shape[0], dtype=np.int64)
    for k in range(owner.shape[0]):
        kept[owner[k]] += matching.kept_slots[k]
    at = matching.place.copy()
    for i in range(n):
        if at[i] >= 0:
            at[i] = owner[at[i]]
    return Matching(at, matching.cost, kept, matching.tasks)


def slots_of(slots: Ints) -> tuple[Ints, Ints, Ints]:
    """Return a number for each of the ``slots`` (p,): the first ones of all places come first.

    ``number[first[j] : first[j + 1]]`` are those of place j, ``owner`` (k,) is the place of each. A
    place without slots has one number: its copies are read from elsewhere.
    """
    p = slots.shape[0]
    first = np.zeros(p + 1, dtype=np.int64)
    most = 1
    for j in range(p):
        first[j + 1] = first[j] + max(1, slots[j])
        most = max(most, slots[j])
    number, owner = np.empty(first[p], dtype=np.int64), np.empty(first[p], dtype=np.int64)
    by_level = np.zeros(most + 1, dtype=np.int64)
    for j in range(p):
        for level in range(first[j + 1] - first[j]):
            by_level[level + 1] += 1
    for level in range(most):
        by_level[level + 1] += by_level[level]
    for j in range(p):
        for level in range(first[j + 1] - first[j]):
            k = by_level[level]
            number[first[j] + level], owner[k] = k, j
            by_level[level] += 1
    return first, number, owner


def grown(wants: Wants, rates: Rates, slots: tuple[Ints, Ints], contention: Contention) -> Wants:
    """Return the entries of tasks for each slot of their places, dearer from one to the next.

    ``slots`` are ``first`` and ``number`` of ``slots_of``. None is dearer than reading the copy
    within the rack, which keeps the order that pruning needs.
    """
    first, number = slots
    n = wants.flat.shape[0]
    e = 0
    for place in wants.place:
        e += first[place + 1] - first[place]
    begins = np.empty(n + 1, dtype=np.int64)
    at, score = np.empty(e, dtype=np.int64), np.empty(e, dtype=np.int64)
    base = np.empty(e, dtype=np.int64)
    end = 0
    for i in range(n):
        begins[i] = end
        for a in range(wants.first[i], wants.first[i + 1]):
            place, own = wants.place[a], wants.score[a]
            most = rates.in_rack + (own if wants.base[a] >= NOT_READ else wants.base[a])
            for level in range(first[place + 1] - first[place]):
                more = own * contention.share // SCORE * (contention.readers[place] + level)
                at[end], base[end] = number[first[place] + level], wants.base[a]
                score[end] = max(own, min(own + more, most))
                end += 1
    begins[n] = end
    return Wants(begins, at, score, base, wants.flat, wants.weight)
