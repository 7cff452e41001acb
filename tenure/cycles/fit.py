"""Which node a container goes to: first fit over the least available nodes (GENPACK section 5.2).

Nodes come by increasing availability norm over free ratios, so that the fullest that still fits is
taken; the order is made again after each choice (SHIFTLEFT). Dearer nodes come after all that cost
less a core (ours). A container that fits no node that is on takes a node of the target generation
that is off (ESCAPE), the cheapest and then the most efficient first; that node then counts as one
that is on.

A ``Pool`` holds the nodes as arrays: in place of a sorted list it keeps each node's key, and the
first of the order is the least key among those that fit. One choice costs O(nodes) array work.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tenure.cycles.availability import Floats, Ints, escape_rank, handicaps, norm, tie_rank
from tenure.cycles.candidates import Candidate
from tenure.cycles.snapshot import NodeView, ServiceView
from tenure.cycles.words import amount, shown
from tenure.model.resources import Resources, exhausted

Bools: TypeAlias = NDArray[np.bool_]
#: So many nodes are named in a reason; the rest are counted.
NAMED_NODES = 4
#: Free in a dimension that a node does not state: more than anything needs.
UNSTATED = np.int64(1 << 62)


@dataclass(frozen=True, slots=True)
class Seat:
    """A node for a candidate, with what was free there before. ``is_escape``: it is switched on
    for this candidate.
    """

    node: NodeView
    free: Resources
    is_escape: bool

    def reason(self, candidate: Candidate) -> str:
        """Return why the candidate goes there, for people."""
        what = f"needs {shown(candidate.need)}; {self.node.name} has {shown(self.free)} free"
        if not self.node.is_on:
            what += ", once it is switched on"
        if self.is_escape:
            what += " (escape: no node that is on has room)"
        return what


@dataclass(frozen=True, slots=True)
class NoSeat:
    """No node fits; ``code`` is stable, ``reason`` names what each node lacks."""

    code: str
    reason: str


class Pool:
    """Nodes of one generation that are filled choice by choice."""

    def __init__(self, nodes: Iterable[NodeView], services: Iterable[ServiceView] = ()) -> None:
        """``services`` are those whose ports are taken where they are, and where they arrive."""
        self.nodes = tuple(sorted(nodes, key=tie_rank))
        self._index = {node.name: i for i, node in enumerate(self.nodes)}
        self._free = [node.free for node in self.nodes]
        # CPU and memory always count, also where a node says it has none
        unstated = _columns(node.capacity for node in self.nodes) <= 0
        unstated[:2] = False
        self._room = np.where(unstated, UNSTATED, _columns(self._free))
        welcome = np.array([node.is_schedulable for node in self.nodes], dtype=np.bool_)
        is_on = np.array([node.is_on for node in self.nodes], dtype=np.bool_)
        can_start = np.array([node.is_switchable for node in self.nodes], dtype=np.bool_)
        self._live = np.array([node.checkpoint for node in self.nodes], dtype=np.bool_)
        self._open = welcome & is_on
        self._closed = welcome & ~is_on & can_start
        self._handicap = handicaps(self.nodes)
        empty = [norm(node.free.values(), node.capacity.values()) for node in self.nodes]
        self._key: Floats = np.array(empty, dtype=np.float64) + self._handicap
        self._escape_key = _positions([escape_rank(node) for node in self.nodes])
        self._images: dict[str, Bools] = {}
        self._allowed: dict[tuple[str, ...], Bools] = {}
        self._taken: dict[str, Bools] = {}
        for service in services:
            self._bind(service.ports, self._index.get(service.node))
            self._bind(service.ports, self._index.get(service.arriving))

    def copy(self) -> Pool:
        """Return a pool that is filled apart from this one."""
        twin = copy.copy(self)
        for name in ("_free", "_room", "_open", "_closed", "_key"):
            setattr(twin, name, getattr(self, name).copy())
        twin._taken = {port: where.copy() for port, where in self._taken.items()}
        return twin

    def _bind(self, ports: Iterable[str], node: int | None) -> None:
        """Note that ports of a node are taken; one outside the pool is no matter."""
        for port in ports if node is not None else ():
            where = self._taken.get(port)
            if where is None:
                where = self._taken[port] = np.zeros(len(self.nodes), dtype=np.bool_)
            where[node] = True

    def free_on(self, name: str) -> Resources:
        """Return what is free on a node of the pool now; negative where it is overcommitted."""
        return self._free[self._index[name]]

    def availability_of(self, name: str) -> float:
        """Return a node's availability now, 0 full to 1 empty."""
        i = self._index[name]
        return float(self._key[i] - self._handicap[i])

    def close(self, names: Collection[str]) -> None:
        """Take no more on these nodes."""
        where = [self._index[name] for name in names]
        self._open[where] = False
        self._closed[where] = False

    def stay_off(self) -> None:
        """Switch no node on any more."""
        self._closed[:] = False

    def place(self, candidate: Candidate, *, may_escape: bool = True) -> Seat | None:
        """Return the seat for ``candidate`` and deduct its need there, or None."""
        fits = self._fitting(candidate)
        i = _least(self._key, fits & self._open)
        is_escape = i < 0 and may_escape
        if is_escape:
            i = _least(self._escape_key, fits & self._closed)
        if i < 0:
            return None
        seat = Seat(self.nodes[i], self._free[i], is_escape)
        self.take(candidate, seat.node.name)
        return seat

    def take(self, candidate: Candidate, name: str) -> None:
        """Deduct what ``candidate`` needs on a node, which is on from then on."""
        i = self._index[name]
        self._shift_left(i, candidate.need)
        self._bind(candidate.service.ports, i)
        if self._closed[i]:
            self._closed[i], self._open[i] = False, True

    def _shift_left(self, i: int, need: Resources) -> None:
        """Take ``need`` off node ``i`` and give it its new place in the order.

        GENPACK Algorithm 1, lines 32-42, where the list is searched for the place and may be run
        past its end; here the node has a new key.
        """
        free = self._free[i] = self._free[i] - need
        self._room[:, i] -= need.values()
        self._key[i] = norm(free.values(), self.nodes[i].capacity.values()) + self._handicap[i]

    def _fitting(self, candidate: Candidate) -> Bools:
        """Return the nodes (n,) with room in every dimension, and the image where it counts."""
        cpu, memory, disk, net = candidate.need.values()
        fits: Bools = self._room[0] >= cpu
        fits &= self._room[1] >= memory
        fits &= self._room[2] >= disk
        fits &= self._room[3] >= net
        own = self._index.get(candidate.service.node)
        if own is not None:
            fits[own] = False
        if needs_image(candidate):
            fits &= self._having(candidate.service.image)
        if candidate.service.allowed is not None:
            fits &= self._among(candidate.service.allowed)
        if candidate.service.migrate == "live":
            fits &= self._live
        for port in candidate.service.ports:
            if port in self._taken:
                fits &= ~self._taken[port]
        return fits

    def _among(self, allowed: tuple[str, ...]) -> Bools:
        """Return the nodes (n,) of these names."""
        if allowed not in self._allowed:
            names = frozenset(allowed)
            rows = [node.name in names for node in self.nodes]
            self._allowed[allowed] = np.array(rows, dtype=np.bool_)
        return self._allowed[allowed]

    def _having(self, image: str) -> Bools:
        found = self._images.get(image)
        if found is None:
            rows = [not node.images or has_image(node.images, image) for node in self.nodes]
            found = self._images[image] = np.array(rows, dtype=np.bool_)
        return found

    def explain(self, candidate: Candidate) -> NoSeat:
        """Say why no node of the pool, as it is filled now, takes the candidate."""
        need = shown(candidate.need)
        nodes = sorted(self.nodes, key=lambda node: node.name)
        nodes = [node for node in nodes if node.name != candidate.service.node]
        if not nodes:
            return NoSeat("no_node", f"needs {need}; the target generation has no node for it")
        named = [f"{node.name} {self._fault(candidate, node)}" for node in nodes[:NAMED_NODES]]
        if len(nodes) > NAMED_NODES:
            named.append(f"and {len(nodes) - NAMED_NODES} more nodes do not fit either")
        usable = self._open | self._closed
        own = self._index.get(candidate.service.node)
        if own is not None:
            usable = usable.copy()
            usable[own] = False
        return NoSeat(self._lack(candidate, usable), f"needs {need}; {', '.join(named)}")

    def _lack(self, candidate: Candidate, usable: Bools) -> str:
        """Return the code of what all usable nodes (n,) lack; room, where some have the rest."""
        service = candidate.service
        if not usable.any():
            return "no_room"
        if service.allowed is not None and not (usable & self._among(service.allowed)).any():
            return "constraint"
        if needs_image(candidate) and not (usable & self._having(service.image)).any():
            return "no_image"
        return "no_room"

    def _fault(self, candidate: Candidate, node: NodeView) -> str:
        """Return what is wrong with a node that does not fit, for people."""
        i = self._index[node.name]
        if not node.is_schedulable:
            return "takes no new work"
        if not (self._open[i] or self._closed[i]):
            return "takes no more" if node.is_on else "is not on"
        barred = self._bar(candidate, i)
        if barred:
            return barred
        free = self.free_on(node.name)
        short = exhausted(candidate.need, free, node.capacity)
        if not short:
            return "is not to be switched on for it"
        return f"has {amount(short[0], getattr(free, short[0]))} free"

    def _bar(self, candidate: Candidate, i: int) -> str:
        """Return what keeps the candidate from a node whatever room it has, "" for nothing."""
        service = candidate.service
        if service.allowed is not None and self.nodes[i].name not in service.allowed:
            return "does not satisfy its constraints"
        if needs_image(candidate) and not self._having(service.image)[i]:
            return f"lacks the image {service.image}"
        if service.migrate == "live" and not self._live[i]:
            return "takes no live moves (checkpoint: true)"
        taken = [port for port in service.ports if port in self._taken and self._taken[port][i]]
        return f"has port {taken[0]} taken" if taken else ""


def needs_image(candidate: Candidate) -> bool:
    """Whether only nodes that were seen with its image can run the container."""
    return bool(candidate.service.image) and not candidate.service.is_pullable


def has_image(images: Iterable[str], image: str) -> bool:
    """Whether ``image`` is among ``images``; a name without tag means ``latest``."""
    last = image.rsplit("/", 1)[-1]
    tagged = image if ":" in last or "@" in image else f"{image}:latest"
    return any(name in (image, tagged) for name in images)


def _columns(rows: Iterable[Resources]) -> Ints:
    """Return amounts as (dimensions, n)."""
    table = [row.values() for row in rows]
    return np.array(table, dtype=np.int64).reshape(len(table), 4).T.copy()


def _positions(ranks: list[tuple[float, float, bool, str]]) -> Floats:
    """Return the place of each rank in their order."""
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    places = np.zeros(len(ranks), dtype=np.float64)
    places[order] = np.arange(len(ranks))
    return places


def _least(keys: Floats, among: Bools) -> int:
    """Return the first index of the least key ``among`` some, -1 of none."""
    where = np.flatnonzero(among)
    return int(where[np.argmin(keys[where])]) if where.size else -1
