"""Slots and tasks that the best matching can do without (ours; the paper's are in ``paper``).

Both rules are by dominance. A slot is dropped only if for each task that could use it there is a
kept slot, not needed otherwise, that costs it no more. A task is dropped only if in every rack at
least as many kept tasks as there are slots cost no more than it on every slot. They rely on the
order that ``Scores`` checks: a replica's node is no dearer than its rack, a rack no dearer than
elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

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
    """Return how many tasks have an entry in each rack (racks,).

    Those with their partition in a process there count: the slot that they take is another's too.
    """
    count = np.zeros(racks, dtype=np.int64)
    seen = np.full(racks, -1, dtype=np.int64)
    for i in range(wants.flat.shape[0]):
        if wants.flat[i] != PREFERS:
            continue
        for e in range(wants.first[i], wants.first[i + 1]):
            rack = places.rack[wants.place[e]]
            if seen[rack] != i:
                seen[rack] = i
                count[rack] += 1
    return count


def keep_slots(places: Places, wants: Wants) -> Ints:
    """Return how many slots of each place (p,) the matching needs; O(e + p log n).

    On a place min(free, tasks with a preference for it); in a rack, topped up by increasing term,
    min(free, tasks with an entry in it); in all min(free, tasks), topped up alike. Where terms
    differ a slot counts towards a rack or the whole only if no kept-out one has a lower term; where
    they do not, what is topped up is spread, for those who run anywhere share devices and links.
    """
    racks, n = racks_of(places), wants.flat.shape[0]
    kept = np.minimum(places.slots, local_tasks(places, wants))
    wanted = rack_tasks(places, wants, racks)
    p = kept.shape[0]
    if p > 0 and places.term[places.order[p - 1]] > places.term[places.order[0]]:
        top_up(places, kept, places.rack, wanted)
        top_up(places, kept, np.zeros(p, dtype=np.int64), np.array([n], dtype=np.int64))
        return kept
    for j in range(p):
        wanted[places.rack[j]] -= kept[j]
    spread(places, kept, places.rack, wanted)
    left = np.array([n - np.sum(kept)], dtype=np.int64)
    spread(places, kept, np.zeros(p, dtype=np.int64), left)
    return kept


def top_up(places: Places, kept: Ints, group: Ints, wanted: Ints) -> None:
    """Keep the ``wanted`` (g,) slots of each group of places with the lowest terms.

    ``group`` (p,) is that of each place. Slots that are kept already count.
    """
    for j in places.order:
        if wanted[group[j]] > 0:
            serving = min(places.slots[j], wanted[group[j]])
            kept[j] = max(kept[j], serving)
            wanted[group[j]] -= serving


def spread(places: Places, kept: Ints, group: Ints, wanted: Ints) -> None:
    """Keep ``wanted`` (g,) more slots of each group of places, as evenly as they are free."""
    p, g = kept.shape[0], wanted.shape[0]
    opened = np.empty(g, dtype=np.int64)
    is_served = False
    while not is_served:
        is_served = True
        opened[:] = 0
        for j in range(p):
            if kept[j] < places.slots[j] and wanted[group[j]] > 0:
                opened[group[j]] += 1
        share = np.maximum(1, wanted // np.maximum(1, opened))
        for j in range(p):
            mine = group[j]
            more = min(places.slots[j] - kept[j], share[mine], wanted[mine])
            if more > 0:
                kept[j] += more
                wanted[mine] -= more
                is_served = False


def keep_tasks(places: Places, wants: Wants, rates: Rates) -> Bools:
    """Return which tasks (n,) the matching needs, m slots being free; O(n log n + e log e).

    A largest matching uses m of the n > m tasks. So a task may be dropped if for each rack with
    free slots at least m kept ones cost no more on any slot there than it does on its best: one of
    them is left over, and can have its slot. Kept are the m that cost least where they have no
    replica, of each such rack the m of its own tasks whose highest cost there is lowest, and
    whoever costs less somewhere than the last of these (terms apart: they are the same for all).
    """
    n, slots = wants.flat.shape[0], int(np.sum(places.slots))
    kept = np.ones(n, dtype=np.bool_)
    if n <= slots:
        return kept
    kept[:] = False
    if slots == 0:
        return kept
    far = np.empty(n, dtype=np.int64)
    for i in range(n):
        score = rates.across if wants.flat[i] == PREFERS else wants.flat[i]
        far[i] = weighed(wants.weight[i], score)
    chosen = np.argsort(far, kind="mergesort")[:slots]
    kept[chosen] = True
    bar = np.full(racks_of(places), far[chosen[slots - 1]], dtype=np.int64)
    near = spans(places, wants, rates)
    lower_bars(near, slots, bar, kept)
    for k in range(near.task.shape[0]):
        if near.low[k] < bar[near.rack[k]]:
            kept[near.task[k]] = True
    return kept


class Spans(NamedTuple):
    """Lowest and highest cost (k,) of a task over a rack's free slots, terms apart.

    A row for each task and each rack with an entry of it and a free slot, task by task.
    """

    task: Ints
    rack: Ints
    low: Ints
    high: Ints


def spans(places: Places, wants: Wants, rates: Rates) -> Spans:
    """Return the span of each task in each rack in which it has an entry and a slot is free."""
    n, e = wants.flat.shape[0], wants.place.shape[0]
    is_open = open_places(places)
    task, rack = np.empty(e, dtype=np.int64), np.empty(e, dtype=np.int64)
    low, high = np.empty(e, dtype=np.int64), np.empty(e, dtype=np.int64)
    end = 0
    for i in range(n):
        if wants.flat[i] != PREFERS:
            continue
        begun = end
        for a in range(wants.first[i], wants.first[i + 1]):
            g = places.rack[wants.place[a]]
            if is_open[g] > 0 and not is_listed(rack, begun, end, g):
                least, most = reach(places, wants, rates, (i, g), is_open[g])
                task[end], rack[end] = i, g
                low[end], high[end] = (
                    weighed(wants.weight[i], least),
                    weighed(wants.weight[i], most),
                )
                end += 1
    return Spans(task[:end], rack[:end], low[:end], high[:end])


def open_places(places: Places) -> Ints:
    """Return how many places of each rack (racks,) have free slots."""
    count = np.zeros(racks_of(places), dtype=np.int64)
    for j in range(places.slots.shape[0]):
        if places.slots[j] > 0:
            count[places.rack[j]] += 1
    return count


def is_listed(rack: Ints, begun: int, end: int, wanted: int) -> bool:
    """Return whether a rack is among rows ``begun`` to ``end``."""
    found = False
    for k in range(begun, end):
        found = found or rack[k] == wanted
    return found


def reach(
    places: Places, wants: Wants, rates: Rates, where: tuple[int, int], opened: int
) -> tuple[int, int]:
    """Return the lowest and highest score of a task in a rack, ``where``, over its open places.

    ``opened`` says how many these are. Where the task has an entry on each of them the dearest of
    these is the highest, else what reading within the rack, or from another, costs.
    """
    task, rack = where
    near, least, most, held = NOT_READ, rates.across, 0, 0
    for a in range(wants.first[task], wants.first[task + 1]):
        place = wants.place[a]
        if places.rack[place] != rack:
            continue
        near = min(near, wants.base[a])
        if places.slots[place] > 0:
            least, most = min(least, wants.score[a]), max(most, wants.score[a])
            if not is_listed(wants.place, wants.first[task], a, place):
                held += 1
    elsewhere = rates.across if near == NOT_READ else rates.in_rack + near
    return min(least, elsewhere), most if held == opened else elsewhere


def lower_bars(near: Spans, slots: int, bar: Ints, kept: Bools) -> None:
    """Keep the ``slots`` best tasks of each rack that has so many, and lower its bar (racks,)."""
    rows = np.argsort(near.high, kind="mergesort")
    count = np.zeros(bar.shape[0], dtype=np.int64)
    for k in range(near.rack.shape[0]):
        count[near.rack[k]] += 1
    taken = np.zeros(bar.shape[0], dtype=np.int64)
    for k in rows:
        g = near.rack[k]
        if count[g] >= slots and taken[g] < slots:
            kept[near.task[k]] = True
            taken[g] += 1
            if taken[g] == slots:
                bar[g] = min(bar[g], near.high[k])
