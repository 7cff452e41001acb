"""Policy ``exact``: the optimum of Eq. 16 for one job, by dynamic programming (ours).

Theory of operation. Executors are identical, so a node offers ``room`` slots at one marginal cost,
however many are used: the optimum is a minimum-cost knapsack cover of E. Its key is lexical and
adds up over nodes: cost; the core-time for which nodes are kept on longer, which decides where
nodes are free of charge; the free cores of the used nodes, whose least leaves the fewest over.
Names decide the rest. Executors left to choose among the nodes of the set go where the node is off
soonest, so that the room left over is on the node that stays on longest.

All executors start with the slowest boot B, so the time on a node is B + T_C: the cover is solved
for each distinct boot time with the nodes that need no longer. A cover that did not need its B is
found again, no dearer, at a smaller one. Likewise one over both sites, with T_C^H, that uses local
nodes alone is found no dearer over local nodes with T_C^L, which is never longer.

Most nodes cannot be in the optimum: of those with the same number of slots a (at most E) only the
ceil(E / a) best can, so at most E (2 + ln E) nodes come into the dynamic programme.
"""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Fleet, Need
from tenure.placement.cost import ANYWHERE, ON_LOCAL, extension_us, money, offer
from tenure.placement.order import comes_before, fill

#: Cost in nano-dollars, core-time in thousandths of a core times milliseconds (a year of 250,000
#: cores fits), free thousandths of cores.
KEYS = 3
MS = 1_000


def exact(fleet: Fleet, need: Need, room: Ints, limit_us: int) -> Ints:
    """Return executors per node (n,) at the least cost, all zeros if they do not all fit in time.

    ``room`` (n,) is how many fit each node now (``cost.slots``). O(n x E) for each boot time.
    """
    counts = np.zeros(room.shape[0], dtype=np.int64)
    best = np.full(KEYS, FOREVER_US, dtype=np.int64)
    for sites, run_us in ((ON_LOCAL, need.local_us), (ANYWHERE, need.hybrid_us)):
        usable = offer(fleet, room, sites, run_us, limit_us)
        boot_us = next_boot_us(fleet, usable, -1)
        while boot_us < FOREVER_US:
            usable_now = np.where(fleet.boot_us <= boot_us, usable, 0)
            if np.sum(usable_now) >= need.executors:
                found = cover(fleet, usable_now, boot_us + run_us, need.executors, best)
                counts = found if np.sum(found) > 0 else counts
            boot_us = next_boot_us(fleet, usable, boot_us)
    return counts


def next_boot_us(fleet: Fleet, usable: Ints, after_us: int) -> int:
    """Return the shortest boot over ``after_us`` of nodes that are usable, FOREVER_US if none."""
    least_us = FOREVER_US
    for j in range(usable.shape[0]):
        if usable[j] > 0 and after_us < fleet.boot_us[j] < least_us:
            least_us = fleet.boot_us[j]
    return least_us


def cover(fleet: Fleet, usable: Ints, until_us: int, executors: int, best: Ints) -> Ints:
    """Return the cover (n,) with the least key, all zeros if that is no less than ``best`` (3,).

    ``usable`` (n,) holds ``executors``; ``until_us`` is when they would end, from now. ``best``
    becomes the key that was found.
    """
    keys = weigh(fleet, usable, until_us)
    nodes = shortlist(keys, usable, executors)
    least = np.full((executors + 1, KEYS), FOREVER_US, dtype=np.int64)
    least[0] = 0
    is_taken = np.zeros((nodes.shape[0], executors + 1), dtype=np.bool_)
    for i in range(nodes.shape[0] - 1, -1, -1):
        take_in(keys[:, nodes[i]], usable[nodes[i]], least, is_taken[i])
    chosen = np.zeros(usable.shape[0], dtype=np.int64)
    if not is_less(least[executors], best):
        return chosen
    best[:] = least[executors]
    left = executors
    for i in range(nodes.shape[0]):
        if is_taken[i, left]:
            chosen[nodes[i]] = usable[nodes[i]]
            left = max(0, left - usable[nodes[i]])
    off_us = np.maximum(fleet.remaining_us, until_us)
    return fill(off_us.reshape(1, -1), chosen, executors)


def weigh(fleet: Fleet, usable: Ints, until_us: int) -> Ints:
    """Return what each usable node adds to the key of a cover, (KEYS, n)."""
    keys = np.empty((KEYS, usable.shape[0]), dtype=np.int64)
    for j in range(usable.shape[0]):
        if usable[j] > 0:
            more_us = extension_us(fleet, j, until_us)
            keys[0, j] = money(fleet.price[j], more_us)
            keys[1, j] = more_us // MS * fleet.capacity_cpu_m[j]
            keys[2, j] = fleet.free_cpu_m[j]
    return keys


def shortlist(keys: Ints, usable: Ints, executors: int) -> Ints:
    """Return the nodes that an optimum may need, by name: for each a the ceil(E / a) best."""
    first = np.zeros(executors + 2, dtype=np.int64)
    for a in range(1, executors + 1):
        first[a + 1] = first[a] + (executors + a - 1) // a
    kept = np.full(first[executors + 1], -1, dtype=np.int64)
    for j in range(usable.shape[0]):
        a = usable[j]
        if a == 0:
            continue
        place = first[a + 1] - 1
        if kept[place] >= 0 and not comes_before(keys, j, kept[place]):
            continue
        while place > first[a] and (kept[place - 1] < 0 or comes_before(keys, j, kept[place - 1])):
            kept[place] = kept[place - 1]
            place -= 1
        kept[place] = j
    return np.sort(kept[kept >= 0])


def take_in(key: Ints, slots: int, least: Ints, is_taken: Bools) -> None:
    """Let a node with ``slots`` and ``key`` (3,) into the least keys (E + 1, 3) of covers of e.

    ``is_taken`` (E + 1,) becomes whether the cover of e uses it, as it does where that is as good:
    nodes come in from the last name to the first.
    """
    for e in range(least.shape[0] - 1, 0, -1):
        rest = least[max(0, e - slots)]
        if rest[0] >= FOREVER_US:
            continue
        with_it = rest + key
        if not is_less(least[e], with_it):
            least[e] = with_it
            is_taken[e] = True


def is_less(one: Ints, other: Ints) -> bool:
    """Return whether a key (3,) is lexically less than another."""
    for row in range(KEYS):
        if one[row] != other[row]:
            return bool(one[row] < other[row])
    return False
