"""Which tasks begin now beside a copy, with what is to begin later in view (ours).

Of tasks that a free slot could begin at the same cost it matters which one does: the others are
left to slots that come later, and each of these needs a task with a copy there. So both are matched
together, and only what got a slot that is free now begins. Lexicographically: as many tasks as
possible get a slot beside a copy, as many of these as possible now or soon, at the lowest sum of
scores, in which those of now weigh a little more: where the sum is the same the cheapest begin
first. The first two do not conflict: the slots that a matching can fill are a matroid, so those of
now which can be filled together are part of a largest matching of all.

A slot that comes soon is worth waiting for where the copy there is faster by more than WAIT, so
that no task reads a disk beside room that is idle for a moment while memory holds its block
elsewhere (delay scheduling, Zaharia et al. 2010, by tier): it counts as one of now at a score that
is higher by WAIT.

Only edges to copies are in the graph, there are no pools: reading from elsewhere is not matched.
"""

from __future__ import annotations

import numpy as np

from tenure.locality.arrays import Places, Wants
from tenure.locality.costs import Graph, weighed
from tenure.locality.matching import NOWHERE, match
from tenure.locality.pruning import local_tasks
from tenure.locality.scores import SCORE
from tenure.model.placing import Ints

#: What a score counts now, and later.
NOW, LATER = 17, 16
#: The score that a task's copy has to be faster for a slot that comes soon.
WAIT = SCORE


def match_now(places: Places, wants: Wants, later: Ints, soon: Ints) -> tuple[Ints, Ints]:
    """Return the place (n,) where each task begins now, NOWHERE for others, and its cost (n,).

    ``soon`` (p,) slots of each place come after those that are free now, and ``later`` (p,) after
    these. Terms of places and racks play no part, nor do tasks without preference. Costs are as for
    ``matching.match``.
    """
    graph = join_local(places, wants, later, soon)
    at, cost = match(graph)
    for i in range(at.shape[0]):
        if at[i] >= places.slots.shape[0]:
            at[i] = NOWHERE
        cost[i] = cost[i] // NOW if at[i] != NOWHERE else 0
    return at, cost


def priced(price: int, when: int) -> int:
    """Return what a price counts now, soon (1; beside the site's term) and later (2).

    Soon it is less than now, so that the cheapest begin now, and with the term always more: nobody
    waits for a copy of the same speed.
    """
    if when == 0:
        return NOW * price
    return NOW * price - min(price, LATER * WAIT) if when == 1 else LATER * price


def join_local(places: Places, wants: Wants, later: Ints, soon: Ints) -> Graph:
    """Return the graph of tasks and the slots beside their copies; O(e + p).

    ``Graph.place`` is the place of slots that are free now, p more than it of those that come soon,
    and 2 p more of later ones, whose term outweighs all costs together.
    """
    p, n, entries = later.shape[0], wants.flat.shape[0], wants.place.shape[0]
    wanted = local_tasks(places, wants)
    free = np.concatenate((places.slots, soon, later))
    number = np.full(3 * p, NOWHERE, dtype=np.int64)
    place, slots = np.empty(3 * p, dtype=np.int64), np.empty(3 * p, dtype=np.int64)
    q = 0
    for j in range(3 * p):
        if min(free[j], wanted[j % p]) > 0:
            number[j], place[q], slots[q] = q, j, min(free[j], wanted[j % p])
            q += 1
    first = np.empty(n + 1, dtype=np.int64)
    site, cost = np.empty(3 * entries, dtype=np.int64), np.empty(3 * entries, dtype=np.int64)
    e, most = 0, NOW * WAIT
    for i in range(n):
        first[i] = e
        for a in range(wants.first[i], wants.first[i + 1]):
            price = weighed(wants.weight[i], wants.score[a])
            most = max(most, NOW * (price + WAIT))
            for when in range(3):
                j = when * p + wants.place[a]
                if number[j] >= 0:
                    site[e], cost[e] = number[j], priced(price, when)
                    e += 1
    first[n] = e
    term = np.zeros(q, dtype=np.int64)
    for s in range(q):
        if place[s] >= p:
            term[s] = n * most + 1 if place[s] >= 2 * p else NOW * WAIT
    no_pools = np.zeros(1, dtype=np.int64)
    none = np.empty(0, dtype=np.int64)
    return Graph(first, site[:e], cost[:e], slots[:q], term, place[:q], no_pools, none)
