"""What a plan means for nodes: which are freed and can go off, which have to go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tenure.cycles.snapshot import NodeView, ServiceView, Snapshot
from tenure.model.plan import Move, NodeNote


def node_notes(
    snapshot: Snapshot,
    services: Mapping[str, Sequence[ServiceView]],
    moves: Sequence[Move],
    started: Iterable[str],
) -> list[NodeNote]:
    """Return a note for each node that ``moves`` free, by name, and for each that is ``started``.

    Freed is a node whose last services leave, that can be switched off, that nothing else holds,
    and that its generation need not keep on, as one of so many or for its headroom; another emptied
    node is noted with what keeps it on.
    """
    nodes = {node.name: node for node in snapshot.nodes}
    leaving = {move.container for move in moves}
    arriving = {move.target for move in moves}
    left = {name: [row for row in rows if row.id not in leaving] for name, rows in services.items()}
    spare = _Spare(snapshot)
    notes = []
    for name in sorted({move.source for move in moves}):
        node = nodes.get(name)
        if node is None or left.get(name) or name in arriving or not node.is_on:
            continue
        notes.append(_freed(node, len(services[name]), spare))
    what = "is switched on: no node that is on has room"
    notes += [nodes[name].note("started", what) for name in sorted(set(started))]
    return notes


def _freed(node: NodeView, moves: int, spare: _Spare) -> NodeNote:
    if not node.is_switchable:
        return node.note("not_switchable", "is emptied, but has no power driver")
    if node.held:
        return node.note("held", f"is emptied, but stays on for {node.held}")
    code = spare.objection(node)
    if code == "min_on":
        return node.note(code, f"is emptied, but {node.generation} keeps as many nodes on")
    if code == "headroom":
        what = f"is emptied, but its room is {node.generation}'s headroom (power.headroom_cpus)"
        return node.note(code, what)
    spare.take(node)
    moved = "1 move" if moves == 1 else f"{moves} moves"
    return node.note("freed", f"is emptied by {moved} and can be switched off")


class _Spare:
    """How many nodes of each generation may go off, and how much CPU is free on those that stay."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._least_cpu_m = snapshot.spare_cpu_m
        self._nodes: dict[str, int] = {}
        self._cpu_m: dict[str, int] = {}
        for node in snapshot.nodes:
            self._count(node, 1)
        for name in self._nodes:
            self._nodes[name] -= snapshot.min_on.get(name, 0)

    def _count(self, node: NodeView, sign: int) -> None:
        name = node.generation
        self._nodes[name] = self._nodes.get(name, 0) + sign * node.is_on
        cpu_m = max(0, node.free.cpu_m) if node.is_on and node.is_schedulable else 0
        self._cpu_m[name] = self._cpu_m.get(name, 0) + sign * cpu_m

    def objection(self, node: NodeView) -> str:
        """Return why an emptied node is to stay on: min_on, headroom, or ""."""
        if self._nodes[node.generation] <= 0:
            return "min_on"
        own_cpu_m = max(0, node.free.cpu_m) if node.is_schedulable else 0
        return "headroom" if self._cpu_m[node.generation] - own_cpu_m < self._least_cpu_m else ""

    def take(self, node: NodeView) -> None:
        """Count a node that is on as one that goes off."""
        self._count(node, -1)
