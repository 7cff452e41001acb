"""The latest sample of everything: what ``tenure top`` shows.

Of each node and container only what was told last, as long as it runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from tenure.model.energy import Metered
from tenure.model.load import Load, NodeLoad
from tenure.model.resources import larger, total
from tenure.profiling.intake.intake import Beside, Target
from tenure.profiling.readings.sample import Measured


class Latest:
    """Keeps the latest loads; ``nodes`` by name."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeLoad] = {}

    def note(
        self,
        node: str,
        rows: Sequence[Target],
        measured: Iterable[Measured],
        *,
        beside: Beside,
        taken_us: int,
    ) -> None:
        """Take in what was told of a node at ``taken_us``.

        ``rows`` are its containers, ``measured`` their new samples, oldest first; one without keeps
        the one that it had.
        """
        before = self.nodes.get(node, NodeLoad(taken_us)).containers
        here = {row.container for row in rows if row.container}
        loads = {key: before[key] for key in here & before.keys()}
        for row in measured:
            if row.container in here:
                loads[row.container] = Load(row.sample.use, taken_us, row.sample.observed)
        used, ours = beside.whole, total(load.use for load in loads.values())
        if beside.foreign is not None and (loads or not here):
            told = ours + beside.foreign
            used = told if used is None else larger(told, used)
        self.nodes[node] = NodeLoad(taken_us, used, loads, len(here) - len(loads))

    def meter(self, metered: Iterable[Metered]) -> None:
        """Take in what nodes' meters counted, oldest first."""
        for row in metered:
            load = self.nodes.get(row.node)
            if load is not None:
                watts = row.energy_uj / (row.end_us - row.begin_us)
                self.nodes[row.node] = replace(load, measured_w=watts)

    def keep(self, nodes: Collection[str]) -> None:
        """Forget every node that is not among ``nodes``."""
        self.nodes = {name: load for name, load in self.nodes.items() if name in nodes}
