"""Filling nodes in an order: the greedy step that the list policies share."""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Ints


def comes_before(keys: Ints, i: int, j: int) -> bool:
    """Return whether node ``i`` comes before ``j`` by the rows of ``keys`` (k, n), then by name."""
    for row in range(keys.shape[0]):
        if keys[row, i] != keys[row, j]:
            return bool(keys[row, i] < keys[row, j])
    return i < j


def fill(keys: Ints, room: Ints, executors: int) -> Ints:
    """Return executors per node (n,): nodes by ``keys`` (k, n), each to the brim of its ``room``.

    Row 0 of ``keys`` counts first, least first; names break ties. The sum is ``executors``
    (Eq. 14); all zeros where ``room`` does not hold as many. Only the first nodes that hold all
    are kept sorted, as most decisions take few of many: O(n) then, O(n x E) at worst.
    """
    counts = np.zeros(room.shape[0], dtype=np.int64)
    best = np.empty(min(room.shape[0], executors) + 1, dtype=np.int64)
    size, held = 0, 0
    for j in range(room.shape[0]):
        if room[j] == 0 or (held >= executors and not comes_before(keys, j, best[size - 1])):
            continue
        place = size
        while place > 0 and comes_before(keys, j, best[place - 1]):
            best[place] = best[place - 1]
            place -= 1
        best[place] = j
        size, held = size + 1, held + room[j]
        while held - room[best[size - 1]] >= executors:
            size, held = size - 1, held - room[best[size - 1]]
    left = executors if held >= executors else 0
    for place in range(size):
        counts[best[place]] = min(room[best[place]], left)
        left -= counts[best[place]]
    return counts
