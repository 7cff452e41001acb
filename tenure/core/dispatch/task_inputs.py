"""Tasks over datasets: matched to nodes by where their blocks lie, which are pinned meanwhile.

Theory of operation. Whenever a stage over a dataset may place tasks, the first of those that wait
are matched at once to the slots that they may have: the cheapest of the largest matchings (Eq. 1 to
3 of the Trident paper). Which slots these are the plan says (``planned_starts``); of a batch that
no plan holds, and of blocks in HDFS, all that are free, as described here. A task that got a node
with a copy of its block reads the fastest copy there, mounted read-only, and pins the block until
it is over. For one that got a node without, its block is brought there first, unless a node with a
copy is free sooner; it is matched anew with all others then. So every task reads from its own node.
What was matched is not kept beyond the moment: replicas, slots and tasks may be others with the
next event.

Blocks that lie in HDFS (``external``) are not ours to bring: a task that got a node without a copy
waits for one with a copy, for no longer than reading over the network should take, and reads from
where it is then. Which is at most twice the time of knowing beforehand (delay scheduling, Zaharia
et al. 2010; how long is ours). A block that no node of ours has is read from anywhere at once. Owns
what each task reads, in its record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain

from tenure.core.attempts.tasks import TASKS, count_remote, stage_of
from tenure.core.blocks import external, pins, replicas
from tenure.core.datasets import copies, prefetch_inputs, prefetching, reads
from tenure.core.dispatch import backoff, dispatch_list, input_replicas
from tenure.core.nodes import harvestable
from tenure.core.state.context import Context
from tenure.model.batch import Batch, StageSpec, Task
from tenure.model.dataset import Block, Dataset, DatasetState, Location
from tenure.model.errors import Problem
from tenure.model.locality import Choice, Fit, Read, Seats
from tenure.model.node import Node
from tenure.model.reading import Reading
from tenure.model.tier import DURABLE
from tenure.model.units import FOREVER_US, US

#: A stage of which nothing could be placed is not matched again for so long: it costs milliseconds.
REST_US = US // 4
#: Tasks that one look goes through for some whose block can be read.
MOST_LOOKED = 1_000
#: Problems that no waiting mends.
HOPELESS = frozenset(("no_dataset", "input_changed"))
#: Tasks of which is kept why they read a slower copy than there was.
MOST_PASSED = 1000

#: By node, starts of a stage that there were in one look: now, soon, and later by the plan.
Room = Mapping[str, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Wait:
    """A task that waits, its block, and the copies of it that can be read now.

    ``is_remote``: they may be read from other nodes too, and need not be on any of ours.
    """

    task: Task
    block: Block
    places: tuple[Location, ...]
    is_remote: bool = False

    @property
    def is_readable(self) -> bool:
        return bool(self.places) or (self.is_remote and not self.block.note)


def place_where_free(ctx: Context, batch: Batch, stage: StageSpec, *, is_planned: bool) -> None:
    """Place tasks of a stage over a dataset on the nodes that are free for it now.

    Those that no plan holds keep to what planned starts leave.
    """
    if not may_place(ctx, batch, stage):
        return

    def free(node: Node) -> int:
        is_left = is_planned or dispatch_list.is_left(ctx, stage, node)
        return slots(ctx, stage, node) if is_left else 0

    seats = reads.seats_of(
        ctx, free, is_any=stage.dataset is not None and stage.dataset.is_external
    )
    if any(seats.free) and not _match(ctx, batch, stage, seats):
        rest(ctx, batch, stage)


def may_place(ctx: Context, batch: Batch, stage: StageSpec) -> bool:
    """Whether tasks of a stage may be placed now; a batch that never can is given up."""
    problem = input_replicas.failure(ctx, stage) if stage.keeps_chunks else objection(ctx, stage)
    if problem is not None and problem.code in HOPELESS:
        _give_up(ctx, batch, problem.detail)
    if problem is not None or prefetching.is_held(ctx, batch, stage) or _is_unseen(ctx, stage):
        return False
    key = prefetching.key_of(batch.id, stage.name)
    if ctx.now_us < ctx.prefetches.rests_us.get(key, 0):
        ctx.arm(ctx.prefetches.rests_us[key], prefetching.MACHINE, key)
        return False
    return True


def rest(ctx: Context, batch: Batch, stage: StageSpec) -> None:
    """Have a stage of which nothing could be placed not be matched again at once."""
    key = prefetching.key_of(batch.id, stage.name)
    ctx.prefetches.rests_us[key] = ctx.now_us + REST_US


def _is_unseen(ctx: Context, stage: StageSpec) -> bool:
    """Whether the blocks of a stage lie in HDFS and have to be located first."""
    if stage.dataset is None or not stage.dataset.is_external:
        return False
    return external.look(ctx, ctx.tables.datasets[stage.dataset.id]) is None


def _match(ctx: Context, batch: Batch, stage: StageSpec, seats: Seats) -> bool:
    """Match tasks that wait to free slots; return whether any was placed."""
    waits = {wait.task.index: wait for wait in _waiting(ctx, batch, stage)}
    if not waits:
        return False
    prefetch_inputs.learn_rates(ctx)
    is_placed = False
    reads = [read(ctx, stage, wait) for wait in waits.values()]
    room = {name: (free, 0, 0) for name, free in zip(seats.nodes, seats.free, strict=True)}
    for fit in ctx.localizer.match(seats, reads):
        wait = waits[fit.key]
        here = next((place for place in wait.places if place.node == fit.node), None)
        if wait.is_remote:
            is_placed |= _reach(ctx, stage, wait, fit)
        elif here is None:
            bring(ctx, stage, wait, fit.node)
        else:
            begin(ctx, wait, here, fit, room)
            is_placed = True
    return is_placed


def objection(ctx: Context, stage: StageSpec) -> Problem | None:
    """Return why a stage cannot read its dataset, None if it reads none or can."""
    given, who = stage.dataset, f"stage {stage.name}: "
    if given is None:
        return None
    dataset = ctx.tables.datasets.get(given.id)
    if given.is_external and dataset is not None and not dataset.is_going:
        return _changed(stage, dataset)
    problem = reads.dataset_objection(ctx, given)
    if problem is not None:
        return replace(problem, detail=f"{who}{problem.detail}")
    nodes = [node for node in ctx.tables.nodes.values() if harvestable.is_said_to_lend(node)]
    if not any(node.spec.tiers for node in nodes):
        told = f"{who}no node that lends has tiers to read a dataset from: name some"
        return Problem("no_tiers", told + " under nodes[].tiers", 422)
    return None


def _changed(stage: StageSpec, dataset: Dataset) -> Problem | None:
    """Return that the files of a dataset in HDFS are others by now, None if they are not."""
    if dataset.state is not DatasetState.FAILED:
        return None
    name = dataset.spec.name
    told = f"stage {stage.name}: the files of dataset {name} are not those that were linked: "
    told += f"{dataset.reason}; tenure dataset rm {name} and link it again"
    return Problem("input_changed", told, 409)


def _give_up(ctx: Context, batch: Batch, reason: str) -> None:
    ctx.put_batch(replace(batch, is_failing=True, reason=reason))
    ctx.notices.tasks.add(f"{batch.id}/0")
    ctx.serve_again(batch.id)


def seats_for(ctx: Context, stage: StageSpec) -> Seats:
    """Return the nodes that may read, by name, and how many tasks of a stage each can take now.

    Those with tiers; all of them where blocks lie in HDFS.
    """
    is_any = stage.dataset is not None and stage.dataset.is_external
    return reads.seats_of(ctx, lambda node: slots(ctx, stage, node), is_any=is_any)


def slots(ctx: Context, stage: StageSpec, node: Node) -> int:
    """Return how many tasks of a stage a node can take now."""
    if harvestable.seat(ctx, stage, node) is None:
        return 0
    look = harvestable.look_at(ctx, node)
    free, request = look.free, stage.request
    fits = [ctx.params.preparing - look.preparing]
    if request.cpu_m:
        fits.append(free.cpu_m // request.cpu_m)
    if request.memory_bytes:
        fits.append(free.memory_bytes // request.memory_bytes)
    return max(1, min(fits))  # a seat takes one, whatever it leaves


def _waiting(ctx: Context, batch: Batch, stage: StageSpec) -> list[Wait]:
    """Return the first tasks that may be placed now and whose block can be read somewhere.

    Where these are few among many that cannot, the next look goes on behind those looked at.
    """
    found: list[Wait] = []
    key = (batch.id, stage.name)
    pending = sorted(ctx.index.tasks_by_stage[key].pending)
    begin = bisect_right(pending, ctx.prefetches.cursors.pop(key, -1))
    for looked, index in enumerate(chain(pending[begin:], pending[:begin]), 1):
        wait = _wait_of(ctx, stage, ctx.tables.tasks[f"{batch.id}/{index}"])
        if wait is not None and wait.is_readable:
            found.append(wait)
        if len(found) == prefetch_inputs.most(ctx):
            break
        if looked == MOST_LOOKED:
            if not found:
                ctx.prefetches.cursors[key] = index
                ctx.arm(ctx.now_us + REST_US, prefetching.MACHINE, prefetching.key_of(*key))
            break
    return found


def _wait_of(ctx: Context, stage: StageSpec, task: Task) -> Wait | None:
    """Return a task with its block, None if it may not be placed now."""
    if backoff.is_held(ctx, task):
        return None
    return None if is_on_its_way(ctx, stage, task) else look_at(ctx, stage, task)


def look_at(ctx: Context, stage: StageSpec, task: Task) -> Wait | None:
    """Return a task with its block and the copies that can be read, None if there is no block."""
    dataset = None if stage.dataset is None else ctx.tables.datasets.get(stage.dataset.id)
    block = None if dataset is None else replicas.block_of(ctx, dataset, task.number)
    if dataset is None or block is None:
        return None
    return Wait(task, block, replicas.offered(ctx, block), dataset.spec.is_external)


def is_on_its_way(ctx: Context, stage: StageSpec, task: Task) -> bool:
    """Whether a task's block is being brought to a node for it."""
    brought = ctx.prefetches.brought.get(task.key)
    if brought is None or stage.dataset is None:
        return False
    block = ctx.tables.blocks.get(stage.dataset.key(task.number))
    copy = None if block is None else block.on(*brought)
    if copy is not None and not copy.is_present:
        return True
    if copy is None:
        del ctx.prefetches.brought[task.key]  # it failed: matched anew
    return False


def read(ctx: Context, stage: StageSpec, wait: Wait) -> Read:
    """Return a task that waits as it is matched."""
    assert stage.dataset is not None
    return reads.read_of(ctx, stage.dataset, wait.block, wait.places, wait.task.index)


def begin(ctx: Context, wait: Wait, here: Location, fit: Fit, room: Room) -> None:
    """Place a task where it reads a copy, and pin its block; ``room`` is what nodes had then."""
    _note_passed(ctx, wait, here, room)
    task, node = wait.task, ctx.tables.nodes[here.node]
    is_brought = ctx.prefetches.brought.pop(task.key, None) == (here.node, here.tier)
    pins.touch(ctx, wait.block, here, task.key)
    is_ahead = prefetching.on_read(ctx, wait.block, here)
    reading = Reading(here.tier, here.kind, here.path, fit.cost, is_brought, is_ahead)
    if is_brought:
        count_remote(ctx, task)
    TASKS.place(ctx, replace(task, reading=reading), node)
    ctx.prefetches.reads[reading.word] += 1


def _note_passed(ctx: Context, wait: Wait, here: Location, room: Room) -> None:
    """Keep why a task reads a slower copy than there is: what nodes with faster ones had room for.

    For explanations alone: of the last MOST_PASSED tasks, and not stored.
    """
    passed, rank = ctx.prefetches.passed, prefetch_inputs.RANKS[here.kind]
    passed.pop(wait.task.key, None)
    told = []
    for place in wait.places:
        if prefetch_inputs.RANKS[place.kind] < rank and place.node != here.node:
            now, soon, later = room.get(place.node, (0, 0, 0))
            by_plan = f", {soon} soon and {later} later by the plan" if soon or later else ""
            told.append(f"{place.node} ({place.kind.value}): {now} free then{by_plan}")
    if told:
        passed[wait.task.key] = "; ".join(told)
        while len(passed) > MOST_PASSED:
            del passed[next(iter(passed))]


def _reach(ctx: Context, stage: StageSpec, wait: Wait, fit: Fit) -> bool:
    """Place a task over a block in HDFS, unless a node that has it is worth waiting for."""
    task, node = wait.task, ctx.tables.nodes[fit.node]
    here = next((place for place in wait.places if place.node == fit.node), None)
    if here is None and wait.places and _is_worth_waiting(ctx, stage, wait, node):
        return False
    ctx.prefetches.patience_us.pop(task.key, None)
    dataset = ctx.tables.datasets[wait.block.dataset]
    reading = external.reading_of(ctx, dataset, wait.block, here, fit.cost)
    TASKS.place(ctx, replace(task, reading=reading), node)
    ctx.prefetches.reads[reading.word] += 1
    return True


def _is_worth_waiting(ctx: Context, stage: StageSpec, wait: Wait, node: Node) -> bool:
    """Whether a slot beside a copy comes before reading over the network would be done."""
    speed = node.capacity.net_bytes_per_s or prefetch_inputs.USUAL_BYTES_PER_S
    read_us = wait.block.length * US // max(1, min(speed, prefetch_inputs.USUAL_BYTES_PER_S))
    until_us = ctx.prefetches.patience_us.setdefault(wait.task.key, ctx.now_us + read_us)
    soonest_us = ctx.now_us + min(_frees_us(ctx, stage, place.node) for place in wait.places)
    if ctx.now_us >= until_us or soonest_us >= until_us:
        return False
    ctx.arm(min(until_us, max(soonest_us, ctx.now_us + US)), TASKS.machine, wait.task.key)
    return True


def bring(
    ctx: Context, stage: StageSpec, wait: Wait, name: str, *, is_planned: bool = False
) -> None:
    """Have a task's block copied to a node, unless it can run beside a copy sooner.

    ``is_planned``: the plan has weighed that.
    """
    node = ctx.tables.nodes[name]
    coming = _coming(ctx, node, wait.block)
    if coming is not None:  # for another task, or because copies are missing
        ctx.prefetches.brought[wait.task.key] = (name, coming)
        return
    tier = reads.store_on(ctx, node, wait.block)
    if tier is None or ctx.block_index.arriving.get(name, 0) >= ctx.params.copies_per_node:
        return
    if not is_planned and _is_sooner_elsewhere(ctx, stage, wait, node):
        return
    copies.send(ctx, wait.block, name, tier)
    ctx.prefetches.brought[wait.task.key] = (name, tier.name)


def _is_sooner_elsewhere(ctx: Context, stage: StageSpec, wait: Wait, node: Node) -> bool:
    """Whether a slot beside a copy should be free before a block could be brought to a node."""
    speed = min(place.bytes_per_s or prefetch_inputs.USUAL_BYTES_PER_S for place in wait.places)
    link = node.capacity.net_bytes_per_s or speed
    bring_us = prefetch_inputs.bring_us(wait.block.length, min(speed, link))
    waits_us = min(_frees_us(ctx, stage, place.node) for place in wait.places)
    if waits_us <= bring_us:
        ctx.arm(ctx.now_us + max(US, waits_us), TASKS.machine, wait.task.key)
    return waits_us <= bring_us


def _coming(ctx: Context, node: Node, block: Block) -> str | None:
    """Return the durable tier of a node into which a block is being copied already."""
    for replica in block.replicas:
        tier = replicas.tier_of(ctx, replica)
        is_coming = replica.node == node.name and not replica.is_present
        if is_coming and tier is not None and tier.kind in DURABLE:
            return tier.name
    return None


def _frees_us(ctx: Context, stage: StageSpec, name: str) -> int:
    """Return when a node that lends should have a slot for the stage, from now; else FOREVER_US."""
    node = ctx.tables.nodes.get(name)
    if node is None or not harvestable.is_lendable(ctx, node):
        return FOREVER_US
    ends_us = []
    for task in ctx.tasks_on(name):
        begun_us = task.changed_us if task.started_us is None else task.started_us
        ends_us.append(begun_us + harvestable.task_us(stage_of(ctx, task), node) - ctx.now_us)
    return max(0, min(ends_us)) if ends_us else FOREVER_US


def choices(ctx: Context, task: Task) -> list[Choice]:
    """Return the nodes on which a task would read cheapest as things are now, free or not."""
    stage = stage_of(ctx, task)
    wait = look_at(ctx, stage, task)
    if wait is None:
        return []
    found: list[Choice] = ctx.localizer.choices(
        seats_for(ctx, stage), read(ctx, stage, wait), reads.OTHERS
    )
    return found


def notice(ctx: Context) -> None:
    """Have tasks over datasets looked at when something changed about where blocks lie."""
    if ctx.prefetches.seen == ctx.block_index.turn:
        return
    ctx.prefetches.seen = ctx.block_index.turn
    if ctx.index.open_batches or ctx.prefetches.courses or ctx.prefetches.under_way:
        ctx.serve_again("blocks")
