"""Where executors of a job go among nodes that cost it no more: beside its blocks (ours).

A policy chooses nodes by what they cost. Where others cost no more, as free nodes mostly do, the
job's blocks decide: cost first, then tiers. What is on a node that costs nothing goes one by one,
what is on one that costs something as a whole, for one node costs the same for one executor as for
many. Each goes to the open node, or one that costs no more than its own, on which the blocks that
nobody has got yet are cheapest to read. That is greedy; whether it is better than the policy's own
is for the cheapest matchings of both to say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.locality.arrays import NOT_READ, PREFERS, Places, Wants
from tenure.locality.scores import SCORE, Rates
from tenure.model.placing import Bools, Ints

#: Of a node that costs nothing so many executors at most are moved one by one, else all together.
MOST_APART = 64


class Options(NamedTuple):
    """Nodes (p,): executors of a job that fit, those chosen, what using it costs, whether to stay.

    ``room`` counts those that are ``chosen``; those on a node that ``stays`` are not moved.
    """

    room: Ints
    chosen: Ints
    price: Ints
    stays: Bools


def table_of(places: Places, wants: Wants, rates: Rates) -> Ints:
    """Return what each task costs at each place by Eq. 1, (n, p) thousandths.

    As ``costs.price_of``, but for tasks with preferences alone, and terms of places left out.
    """
    n, p = wants.flat.shape[0], places.rack.shape[0]
    table = np.full((n, p), rates.across, dtype=np.int64)
    for i in range(n):
        if wants.flat[i] != PREFERS:
            table[i] = wants.flat[i]
        for e in range(wants.first[i], wants.first[i + 1]):
            j = wants.place[e]
            if wants.base[e] < NOT_READ:
                is_near = places.rack == places.rack[j]
                table[i, is_near] = np.minimum(table[i, is_near], rates.in_rack + wants.base[e])
            table[i, j] = min(table[i, j], wants.score[e])
    scaled: Ints = table * wants.weight[:, None] // SCORE
    return scaled


def nearest(table: Ints, options: Options) -> Ints:
    """Return executors per node (p,), as many as were chosen, that read ``table`` (n, p) cheaply.

    The sum of prices of the nodes used is no more than that of those chosen: each of those that
    cost something is exchanged for one that costs no more, and no other is opened. Each executor
    reads an equal part of the tasks, give or take one. Equal ones stay where they are. O(executors
    x n x p x log n).
    """
    room, chosen, price, _ = options
    blocks, executors = table.shape[0], int(chosen.sum())
    left, counts = room - chosen, np.zeros_like(chosen)
    rest, done = np.ones(blocks, dtype=np.bool_), 0
    for size, own in _units(options):
        left[own] += size
        share = (done + size) * blocks // executors - done * blocks // executors
        fits = (left >= size) & ((counts > 0) | (price <= price[own]))
        some = np.array([own]) if options.stays[own] else np.flatnonzero(fits)
        cost = np.sort(table[np.ix_(rest, some)], axis=0)[:share].sum(axis=0)
        best = int(some[np.lexsort((some, some != own, cost))[0]])
        mine = np.flatnonzero(rest)
        rest[mine[np.argsort(table[mine, best], kind="stable")][:share]] = False
        counts[best] += size
        left[best] -= size
        done += size
    return counts


def _units(options: Options) -> list[tuple[int, int]]:
    """Return what moves together, as (executors, node): the largest first."""
    units = []
    for j in np.flatnonzero(options.chosen).tolist():
        count = int(options.chosen[j])
        is_apart = options.price[j] == 0 and not options.stays[j] and count <= MOST_APART
        units += [(1, j)] * count if is_apart else [(count, j)]
    return sorted(units, key=lambda unit: (-unit[0], unit[1]))
