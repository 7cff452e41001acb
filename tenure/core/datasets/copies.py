"""Copies of blocks: made where they are missing, moved out of memory where it is full.

Theory of operation. Whatever changes the copies of a block, or the standing of a node that has one,
has it looked at: a block has enough copies if they lie on as many nodes as its dataset asks for,
nodes that are lost or leave not counted. For each that is missing one copy is begun, from the file
that is being put or from another copy, in a tier that has room for it. A copy appears only once its
checksum was found right, so one whose end is not known is simply made again, and what it may leave
is found by the next survey of its node. Room is taken when a copy begins and given back when a file
is known to be gone. Owns the copies under way, in the records of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tenure.core.blocks import replicas, surveys, tiers
from tenure.core.blocks.block_records import (
    mark_of,
    put_block,
    put_dataset,
    put_mark,
    with_replica,
    without_replica,
)
from tenure.core.datasets import over_replication, tier_room
from tenure.core.nodes import harvestable, power, replica_holders
from tenure.core.state.block_index import Standing
from tenure.core.state.context import Context
from tenure.model.batch import InputFile
from tenure.model.dataset import (
    Block,
    Dataset,
    DatasetState,
    Replica,
    ReplicaState,
)
from tenure.model.effects import CopyBlock
from tenure.model.node import Node, Scheduling
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.tier import DURABLE, TierKind, TierSpec
from tenure.model.units import US

MACHINE = "copy"
#: Blocks looked at in one go; the rest in the next, so that other events come between.
TURN = 200
#: And in one transaction: what is begun may have the whole fleet looked at anew, these included.
MOST_LOOKED = 1000
#: Blocks in a row that found all nodes busy, after which no more are looked at.
MOST_BUSY = 8
#: What found no room or no source is looked at again after this long.
STARVED_US = 5 * US
#: No new copies in a tier that is full, or failed, for this long.
TIER_US = 30 * US
RETRY_US = US
MOST_WAITS = 30
#: Refusals that mean that the files are not what was put.
HOPELESS = frozenset(("input_changed", "no_input"))


@dataclass(frozen=True, slots=True)
class Seat:
    """A tier in which something can be kept now, with what is free of it."""

    node: Node
    tier: TierSpec
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Seats:
    """The tiers of nodes that take another copy now; ``is_busy``: others do once one has ended."""

    rows: tuple[Seat, ...]
    is_busy: bool


def settle(ctx: Context) -> None:
    """Begin the copies that are missing, as far as nodes take more of them."""
    block_index = ctx.block_index
    if ctx.is_closing or ctx.meta.is_restoring or not _has_turn(ctx):
        return
    seats: Seats | None = None
    busy = 0
    for key in list(islice(block_index.wanting, TURN)):
        if busy >= MOST_BUSY:
            break
        del block_index.wanting[key]
        block = ctx.tables.blocks[key]
        spare = _spare(ctx, block)
        if spare >= 0:
            finish(ctx, block.dataset)  # its last copy may be one that was found
            over_replication.note(ctx, block, spare)
            continue
        if seats is None:
            seats = _seats(ctx)
        word = _begin(ctx, block, seats)
        if word == "busy":
            busy += 1
            block_index.wanting[key] = None
        elif word == "starved":
            block_index.starved[key] = None
            ctx.arm(max(ctx.now_us + STARVED_US, block.retry_us), MACHINE, "starved")
        elif word == "begun":
            busy, seats = 0, None
    block_index.settled = block_index.turn
    if len(block_index.wanting) > busy and busy < MOST_BUSY:
        block_index.settled = -1
        ctx.arm(ctx.now_us, MACHINE, "more")


def _has_turn(ctx: Context) -> bool:
    """Whether blocks are to be looked at now; where it were too many for one transaction, later."""
    block_index = ctx.block_index
    if block_index.turn == block_index.settled:
        return False
    number, looked = block_index.looked
    looked = looked if number == ctx.work.number else 0
    if looked >= MOST_LOOKED:
        ctx.arm(ctx.now_us, MACHINE, "more")
        return False
    block_index.looked = ctx.work.number, looked + min(TURN, len(block_index.wanting))
    return True


def on_timer(ctx: Context, key: str) -> None:
    """Look again at blocks that found nothing, or at more of those that wait."""
    block_index = ctx.block_index
    block_index.settled = -1
    if key == "starved":
        for name in list(islice(block_index.starved, TURN)):
            del block_index.starved[name]
            block_index.wanting[name] = None
        if block_index.starved:
            ctx.arm(ctx.now_us + STARVED_US, MACHINE, "starved")


def wake(ctx: Context) -> None:
    """Have all blocks that wait for room or a source looked at now."""
    ctx.block_index.wanting.update(ctx.block_index.starved)
    ctx.block_index.starved.clear()
    ctx.block_index.turn += 1


def counts(ctx: Context, block: Block, replica: Replica) -> bool:
    """Whether a copy counts towards those that a block is to have.

    One under way does, and so does one that was found and is about to be compared, or that may be
    found in a tier of another name once its node was looked at.
    """
    tier = replicas.tier_of(ctx, replica)
    mark = f"{replica.node}/{replica.tier}"
    if tier is None:
        return replicas.standing(ctx, replica.node) is Standing.AWAY
    if mark_of(ctx, replica.node, tier.name).fault:
        return False
    if replica.is_present and mark in block.broken:
        is_here = replicas.standing(ctx, replica.node) is Standing.READY
        return is_here and ctx.block_index.doubts(mark, block.key)
    return replicas.standing(ctx, replica.node) in (Standing.READY, Standing.AWAY)


def _spare(ctx: Context, block: Block) -> int:
    """Return on how many nodes more than it is to be a block lies; below 0 are missing."""
    dataset = ctx.tables.datasets.get(block.dataset)
    if dataset is None or dataset.is_going:
        return 0
    nodes = {r.node for r in block.replicas if counts(ctx, block, r)}
    return len(nodes) - dataset.spec.replicas


def _seats(ctx: Context) -> Seats:
    rows: list[Seat] = []
    is_busy = False
    for node in ctx.tables.nodes.values():
        if not node.spec.tiers or node.scheduling is not Scheduling.YES:
            continue
        if replicas.standing(ctx, node.name) is not Standing.READY:
            continue
        if ctx.block_index.arriving.get(node.name, 0) >= ctx.params.copies_per_node:
            is_busy = True
            continue
        for tier in node.spec.tiers:
            if is_open(ctx, node.name, tier):
                rows.append(Seat(node, tier, tier_room.free_in(ctx, node.name, tier)))
    return Seats(tuple(rows), is_busy)


def is_open(ctx: Context, node: str, tier: TierSpec) -> bool:
    """Whether something new may be kept in a tier now."""
    mark = mark_of(ctx, node, tier.name)
    return not mark.fault and mark.retry_us <= ctx.now_us


def _begin(ctx: Context, block: Block, seats: Seats) -> str:
    """Begin one more copy of a block; say why not: busy, starved, or it waits for its first."""
    dataset = ctx.tables.datasets[block.dataset]
    if ctx.now_us < block.retry_us:
        return "starved"
    if not block.sha256 and any(not r.is_present for r in block.replicas):
        return "waits"  # what the first copy finds the others must be; its end wakes this
    if not _has_source(ctx, dataset, block):
        if not dataset.spec.batch:
            replica_holders.wake(ctx, block)
        wrong = ", ".join(block.broken)
        why = f": what lies in {wrong} is not what was put" if wrong else ""
        _note(ctx, block, f"no copy of it can be read now{why}")
        return "starved"
    rows = seats.rows
    if dataset.spec.batch and seats.is_busy:  # for one that lends an input waits
        rows = tuple(seat for seat in rows if harvestable.is_said_to_lend(seat.node))
    seat = _choose(ctx, dataset, block, rows)
    if seat is not None:
        send(ctx, block, seat.node.name, seat.tier)
        return "begun"
    if seats.is_busy:
        return "busy"
    if not dataset.spec.batch:
        _wake(ctx, dataset, block)
    _note(ctx, block, "no tier of its kinds has room for another copy of it")
    return "starved"


def _wake(ctx: Context, dataset: Dataset, block: Block) -> None:
    """Switch on a node that is off and has room for a copy that goes nowhere else.

    One with a copy that does not count is such a node: there it is compared, or made anew.
    """
    kinds = frozenset(dataset.spec.tiers) or DURABLE
    taken = {r.node for r in block.replicas if counts(ctx, block, r)}
    for node in ctx.tables.nodes.values():
        if node.name in taken or not replicas.is_wakeable(node):
            continue
        tiers_ = (tier for tier in node.spec.tiers if tier.kind in kinds)
        if any(tier_room.free_in(ctx, node.name, tier) >= block.length for tier in tiers_):
            power.want_on(ctx, node.name, f"blocks of dataset {dataset.spec.name} need copies")
            return


def _note(ctx: Context, block: Block, note: str) -> None:
    if block.note != note:
        put_block(ctx, replace(block, note=note))


def _has_source(ctx: Context, dataset: Dataset, block: Block) -> bool:
    is_offered = bool(block.sha256 and replicas.offered(ctx, block))
    return is_offered or _is_from_file(dataset, is_offered=False)


def _is_from_file(dataset: Dataset, *, is_offered: bool) -> bool:
    """Whether a copy is made from the daemon's file: while it is put, or for want of another."""
    is_kept = bool(dataset.spec.batch) and dataset.state is not DatasetState.FAILED
    return dataset.state is DatasetState.PUTTING or (is_kept and not is_offered)


def _choose(ctx: Context, dataset: Dataset, block: Block, seats: Sequence[Seat]) -> Seat | None:
    """Return where the next copy of a block goes: its kinds in turn, elsewhere than the others."""
    taken = {r.node for r in block.replicas if not surveys.is_wrong(ctx, block, r)}
    racks = {ctx.tables.nodes[name].spec.rack for name in taken if name in ctx.tables.nodes}
    fitting = [
        seat
        for seat in seats
        if seat.node.name not in taken
        and seat.free_bytes >= block.length
        and not is_dropping(ctx, block, seat.node.name, seat.tier.name)
    ]
    for kinds in _kinds(ctx, dataset, block):
        here = [seat for seat in fitting if seat.tier.kind in kinds]
        if here:
            return min(here, key=lambda seat: _rank(ctx, dataset, block, seat, racks))
    return None


def is_dropping(ctx: Context, block: Block, node: str, tier: str) -> bool:
    """Whether a file of a block is still to be removed from a tier: a new one would go with it."""
    name = replicas.name_of(ctx, block)
    return any(drop.name == name for drop in mark_of(ctx, node, tier).drops)


def _kinds(ctx: Context, dataset: Dataset, block: Block) -> Iterator[frozenset[TierKind]]:
    """Return the kinds of tiers for the next copy, the wanted ones first."""
    asked = dataset.spec.tiers
    if not asked:
        yield DURABLE
        return
    wanted = [asked[i % len(asked)] for i in range(dataset.spec.replicas)]
    for replica in block.replicas:
        tier = replicas.tier_of(ctx, replica)
        if tier is not None and tier.kind in wanted and counts(ctx, block, replica):
            wanted.remove(tier.kind)
    for kind in wanted:
        yield frozenset((kind,))
    yield frozenset(asked)


def _rank(
    ctx: Context, dataset: Dataset, block: Block, seat: Seat, racks: set[str]
) -> tuple[bool, bool, bool, int, float, str, str]:
    """Where it is wanted first; another rack, the fewest copies on their way, then most room.

    The input of a batch rather lies on nodes that lend: only there it is read.
    """
    rack, name = seat.node.spec.rack, seat.node.name
    is_idle = bool(dataset.spec.batch) and not harvestable.is_said_to_lend(seat.node)
    is_near = bool(rack) and len(racks) == 1 and rack in racks
    share = seat.free_bytes / seat.tier.capacity_bytes
    arriving = ctx.block_index.arriving.get(name, 0)
    return name != block.home, is_idle, is_near, arriving, -share, name, seat.tier.name


def send(ctx: Context, block: Block, node: str, tier: TierSpec) -> None:
    """Begin a copy of a block into a tier; its source is its own node's copy where it has one."""
    dataset = ctx.tables.datasets[block.dataset]
    effect = CopyBlock(
        id=ctx.effect_id(),
        owner=f"{MACHINE}:{block.key}@{node}/{tier.name}",
        node=node,
        image=ctx.params.helper_image,
        path=tier.path,
        name=replicas.name_of(ctx, block),
        length=block.length,
        sha256=block.sha256,
    )
    places = replicas.offered(ctx, block) if block.sha256 else ()
    here = [place for place in places if place.node == node]
    if not here and _is_from_file(dataset, is_offered=bool(places)):
        file = dataset.spec.files[block.file]
        path = f"{dataset.spec.root}/{file.name}" if file.name else dataset.spec.root
        origin = InputFile(path, file.size_bytes, file.mtime_ns)
        effect = replace(effect, origin=origin, offset=block.offset)
    else:
        place = (here or places)[0]
        effect = replace(effect, source=place.node, source_path=place.path)
    arriving = Replica(node, tier.name, effect=effect.id, since_us=ctx.now_us, used_us=ctx.now_us)
    put_block(ctx, replace(with_replica(block, arriving), note=""))
    ctx.emit(effect)


def cache(ctx: Context, block: Block, node: str) -> bool:
    """Begin a copy of a block into the memory tier of a node (a prefetch); False: not now.

    What was used least lately makes room first; then the copy can begin once that is gone.
    """
    found = ctx.tables.nodes.get(node)
    if found is None or replicas.standing(ctx, node) is not Standing.READY or not block.sha256:
        return False
    for tier in found.spec.tiers:
        if tier.kind is not TierKind.MEMORY or not is_open(ctx, node, tier):
            continue
        if block.on(node, tier.name) is not None or not replicas.offered(ctx, block):
            return False
        if is_dropping(ctx, block, node, tier.name):
            continue
        if tier_room.free_in(ctx, node, tier) >= block.length:
            send(ctx, block, node, tier)
            return True
        tier_room.make_room(ctx, node, tier, block.length)
    return False


# ends


def on_effect(ctx: Context, owner: str, effect: str, outcome: Outcome) -> None:
    """Take in the end of a copy; one that nobody waits for leaves a file to be found."""
    key, _, place = owner.partition("@")
    node, _, tier = place.partition("/")
    block = ctx.tables.blocks.get(key)
    replica = None if block is None else block.on(node, tier)
    if block is None or replica is None or replica.effect != effect:
        tiers.survey_soon(ctx, node)
        return
    if isinstance(outcome, Done):
        _arrived(ctx, block, replica, outcome)
    else:
        _failed(ctx, block, replica, outcome)


def _arrived(ctx: Context, block: Block, replica: Replica, outcome: Done) -> None:
    present = replace(replica, state=ReplicaState.PRESENT, effect="", since_us=ctx.now_us)
    broken = tuple(m for m in block.broken if m != f"{replica.node}/{replica.tier}")
    block = replace(block, sha256=block.sha256 or outcome.value, mishaps=0, retry_us=0, note="")
    block = put_block(ctx, replace(with_replica(block, present), broken=broken))
    _condemn_broken(ctx, block)
    finish(ctx, block.dataset)


def _condemn_broken(ctx: Context, block: Block) -> None:
    """Remove copies that were kept only because they were the last."""
    for replica in block.replicas:
        if surveys.is_wrong(ctx, block, replica) and replicas.offered(ctx, block):
            block = tiers.discard(ctx, block, replica.node, replica.tier)


def finish(ctx: Context, key: str) -> None:
    """Have a dataset be ready once all of its blocks have all of their replicas."""
    dataset = ctx.tables.datasets.get(key)
    if dataset is None or dataset.state is not DatasetState.PUTTING:
        return
    blocks = dataset.spec.blocks
    if dataset.made < blocks or ctx.block_index.whole.get(key, 0) < blocks:
        return
    ready = replace(dataset, state=DatasetState.READY, ready_us=ctx.now_us, reason="")
    put_dataset(ctx, ready)
    ctx.publish("dataset.ready", key, name=dataset.spec.name, blocks=blocks)


def _failed(ctx: Context, block: Block, replica: Replica, outcome: Outcome) -> None:
    """Try again later, elsewhere where that may help."""
    code = outcome.code if isinstance(outcome, Refused) else "unknown"
    dataset = ctx.tables.datasets.get(block.dataset)
    if dataset is None or dataset.is_going:  # it may have come to its end all the same
        name = f"{replicas.folder_of(ctx)}/{block.dataset}"
        tiers.drop_folder(ctx, f"{replica.node}/{replica.tier}", name, 0)
    if code == "aborted":  # as we wished: nothing ails the block, nor the tier
        put_block(ctx, without_replica(block, replica.node, replica.tier))
        tiers.survey_soon(ctx, replica.node)
        return
    note = f"{code}: {getattr(outcome, 'detail', '')}"[:300]
    mishaps = block.mishaps + 1
    retry_us = ctx.now_us + RETRY_US * min(mishaps, MOST_WAITS)
    block = replace(without_replica(block, replica.node, replica.tier), note=note)
    block = put_block(ctx, replace(block, mishaps=mishaps, retry_us=retry_us))
    ctx.arm(retry_us, MACHINE, "starved")
    if code in HOPELESS:
        _hopeless(ctx, block, note)
    elif code == "corrupted":
        _count_resent(ctx, block)
        for place in replicas.offered(ctx, block):
            tiers.check(ctx, block, place.node, place.tier)
    elif code in ("tier_full", "no_tier", "no_image"):
        mark = mark_of(ctx, replica.node, replica.tier)
        put_mark(ctx, replace(mark, retry_us=ctx.now_us + TIER_US))
        ctx.block_index.troubles[mark.key] = note
        ctx.publish("tier.trouble", mark.key, code=code, note=note)
    if code not in HOPELESS:
        tiers.survey_soon(ctx, replica.node)


def _count_resent(ctx: Context, block: Block) -> None:
    """Count an input that did not arrive as it was sent."""
    dataset = ctx.tables.datasets.get(block.dataset)
    batch = None if dataset is None else ctx.tables.batches.get(dataset.spec.batch)
    if batch is not None:
        ctx.put_batch(replace(batch, resent=batch.resent + 1))


def _hopeless(ctx: Context, block: Block, note: str) -> None:
    """End a put whose files are not what they were."""
    dataset = ctx.tables.datasets[block.dataset]
    if _is_from_file(dataset, is_offered=False) and not dataset.is_going:
        put_dataset(ctx, replace(dataset, state=DatasetState.FAILED, reason=note))
        ctx.publish("dataset.failed", dataset.id, name=dataset.spec.name, reason=note)


def rearm(ctx: Context) -> None:
    """Have everything looked at after a restart."""
    ctx.block_index.settled = -1
