"""The schedulers that Trident is compared with: each fills one slot after another, node by node.

They see what the paper says they see (sections 5.2 and 6), and know no costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.locality.arrays import NOT_READ, PREFERS, Places, Wants
from tenure.locality.matching import FAR, NOWHERE
from tenure.model.placing import Bools, Ints

#: Hadoop's and Spark's own: local to the node, without preference, in the rack, elsewhere.
LOCALITY_FIRST = 0
#: Local memory, SSD, HDD, then remote HDD, SSD, memory.
H_SCHEDULER = 1
#: In memory here; on the node and nowhere in memory, SSD before HDD; else as the first, with delay.
QUARTET = 2
RULES = ("locality-first", "h-scheduler", "quartet")
#: Between the steps of a rank; above any score.
STEP = 1 << 42


class Rule(NamedTuple):
    """``kind`` of the above; ``memory`` the score, in thousandths, up to which a copy is in memory.

    ``has_waited`` (n,): tasks that Quartet need not hold back for a local slot any longer.
    """

    kind: int
    memory: int
    has_waited: Bools


def fill_slots(places: Places, wants: Wants, rule: Rule) -> Ints:
    """Return the place of each task (n,), NOWHERE without one; O(slots e).

    Slots are filled in the order of places; each takes the first of the tasks with the best rank.
    """
    n = wants.flat.shape[0]
    at = np.full(n, NOWHERE, dtype=np.int64)
    left = n
    for place in range(places.slots.shape[0]):
        for _ in range(places.slots[place]):
            best, chosen = FAR, NOWHERE
            for task in range(n):
                if at[task] == NOWHERE:
                    found = rank(places, wants, rule, task, place)
                    if found < best:
                        best, chosen = found, task
            if chosen == NOWHERE or left == 0:
                break
            at[chosen] = place
            left -= 1
    return at


def rank(places: Places, wants: Wants, rule: Rule, task: int, place: int) -> int:
    """Return how well a scheduler likes a task on a place, low is good; FAR: not now."""
    if wants.flat[task] != PREFERS:
        return STEP * 4
    local, fastest, is_near = NOT_READ, NOT_READ, False
    for e in range(wants.first[task], wants.first[task + 1]):
        if wants.place[e] == place:
            local = min(local, wants.score[e])
        fastest = min(fastest, wants.base[e])
        is_near = is_near or places.rack[wants.place[e]] == places.rack[place]
    if rule.kind == H_SCHEDULER:
        return int(local) if local < NOT_READ else STEP * 5 - int(fastest)
    if local < NOT_READ:
        return rank_local(rule, local, fastest)
    if rule.kind == QUARTET and not rule.has_waited[task]:
        return FAR
    return STEP * 5 if is_near else STEP * 6


def rank_local(rule: Rule, local: int, fastest: int) -> int:
    """Return how well locality-first or Quartet like a task whose block is on the node.

    ``local`` is its score there, ``fastest`` the lowest of its copies anywhere.
    """
    if rule.kind == LOCALITY_FIRST or local <= rule.memory:
        return 0
    return STEP + int(local) if fastest > rule.memory else STEP * 3
