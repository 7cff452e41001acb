"""Equation 1, and the graph whose cheapest matching is looked for.

The bipartite graph of section 2.2 has an edge from each task to each slot. Here the slots of a node
are one site with a capacity, and what Eq. 1 says of whole racks and of the whole cluster is an edge
to one pool each: reading within the rack costs the same on every node of it. So a task has an edge
for each of its replicas, for each of their racks, and one more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.locality.arrays import NOT_READ, PREFERS, Places, Wants
from tenure.locality.scores import SCORE, Rates
from tenure.model.placing import Bools, Ints


class Graph(NamedTuple):
    """Tasks, sites and what joins them.

    Sites are the q places that have kept slots, 0 to q - 1, the pools of the racks q to
    q + racks - 1, and the pool of all places. Edges ``first[i]`` to ``first[i + 1]`` of task i go
    to ``site`` (e,) at ``cost`` (e,). Sites that are places have ``slots`` (q,), ``term`` (q,),
    which whoever runs there pays too, and are ``place`` (q,) of ``Places``. Pool g has the sites
    ``member[inside[g] : inside[g + 1]]``, by increasing term.
    """

    first: Ints
    site: Ints
    cost: Ints
    slots: Ints
    term: Ints
    place: Ints
    inside: Ints
    member: Ints


def weighed(weight: int, score: int) -> int:
    """Return the cost of a score to a task of this weight, both in thousandths."""
    return weight * score // SCORE


def price_of(places: Places, wants: Wants, rates: Rates, task: int, place: int) -> int:
    """Return C(T_i, R_j) of Eq. 1 in thousandths, the place's own term included.

    The lowest of: the scores of the task's entries at this place; c1 plus the lowest score among
    the replicas of the rack; c2. For a task without preference its flat cost.
    """
    weight, term = wants.weight[task], places.term[place]
    if wants.flat[task] != PREFERS:
        return int(weighed(weight, wants.flat[task]) + term)
    least = rates.across
    for e in range(wants.first[task], wants.first[task + 1]):
        if wants.place[e] == place:
            least = min(least, wants.score[e])
        elif wants.base[e] < NOT_READ and places.rack[wants.place[e]] == places.rack[place]:
            least = min(least, rates.in_rack + wants.base[e])
        if wants.place[e] == place and wants.base[e] < NOT_READ:
            least = min(least, rates.in_rack + wants.base[e])
    return int(weighed(weight, least) + term)


def racks_of(places: Places) -> int:
    """Return how many racks there are."""
    most = -1
    for j in range(places.rack.shape[0]):
        most = max(most, places.rack[j])
    return most + 1


def join(places: Places, wants: Wants, rates: Rates, kept_slots: Ints, kept: Bools) -> Graph:
    """Return the graph of the ``kept`` tasks (n,) over ``kept_slots`` (p,); O(e + p).

    Tasks that are not kept have no edge.
    """
    racks, n = racks_of(places), kept.shape[0]
    place, number = count_sites(kept_slots)
    inside, member = gather(places, number, place.shape[0], racks)
    pools = Pools(place.shape[0], racks, inside)
    site = np.empty(2 * wants.place.shape[0] + n, dtype=np.int64)
    cost = np.empty(site.shape[0], dtype=np.int64)
    first = np.empty(n + 1, dtype=np.int64)
    e = 0
    for i in range(n):
        first[i] = e
        if not kept[i]:
            continue
        if wants.flat[i] != PREFERS:
            site[e], cost[e] = pools.first + racks, weighed(wants.weight[i], wants.flat[i])
            e += 1
            continue
        for a in range(wants.first[i], wants.first[i + 1]):
            if number[wants.place[a]] >= 0:
                site[e] = number[wants.place[a]]
                cost[e] = weighed(wants.weight[i], wants.score[a])
                e += 1
        e = join_pools(places, wants, rates, i, (pools, site, cost, e))
    first[n] = e
    slots, term = kept_slots[place], places.term[place]
    return Graph(first, site[:e], cost[:e], slots, term, place, inside, member)


class Pools(NamedTuple):
    """The site of the first rack's pool, the number of racks, and ``Graph.inside``."""

    first: int
    racks: int
    inside: Ints


#: Pools, the edges' sites and costs, and how many edges there are.
Edges = tuple[Pools, Ints, Ints, int]


def join_pools(places: Places, wants: Wants, rates: Rates, task: int, edges: Edges) -> int:
    """Add a task's edges to the pools of racks and of all places; return how many edges there are.

    Where there is one rack, nobody with a replica in it needs the pool of all places.
    """
    pools, site, cost, begun = edges
    end, weight = begun, wants.weight[task]
    for a in range(wants.first[task], wants.first[task + 1]):
        g = places.rack[wants.place[a]]
        if wants.base[a] < NOT_READ and pools.inside[g + 1] > pools.inside[g]:
            price = weighed(weight, rates.in_rack + wants.base[a])
            end = offer_pool(site, cost, (begun, end), pools.first + g, price)
    if end == begun or pools.racks > 1:
        site[end], cost[end] = pools.first + pools.racks, weighed(weight, rates.across)
        end += 1
    return end


def offer_pool(site: Ints, cost: Ints, span: tuple[int, int], pool: int, price: int) -> int:
    """Add an edge to a pool, or lower the one among edges ``span``; return the new end."""
    begun, end = span
    for e in range(begun, end):
        if site[e] == pool:
            cost[e] = min(cost[e], price)
            return end
    site[end], cost[end] = pool, price
    return end + 1


def count_sites(kept_slots: Ints) -> tuple[Ints, Ints]:
    """Return the places with kept slots (q,), and each place's number among them (p,) or -1."""
    number = np.full(kept_slots.shape[0], -1, dtype=np.int64)
    q = 0
    for j in range(kept_slots.shape[0]):
        if kept_slots[j] > 0:
            number[j] = q
            q += 1
    place = np.empty(q, dtype=np.int64)
    for j in range(kept_slots.shape[0]):
        if number[j] >= 0:
            place[number[j]] = j
    return place, number


def gather(places: Places, number: Ints, sites: int, racks: int) -> tuple[Ints, Ints]:
    """Return ``inside`` (racks + 2,) and ``member`` (2 q,) of ``Graph``."""
    inside = np.zeros(racks + 2, dtype=np.int64)
    for j in range(number.shape[0]):
        if number[j] >= 0:
            inside[places.rack[j] + 1] += 1
    for g in range(racks):
        inside[g + 1] += inside[g]
    inside[racks + 1] = 2 * sites
    member = np.empty(2 * sites, dtype=np.int64)
    fill = inside[:racks].copy()
    last = sites
    for j in places.order:
        if number[j] >= 0:
            member[fill[places.rack[j]]] = member[last] = number[j]
            fill[places.rack[j]] += 1
            last += 1
    return inside, member
