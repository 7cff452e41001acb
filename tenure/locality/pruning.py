"""Slots and tasks that the best matching can do without (ours; the paper's are in ``paper``).

Both rules are by dominance. A slot is dropped only if for each task that could use it there is a
kept slot, not needed otherwise, that costs it no more. A task is dropped only if at least as many
kept tasks as there are slots cost no more than it on every slot. They rely on the order that
``Scores`` checks: a replica's node is no dearer than its rack, a rack no dearer than elsewhere.
"""

from __future__ import annotations

import numpy as np

from tenure.locality.arrays import NOT_READ, PREFERS, Places, Wants
from tenure.locality.costs import racks_of, weighed
from tenure.locality.scores import Rates
from tenure.model.placing import Bools, Ints


def local_tasks(places: Places, wants: Wants) -> Ints:
    """Return how many preferences name each place (p,)."""
    count = np.zeros(places.slots.shape[0], dtype=np.int64)
    for i in range(wants.flat.shape[0]):
        if wants.flat[i] == PREFERS:
            for e in range(wants.first[i], wants.first[i + 1]):
                count[wants.place[e]] += 1
    return count


def rack_tasks(places: Places, wants: Wants, racks: int) -> Ints:
    """Return how many tasks have a replica in each rack (racks,)."""
    count = np.zeros(racks, dtype=np.int64)
    seen = np.full(racks, -1, dtype=np.int64)
    for i in range(wants.flat.shape[0]):
        if wants.flat[i] != PREFERS:
            continue
        for e in range(wants.first[i], wants.first[i + 1]):
            rack = places.rack[wants.place[e]]
            if wants.base[e] < NOT_READ and seen[rack] != i:
                seen[rack] = i
                count[rack] += 1
    return count


def keep_slots(places: Places, wants: Wants) -> Ints:
    """Return how many slots of each place (p,) the matching needs; O(e + p).

    On a place min(free, tasks with a preference for it); in a rack, topped up by increasing term,
    min(free, tasks with a replica in it); in all min(free, tasks), topped up alike. Where terms
    differ a slot counts towards a rack or the whole only if no kept-out one has a lower term.
    """
    racks, n = racks_of(places), wants.flat.shape[0]
    local = local_tasks(places, wants)
    kept = np.minimum(places.slots, local)
    wanted = rack_tasks(places, wants, racks)
    p = kept.shape[0]
    has_terms = p > 0 and places.term[places.order[p - 1]] > places.term[places.order[0]]
    if not has_terms:
        for j in range(p):
            wanted[places.rack[j]] -= kept[j]
    for j in places.order:
        rack = places.rack[j]
        if wanted[rack] > 0 and places.slots[j] > 0:
            wanted[rack] -= top_up(places.slots, kept, j, wanted[rack], has_terms)
    total = n if has_terms else n - np.sum(kept)
    for j in places.order:
        if total <= 0:
            break
        if places.slots[j] > 0:
            total -= top_up(places.slots, kept, j, total, has_terms)
    return kept


def top_up(slots: Ints, kept: Ints, place: int, wanted: int, counts_kept: bool) -> int:
    """Keep slots of a place until ``wanted`` of them count; return how many do.

    ``counts_kept``: those that were kept before count too.
    """
    if counts_kept:
        serving = min(slots[place], wanted)
        kept[place] = max(kept[place], serving)
        return int(serving)
    added = min(slots[place] - kept[place], wanted)
    kept[place] += added
    return int(added)


def keep_tasks(places: Places, wants: Wants, rates: Rates) -> Bools:
    """Return which tasks (n,) the matching needs; O(e + n log n).

    Of each task the lowest and the highest cost over the free slots is known, terms apart (they
    are the same for all tasks). The m tasks with the lowest highest cost are kept, m being the
    number of slots, and so is each that costs less than the highest of those somewhere.
    """
    n, slots = wants.flat.shape[0], np.sum(places.slots)
    kept = np.ones(n, dtype=np.bool_)
    if n <= slots:
        return kept
    if slots == 0:
        return ~kept
    low, high = span(places, wants, rates)
    chosen = np.argsort(high, kind="mergesort")[:slots]
    bar = high[chosen[slots - 1]]
    for i in range(n):
        kept[i] = low[i] < bar
    for i in chosen:
        kept[i] = True
    return kept


def span(places: Places, wants: Wants, rates: Rates) -> tuple[Ints, Ints]:
    """Return the lowest and highest cost (n,) of each task over the free slots, terms apart."""
    racks, n = racks_of(places), wants.flat.shape[0]
    is_open = np.zeros(racks, dtype=np.bool_)
    for j in range(places.slots.shape[0]):
        if places.slots[j] > 0:
            is_open[places.rack[j]] = True
    nearest = np.full(racks, NOT_READ, dtype=np.int64)
    low, high = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    for i in range(n):
        if wants.flat[i] != PREFERS:
            low[i] = high[i] = weighed(wants.weight[i], wants.flat[i])
            continue
        least = rates.across
        for e in range(wants.first[i], wants.first[i + 1]):
            rack = places.rack[wants.place[e]]
            nearest[rack] = min(nearest[rack], wants.base[e])
            if places.slots[wants.place[e]] > 0:
                least = min(least, wants.score[e])
        near, far = reach(places, wants, i, is_open, nearest)
        least = min(least, rates.in_rack + near)
        most = rates.across if far == NOT_READ else rates.in_rack + far
        low[i], high[i] = weighed(wants.weight[i], least), weighed(wants.weight[i], most)
    return low, high


def reach(
    places: Places, wants: Wants, task: int, is_open: Bools, nearest: Ints
) -> tuple[int, int]:
    """Return a task's lowest and highest score among open racks; the latter NOT_READ if one is far.

    ``nearest`` (racks,) holds the lowest score in each of its racks, and is cleared.
    """
    near, far, reached = NOT_READ, 0, 0
    for e in range(wants.first[task], wants.first[task + 1]):
        rack = places.rack[wants.place[e]]
        if is_open[rack] and nearest[rack] < NOT_READ:
            near, far = min(near, nearest[rack]), max(far, nearest[rack])
            reached += 1
        nearest[rack] = NOT_READ
    return near, far if reached == np.sum(is_open) else NOT_READ


KERNELS = (local_tasks, rack_tasks, top_up, keep_slots, reach, span, keep_tasks)
