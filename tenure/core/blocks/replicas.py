"""Which replicas can be read now, and which nodes hold the last of one. Reads only.

A copy is offered if its node is on and answers, was looked at since it came back, and the copy was
checked by its checksum when it was made. ``locations`` is what tasks are matched by. Owns nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from tenure.core.blocks import external
from tenure.core.blocks.block_records import mark_of
from tenure.core.state.block_index import Standing, nodes_of
from tenure.core.state.context import Context
from tenure.model.dataset import Block, Dataset, DatasetState, Location, Replica, block_name
from tenure.model.node import Node, Power, Scheduling
from tenure.model.tier import DURABLE, TierSpec
from tenure.model.units import FOREVER_US

#: Blocks that wait for a copy and are asked why.
MOST_NOTED = 500
#: What makes a node's replicas readable.
READABLE = frozenset((Standing.READY, Standing.LEAVING))


def folder_of(ctx: Context) -> str:
    """Return the fleet's folder within the directory of any tier."""
    return f"tenure-{ctx.meta.fleet}"


def name_of(ctx: Context, block: Block) -> str:
    """Return a block's file within the directory of any tier."""
    return block_name(folder_of(ctx), block.dataset, block.number)


def standing(ctx: Context, name: str) -> Standing:
    """Return what the replicas on a node are worth now."""
    node = ctx.tables.nodes.get(name)
    if node is None:
        return Standing.LOST
    if not node.is_reachable:
        return Standing.LOST if is_lost(ctx, node) else Standing.AWAY
    if not is_surveyed(ctx, node):
        return Standing.AWAY
    is_leaving = node.is_removed or node.scheduling is Scheduling.DRAINING
    return Standing.LEAVING if is_leaving else Standing.READY


def is_lost(ctx: Context, node: Node) -> bool:
    """Whether a node does not answer for so long that its replicas count no more.

    One that tenure itself has switched off keeps what it holds.
    """
    return ctx.now_us >= lost_at_us(ctx, node)


def lost_at_us(ctx: Context, node: Node) -> int:
    """Return when the replicas on a node count no more unless it answers before.

    One that is switched on again has as long to come back as one that was cut off just then.
    """
    if node.power is Power.OFF or node.unreachable_us is None:
        return FOREVER_US
    is_new = node.power in (Power.ON, Power.BOOTING)
    since_us = max(node.unreachable_us, node.power_since_us if is_new else 0)
    return since_us + ctx.params.replica_lost_us


def is_surveyed(ctx: Context, node: Node) -> bool:
    """Whether all tiers of a node were looked at since its engine last came back."""
    marks = (mark_of(ctx, node.name, tier.name) for tier in node.spec.tiers)
    return all(mark.surveyed_us and mark.surveyed_us >= node.reconnected_us for mark in marks)


def tier_of(ctx: Context, replica: Replica) -> TierSpec | None:
    """Return the tier that a copy lies in, None if the configuration has lost it."""
    node = ctx.tables.nodes.get(replica.node)
    return None if node is None else node.spec.tier(replica.tier)


def offered(ctx: Context, block: Block) -> tuple[Location, ...]:
    """Return the copies of a block that can be read now, fastest kind first."""
    dataset = ctx.tables.datasets.get(block.dataset)
    if dataset is not None and dataset.spec.is_external:
        return external.offered(ctx, dataset, block)
    found = []
    for replica in block.replicas:
        tier = tier_of(ctx, replica)
        if tier is None or not replica.is_present:
            continue
        if f"{replica.node}/{replica.tier}" in block.broken or not reads(ctx, replica):
            continue
        path = f"{tier.path}/{name_of(ctx, block)}"
        speed = speed_of(ctx, replica.node, tier)
        found.append(Location(replica.node, tier.name, tier.kind, path, speed))
    kinds = {kind: rank for rank, kind in enumerate(("memory", "ssd", "hdd"))}
    return tuple(sorted(found, key=lambda place: (kinds[place.kind], place.node, place.tier)))


def reads(ctx: Context, replica: Replica) -> bool:
    """Whether what lies in the tier of a copy can be read now."""
    is_readable = tier_of(ctx, replica) is not None and standing(ctx, replica.node) in READABLE
    return is_readable and not mark_of(ctx, replica.node, replica.tier).fault


def speed_of(ctx: Context, node: str, tier: TierSpec) -> int:
    """Return how fast a tier is read, bytes a second: as stated, else as measured, 0 unknown."""
    return tier.bytes_per_s or mark_of(ctx, node, tier.name).bytes_per_s


def blocks_of(ctx: Context, dataset: Dataset) -> Iterator[Block]:
    """Return the blocks of a dataset that were made so far, in their order."""
    if dataset.spec.is_external:
        yield from external.blocks_of(ctx, dataset)
        return
    for number in range(dataset.made):
        block = ctx.tables.blocks.get(f"{dataset.id}/{number}")
        if block is not None:
            yield block


def locations(ctx: Context, dataset: Dataset) -> Iterator[tuple[Block, tuple[Location, ...]]]:
    """Return each block of a dataset with the copies of it that can be read now (section 2.1)."""
    for block in blocks_of(ctx, dataset):
        yield block, offered(ctx, block)


def count_of(ctx: Context, dataset: Dataset) -> int:
    """Return how many blocks of a dataset have records, or were seen."""
    return external.count_of(ctx, dataset) if dataset.spec.is_external else dataset.made


def block_of(ctx: Context, dataset: Dataset, number: int) -> Block | None:
    """Return a block of a dataset, None if there is no record of it, or it was not seen."""
    if dataset.spec.is_external:
        return external.block_of(ctx, dataset, number)
    return ctx.tables.blocks.get(f"{dataset.id}/{number}")


def pending_on(ctx: Context, block: Block) -> tuple[str, ...]:
    """Return the nodes into whose memory tier a block is being copied (section 4.1)."""
    return tuple(
        replica.node
        for replica in block.replicas
        if not replica.is_present
        and (tier := tier_of(ctx, replica)) is not None
        and tier.kind not in DURABLE
    )


def dataset_of(ctx: Context, ref: str) -> Dataset | None:
    """Return a dataset by id or by name; one that is being removed by id alone."""
    found = ctx.tables.datasets.get(ref)
    key = ctx.block_index.names.get(ref)
    return found if found is not None or key is None else ctx.tables.datasets[key]


def sole_counts(ctx: Context, node: str) -> dict[str, int]:
    """Return of how many blocks this node has the only copy that is kept for good, by dataset.

    What lies on it in memory alone counts too; a copy elsewhere counts if it is in a durable tier
    of a node that can be read and stays. O(ways in which blocks are spread over other nodes).
    """
    stays: dict[tuple[str, str], bool] = {}
    found: dict[str, int] = {}
    for key, spread in ctx.block_index.spread.get(node, {}).items():
        if _is_ours_to_keep(ctx, key):
            rows = spread.items()
            count = sum(n for o, n in rows if not any(_stays(ctx, place, stays) for place in o))
            found |= {key: count} if count else {}
    return found


def notes_on(ctx: Context, node: str) -> dict[str, str]:
    """Return why blocks on a node get no other copy, one reason for each dataset.

    Of the first that wait for one.
    """
    found: dict[str, str] = {}
    for waiting in (ctx.block_index.starved, ctx.block_index.wanting):
        for key in islice(waiting, MOST_NOTED):
            block = ctx.tables.blocks[key]
            if block.note and any(replica.node == node for replica in block.replicas):
                found.setdefault(block.dataset, block.note)
    return found


def _is_ours_to_keep(ctx: Context, key: str) -> bool:
    """Whether the last copies of a dataset are kept; of the input of a batch there is the file."""
    dataset = ctx.tables.datasets.get(key)
    return dataset is not None and not dataset.is_going and not dataset.spec.batch


def _stays(ctx: Context, place: tuple[str, str], stays: dict[tuple[str, str], bool]) -> bool:
    """Whether what lies in a tier is kept for good, on a node that can be read; as remembered."""
    if place not in stays:
        node = ctx.tables.nodes.get(place[0])
        tier = None if node is None else node.spec.tier(place[1])
        is_durable = tier is not None and tier.kind in DURABLE
        # a disk that is not there now may never be again
        is_there = is_durable and not mark_of(ctx, *place).fault
        stays[place] = is_there and standing(ctx, place[0]) is Standing.READY
    return stays[place]


def is_sole(ctx: Context, node: str) -> bool:
    """Whether a node has the last replica of some block: it is not switched off then.

    Worked out anew only when something about blocks or nodes with tiers has changed. O(ways in
    which blocks on the node are spread over others).
    """
    turn, found = ctx.block_index.sole.get(node, (-1, False))
    if turn != ctx.block_index.turn:
        stays: dict[tuple[str, str], bool] = {}
        found = any(
            not any(_stays(ctx, place, stays) for place in others)
            for key, spread in ctx.block_index.spread.get(node, {}).items()
            if _is_ours_to_keep(ctx, key)
            for others in spread
        )
        ctx.block_index.sole[node] = ctx.block_index.turn, found
    return found


def is_wakeable(node: Node) -> bool:
    """Whether a node is off, and may be switched on for copies of blocks."""
    is_welcome = not node.is_removed and node.scheduling is Scheduling.YES
    return is_welcome and node.power is Power.OFF and node.is_switchable


def is_needed(ctx: Context, node: str) -> bool:
    """Whether a node must stay on for its blocks: it has the last of one, or one is arriving.

    So it must for a copy in memory that somebody asked for: it would be made anew elsewhere; and
    for orphans in memory. While a dataset is being put every node with tiers may be asked for room.
    The input of a batch keeps no node on.
    """
    if not ctx.block_index.tiers_at.get(node):
        return False
    open_ = (ctx.tables.datasets[key] for key in ctx.block_index.open)
    if any(one.state is DatasetState.PUTTING and not one.spec.batch for one in open_):
        return True
    return ctx.block_index.arriving.get(node, 0) > 0 or is_sole(ctx, node) or _is_warm(ctx, node)


def _is_warm(ctx: Context, name: str) -> bool:
    """Whether a block would lie on too few nodes if what a node has in memory were lost.

    O(blocks in its memory).
    """
    node = ctx.tables.nodes.get(name)
    volatile = [t for t in node.spec.tiers if t.kind not in DURABLE] if node is not None else []
    for tier in volatile:
        if mark_of(ctx, name, tier.name).strays:
            return True
        for key in ctx.block_index.held.get(f"{name}/{tier.name}", ()):
            block = ctx.tables.blocks[key]
            dataset = ctx.tables.datasets.get(block.dataset)
            if dataset is None or dataset.is_going or dataset.spec.batch:
                continue
            if tier.kind not in dataset.spec.tiers:
                continue
            left = replace(
                block, replicas=tuple(r for r in block.replicas if not _goes(ctx, r, name))
            )
            if len(nodes_of(left)) < dataset.spec.replicas <= len(nodes_of(block)):
                return True
    return False


def _goes(ctx: Context, replica: Replica, node: str) -> bool:
    """Whether a copy would be lost if a node went off."""
    tier = tier_of(ctx, replica)
    return replica.node == node and tier is not None and tier.kind not in DURABLE
