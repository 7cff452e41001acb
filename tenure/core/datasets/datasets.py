"""Datasets: what is put, pinned and removed (docs/datasets.md).

Theory of operation. A put is accepted if the tiers have room for all of its replicas. The records
of its blocks are then made a few at a time, in their order, and ``copies`` brings each to where it
is to lie; so no event is long, and after a restart it goes on where it was. A removal frees the
name at once; block by block the records go, and the files with the last of them. Owns what becomes
of a dataset, in its record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tenure.core.blocks import external, replicas, tiers
from tenure.core.blocks.block_records import (
    drop_block,
    drop_dataset,
    mark_of,
    put_block,
    put_dataset,
)
from tenure.core.datasets import copies, prefetching, splits, tier_room
from tenure.core.state import quotas
from tenure.core.state.block_index import Standing
from tenure.core.state.context import Context
from tenure.model.dataset import Dataset, DatasetSpec, DatasetState
from tenure.model.errors import FieldError, Problem
from tenure.model.events import BlockDoubted, ChangeDataset, PutDataset
from tenure.model.node import Node, Power, Scheduling
from tenure.model.tier import DURABLE, TierKind
from tenure.model.units import US, size_text

MACHINE = "dataset"
#: Records of a dataset's blocks that are made ahead of its copies; the rest follows as these end.
AHEAD = 100
#: As many at a time, for the record of the dataset, with all of its files, is written each time.
STEP = 20
#: Blocks whose records are removed in one go.
TURN = 200
#: Blocks of which the copies are asked to be checked in one go.
WALK = 500
D = DatasetState
#: Nodes named in a refusal.
MOST_TOLD = 8
#: A node that does not answer for no longer may do so any moment: the daemon may just have started.
COMING_US = 10 * US
#: When to ask again where tiers are about to be looked at, in seconds.
SOON_S = 2.0


def put(ctx: Context, command: PutDataset) -> None:
    """Accept a new dataset, go on with one of the same files, or refuse."""
    there = replicas.dataset_of(ctx, command.spec.name)
    if there is not None and there.owner.namespace != command.owner.namespace:
        told = f"the name {there.spec.name!r} is taken; take another"  # it is not told by whom
        ctx.refuse(command, "name_taken", told, status=409, field="name")
        return
    if command.spec.is_external and (there is None or there.spec.is_external):
        external.put(ctx, command, there)
        return
    if there is not None:
        _put_again(ctx, command, there)
        return
    problem = objection(ctx, command.spec)
    if command.is_dry:
        ctx.reply(command, problem or Dataset(command.dataset, 0, command.spec, ctx.now_us))
        return
    if problem is not None:
        ctx.publish("dataset.refused", command.dataset, name=command.spec.name, code=problem.code)
        ctx.reply(command, problem)
        return
    seq = ctx.meta.next_seq
    ctx.set_meta(next_seq=seq + 1)
    made = Dataset(command.dataset, seq, command.spec, ctx.now_us, owner=command.owner)
    dataset = put_dataset(ctx, made)
    spec = command.spec
    ctx.publish("dataset.putting", dataset.id, name=spec.name, bytes=spec.size_bytes)
    grow(ctx)
    copies.finish(ctx, dataset.id)  # one without a single byte
    ctx.reply(command, ctx.tables.datasets[dataset.id])


def _put_again(ctx: Context, command: PutDataset, there: Dataset) -> None:
    """Go on with the put of a dataset, or make good what it has lost, from the same files."""
    if _shape(there.spec) != _shape(command.spec):
        told = f"there is a dataset {there.spec.name} of other files, block size, split, replicas "
        told += "or tiers"
        remedy = f"tenure dataset rm {there.spec.name} first, or take another name"
        ctx.refuse(command, "name_taken", f"{told}: {remedy}", status=409, field="name")
        return
    changed = _changed(ctx, there, command.spec, is_dry=command.is_dry)
    if changed is not None:
        what = changed or command.spec.root or "the file"
        told = f"{what} was changed since the put began"
        remedy = f"tenure dataset rm {there.spec.name} first"
        ctx.refuse(command, "input_changed", f"{told}: {remedy}", status=409, field="path")
        return
    if command.is_dry:
        ctx.reply(command, there)
        return
    copies.wake(ctx)
    rows = zip(there.spec.files, command.spec.files, strict=True)
    files = tuple(replace(now, ends=was.ends) for was, now in rows)  # as its blocks were cut
    again = replace(there, spec=replace(command.spec, files=files), state=D.PUTTING, reason="")
    dataset = put_dataset(ctx, again)
    if there.state is not D.PUTTING:
        ctx.publish("dataset.putting", dataset.id, name=dataset.spec.name, again=True)
    copies.finish(ctx, dataset.id)
    ctx.reply(command, ctx.tables.datasets[dataset.id])


def _changed(ctx: Context, there: Dataset, spec: DatasetSpec, *, is_dry: bool) -> str | None:
    """Return a file of which blocks are there as it was before: old and new must not be mixed.

    Nor must they be cut anew. Of files that are still to be sent (``is_dry``) some may have no time
    yet, and nobody knows their lines.

    Once all blocks were there, each that is copied anew is compared with what was put at first.
    """
    if there.ready_us is not None:
        return None
    starts = splits.starts(ctx, there)
    for number, (was, now) in enumerate(zip(there.spec.files, spec.files, strict=True)):
        if was.ends != now.ends and not is_dry:
            return now.name
        is_untold = is_dry and not now.mtime_ns
        if was.mtime_ns != now.mtime_ns and not is_untold:
            mine = range(starts[number], min(starts[number + 1], there.made))
            rows = (ctx.tables.blocks.get(f"{there.id}/{row}") for row in mine)
            if any(block is not None and block.sha256 for block in rows):
                return now.name
    return None


def _shape(spec: DatasetSpec) -> tuple[object, ...]:
    files = tuple((file.name, file.size_bytes) for file in spec.files)
    rest = spec.replicas, spec.tiers, spec.batch, spec.source, spec.split
    return files, spec.block_bytes, *rest


def objection(ctx: Context, spec: DatasetSpec, *, beside_bytes: int = 0) -> Problem | None:
    """Return why a dataset cannot be kept now, beside what is to come, None if it can."""
    if len(ctx.tables.datasets) >= ctx.params.max_datasets:
        told = f"there are {ctx.params.max_datasets} datasets already: remove some"
        return Problem("too_many_datasets", told, 429)
    if spec.blocks > ctx.params.max_blocks:
        told = (
            f"it has {spec.blocks} blocks, and may have {ctx.params.max_blocks}: make them larger"
        )
        return _problem("too_many_blocks", told, "block")
    kinds = frozenset(spec.tiers) or DURABLE
    having = [n for n in ctx.tables.nodes.values() if any(t.kind in kinds for t in n.spec.tiers)]
    if not having:
        words = " or ".join(sorted(kinds))
        told = f"no node has a tier of kind {words}: name some under nodes[].tiers"
        return _problem("no_tiers", told, "tiers")
    ready = [n for n in having if _can_be_written(ctx, n, spec)]
    problem = _lacking(ctx, spec, (having, ready), beside_bytes)
    if problem is None:
        return None
    soon = [n for n in having if n not in ready and _is_about_to_be_ready(ctx, n)]
    if soon and _lacking(ctx, spec, (having, [*ready, *soon]), beside_bytes) is None:
        told = f"it can be kept once these were looked at: {_told(ctx, soon)}; try again"
        return Problem("not_looked_at", told, 503, extra={"retry_after_s": SOON_S})
    return problem


def _lacking(
    ctx: Context, spec: DatasetSpec, nodes: tuple[list[Node], list[Node]], beside_bytes: int
) -> Problem | None:
    """Return why nodes cannot keep a dataset: those ``having`` its tiers, ``ready`` of them."""
    having, ready = nodes
    if len(ready) < spec.replicas:
        words = " or ".join(sorted(frozenset(spec.tiers) or DURABLE))
        told = (
            f"{spec.replicas} replicas need as many nodes with a tier of kind {words} that can be "
        )
        told += f"written now; there are {len(ready)}: {_told(ctx, having)}"
        return _problem("too_few_nodes", told, "replicas")
    return _no_room(ctx, spec, ready, beside_bytes)


def _is_about_to_be_ready(ctx: Context, node: Node) -> bool:
    return node.scheduling is Scheduling.YES and is_about_to_be_looked_at(ctx, node)


def is_about_to_be_looked_at(ctx: Context, node: Node) -> bool:
    """Whether a node came, or may come, a moment ago and its tiers were not looked at yet."""
    if node.is_removed or node.power is not Power.ON:
        return False
    if replicas.standing(ctx, node.name) is not Standing.AWAY:
        return False
    if any(mark_of(ctx, node.name, tier.name).note for tier in node.spec.tiers):
        return False  # it was tried
    return node.unreachable_us is None or ctx.now_us < node.unreachable_us + COMING_US


def _can_be_written(ctx: Context, node: Node, spec: DatasetSpec) -> bool:
    if not spec.batch and replicas.is_wakeable(node):
        return True  # no node is switched on for batches
    is_ready = replicas.standing(ctx, node.name) is Standing.READY
    return is_ready and node.scheduling is Scheduling.YES


def _problem(code: str, detail: str, field: str) -> Problem:
    return Problem(code, detail, 422, (FieldError(field, detail),))


def _told(ctx: Context, nodes: list[Node]) -> str:
    rows = [f"{node.name} {_word(ctx, node)}" for node in nodes[:MOST_TOLD]]
    return ", ".join(rows) + (f" and {len(nodes) - MOST_TOLD} more" if nodes[MOST_TOLD:] else "")


def _word(ctx: Context, node: Node) -> str:
    found = replicas.standing(ctx, node.name)
    if found is not Standing.AWAY or node.word != "ready":
        return found.value if node.word == "ready" else node.word
    notes = (mark_of(ctx, node.name, tier.name) for tier in node.spec.tiers)
    return next((mark.note for mark in notes if mark.note), "not looked at yet")


def _no_room(ctx: Context, spec: DatasetSpec, nodes: list[Node], coming: int) -> Problem | None:
    """Return a problem unless replicas on different nodes have room beside what is on its way.

    ``coming`` bytes are to come that have no dataset yet.
    """
    size, free = spec.size_bytes, [_free(ctx, spec, node) for node in nodes]
    room = sum(min(there, size) for there in free) - _taken(ctx, free, size, coming)
    need = size * spec.replicas
    if need <= room:
        return _no_room_for_whole(ctx, spec, nodes)
    told = f"{spec.replicas} replicas of {size_text(size)} on different nodes take "
    told += f"{size_text(need)}; tiers of its kinds have room for {size_text(max(0, room))}: "
    told += "remove datasets, "
    return _problem("no_room", told + "ask for fewer replicas, or give tiers more capacity", "path")


def _taken(ctx: Context, free: Sequence[int], size: int, coming: int) -> int:
    """Return how much of ``size`` bytes on each node what is to come takes away, at the worst.

    Each node has what is ``free`` there, and of a dataset that is being put one replica at most.
    """
    on_one = coming
    for key in ctx.block_index.open:
        dataset = ctx.tables.datasets[key]
        rest = _outstanding(ctx, dataset)
        coming, on_one = coming + rest, on_one + min(rest, dataset.spec.size_bytes)
    return min(coming, sum(max(0, on_one - max(0, there - size)) for there in free))


def _no_room_for_whole(ctx: Context, spec: DatasetSpec, nodes: list[Node]) -> Problem | None:
    """Return a problem where bytes have room and blocks have not: each lies in one tier, whole.

    Counted are the blocks that are nearly as long as the longest. Chunks of batches have lengths of
    their own.
    """
    if spec.batch or not spec.size_bytes:
        return None
    least = spec.longest_bytes * 9 // 10
    long = [n for file in spec.files for n in spec.lengths_of(file) if n > least]
    count, length = len(long), min(long)
    fits = sum(min(count, sum(n // length for n in _rooms(ctx, spec, node))) for node in nodes)
    if count * spec.replicas <= fits:
        return None
    told = f"{spec.replicas} replicas of {count} blocks of {size_text(length)} are to lie on "
    told += f"different nodes, each in one tier; tiers of its kinds have room for {fits} such: "
    return _problem("no_room", told + "make blocks smaller, or give tiers more capacity", "block")


def _free(ctx: Context, spec: DatasetSpec, node: Node) -> int:
    return sum(_rooms(ctx, spec, node))


def _rooms(ctx: Context, spec: DatasetSpec, node: Node) -> list[int]:
    """Return the bytes that are free in each tier of a node that may keep blocks of a dataset."""
    kinds = frozenset(spec.tiers) or DURABLE
    tiers_ = [t for t in node.spec.tiers if t.kind in kinds and copies.is_open(ctx, node.name, t)]
    return [max(0, tier_room.free_in(ctx, node.name, tier)) for tier in tiers_]


def _outstanding(ctx: Context, dataset: Dataset) -> int:
    """Return the bytes that the put of another dataset is still to take."""
    if dataset.state is not D.PUTTING:
        return 0
    whole = dataset.spec.size_bytes * dataset.spec.replicas
    return max(0, whole - ctx.block_index.stored.get(dataset.id, 0))


# the records of blocks


def grow(ctx: Context) -> None:
    """Make records of blocks that are to be copied next, datasets in the order of their arrival."""
    if not ctx.block_index.open or ctx.is_closing:
        return
    room = AHEAD
    open_ = (ctx.tables.datasets[key] for key in ctx.block_index.open)
    for dataset in sorted(open_, key=lambda d: d.seq):
        if dataset.state is not D.PUTTING or room <= 0:
            continue
        rest = splits.starts(ctx, dataset)[-1] - dataset.made
        behind = dataset.made - ctx.block_index.whole.get(dataset.id, 0)
        count = min(room, rest, AHEAD - behind)
        if count > 0 and count >= min(rest, STEP):
            for block in splits.blocks(ctx, dataset, range(dataset.made, dataset.made + count)):
                put_block(ctx, block)
            put_dataset(ctx, replace(dataset, made=dataset.made + count))
            room -= count


# changes


def change(ctx: Context, command: ChangeDataset) -> None:
    """Pin, unpin, prefetch, check, locate or remove a dataset."""
    dataset = ctx.find(command, ctx.tables.datasets, "dataset", command.dataset)
    if dataset is None:
        return
    if dataset.is_going:
        told = f"dataset {dataset.spec.name} is being removed"
        if command.verb != "remove":
            ctx.refuse(command, "removing", told, status=409)
            return
    elif command.verb == "remove":
        if dataset.spec.batch:
            told = f"it is the input of batch {dataset.spec.batch}, and goes with it: "
            told += f"tenure batch cancel {dataset.spec.batch}"
            ctx.refuse(command, "in_use", told, status=409)
            return
        remove(ctx, dataset)
    elif dataset.spec.is_external:
        _change_external(ctx, command, dataset)
        return
    elif command.verb == "prefetch" and not _has_memory(ctx):
        told = "no node has a memory tier to copy blocks into: name one under nodes[].tiers"
        ctx.refuse(command, "no_tiers", told, status=409)
        return
    elif command.verb == "prefetch" and (over := quotas.prefetch_objection(ctx, dataset)):
        ctx.reply(command, over)
        return
    else:
        _change_own(ctx, command, dataset)
    ctx.reply(command, ctx.tables.datasets.get(dataset.id) or dataset)


def _has_memory(ctx: Context) -> bool:
    specs = (node.spec for node in ctx.tables.nodes.values())
    return any(tier.kind is TierKind.MEMORY for spec in specs for tier in spec.tiers)


def _change_own(ctx: Context, command: ChangeDataset, dataset: Dataset) -> None:
    if command.verb == "locate":
        return  # of our own blocks we always know
    if command.verb == "verify":
        _verify(ctx, dataset)
    elif command.verb == "prefetch":
        prefetching.order(ctx, dataset)
    elif dataset.is_pinned is not (command.verb == "pin"):
        dataset = put_dataset(ctx, replace(dataset, is_pinned=command.verb == "pin"))
        ctx.publish(f"dataset.{command.verb}ned", dataset.id, name=dataset.spec.name)


def _change_external(ctx: Context, command: ChangeDataset, dataset: Dataset) -> None:
    if command.verb == "locate":
        external.locate(ctx, command, dataset)
        return
    told = f"the blocks of dataset {dataset.spec.name} lie in HDFS, which keeps them: they can be "
    told += "located and read by tasks; put them into tiers to pin, prefetch or check them here"
    ctx.refuse(command, "external", told, status=409)


def remove(ctx: Context, dataset: Dataset) -> None:
    """Begin to remove a dataset; its name is free at once, its records and files follow."""
    if dataset.spec.is_external:
        external.forget(ctx, dataset)
    put_dataset(ctx, replace(dataset, state=D.REMOVING, is_pinned=False, reason=""))
    ctx.publish("dataset.removing", dataset.id, name=dataset.spec.name)
    ctx.notices.jobs |= ctx.index.open_jobs  # those that were to read it end
    ctx.arm(ctx.now_us, MACHINE, dataset.id)


def _verify(ctx: Context, dataset: Dataset) -> None:
    ctx.block_index.walks[dataset.id] = 0
    _walk(ctx, dataset)


def _walk(ctx: Context, dataset: Dataset) -> None:
    """Have the copies of the next blocks of a dataset checked."""
    first = ctx.block_index.walks.pop(dataset.id)
    until = min(dataset.made, first + WALK)
    names = set()
    for number in range(first, until):
        block = ctx.tables.blocks.get(f"{dataset.id}/{number}")
        for replica in () if block is None else block.replicas:
            if replica.is_present:
                mark = f"{replica.node}/{replica.tier}"
                ctx.block_index.checks.setdefault(mark, {})[f"{dataset.id}/{number}"] = None
                names.add(replica.node)
    if until < dataset.made:
        ctx.block_index.walks[dataset.id] = until
        ctx.arm(ctx.now_us, MACHINE, dataset.id)
    for name in sorted(names):
        tiers.next_chore(ctx, name)


def doubted(ctx: Context, event: BlockDoubted) -> None:
    """Have a copy checked that somebody read and found to be wrong."""
    block = ctx.tables.blocks.get(event.block)
    if block is not None and block.on(event.node, event.tier) is not None:
        tiers.check(ctx, block, event.node, event.tier)


def on_timer(ctx: Context, key: str) -> None:
    """Go on with a removal, or with what is checked."""
    dataset = ctx.tables.datasets.get(key)
    if dataset is not None and dataset.is_going:
        _clear(ctx, dataset)
    elif dataset is not None and key in ctx.block_index.walks:
        _walk(ctx, dataset)


def _clear(ctx: Context, dataset: Dataset) -> None:
    """Remove the records of the last blocks, and with the last of all have the files removed."""
    sizes: dict[str, int] = {}
    made = dataset.made
    for number in range(dataset.made - 1, max(-1, dataset.made - 1 - TURN), -1):
        block = ctx.tables.blocks.get(f"{dataset.id}/{number}")
        if block is not None and (block.pins or any(not r.is_present for r in block.replicas)):
            ctx.arm(ctx.now_us + copies.RETRY_US, MACHINE, dataset.id)
            break  # until its copy has ended, or who reads it has
        made = number
        if block is not None:
            for replica in block.replicas:
                mark = f"{replica.node}/{replica.tier}"
                sizes[mark] = sizes.get(mark, 0) + block.length
            drop_block(ctx, block)
    name = f"{replicas.folder_of(ctx)}/{dataset.id}"
    for mark, size in sorted(sizes.items()):
        tiers.drop_folder(ctx, mark, name, size)
    if made:
        put_dataset(ctx, replace(dataset, made=made))
        if made <= dataset.made - TURN:
            ctx.arm(ctx.now_us, MACHINE, dataset.id)
        return
    drop_dataset(ctx, dataset)
    ctx.publish("dataset.removed", dataset.id, name=dataset.spec.name)
    for node in sorted(node.name for node in ctx.tables.nodes.values() if node.spec.tiers):
        tiers.next_chore(ctx, node)


def rearm(ctx: Context) -> None:
    """Go on with removals after a restart, and look at every block and every tier."""
    for key in sorted(ctx.block_index.open):
        ctx.arm(ctx.now_us, MACHINE, key)
    for node in ctx.tables.nodes.values():
        if node.spec.tiers:
            ctx.arm(ctx.now_us, tiers.MACHINE, node.name)
    copies.rearm(ctx)
