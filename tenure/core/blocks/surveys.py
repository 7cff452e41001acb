"""What a look at the tiers of a node finds, and what is found of copies that are compared.

Theory of operation. A look is held against the records a slice at a time, so that no event is long
however many blocks a node holds. Nothing else is done with the node's tiers meanwhile, and it is
not looked at before the end. What the records say and is not there is lost. What is there and no
record knows is removed, but for a copy of a block of which too few can be read: a tier may have
another name now, a node may have been forgotten, a state restored from a backup. Such a copy is
kept as one that is not offered (``broken``) and in doubt: it counts as one under way until its
checksum is found right. What a restored state does not know is kept too (``orphans``). Owns what is
known of replicas, in the records of blocks and tiers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from tenure.core.blocks import orphans, replicas
from tenure.core.blocks.block_records import (
    mark_of,
    put_block,
    put_dataset,
    put_mark,
    with_replica,
    without_replica,
)
from tenure.core.state.block_index import Chore
from tenure.core.state.context import Context
from tenure.model.dataset import Block, Drop, Replica, ReplicaState, TierMark
from tenure.model.node import Node
from tenure.model.outcome import Done
from tenure.model.tier import DURABLE, TierSpec

#: Files of the fleet in its folder of a tier that are no blocks.
MARKER, MEASURED = ".tier", ".measure"
#: The fault of a disk that was kept on before and lacks even the mark of the fleet.
UNMOUNTED = "is not where blocks were kept before: is its disk mounted?"
#: Files of a list that are sorted in one go, and files or copies that are compared in one go.
ROWS, SLICE = 2000, 250
#: Files without a record that one look has removed; more are found by the next.
MOST_ORPHANS = 1000


def compared(ctx: Context, node: Node, begun_us: int, outcome: Done) -> Iterator[None]:
    """Compare what a look found in the tiers of a node with the records, slice by slice."""
    found: dict[str, dict[str, int]] = {tier.name: {} for tier in node.spec.tiers}
    for count, (path, size) in enumerate(outcome.counts, 1):
        tier, _, name = path.partition("/")
        found.setdefault(tier, {})[name] = size
        if count % ROWS == 0:
            yield
    faults = dict(line.split(" ", 1) for line in outcome.value.splitlines() if " " in line)
    for spec in node.spec.tiers:
        mark, here = mark_of(ctx, node.name, spec.name), found[spec.name]
        fault = faults.get(spec.name, "") or _unmounted(ctx, mark, spec, here)
        if mark.fault != fault:
            ctx.publish("tier.fault" if fault else "tier.mended", mark.key, why=fault)
            ctx.block_index.standing.pop(node.name, None)  # its blocks are to be looked at
        if not fault:
            yield from _missed(ctx, mark, begun_us, here)
            yield from _orphans(ctx, mark, here)
        mark = mark_of(ctx, node.name, spec.name)
        left = replace(mark, surveyed_us=begun_us, fault=fault, note="", is_accepted=False)
        put_mark(ctx, left)


def _unmounted(ctx: Context, mark: TierMark, spec: TierSpec, found: Mapping[str, int]) -> str:
    """Return a fault where blocks were kept and now not even the mark of the fleet is there."""
    is_there = mark.is_accepted or f"{replicas.folder_of(ctx)}/{MARKER}" in found
    if spec.kind not in DURABLE or is_there:
        return ""
    for key in ctx.block_index.held.get(mark.key, ()):
        replica = ctx.tables.blocks[key].on(mark.node, mark.tier)
        if replica is not None and replica.is_present:
            return f"{spec.path} {UNMOUNTED}"
    return ""


def _missed(
    ctx: Context, mark: TierMark, begun_us: int, found: Mapping[str, int]
) -> Iterator[None]:
    """Give up copies in a tier that are not there."""
    gone = 0
    for count, key in enumerate(list(ctx.block_index.held.get(mark.key, ()))):
        if count and count % SLICE == 0:
            yield
        block = ctx.tables.blocks.get(key)
        replica = None if block is None else block.on(mark.node, mark.tier)
        if block is None or replica is None:
            continue
        if not replica.is_present or replica.since_us >= begun_us:
            continue
        if found.get(replicas.name_of(ctx, block)) != block.length:
            lose(ctx, block, mark.node, mark.tier)
            gone += 1
        elif mark.key in block.broken:  # it may be right: what was in doubt is not stored
            doubt(ctx, block, mark)
    if gone:
        ctx.publish("tier.replicas_lost", mark.key, count=gone)


def lose(ctx: Context, block: Block, node: str, tier: str) -> None:
    """Take a copy as gone."""
    block = put_block(ctx, without_replica(block, node, tier))
    if block.sha256 and all(is_wrong(ctx, block, replica) for replica in block.replicas):
        _mourn(ctx, block, f"its last copy, in {node}/{tier}, is gone")


def is_wrong(ctx: Context, block: Block, replica: Replica) -> bool:
    """Whether a copy is known not to be what was put: it may be written anew where it lies."""
    mark = f"{replica.node}/{replica.tier}"
    return (
        replica.is_present and mark in block.broken and not ctx.block_index.doubts(mark, block.key)
    )


def _orphans(ctx: Context, mark: TierMark, found: Mapping[str, int]) -> Iterator[None]:
    """Have removed from a tier what nobody knows, and keep what is a copy that its block lacks.

    What is to go is stored before the next slice: no copy of the same name begins meanwhile.
    """
    rows = iter(found.items())
    count, tally = 0, orphans.Tally()
    while part := list(islice(rows, SLICE)):
        if count > MOST_ORPHANS:
            ctx.block_index.strewn.add(mark.node)
            orphans.note(ctx, mark, tally, is_whole=False)
            return
        doomed = {drop.name for drop in mark_of(ctx, mark.node, mark.tier).drops}
        going = []
        for name, size in part:
            if {name, name.rsplit("/", 1)[0]} & doomed or _is_expected(ctx, name):
                continue
            block = _block_of(ctx, name)
            if block is not None and block.on(mark.node, mark.tier) is not None:
                continue
            if _is_of_a_block(name) and orphans.is_orphan(ctx, mark, name, block):
                tally.add(name, size)
            elif block is None or size != block.length or not _adopt(ctx, block, mark):
                going.append(Drop(name, size))
        if going:
            count += len(going)
            kept = mark_of(ctx, mark.node, mark.tier)
            put_mark(ctx, replace(kept, drops=(*kept.drops, *going)))
        if len(part) == SLICE:
            yield
    orphans.note(ctx, mark, tally, is_whole=True)


def _is_expected(ctx: Context, name: str) -> bool:
    """Whether a file is one of a copy that is under way, or of a dataset that is being removed."""
    last = name.rsplit("/", 1)[-1].removesuffix(".sum")
    if last in (MARKER, MEASURED):
        return True
    if last.endswith(".part") and last.split(".")[-2] in ctx.tables.effects:
        return True
    dataset = ctx.tables.datasets.get(name.split("/")[1]) if name.count("/") > 1 else None
    return dataset is not None and dataset.is_going


def _is_of_a_block(name: str) -> bool:
    """Whether a file of a tier is named as that of a whole block is."""
    number = name.rpartition("/")[2]
    return name.count("/") > 1 and number.isascii() and number.isdigit()


def _block_of(ctx: Context, name: str) -> Block | None:
    """Return the block that a file of a tier is named after."""
    if not _is_of_a_block(name):
        return None
    _, _, key = name.partition("/")
    dataset, _, number = key.partition("/")
    block = ctx.tables.blocks.get(f"{dataset}/{int(number)}")
    return block if block is not None and replicas.name_of(ctx, block) == name else None


def _adopt(ctx: Context, block: Block, mark: TierMark) -> bool:
    """Keep a file that is a copy which its block lacks, and have it compared."""
    if not block.sha256 or not _is_lacking(ctx, block, mark):
        return False
    since_us = max(0, ctx.now_us - 1)  # before the check of it begins
    copy = Replica(mark.node, mark.tier, ReplicaState.PRESENT, since_us=since_us)
    doubt(ctx, block, mark)
    put_block(ctx, replace(with_replica(block, copy), broken=(*block.broken, mark.key)))
    return True


def rescued(ctx: Context, mark: TierMark, drop: Drop) -> bool:
    """Keep a file that was to go, and by now is a copy of a block that can be read nowhere."""
    block = _block_of(ctx, drop.name)
    if block is None or drop.size_bytes != block.length or replicas.offered(ctx, block):
        return False
    return block.on(mark.node, mark.tier) is None and _adopt(ctx, block, mark)


def _is_lacking(ctx: Context, block: Block, mark: TierMark) -> bool:
    """Whether a block is to have a copy in a tier: too few others can be read now.

    One in a tier of a kind that its dataset did not ask for is of use only if no other can be.
    """
    dataset = ctx.tables.datasets.get(block.dataset)
    tier = ctx.tables.nodes[mark.node].spec.tier(mark.tier)
    if dataset is None or dataset.is_going or tier is None:
        return False
    places = replicas.offered(ctx, block)
    nodes = {place.node for place in places if f"{place.node}/{place.tier}" != mark.key}
    is_asked_for = tier.kind in (frozenset(dataset.spec.tiers) or DURABLE)
    return mark.node not in nodes and len(nodes) < (dataset.spec.replicas if is_asked_for else 1)


def doubt(ctx: Context, block: Block, mark: TierMark) -> None:
    """Have a copy that is not offered compared before others: it may be right."""
    ctx.block_index.proofs.setdefault(mark.key, {})[block.key] = None


def give_up(ctx: Context, block: Block, node: str, tier: str) -> Block:
    """Give up a copy: it is not offered any more, and its file is to be removed."""
    mark = mark_of(ctx, node, tier)
    drop = Drop(replicas.name_of(ctx, block), block.length)
    put_mark(ctx, replace(mark, drops=(*mark.drops, drop)))
    return put_block(ctx, without_replica(block, node, tier))


# what was compared with its checksum


def checked(ctx: Context, node: Node, chore: Chore, right: Mapping[str, int]) -> None:
    """Replace copies that are not what they were; the last of a block is kept, and not offered."""
    mark = f"{node.name}/{chore.tier}"
    if node.spec.tier(chore.tier) is None:
        return  # it is named no longer: its last copies stay on record for when it is again
    for key in chore.items:
        was_in_doubt = ctx.block_index.doubts(mark, key)
        ctx.block_index.proofs.get(mark, {}).pop(key, None)
        block = ctx.tables.blocks.get(key)
        replica = None if block is None else block.on(node.name, chore.tier)
        if block is None or replica is None:
            continue
        if not replica.is_present or replica.since_us >= chore.begun_us:
            continue
        if right.get(replicas.name_of(ctx, block), 0):
            if mark in block.broken:
                _proven(ctx, block, mark_of(ctx, node.name, chore.tier))
        else:
            _wrong(ctx, block, mark, was_in_doubt=was_in_doubt)


def _proven(ctx: Context, block: Block, mark: TierMark) -> None:
    """Offer a copy that was not and is right, unless enough others are; wrong ones go then."""
    if not _is_lacking(ctx, block, mark):
        give_up(ctx, block, mark.node, mark.tier)
        return
    left = tuple(other for other in block.broken if other != mark.key)
    block = put_block(ctx, replace(block, broken=left))
    dataset = ctx.tables.datasets.get(block.dataset)
    if dataset is not None and dataset.reason.startswith(_lament(block)):
        put_dataset(ctx, replace(dataset, reason=""))
    ctx.publish("block.recovered", block.key, node=mark.node, tier=mark.tier)
    if any(f"{p.node}/{p.tier}" == mark.key for p in replicas.offered(ctx, block)):
        for replica in block.replicas:
            if is_wrong(ctx, block, replica):
                block = give_up(ctx, block, replica.node, replica.tier)
                ctx.notices.nodes.add(replica.node)  # it has something to remove


def _wrong(ctx: Context, block: Block, mark: str, *, was_in_doubt: bool) -> None:
    """Give up a copy that is not what was put; keep it, not offered, while no other can be read."""
    node, _, tier = mark.partition("/")
    is_news = mark not in block.broken
    if is_news:
        ctx.publish("block.corrupted", block.key, node=node, tier=tier)
    if any(f"{p.node}/{p.tier}" != mark for p in replicas.offered(ctx, block)):
        give_up(ctx, block, node, tier)
        return
    if is_news:
        block = put_block(ctx, replace(block, broken=(*block.broken, mark)))
    elif was_in_doubt:
        ctx.block_index.want(block.key)  # it counted as one under way
    if all(is_wrong(ctx, block, replica) for replica in block.replicas):
        _mourn(ctx, block, f"its last copy, in {mark}, is not what was put")


def _lament(block: Block) -> str:
    return f"block {block.number}: "


def _mourn(ctx: Context, block: Block, why: str) -> None:
    """Tell that a block cannot be read any more, and what brings it back."""
    dataset = ctx.tables.datasets.get(block.dataset)
    if dataset is None or dataset.is_going or dataset.reason.startswith(_lament(block)):
        return
    if dataset.spec.batch:
        return  # of the input of a batch the daemon has the file
    reason = f"{_lament(block)}{why}"
    put_dataset(ctx, replace(dataset, reason=f"{reason}: put the same files again"))
    ctx.publish("dataset.broken", dataset.id, name=dataset.spec.name, reason=reason)
