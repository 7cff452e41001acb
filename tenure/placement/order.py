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


def sift(heap: Ints, size: int, top: int, keys: Ints) -> None:
    """Let the node at ``top`` of a binary heap of ``size`` nodes sink to where it belongs."""
    node = heap[top]
    child = 2 * top + 1
    while child < size:
        if child + 1 < size and comes_before(keys, heap[child + 1], heap[child]):
            child += 1
        if not comes_before(keys, heap[child], node):
            break
        heap[top] = heap[child]
        top, child = child, 2 * child + 1
    heap[top] = node


def fill(keys: Ints, room: Ints, executors: int) -> Ints:
    """Return executors per node (n,): nodes by ``keys`` (k, n), each to the brim of its ``room``.

    Row 0 of ``keys`` counts first, least first; names break ties. The sum is ``executors``
    (Eq. 14); all zeros where ``room`` does not hold as many. A heap, because most decisions take
    few of the nodes: O(n + used log n).
    """
    counts = np.zeros(room.shape[0], dtype=np.int64)
    if np.sum(room) < executors:
        return counts
    heap = np.flatnonzero(room)
    size = heap.shape[0]
    for top in range(size // 2 - 1, -1, -1):
        sift(heap, size, top, keys)
    left = executors
    while left > 0:
        node = heap[0]
        counts[node] = min(room[node], left)
        left -= counts[node]
        size -= 1
        heap[0] = heap[size]
        sift(heap, size, 0, keys)
    return counts
