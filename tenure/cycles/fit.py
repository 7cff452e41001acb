"""Which node a container goes to: first fit over the least available nodes (GENPACK section 5.2).

Nodes are sorted by increasing availability norm over free ratios, so that the fullest that still
fits is taken; the order is made again after each choice (SHIFTLEFT). A container that fits no node
that is on takes a node of the target generation that is off (ESCAPE), the most efficient first;
that node then counts as one that is on.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable
from dataclasses import dataclass

from tenure.cycles.candidates import Candidate
from tenure.cycles.snapshot import NodeView
from tenure.model.resources import Resources, exhausted
from tenure.model.units import MIB

#: So many nodes are named in a reason; the rest are counted.
NAMED_NODES = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """A node for a candidate. ``is_escape``: it has to be switched on first."""

    node: str
    is_escape: bool
    reason: str


@dataclass(frozen=True, slots=True)
class NoChoice:
    """No node fits; ``code`` is stable, ``reason`` names what each node lacks."""

    code: str
    reason: str


class FirstFit:
    """Choose nodes one candidate after the other, deducting what each choice takes."""

    def __init__(self, nodes: Iterable[NodeView]) -> None:
        self._nodes = {node.name: node for node in sorted(nodes, key=lambda node: node.name)}
        self._free = {name: node.free for name, node in self._nodes.items()}
        open_nodes = [node for node in self._nodes.values() if node.is_schedulable]
        self._on = sorted((n.name for n in open_nodes if n.is_on), key=self._rank)
        off = (n.name for n in open_nodes if not n.is_on and n.is_switchable)
        self._off = sorted(off, key=self._escape_rank)

    def choose(self, candidate: Candidate) -> Choice | NoChoice:
        """Return the node for ``candidate`` and deduct its need there, or say why none."""
        for names, is_escape in ((self._on, False), (self._off, True)):
            for name in names:
                if name != candidate.service.node and not self._objection(candidate, name):
                    names.remove(name)
                    return self._take(candidate, name, is_escape=is_escape)
        return self._no_choice(candidate)

    def _take(self, candidate: Candidate, name: str, *, is_escape: bool) -> Choice:
        before = self._free[name]
        self._free[name] = before - candidate.need
        bisect.insort(self._on, name, key=self._rank)
        what = f"needs {shown(candidate.need)}; {name} has {shown(before)} free"
        if not self._nodes[name].is_on:
            what += ", once it is switched on"
        if is_escape:
            what += " (escape: no node that is on has room)"
        return Choice(name, is_escape, what)

    def _objection(self, candidate: Candidate, name: str) -> str:
        """Return the dimension that is short on an open node, ``image``, or ""."""
        node = self._nodes[name]
        service = candidate.service
        needs_image = bool(service.image and node.images) and not service.is_pullable
        if needs_image and not has_image(node.images, service.image):
            return "image"
        short = exhausted(candidate.need, self._free[name], node.capacity)
        return short[0] if short else ""

    def _no_choice(self, candidate: Candidate) -> NoChoice:
        need = shown(candidate.need)
        names = [name for name in self._nodes if name != candidate.service.node]
        if not names:
            return NoChoice("no_node", f"needs {need}; the target generation has no node for it")
        named = [f"{name} {self._explain(candidate, name)}" for name in names[:NAMED_NODES]]
        if len(names) > NAMED_NODES:
            named.append(f"and {len(names) - NAMED_NODES} more nodes do not fit either")
        usable = [name for name in (*self._on, *self._off) if name != candidate.service.node]
        lacks_image = all(self._objection(candidate, name) == "image" for name in usable)
        code = "no_image" if usable and lacks_image else "no_room"
        return NoChoice(code, f"needs {need}; {', '.join(named)}")

    def _explain(self, candidate: Candidate, name: str) -> str:
        """Return what is wrong with a node that does not fit, for people."""
        node = self._nodes[name]
        if not node.is_schedulable:
            return "takes no new work"
        if name not in self._on and not node.is_switchable:
            return "is not on"
        why = self._objection(candidate, name)
        if why == "image":
            return f"lacks the image {candidate.service.image}"
        return f"has {_amount(why, getattr(self._free[name], why))} free"

    def _rank(self, name: str) -> tuple[float, float, str]:
        node = self._nodes[name]
        return availability(self._free[name], node.capacity), watts_per_core(node), name

    def _escape_rank(self, name: str) -> tuple[float, str]:
        return watts_per_core(self._nodes[name]), name


def availability(free: Resources, capacity: Resources) -> float:
    """Return the norm of the free ratios over the dimensions that ``capacity`` states.

    GENPACK section 5.1, divided by the root of the number of dimensions (ours), so that nodes
    which state fewer of them compare with the others; 0 (full) to 1 (empty).
    """
    pairs = zip(free.values(), capacity.values(), strict=True)
    ratios = [max(0, have) / cap for have, cap in pairs if cap > 0]
    return math.sqrt(sum(ratio**2 for ratio in ratios) / len(ratios)) if ratios else 0.0


def watts_per_core(node: NodeView) -> float:
    """Return peak watts per core; infinite where they are not known, so that it comes last."""
    if node.peak_w <= 0 or node.capacity.cpu_m <= 0:
        return math.inf
    return node.peak_w * 1000 / node.capacity.cpu_m


def has_image(images: Iterable[str], image: str) -> bool:
    """Whether ``image`` is among ``images``; a name without tag means ``latest``."""
    last = image.rsplit("/", 1)[-1]
    tagged = image if ":" in last or "@" in image else f"{image}:latest"
    return any(name in (image, tagged) for name in images)


def shown(amounts: Resources) -> str:
    """Return the amounts for people, without the disk and net that are 0."""
    words = [_amount("cpu_m", amounts.cpu_m), _amount("memory_bytes", amounts.memory_bytes)]
    for name in ("disk_bytes_per_s", "net_bytes_per_s"):
        if getattr(amounts, name):
            words.append(_amount(name, getattr(amounts, name)))
    return ", ".join(words)


def _amount(name: str, value: int) -> str:
    if name == "cpu_m":
        return f"{value / 1000:.3f} cores"
    if name == "memory_bytes":
        return f"{value / MIB:.1f} MiB memory"
    return f"{value / MIB:.2f} MiB/s {name.split('_', 1)[0]}"
