"""What containers that are not ours use on each node."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from tenure.model.resources import DIMENSIONS, Resources, larger, total
from tenure.profiling.profiles.percentile import p90
from tenure.profiling.readings.sample import Reading, Sample

#: Samples remembered per container: ten minutes at the default interval. One sample jumps too much
#: to hold room back for, and old use should fade.
MEMORY = 20


class ForeignUse:
    """Remember the latest samples of foreign containers and sum their 90th percentiles.

    Where a node's whole use is known (by its agent), what is left of it after our containers counts
    too: processes outside containers use capacity as well.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, deque[Resources]]] = {}
        self._rests: dict[str, deque[Resources]] = {}

    def keep(self, node: str, containers: Collection[str]) -> None:
        """Forget the containers of ``node`` that are not among ``containers``."""
        rows = self._nodes.setdefault(node, {})
        self._nodes[node] = {key: rows.get(key) or deque(maxlen=MEMORY) for key in containers}

    def forget_nodes(self, nodes: Collection[str]) -> None:
        """Forget every node that is not among ``nodes``."""
        self._nodes = {node: rows for node, rows in self._nodes.items() if node in nodes}
        self._rests = {node: rows for node, rows in self._rests.items() if node in nodes}

    def add(self, node: str, container: str, seen: Sample | Reading) -> None:
        """Add a sample, or a first reading (which tells memory alone until the next one)."""
        rows = self._nodes.setdefault(node, {}).setdefault(container, deque(maxlen=MEMORY))
        if isinstance(seen, Sample):
            rows.append(seen.use)
        elif not rows:
            rows.append(Resources(memory_bytes=seen.memory_bytes))

    def add_rest(self, node: str, rest: Resources) -> None:
        """Add what the node used beyond our containers; below zero counts as nothing."""
        self._rests.setdefault(node, deque(maxlen=MEMORY)).append(rest.clamped())

    def fade_rest(self, node: str) -> None:
        """Forget the oldest of a node's rests: this time nobody knows it."""
        if rests := self._rests.get(node):
            rests.popleft()

    def forget_rest(self, node: str) -> None:
        """Forget the rest of a node: nobody tells its whole use any more."""
        self._rests.pop(node, None)

    def use_of(self, node: str, reserve: Resources = Resources()) -> Resources:
        """Return the sum over the node's foreign containers of p90 per dimension.

        At least the p90 of the rest less ``reserve``, which is kept for the machine's own processes
        and not counted in its capacity.
        """
        told = total(_typical(rows) for rows in self._nodes.get(node, {}).values() if rows)
        rests = self._rests.get(node)
        return larger(told, (_typical(rests) - reserve).clamped()) if rests else told


def _typical(rows: Collection[Resources]) -> Resources:
    return Resources(
        **{name: p90([getattr(row, name) for row in rows]) or 0 for name in DIMENSIONS}
    )
