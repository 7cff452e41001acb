"""Which node a container gets: those of its generation, and the one that the policy chooses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tenure.core import board, room
from tenure.core.context import Context
from tenure.model.container import Service
from tenure.model.node import Power
from tenure.model.placing import Ask, Bools
from tenure.model.units import FOREVER_US


def could_fit(ctx: Context, service: Service) -> bool:
    """Whether any node of its generation is large enough, as far as nodes are known."""
    need = service.request
    nodes = [n for n in ctx.tables.nodes.values() if n.spec.generation == service.generation]
    sized = [n for n in nodes if n.capacity.cpu_m > 0]
    return not sized or any(
        need.cpu_m <= n.capacity.cpu_m and need.memory_bytes <= n.capacity.memory_bytes
        for n in sized
    )


def skip(ctx: Context, service: Service, generation: str) -> Service:
    """Return it in a later generation if it starts as soon there, else as it is.

    Cycles will move it on from the nursery, as they do those of apps that nobody knows.
    """
    later = replace(service, generation=room.home(ctx, generation))
    node = find_node(ctx, later)
    if node is None:
        return service
    is_on = ctx.tables.nodes[node].power is Power.ON
    return later if is_on or find_node(ctx, service) is None else service


def find_node(ctx: Context, service: Service) -> str | None:
    """Return the node of its generation that the policy chooses, None where none has room."""
    here = board.scene(ctx)
    need = service.request
    ask = Ask(
        service.id,
        1,
        need.cpu_m,
        need.memory_bytes,
        FOREVER_US,
        FOREVER_US,
        None,
        _mask(ctx, service, here),
    )
    policy = ctx.params.service_policy
    return ctx.placer.spread(policy, here.view, ask, room.seed_of(service))


def _mask(ctx: Context, service: Service, here: board.Scene) -> Bools:
    """Return the nodes of its generation from which no filter keeps it."""
    mask = here.usable.copy()
    ports = room.host_ports(service)
    for i in np.flatnonzero(mask):
        node = here.nodes[i]
        is_home = node.spec.generation == service.generation
        mask[i] = is_home and not room.bar_for(ctx, service, node, ports)
    return mask
