"""Which node a container gets: those of its generation, and the one that the policy chooses.

Owns nothing, reads only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tenure.core.capacity import room, snapshots
from tenure.core.state.context import Context
from tenure.model.arrays import np
from tenure.model.container import Service
from tenure.model.matching import satisfies_all, value_of
from tenure.model.node import Node, Power
from tenure.model.placing import Ask, Bools
from tenure.model.resources import Resources, smaller
from tenure.model.units import FOREVER_US


def is_allowed(ctx: Context, service: Service) -> bool:
    """Whether its constraints allow any node where it may begin, if there are any."""
    return not _near(ctx, service) or bool(_nodes_of(ctx, service))


def could_fit(ctx: Context, service: Service) -> bool:
    """Whether any node where it may begin is, or for all that is known may be, large enough."""
    nodes = _nodes_of(ctx, service)
    return not nodes or any(_could_hold(node, service.request) for node in nodes)


def as_known(ctx: Context, service: Service) -> Service:
    """Return it without what its app is known to use where no node could hold that.

    Then it counts with what it asks for until it is measured itself, as if nobody knew its app.
    """
    nodes = _nodes_of(ctx, service)
    needs = {name: room.need_of(ctx, service, name) for name in homes(ctx, service)}
    if not nodes or any(_could_hold(node, needs[node.spec.generation]) for node in nodes):
        return service
    return replace(service, known=None)


def _nodes_of(ctx: Context, service: Service) -> list[Node]:
    return [n for n in _near(ctx, service) if satisfies_all(n.spec, service.constraints)]


def _near(ctx: Context, service: Service) -> list[Node]:
    """Return the nodes of the generations in which it may begin."""
    among = homes(ctx, service)
    nodes = (n for n in ctx.tables.nodes.values() if not n.is_removed)
    return [n for n in nodes if n.spec.generation in among]


def _could_hold(node: Node, need: Resources) -> bool:
    has = node.capacity
    is_enough = need.cpu_m <= has.cpu_m and need.memory_bytes <= has.memory_bytes
    return is_enough or not node.is_sized


def homes(ctx: Context, service: Service) -> tuple[str, ...]:
    """Return the generations in which a container may be now, its own first."""
    return room.home(ctx, service.generation), *_beyond(ctx, service)


def skip(ctx: Context, service: Service) -> Service:
    """Return it in the second generation if it starts as soon there, else as it is.

    Cycles will move it on from the nursery, as they do those of apps that nobody knows.
    """
    second = ctx.params.job_generations()[0]
    later = replace(service, generation=room.home(ctx, second))
    node = find_node(ctx, later)
    if node is None:
        return service
    is_on = ctx.tables.nodes[node].power is Power.ON
    return later if is_on or find_node(ctx, service) is None else service


def found(ctx: Context, service: Service) -> tuple[Service, str | None]:
    """Return it with the node that it gets, in a later generation where its own has no room.

    A nursery that is full would keep containers waiting while other nodes stand by (ours; GENPACK
    has them wait). There they count with what they asked for until they are measured, and cycles
    move them on from there.
    """
    node = find_node(ctx, service)
    for generation in _beyond(ctx, service) if node is None else ():
        later = replace(service, generation=generation)
        node = find_node(ctx, later)
        if node is not None:
            return later, node
    return service, node


def _beyond(ctx: Context, service: Service) -> tuple[str, ...]:
    """Return the generations in which it may begin when its own is full, in order."""
    names = ctx.params.generations
    is_first = service.generation == room.home(ctx, names[0])
    if ctx.params.nursery_full != "next" or service.is_at_home or not is_first:
        return ()
    later = names[names.index(service.generation) + 1 :]
    having = {n.spec.generation for n in ctx.tables.nodes.values() if not n.is_removed}
    return tuple(name for name in later if name in having)


def need_to_place(ctx: Context, service: Service) -> Resources:
    """Return the room that a service must find: what it will count for there.

    Its measured use with headroom may exceed every node, though it ran on one. Then it asks for
    all of the largest, rather than wait for ever. O(nodes) for a measured service.
    """
    need = room.need_of(ctx, service)
    if need == service.request:
        return need
    nodes = _nodes_of(ctx, service)
    if not nodes or any(_could_hold(node, need) for node in nodes):
        return need
    return smaller(need, max((node.capacity for node in nodes), key=Resources.values))


def find_node(ctx: Context, service: Service) -> str | None:
    """Return the node of its generation that the policy chooses, None where none has room."""
    here = snapshots.scene(ctx)
    need = need_to_place(ctx, service)
    policy, seed = ctx.params.service_policy, room.seed_of(service)
    for mask in _shared_out(ctx, service, here, _mask(ctx, service, here)):
        amounts = need.cpu_m, need.memory_bytes
        ask = Ask(service.id, 1, *amounts, FOREVER_US, FOREVER_US, None, mask)
        node = ctx.placer.spread(policy, here.view, ask, seed)
        if node is not None:
            return node
    return None


def _shared_out(
    ctx: Context, service: Service, here: snapshots.Scene, mask: Bools
) -> Iterator[Bools]:
    """Yield which nodes of a mask to try, where its app has the fewest containers first.

    Where the service is to be spread over racks, say, those of the racks with the fewest, then of
    more and more of them. O(services) for such a service.
    """
    key, apps = service.spread, ctx.tables.services.values()
    if not key:
        yield mask
        return
    others = [s for s in apps if s.app == service.app and s.place and s.id != service.id]
    values = [value_of(key, node.spec) for node in here.nodes]
    having = {node.name: value for node, value in zip(here.nodes, values, strict=True)}
    counts = Counter(having.get(s.place) for s in others if s.owner == service.owner)
    loads = np.array([counts[value] for value in values], dtype=np.int64)
    for most in np.unique(loads[mask]):
        yield mask & (loads <= most)


def _mask(ctx: Context, service: Service, here: snapshots.Scene) -> Bools:
    """Return the nodes of its generation from which no filter keeps it."""
    mask = here.usable.copy()
    ports = room.host_ports(service)
    for i in np.flatnonzero(mask):
        node = here.nodes[i]
        is_home = node.spec.generation == service.generation
        mask[i] = is_home and not room.bar_for(ctx, service, node, ports)
    return mask
