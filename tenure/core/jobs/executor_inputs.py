"""Executors over datasets: which blocks each of them reads, and from which copies.

Theory of operation. The policy of a job chooses its slots as of any other, and of slots that cost
the job no more those near its blocks are taken (``locality_preference``); which blocks are read in
which of them is chosen by where they lie. Once all of a job's nodes answer and were looked at, its
blocks are matched to its executors, each of which has as many seats on its node as its equal share
has blocks: the cheapest of the largest matchings (Eq. 1 to 3 of the Trident paper). An executor
keeps its blocks over all of its attempts and holds them pinned. Each attempt reads the fastest copy
on its own node; what is missing there is brought before its container is made, and while no copy
can be read anywhere it waits: for a node that is off and has one to be switched on, for one that is
away to come back. A block that has no copy left is waited for no longer than a lost node is: then
its job fails. Looks are bounded: what one event does not get to, the next does. Owns which blocks
and copies executors read, in their records and ``Context.prefetches``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tenure.core.blocks import pins, replicas, surveys
from tenure.core.blocks.block_records import mark_of
from tenure.core.capacity import room, snapshots
from tenure.core.datasets import copies, prefetch_inputs, prefetching, reads
from tenure.core.nodes import replica_holders
from tenure.core.state.context import Context
from tenure.model.dataset import Block, DatasetState, Location
from tenure.model.errors import FieldError, Problem
from tenure.model.job import Executor, ExecutorState, Job, JobSpec
from tenure.model.locality import Choice, Seats
from tenure.model.reading import DatasetInput, Reading
from tenure.model.tier import TierKind
from tenure.model.units import FOREVER_US, US

MACHINE = "reader"
#: Blocks of one executor: each is a mount of its container.
MOST_BLOCKS = 64
#: A block that found no room on its reader's node, or could not be sent, is tried again after this.
AGAIN_US = 5 * US
#: Bytes a second of a tier that nobody measured or stated, for what reading takes at least.
USUAL = {
    TierKind.MEMORY: 3200 << 20,
    TierKind.SSD: 400 << 20,
    TierKind.HDD: prefetch_inputs.USUAL_BYTES_PER_S,
}


# submission


def objection(ctx: Context, spec: JobSpec) -> Problem | None:
    """Return why a job cannot read its dataset, None if it reads none or can."""
    given = spec.dataset
    if given is None:
        return None
    problem = _unfit(given) or reads.dataset_objection(ctx, given)
    if problem is not None:
        return replace(problem, fields=(FieldError("input.dataset", problem.detail),))
    blocks = f"the dataset {given.name} has {given.blocks} blocks"
    if given.blocks < spec.executors:
        told = f"{blocks}, fewer than the job has executors: some would have nothing to read; "
        told += f"ask for at most {given.blocks}" if given.blocks else "it is empty"
        return Problem("too_few_blocks", told, 422, (FieldError("executors", told),))
    if given.blocks > MOST_BLOCKS * spec.executors:
        least = -(-given.blocks // MOST_BLOCKS)
        told = f"{blocks}, and an executor reads {MOST_BLOCKS} at most: ask for at least {least} "
        told += "executors, or put the dataset in larger blocks"
        return Problem("too_many_blocks", told, 422, (FieldError("executors", told),))
    allowed = ctx.params.job_generations()
    nodes = [n for n in ctx.tables.nodes.values() if n.spec.generation in allowed]
    if not any(map(room.can_read, nodes)):
        told = "no node that takes executors has a durable tier to read a dataset from: name some "
        told += "under nodes[].tiers"
        return Problem("no_tiers", told, 422, (FieldError("input.dataset", told),))
    return None


def _unfit(given: DatasetInput) -> Problem | None:
    if not given.is_external:
        return None
    told = f"the dataset {given.name} lies in HDFS, which stages of batches read; put it into tiers"
    return Problem("external", told, 422)


def counted(ctx: Context, job: Job) -> Job:
    """Return a new job whose estimate is no less than what reading its share takes at least."""
    if job.spec.dataset is None:
        return job
    least_us = least_read_us(ctx, job, job.spec.dataset)
    given = job.estimate
    local_us, hybrid_us = max(given.local_us, least_us), max(given.hybrid_us, least_us)
    estimate = replace(given, local_us=local_us, hybrid_us=hybrid_us, read_us=least_us)
    return replace(job, estimate=estimate)


def least_read_us(ctx: Context, job: Job, given: DatasetInput) -> int:
    """Return what an executor spends on reading at least, were blocks shared out as well as can be.

    Each block by its fastest copy on a node that the job may use; one without such a copy has to
    be brought first. Of many blocks some stand for all. A bound (ours): what a placement can have
    it read at best, so that no promise is made that reading alone breaks.
    """
    here = snapshots.scene(ctx)
    passes = snapshots.snapshot_of(ctx).passes(ctx, job)
    names = {node.name for node, is_fit in zip(here.nodes, passes, strict=True) if is_fit}
    numbers = some_of(given.blocks, prefetch_inputs.most(ctx))
    total_us = 0
    for number in numbers:
        block = ctx.tables.blocks.get(given.key(number))
        if block is not None:
            total_us += _least_us(block, replicas.offered(ctx, block), names)
    return total_us * given.blocks // max(1, len(numbers) * job.spec.executors)


def some_of(count: int, most: int) -> Sequence[int]:
    """Return the numbers of at most ``most`` of ``count`` blocks, spread over them."""
    return range(0, count, max(1, -(-count // most)))


def _least_us(block: Block, places: Iterable[Location], names: set[str]) -> int:
    there = list(places)
    near = [_speed(place) for place in there if place.node in names]
    if near:
        return block.length * US // max(near)
    far = [_speed(place) for place in there]
    return prefetch_inputs.BRING_US + 2 * block.length * US // max(far) if far else 0


def _speed(place: Location) -> int:
    return place.bytes_per_s or USUAL[place.kind]


def is_unsure(ctx: Context, job: Job) -> bool:
    """Whether a job is to read blocks some of which cannot be read now: nothing is certain."""
    given = job.spec.dataset
    if given is None:
        return False
    for number in some_of(given.blocks, prefetch_inputs.most(ctx)):
        block = ctx.tables.blocks.get(given.key(number))
        if block is None or not replicas.offered(ctx, block):
            return True
    return False


def loss(ctx: Context, job: Job) -> str:
    """Return why a job cannot go on that was to read a dataset, "" if it can.

    Who has got its blocks reads them to the end, even of a dataset that is removed: they are
    pinned. Unless one of them has had no copy for long.
    """
    given = job.spec.dataset
    if given is None:
        return ""
    dataset, crew = ctx.tables.datasets.get(given.id), ctx.executors_of(job.id)
    if dataset is None or dataset.is_going:
        got = sum(len(executor.blocks) for executor in crew)
        if got < given.blocks:
            return f"the dataset {given.name} was removed"
    for executor in crew:
        if ctx.now_us >= ctx.prefetches.lost_us.get(executor.key, FOREVER_US):
            number = _lost_of(ctx, executor, given) if _is_awaited(executor, job) else None
            if number is not None:
                told = f"no copy of block {number} of the dataset {given.name} is left"
                return f"{told}: put the same files again, then submit the job again"
    return ""


def _lost_of(ctx: Context, executor: Executor, given: DatasetInput) -> int | None:
    """Return the first of an executor's blocks that has no copy left, None if each has one.

    Wherever: on a node that is away or off too, or in a tier that is to be looked at.
    """
    dataset = ctx.tables.datasets.get(given.id)
    if dataset is not None and dataset.state is DatasetState.PUTTING:
        return None
    for number in executor.blocks:
        block = ctx.tables.blocks.get(given.key(number))
        if block is None or all(surveys.is_wrong(ctx, block, r) for r in block.replicas):
            return number
    return None


# who reads what


def serve(ctx: Context) -> None:
    """Share out blocks, choose copies and let go of them, for as many blocks as one event may."""
    prefetches = ctx.prefetches
    if not (prefetches.readers or prefetches.leaving) or ctx.meta.is_restoring:
        return
    if prefetches.served_us != ctx.now_us:
        prefetches.served_us, prefetches.allowed = ctx.now_us, prefetch_inputs.most(ctx)
    prefetches.allowed = pins.sweep(ctx, prefetches.allowed)
    due = [key for key, turn in prefetches.readers.items() if turn != ctx.block_index.turn]
    looked = _look(ctx, due)
    if looked < len(due) or prefetches.leaving:
        ctx.arm(ctx.now_us + 1, MACHINE, "more")


def _look(ctx: Context, due: Sequence[str]) -> int:
    """Look at executors in turn, as far as this event may; return at how many."""
    prefetches = ctx.prefetches
    dealt: set[str] = set()
    seen, waiting = 0, list[str]()
    for key in due:
        if prefetches.allowed <= 0:
            break
        seen += 1
        executor = ctx.tables.executors.get(key)
        job = None if executor is None else ctx.tables.jobs.get(executor.job)
        if executor is None or job is None or not _is_awaited(executor, job):
            del prefetches.readers[key]
            prefetches.lost_us.pop(key, None)
        elif executor.blocks and job.id not in prefetches.deals:
            prefetches.allowed -= len(executor.blocks)
            _choose(ctx, executor, job)
            waiting.append(key)
        elif job.id not in dealt:
            dealt.add(job.id)
            _deal(ctx, job)
    _rest(ctx, waiting, dealt)
    return seen


def _rest(ctx: Context, waiting: Iterable[str], dealt: Iterable[str]) -> None:
    """Look at executors again only when something about blocks or nodes has changed."""
    prefetches = ctx.prefetches
    for job in dealt:
        is_begun = any(executor.blocks for executor in ctx.executors_of(job))
        keys = [executor.key for executor in ctx.executors_of(job)]
        for key in keys:
            if key in prefetches.readers:
                prefetches.readers[key] = -1 if is_begun else ctx.block_index.turn
    for key in waiting:
        if prefetches.readers.pop(key, None) is not None:
            prefetches.readers[key] = (
                ctx.block_index.turn
            )  # behind those that were not looked at yet


def _is_awaited(executor: Executor, job: Job) -> bool:
    """Whether an executor waits for its copies to be chosen."""
    is_ending = job.is_over or job.is_ending
    is_placed = executor.state is ExecutorState.PLACED and bool(executor.node)
    return is_placed and not is_ending and not executor.readings


def on_timer(ctx: Context, key: str) -> None:
    """Look again at an executor that could not go on, or at those that one event did not get to."""
    if key in ctx.prefetches.readers:
        ctx.prefetches.readers[key] = -1


def rearm(ctx: Context) -> None:
    """Go on with what was being shared out; executors that wait ask when their turn comes."""
    ctx.prefetches.readers.clear()
    ctx.prefetches.lost_us.clear()
    ctx.prefetches.deals.clear()
    for key in sorted(ctx.index.open_jobs):
        job = ctx.tables.jobs[key]
        if job.spec.dataset is not None and any(e.blocks for e in ctx.executors_of(key)):
            left = _undealt(ctx, job, job.spec.dataset)
            if left:
                ctx.prefetches.deals[key] = left


def _undealt(ctx: Context, job: Job, given: DatasetInput) -> list[int]:
    got = {number for executor in ctx.executors_of(job.id) for number in executor.blocks}
    return [number for number in range(given.blocks) if number not in got]


def _deal(ctx: Context, job: Job) -> None:
    """Match blocks of a job that nobody has got to its executors, some at a time.

    All of its nodes must answer and have been looked at: only then is it known what lies there.
    """
    given = job.spec.dataset
    assert given is not None
    crew = [e for e in ctx.executors_of(job.id) if e.state is ExecutorState.PLACED]
    if not all(is_known(ctx, executor.node) for executor in crew):
        return
    if job.id not in ctx.prefetches.deals:
        ctx.prefetches.deals[job.id] = _undealt(ctx, job, given)
    left = ctx.prefetches.deals[job.id]
    blocks, some = ctx.tables.blocks, left[: prefetch_inputs.most(ctx)]
    chunk = {n: b for n in some if (b := blocks.get(given.key(n)))}
    got = _match(ctx, given, crew, chunk, _room(crew, given.blocks // job.spec.executors, left))
    for executor in crew:
        numbers = got.get(executor.key)
        if numbers:
            for number in numbers:
                pins.hold(ctx, ctx.tables.blocks[given.key(number)], executor.key)
            every = tuple(sorted((*executor.blocks, *numbers)))
            ctx.put_executor(replace(executor, blocks=every))
    given_out = {number for numbers in got.values() for number in numbers}
    ctx.prefetches.deals[job.id] = [number for number in left if number not in given_out]
    if not ctx.prefetches.deals[job.id]:
        del ctx.prefetches.deals[job.id]
    ctx.prefetches.allowed -= len(chunk)


def _room(crew: Sequence[Executor], share: int, left: Sequence[int]) -> dict[str, int]:
    """Return how many blocks each executor may get: its share, then what is left in equal parts."""
    room = {executor.key: max(0, share - len(executor.blocks)) for executor in crew}
    if any(room.values()):
        return room
    more = -(-len(left) // max(1, len(crew)))
    fewest = min((len(executor.blocks) for executor in crew), default=0)
    open_ = [executor for executor in crew if len(executor.blocks) == fewest]
    return {executor.key: more for executor in open_}


def _match(
    ctx: Context,
    given: DatasetInput,
    crew: Sequence[Executor],
    chunk: Mapping[int, Block],
    room: dict[str, int],
) -> dict[str, list[int]]:
    """Return the blocks that each executor gets: the cheapest matching to the seats in ``room``."""
    on: dict[str, list[Executor]] = {}
    for executor in crew:
        if room.get(executor.key):
            on.setdefault(executor.node, []).append(executor)
    prefetch_inputs.learn_rates(ctx)
    seats = reads.seats_of(ctx, lambda node: sum(room[e.key] for e in on.get(node.name, ())))
    asked = [
        reads.read_of(ctx, given, block, replicas.offered(ctx, block), number)
        for number, block in chunk.items()
    ]
    got: dict[str, list[int]] = {}
    for fit in ctx.localizer.match(seats, asked):
        executor = max(on[fit.node], key=lambda e: (room[e.key], -e.index))
        room[executor.key] -= 1
        got.setdefault(executor.key, []).append(fit.key)
    return got


# which copies


def is_known(ctx: Context, node: str) -> bool:
    """Whether what lies in the tiers of a node can be read now."""
    return replicas.standing(ctx, node) in replicas.READABLE


def _choose(ctx: Context, executor: Executor, job: Job) -> None:
    """Choose the copy of each of an executor's blocks on its node; have brought what is missing."""
    given = job.spec.dataset
    assert given is not None
    _mind_loss(ctx, executor, given)
    if not is_known(ctx, executor.node):
        return
    here: dict[int, tuple[Block, Location]] = {}
    for number in executor.blocks:
        block = ctx.tables.blocks.get(given.key(number))
        place = None if block is None else _on(ctx, block, executor.node)
        if block is not None and place is not None:
            here[number] = block, place
        elif block is not None:
            _bring(ctx, executor, block)
    if len(here) == len(executor.blocks):
        _read(ctx, executor, given, here)


def _mind_loss(ctx: Context, executor: Executor, given: DatasetInput) -> None:
    """Have a job given up if a block has no copy for as long as a lost node is waited for.

    It may be found on a node that was not looked at since a restore, or be put again meanwhile.
    """
    if _lost_of(ctx, executor, given) is None:
        ctx.prefetches.lost_us.pop(executor.key, None)
        return
    late_us = ctx.now_us + ctx.params.replica_lost_us
    due_us = ctx.prefetches.lost_us.setdefault(executor.key, late_us)
    if ctx.now_us < due_us:
        ctx.arm(due_us, MACHINE, executor.key)
    else:
        ctx.notices.jobs.add(executor.job)
        ctx.serve_again(executor.job)  # the job is reviewed now


def _on(ctx: Context, block: Block, node: str) -> Location | None:
    """Return the fastest copy of a block on a node that can be read, None if there is none."""
    return next((place for place in replicas.offered(ctx, block) if place.node == node), None)


def _bring(ctx: Context, executor: Executor, block: Block) -> None:
    """Have a block copied to the node of its reader: to a disk, into memory where none has room."""
    if is_coming(block, executor.node):
        return  # its end has it looked at again
    if not replicas.offered(ctx, block):
        if replica_holders.wake(ctx, block):
            ctx.arm(ctx.now_us + AGAIN_US, MACHINE, executor.key)
        return  # a node that comes back has it looked at again
    node, part = ctx.tables.nodes[executor.node], pins.part_of(executor, block.number)
    is_busy = ctx.block_index.arriving.get(node.name, 0) >= ctx.params.copies_per_node
    is_late = is_busy or ctx.now_us < block.retry_us
    tier = None if is_late else reads.store_on(ctx, node, block)
    if tier is not None:
        copies.send(ctx, block, node.name, tier)
        ctx.prefetches.brought[part] = (node.name, tier.name)
    elif is_busy or ctx.now_us < block.retry_us or not copies.cache(ctx, block, node.name):
        ctx.arm(max(ctx.now_us + AGAIN_US, block.retry_us), MACHINE, executor.key)


def is_coming(block: Block, node: str) -> bool:
    """Whether a block is being copied to a node."""
    return any(r.node == node and not r.is_present for r in block.replicas)


def _read(
    ctx: Context,
    executor: Executor,
    given: DatasetInput,
    here: Mapping[int, tuple[Block, Location]],
) -> None:
    """Settle which copies an executor reads: all of its blocks are on its node."""
    node = ctx.tables.nodes[executor.node]
    prefetch_inputs.learn_rates(ctx)
    asked = [
        reads.read_of(ctx, given, block, (place,), number)
        for number, (block, place) in here.items()
    ]
    seats = Seats((node.name,), (node.spec.rack,), (len(asked),))
    costs = {fit.key: fit.cost for fit in ctx.localizer.match(seats, asked)}
    readings = []
    for number, (block, place) in here.items():
        brought = ctx.prefetches.brought.pop(pins.part_of(executor, number), None)
        is_ahead = prefetching.on_read(ctx, block, place)
        pins.touch(ctx, block, place, executor.key)
        is_brought = brought == (place.node, place.tier)
        one = Reading(place.tier, place.kind, place.path, costs[number], is_brought, is_ahead)
        ctx.prefetches.reads[one.word] += 1
        readings.append(one)
    ctx.put_executor(replace(executor, readings=tuple(readings)))
    del ctx.prefetches.readers[executor.key]


# what people are told


def waits_for(ctx: Context, job: Job, executor: Executor) -> str:
    """Say what keeps an executor's input from it, "" where nothing does."""
    given = job.spec.dataset
    if given is None or job.is_over or executor.readings or not executor.node:
        return ""
    if executor.state is not ExecutorState.PLACED:
        return ""
    if not is_known(ctx, executor.node):
        return f"the tiers of {executor.node} cannot be read now, or were not looked at yet"
    if not executor.blocks:
        return "its blocks are shared out once the tiers of all nodes of its job can be read"
    for number in executor.blocks:
        block = ctx.tables.blocks.get(given.key(number))
        if block is not None and _on(ctx, block, executor.node) is None:
            return _why(ctx, block, executor.node)
    return ""


def _why(ctx: Context, block: Block, node: str) -> str:
    """Say why a block is not on a node yet."""
    if is_coming(block, node):
        return f"block {block.number} is being brought to {node}"
    if replicas.offered(ctx, block):
        note = f" ({block.note})" if block.note else ""
        return f"block {block.number} waits for its turn, or for room in the tiers of {node}{note}"
    rows = [f"{r.node} ({_word(ctx, block, r.node, r.tier)})" for r in block.replicas]
    there = f": its copies are on {', '.join(rows)}" if rows else ": it has none"
    return f"no copy of block {block.number} can be read now{there}"


def _word(ctx: Context, block: Block, node: str, tier: str) -> str:
    """Say what is the matter with a copy."""
    found = ctx.tables.nodes.get(node)
    if found is None or found.word != "ready":
        return "unknown" if found is None else found.word
    if f"{node}/{tier}" in block.broken:
        return "wrong bytes"
    return mark_of(ctx, node, tier).fault or "not looked at yet"


def choices(ctx: Context, given: DatasetInput, number: int) -> list[Choice]:
    """Return the nodes on which a block would be read cheapest as things are now, free or not."""
    block = ctx.tables.blocks.get(given.key(number))
    if block is None:
        return []
    read = reads.read_of(ctx, given, block, replicas.offered(ctx, block), number)
    seats = reads.seats_of(ctx, lambda node: 1)
    found: list[Choice] = ctx.localizer.choices(seats, read, reads.OTHERS)
    return found
