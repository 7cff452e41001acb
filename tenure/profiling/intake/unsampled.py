"""What tasks of batches used beside their samples: what is short is seldom sampled twice.

A node's agent tells what all its tasks used together, ended ones too. What their samples do not
account for of it is a use of the node's tasks as a whole, so that energy counts it, and once.
"""

from __future__ import annotations

from collections.abc import Collection

from tenure.model.energy import MAX_SPAN_US, TASKS, Use
from tenure.profiling.readings.sample import NodeReading

#: Less is only that an agent reads one group after the other; it is carried on until it is more.
LEAST_US = 10_000


class Unsampled:
    """Keeps of each node what was not told yet, or told too much, in core-microseconds."""

    def __init__(self) -> None:
        self._left_us: dict[str, int] = {}

    def use_of(
        self, node: str, older: NodeReading | None, newer: NodeReading, sampled_us: int
    ) -> Use | None:
        """Return what tasks used between two readings beside ``sampled_us``, that of their samples.

        None where it is nothing, or is not known. A sample may be of a longer time than that
        between the readings: what it tells too much is taken off later ones, so that sums are
        right.
        """
        before = None if older is None else older.lent
        if before is None or newer.lent is None:
            self.forget(node)
            return None
        begin_us, end_us = before.at_us, newer.lent.at_us
        used_us = (newer.lent.cpu_ns - before.cpu_ns) // 1000
        if used_us < 0 or not 0 < end_us - begin_us <= MAX_SPAN_US:
            self.forget(node)  # its group was made anew, or its clock was set
            return None
        left_us = self._left_us.get(node, 0) + used_us - sampled_us
        is_told = left_us >= LEAST_US
        self._left_us[node] = 0 if is_told else left_us
        return Use(node, TASKS, begin_us, end_us, left_us, 0) if is_told else None

    def forget(self, node: str) -> None:
        """Begin anew with a node."""
        self._left_us.pop(node, None)

    def keep(self, nodes: Collection[str]) -> None:
        """Forget every node that is not among ``nodes``."""
        self._left_us = {node: left for node, left in self._left_us.items() if node in nodes}
