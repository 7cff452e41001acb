"""Resource allocation over tiers: requests with preference maps, and Algorithm 3 (section 3).

Requests are a lossy summary: who asked for what is not in them. So containers are allocated by
their costs alone, and the matching puts tasks on them afterwards. Slips of Algorithm 3 are mended:
entries of a preference map that count zero are skipped, no container is offered twice, and a rack's
map is used up once over its nodes, not once on each. Of containers that cost the same the first on
each node come first, then the second: taken node by node, they would leave tasks without a
container beside their block, which Algorithm 3's sort leaves open.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.locality.arrays import NOT_READ, PREFERS, Places, Wants
from tenure.locality.costs import racks_of
from tenure.locality.scores import Rates
from tenure.model.placing import Ints

#: For ``offer``: without limit.
ALL = 1 << 30


class Preferences(NamedTuple):
    """Preference maps: request r asks for ``many`` containers (e,) at each ``score`` (e,).

    Its entries are ``first[r]`` to ``first[r + 1]``, by increasing score, in thousandths.
    """

    first: Ints
    score: Ints
    many: Ints


class Requests(NamedTuple):
    """What an application asks for: per place (p requests), per rack, and in all (section 3.2)."""

    places: Preferences
    racks: Preferences
    total: int


class Containers(NamedTuple):
    """Containers (k,) by increasing cost: the place, and the assignment cost in thousandths."""

    place: Ints
    cost: Ints


def requests_of(places: Places, wants: Wants) -> Requests:
    """Return the requests of tasks; in a rack each counts once, with its lowest score there."""
    p, racks, n = places.slots.shape[0], racks_of(places), wants.flat.shape[0]
    e = wants.place.shape[0]
    owner, near, lowest = np.empty(e, np.int64), np.empty(e, np.int64), np.empty(e, np.int64)
    seen = np.full(racks, -1, dtype=np.int64)
    end = 0
    for i in range(n):
        begun = end
        for a in range(wants.first[i], wants.first[i + 1]):
            rack = places.rack[wants.place[a]]
            if wants.flat[i] != PREFERS or wants.base[a] >= NOT_READ:
                continue
            if seen[rack] < begun:
                seen[rack], near[end], lowest[end] = end, rack, wants.base[a]
                end += 1
            lowest[seen[rack]] = min(lowest[seen[rack]], wants.base[a])
        for a in range(wants.first[i], wants.first[i + 1]):
            owner[a] = wants.place[a] if wants.flat[i] == PREFERS else p
    of_places = summed(owner, wants.score, p)
    return Requests(of_places, summed(near[:end], lowest[:end], racks), n)


def summed(owner: Ints, score: Ints, requests: int) -> Preferences:
    """Return preference maps of rows with an owner below ``requests``, and a score each."""
    rows = np.argsort(score, kind="mergesort")
    rows = rows[np.argsort(owner[rows], kind="mergesort")]
    first = np.zeros(requests + 1, dtype=np.int64)
    level, count = np.empty(rows.shape[0], np.int64), np.empty(rows.shape[0], np.int64)
    end, last = 0, -1
    for row in rows:
        if owner[row] >= requests:
            break
        if owner[row] == last and level[end - 1] == score[row]:
            count[end - 1] += 1
            continue
        last, level[end], count[end] = owner[row], score[row], 1
        end += 1
        first[last + 1] += 1
    for r in range(requests):
        first[r + 1] += first[r]
    return Preferences(first, level[:end], count[:end])


def allocate(places: Places, requests: Requests, rates: Rates, most: int) -> Containers:
    """Return at most ``most`` containers on free slots, the cheapest by the requests (Algorithm 3).

    Node requests offer what fits on their node; racks (at c1 more) and then any node (at c2) offer
    only if that is not enough. O(k log k + p), k being what is offered.
    """
    free = places.slots.copy()
    total = min(requests.total, most, int(np.sum(free)))
    room = int(np.sum(requests.places.many) + np.sum(requests.racks.many)) + max(total, 0)
    offered = Containers(np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64))
    k = 0
    left = requests.places.many.copy()
    for j in range(free.shape[0]):
        k = offer(requests.places, left, (j, j, 0), free, (offered, k, ALL))
    left = requests.racks.many.copy()
    before = -1
    while before < k < total:  # a container a node in each round, so that they are spread
        before = k
        for j in range(free.shape[0]):
            if k < total:
                where = (places.rack[j], j, rates.in_rack)
                k = offer(requests.racks, left, where, free, (offered, k, 1))
    while k < total:
        for j in range(free.shape[0]):
            if k < total and free[j] > 0:
                offered.place[k], offered.cost[k] = j, rates.across
                free[j] -= 1
                k += 1
    turn = np.empty(k, dtype=np.int64)
    seen = np.zeros(free.shape[0], dtype=np.int64)
    for one in range(k):
        seen[offered.place[one]] += 1
        turn[one] = seen[offered.place[one]]
    spread = np.argsort(turn, kind="mergesort")
    best = spread[np.argsort(offered.cost[:k][spread], kind="mergesort")][:total]
    return Containers(offered.place[best], offered.cost[best])


def offer(
    maps: Preferences,
    left: Ints,
    where: tuple[int, int, int],
    free: Ints,
    offered: tuple[Containers, int, int],
) -> int:
    """Offer a place's free slots to a request, lowest score first; return how many there are now.

    ``where`` is the request, the place, and what reading from there adds to a score; ``offered``
    the containers so far, how many they are, and how many more there may be at most.
    """
    request, place, more = where
    made, begun, most = offered
    k = begun
    for entry in range(maps.first[request], maps.first[request + 1]):
        while left[entry] > 0 and free[place] > 0 and k < begun + most:
            made.place[k], made.cost[k] = place, maps.score[entry] + more
            left[entry] -= 1
            free[place] -= 1
            k += 1
    return k
