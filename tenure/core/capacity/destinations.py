"""Where what leaves a node may go: the other nodes' room, less what one plan has given away.

A plan asks for many containers over many nodes. So what all have in common is read once: the nodes
of a generation, which of them take new work, and their room as one array; whether a container fits
is then one comparison. One that fits goes where the policy for services says. A node that is off is
taken only if no node that is on fits, and one that boots or is to be switched on anyway before
another. Owns nothing, reads only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tenure.core.capacity import room, snapshots
from tenure.core.state.context import Context
from tenure.model.arrays import np
from tenure.model.container import Service
from tenure.model.node import Node, Power
from tenure.model.placing import Ask, Bools, Ints
from tenure.model.resources import DIMENSIONS
from tenure.model.units import FOREVER_US

#: Nodes that a refusal names one by one.
MAX_TOLD = 10


@dataclass(frozen=True, slots=True)
class Destination:
    """A place that was found: the node, and how many nodes had fitted."""

    node: str
    count: int


@dataclass(frozen=True, slots=True)
class NoDestination:
    """Why no node fits. ``nodes`` is how many there are, ``told`` (name, code) of the first ones.

    ``short`` is the dimension that most often lacks on nodes that filters leave, "" where filters
    leave none.
    """

    nodes: int
    told: tuple[tuple[str, str], ...] = ()
    short: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Ground:
    """The other nodes of one generation in the order of their names, and what all ask of them.

    ``bars`` codes of the filter that keeps all new work away ("" none); ``is_open`` (n,) marks
    those without; ``free`` (n, 4) in the order of DIMENSIONS, changed as destinations are taken;
    ``is_stated`` (n, 4) the dimensions that count; ``place`` (n,) the position in the view.
    """

    nodes: list[Node]
    bars: list[str]
    is_open: Bools
    is_on: Bools
    free: Ints
    is_stated: Bools
    place: Ints


class Destinations:
    """Places on all nodes but one; reads only, and is good for one plan at one moment."""

    def __init__(self, ctx: Context, source: str) -> None:
        self._ctx = ctx
        self._source = source
        scene = snapshots.scene(ctx)
        self._position = scene.position
        cpu, memory = scene.view.free_cpu_m.copy(), scene.view.free_memory.copy()
        self._view = replace(scene.view, free_cpu_m=cpu, free_memory=memory)
        self._grounds: dict[str, _Ground] = {}
        self._homes: dict[str, str] = {}
        self._without: dict[tuple[object, ...], Bools] = {}
        self._ports: dict[str, set[room.Port]] = {}
        self._wanted: set[str] = set()

    def home(self, generation: str) -> str:
        """Return the generation or, where it has no nodes, the next one that has any."""
        if generation not in self._homes:
            self._homes[generation] = room.home(self._ctx, generation)
        return self._homes[generation]

    def find(
        self, service: Service, generation: str, avoid: Sequence[str]
    ) -> Destination | NoDestination:
        """Take a node, one outside ``avoid`` if there is one: O(nodes), vectorised.

        Nodes that its image or constraints forbid, or that bind its ports, are left out.
        """
        ground = self._ground(generation)
        need = np.array(room.need_of(self._ctx, service, generation).values(), dtype=np.int64)
        short = (need > ground.free) & ground.is_stated
        fits = ground.is_open & ~short.any(axis=1)
        bound = self._bound(service, ground, fits)
        fits &= self._holders(service, generation) & ~bound
        if not fits.any():
            return self._nowhere(service, generation, short)
        index = self._choose(service, generation, _without(ground, fits, avoid))
        self._take(service, ground, index, need)
        return Destination(ground.nodes[index].name, int(np.count_nonzero(fits)))

    def _ground(self, generation: str) -> _Ground:
        if generation not in self._grounds:
            everywhere = (self._ctx.tables.nodes[name] for name in self._view.names)
            nodes = [n for n in everywhere if n.spec.generation == generation]
            nodes = [n for n in nodes if n.name != self._source]
            self._grounds[generation] = self._survey(nodes)
        return self._grounds[generation]

    def _survey(self, nodes: list[Node]) -> _Ground:
        shape = (len(nodes), len(DIMENSIONS))
        free = [room.free_on(self._ctx, node).values() for node in nodes]
        stated = np.array([n.capacity.values() for n in nodes], dtype=np.int64).reshape(shape) > 0
        stated[:, :2] = True  # CPU and memory always count
        bars = [room.is_usable(node, self._ctx.now_us) for node in nodes]
        return _Ground(
            nodes=nodes,
            bars=bars,
            is_open=np.array([not bar for bar in bars], dtype=np.bool_),
            is_on=np.array([node.power is Power.ON for node in nodes], dtype=np.bool_),
            free=np.array(free, dtype=np.int64).reshape(shape),
            is_stated=stated,
            place=np.array([self._position[node.name] for node in nodes], dtype=np.int64),
        )

    # filters

    def _holders(self, service: Service, generation: str) -> Bools:
        """Return the nodes (n,) that its image and constraints allow; do not change it."""
        nodes = self._ground(generation).nodes
        image = "" if service.is_pullable else room.image_of(service)
        kind = generation, image, service.constraints
        if kind not in self._without:
            holds = [not room.never_on(service, node) for node in nodes]
            self._without[kind] = np.array(holds, dtype=np.bool_)
        return self._without[kind]

    def _bound(self, service: Service, ground: _Ground, among: Bools) -> Bools:
        """Return the nodes (n,) of ``among`` on which one of the service's host ports is taken."""
        bound = np.zeros(len(ground.nodes), dtype=np.bool_)
        wanted = room.host_ports(service)
        if wanted:
            for i in np.flatnonzero(among):
                bound[i] = not wanted.isdisjoint(self._ports_on(ground.nodes[i].name))
        return bound

    def _ports_on(self, name: str) -> set[room.Port]:
        if name not in self._ports:
            self._ports[name] = room.ports_on(self._ctx, name)
        return self._ports[name]

    # the choice

    def _choose(self, service: Service, generation: str, fits: Bools) -> int:
        ground = self._ground(generation)
        is_on = np.flatnonzero(fits & ground.is_on)
        if len(is_on):
            chosen = self._spread(service, generation, ground.place[is_on])
            place = is_on[0] if chosen is None else self._index(ground, chosen)
            return int(place)
        return min(map(int, np.flatnonzero(fits)), key=lambda i: self._boot_order(ground.nodes[i]))

    def _index(self, ground: _Ground, name: str) -> int:
        return int(np.searchsorted(ground.place, self._position[name]))

    def _boot_order(self, node: Node) -> tuple[bool, int, str]:
        comes_anyway = node.name in self._wanted or node.power is Power.BOOTING
        return (not comes_anyway, node.spec.price_nano_per_h, node.name)

    def _spread(self, service: Service, generation: str, places: Ints) -> str | None:
        """Ask the policy for services, as for a new one, with the room that is left."""
        need = room.need_of(self._ctx, service, generation)
        mask = np.zeros(len(self._view.names), dtype=np.bool_)
        mask[places] = True
        ask = Ask(
            id=service.id,
            executors=1,
            cpu_m=need.cpu_m,
            memory_bytes=need.memory_bytes,
            local_us=FOREVER_US,
            hybrid_us=FOREVER_US,
            deadline_us=None,
            eligible=mask,
        )
        policy = self._ctx.params.service_policy
        return self._ctx.placer.spread(policy, self._view, ask, room.seed_of(service))

    def _take(self, service: Service, ground: _Ground, index: int, need: Ints) -> None:
        node = ground.nodes[index]
        ground.free[index] -= need
        place, (cpu_m, memory, *_) = ground.place[index], ground.free[index]
        self._view.free_cpu_m[place] = max(0, cpu_m)
        self._view.free_memory[place] = max(0, memory)
        ports = room.host_ports(service)
        if ports:
            self._ports_on(node.name).update(ports)
        if node.power is not Power.ON:
            self._wanted.add(node.name)

    # refusals

    def _nowhere(self, service: Service, generation: str, short: Bools) -> NoDestination:
        """Say what lacks: room where filters leave any node, else what they say."""
        ground = self._ground(generation)
        holds = self._holders(service, generation)
        passes = ground.is_open & holds
        bound = self._bound(service, ground, passes)
        first = np.argmax(short, axis=1)[passes & ~bound]
        counts = np.bincount(first, minlength=len(DIMENSIONS))
        rows = [(-int(count), name) for count, name in zip(counts, DIMENSIONS, strict=True)]
        most, name = min(rows)
        told = []
        for i, node in enumerate(ground.nodes[:MAX_TOLD]):
            code = ground.bars[i] or room.never_on(service, node) or ("port" if bound[i] else "")
            told.append((node.name, code or f"no_room_{DIMENSIONS[int(np.argmax(short[i]))]}"))
        return NoDestination(len(ground.nodes), tuple(told), name if most else "")


def _without(ground: _Ground, fits: Bools, avoid: Sequence[str]) -> Bools:
    """Return ``fits`` less the nodes to avoid, or all of it where nothing would be left."""
    if not avoid:
        return fits
    fresh = fits.copy()
    for i in np.flatnonzero(fits):
        fresh[i] = ground.nodes[i].name not in avoid
    return fresh if fresh.any() else fits
