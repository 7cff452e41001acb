"""What containers that are not ours use on each node (DESIGN.md section 4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from tenure.model.resources import DIMENSIONS, Resources, total
from tenure.profiling.percentile import p90
from tenure.profiling.sample import Reading, Sample

#: Samples remembered per container: ten minutes at the default interval. One sample jumps too much
#: to hold room back for, and old use should fade.
MEMORY = 20


class ForeignUse:
    """Remember the latest samples of foreign containers and sum their 90th percentiles."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, deque[Resources]]] = {}

    def keep(self, node: str, containers: Collection[str]) -> None:
        """Forget the containers of ``node`` that are not among ``containers``."""
        rows = self._nodes.setdefault(node, {})
        self._nodes[node] = {key: rows.get(key) or deque(maxlen=MEMORY) for key in containers}

    def forget_nodes(self, nodes: Collection[str]) -> None:
        """Forget every node that is not among ``nodes``."""
        self._nodes = {node: rows for node, rows in self._nodes.items() if node in nodes}

    def add(self, node: str, container: str, seen: Sample | Reading) -> None:
        """Add a sample, or a first reading (which tells memory alone until the next one)."""
        rows = self._nodes.setdefault(node, {}).setdefault(container, deque(maxlen=MEMORY))
        if isinstance(seen, Sample):
            rows.append(seen.use)
        elif not rows:
            rows.append(Resources(memory_bytes=seen.memory_bytes))

    def use_of(self, node: str) -> Resources:
        """Return the sum over the node's foreign containers of p90 per dimension."""
        return total(_typical(rows) for rows in self._nodes.get(node, {}).values() if rows)


def _typical(rows: Collection[Resources]) -> Resources:
    return Resources(
        **{name: p90([getattr(row, name) for row in rows]) or 0 for name in DIMENSIONS}
    )
