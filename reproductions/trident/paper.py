"""The paper's pruning, Algorithms 1 and 2: a comparison, for both may prune the best matching away.

Algorithm 1 loses it where there are several racks (it keeps slots of replicas' nodes alone, so that
no slot of the right rack may be left), Algorithm 2 even with one (a task that it drops may read
faster within the rack than one it keeps) and it drops tasks without preference. Slips of the
pseudo-code are mended: slots that were kept already are not added again (line 18), and whether
there are enough is asked after the loop.
"""

from __future__ import annotations

import numpy as np

from tenure.locality.arrays import Places, Wants
from tenure.locality.costs import join
from tenure.locality.matching import match
from tenure.locality.pruning import local_tasks
from tenure.locality.schedule import Matching
from tenure.locality.scores import Rates
from tenure.model.placing import Bools, Ints

#: d, the default replication factor of the file system.
REPLICAS = 3
#: What is pruned before the matching: by Algorithms 1 and 2, or nothing.
PAPER, NOTHING = 0, 1


def schedule_pruned(places: Places, wants: Wants, rates: Rates, pruning: int) -> Matching:
    """Return a largest matching as ``tenure.locality.schedule`` does, PAPER or NOTHING pruned."""
    kept_slots, kept = places.slots.copy(), np.ones(wants.flat.shape[0], dtype=np.bool_)
    if pruning == PAPER:
        kept_slots, kept = paper_slots(places, wants), paper_tasks(places, wants)
    at, cost = match(join(places, wants, rates, kept_slots, kept))
    return Matching(at, cost, kept_slots, int(np.sum(kept)))


def paper_slots(places: Places, wants: Wants) -> Ints:
    """Return how many slots of each place (p,) Algorithm 1 keeps; O(e + p)."""
    n = wants.flat.shape[0]
    if np.sum(places.slots) < REPLICAS * n:
        return places.slots.copy()
    kept = np.minimum(places.slots, local_tasks(places, wants))
    return kept if np.sum(kept) >= n else places.slots.copy()


def paper_tasks(places: Places, wants: Wants) -> Bools:
    """Return which tasks (n,) Algorithm 2 keeps; O(e)."""
    n, slots = wants.flat.shape[0], np.sum(places.slots)
    kept = np.zeros(n, dtype=np.bool_)
    for i in range(n):
        for e in range(wants.first[i], wants.first[i + 1]):
            if places.slots[wants.place[e]] > 0:
                kept[i] = True
    if n < REPLICAS * slots or np.sum(kept) < slots:
        kept[:] = True
    return kept
