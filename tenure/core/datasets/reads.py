"""Reads of blocks, as tasks and executors ask for them: objections, slots, where copies may lie.

Owns nothing, reads only.
"""

from __future__ import annotations

from collections.abc import Callable

from tenure.core.blocks import replicas
from tenure.core.datasets import copies, prefetch_inputs, tier_room
from tenure.core.state.context import Context
from tenure.model.dataset import Block, DatasetState, Location
from tenure.model.errors import Problem
from tenure.model.locality import Read, Seats
from tenure.model.node import Node
from tenure.model.reading import DatasetInput
from tenure.model.tier import DURABLE, TierSpec

#: Nodes that are told to people who ask where a task could run.
OTHERS = 5
#: The least weight of a short block: its task still prefers the faster copy.
LEAST_WEIGHT = 0.05


def dataset_objection(ctx: Context, given: DatasetInput) -> Problem | None:
    """Return why nobody can begin to read a dataset, None if it can be read."""
    dataset = ctx.tables.datasets.get(given.id)
    if dataset is None or dataset.is_going:
        return Problem("no_dataset", f"the dataset {given.name} was removed", 422)
    if dataset.made >= given.blocks:
        return None
    told = f"the dataset {given.name} is still being put: tenure dataset inspect {given.name}"
    if dataset.state is DatasetState.FAILED:
        told = f"the put of the dataset {given.name} has failed ({dataset.reason}): put it again"
    return Problem("dataset_not_ready", told, 409)


def seats_of(ctx: Context, free_on: Callable[[Node], int], *, is_any: bool = False) -> Seats:
    """Return the nodes with tiers (``is_any``: all), and how many readers each can take."""
    found = (node for node in ctx.tables.nodes.values() if is_any or node.spec.tiers)
    nodes = sorted(found, key=lambda node: node.name)
    return Seats(
        tuple(node.name for node in nodes),
        tuple(node.spec.rack for node in nodes),
        tuple(map(free_on, nodes)),
    )


def read_of(
    ctx: Context, given: DatasetInput, block: Block, places: tuple[Location, ...], key: int
) -> Read:
    """Return a block to be read, by its copies in ``places``, as it is matched."""
    pending = replicas.pending_on(ctx, block)
    rows = tuple(
        prefetch_inputs.copy_of(place, is_pending=place.node in pending) for place in places
    )
    return Read(key, rows, max(LEAST_WEIGHT, block.length / given.block_bytes))


def store_on(ctx: Context, node: Node, block: Block) -> TierSpec | None:
    """Return the durable tier of a node with most room for a block, None if it fits in none."""
    found = [
        tier
        for tier in node.spec.tiers
        if tier.kind in DURABLE
        and block.on(node.name, tier.name) is None
        and not copies.is_dropping(ctx, block, node.name, tier.name)
        and copies.is_open(ctx, node.name, tier)
        and tier_room.free_in(ctx, node.name, tier) >= block.length
    ]
    return max(found, key=lambda t: (tier_room.free_in(ctx, node.name, t), t.name), default=None)
