"""A heap of pairs of numbers in an array, for the kernels; whoever owns it counts its pairs."""

from __future__ import annotations

from tenure.model.placing import Ints


def push(heap: Ints, size: int, key: int, item: int) -> None:
    """Put a pair on a heap of ``size`` pairs; pair i is at 2 i and 2 i + 1."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        if not is_before(key, item, heap[2 * above], heap[2 * above + 1]):
            break
        heap[2 * at], heap[2 * at + 1] = heap[2 * above], heap[2 * above + 1]
        at = above
    heap[2 * at], heap[2 * at + 1] = key, item


def pop(heap: Ints, size: int) -> tuple[int, int]:
    """Take the pair with the lowest key, then the lowest item, off a heap of ``size`` pairs."""
    found = heap[0], heap[1]
    left = size - 1
    key, item, at = heap[2 * left], heap[2 * left + 1], 0
    while 2 * at + 1 < left:
        below = 2 * at + 1
        right = 2 * below + 2
        if below + 1 < left and is_before(
            heap[right], heap[right + 1], heap[right - 2], heap[right - 1]
        ):
            below += 1
        if not is_before(heap[2 * below], heap[2 * below + 1], key, item):
            break
        heap[2 * at], heap[2 * at + 1] = heap[2 * below], heap[2 * below + 1]
        at = below
    heap[2 * at], heap[2 * at + 1] = key, item
    return found


def is_before(key: int, item: int, other_key: int, other_item: int) -> bool:
    """Return whether a pair comes before another."""
    return key < other_key or (key == other_key and item < other_item)
