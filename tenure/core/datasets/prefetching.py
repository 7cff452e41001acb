"""Prefetching: blocks that tasks will read are copied into memory on their nodes (section 4).

Theory of operation. For a stage over a dataset whose tasks wait, and for a dataset that somebody
asks to have in memory, a plan says which blocks to copy from which device (Algorithm 7, or all that
fits). Its copies go in the order in which the model ends them, as many at a time from one device as
the plan was made for, and one plan follows another while tasks wait. A copy counts as a hit when a
task reads it, and as waste when its task reads another copy, or nobody does before the batch ends
or the copy leaves memory. What is not begun when its task begins, or the batch ends, is not copied,
and what is under way then is cancelled, unless somebody else waits for it.

What a task computes is first what its stage's estimate leaves beside the read, then what tasks of
the stage that ended took, by the length of their blocks (Algorithm 5, line 14).

Nothing of this is stored: after a restart plans are made anew, and what was copied before is memory
like any other. Owns ``Context.prefetches``, but for what ``executor_inputs`` and ``pins`` keep
there of readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tenure.core.blocks import block_records, replicas
from tenure.core.datasets import copies, prefetch_inputs
from tenure.core.state.context import Context
from tenure.core.state.prefetch_state import Course, Made, UnderWay
from tenure.model.batch import Batch, StageSpec
from tenure.model.dataset import Block, Dataset, Location, Replica
from tenure.model.effects import Abort
from tenure.model.locality import PlannedCopy, PrefetchPlan
from tenure.model.tier import TierKind
from tenure.model.units import US

MACHINE = "prefetch"
#: Between two plans of one course.
AGAIN_US = 5 * US
#: What could not begin for so long, for want of room, is planned anew.
STALE_US = 60 * US


def key_of(batch: str, stage: str) -> str:
    """Return the key of a stage's course."""
    return f"{batch}/{stage}"


def is_held(ctx: Context, batch: Batch, stage: StageSpec) -> bool:
    """Whether the tasks of a stage wait for copies that are worth it (Trident+D)."""
    course = ctx.prefetches.courses.get(key_of(batch.id, stage.name))
    return course is not None and ctx.now_us < course.hold_us


def settle(ctx: Context) -> None:
    """Take in what has become of copies, plan what is to come, and begin what may begin."""
    _learn(ctx)
    if ctx.is_closing:
        return
    _take_in(ctx)
    if not ctx.index.open_batches:
        ctx.prefetches.rests_us.clear()
        ctx.prefetches.cursors.clear()
        ctx.prefetches.patience_us.clear()
    wanted = dict(_wanted(ctx))
    if ctx.params.prefetch.mode == "act":
        for key, (batch, stage) in wanted.items():
            _plan_stage(ctx, key, batch, stage)
    for key, course in list(ctx.prefetches.courses.items()):
        if course.is_ordered:
            _plan_order(ctx, key, course)
        elif key not in wanted:
            _end(ctx, key, course)
        _begin(ctx, key, course)
    _cancel(ctx)


def hold(ctx: Context) -> None:
    """Plan for stages of which no task has begun before any does: they may be held back."""
    if not ctx.params.prefetch.is_waiting or ctx.params.prefetch.mode != "act" or ctx.is_closing:
        return
    for key, (batch, stage) in _wanted(ctx):
        if key not in ctx.prefetches.courses:
            _plan_stage(ctx, key, batch, stage)


def _wanted(ctx: Context) -> Iterator[tuple[str, tuple[Batch, StageSpec]]]:
    """Return the stages over datasets of which tasks wait, batches in the order of arrival."""
    open_ = (ctx.tables.batches[key] for key in ctx.index.open_batches)
    for batch in sorted(open_, key=lambda b: b.seq):
        for stage in () if batch.is_ending else batch.spec.stages:
            if stage.dataset is None or stage.dataset.is_external:
                continue
            if ctx.index.tasks_by_stage[batch.id, stage.name].pending:
                yield key_of(batch.id, stage.name), (batch, stage)


def on_timer(ctx: Context, key: str) -> None:
    """Have what a course does next looked at."""
    ctx.prefetches.turn = -1
    ctx.prefetches.rests_us.pop(key, None)
    ctx.serve_again(key)


# plans


def _plan_stage(ctx: Context, key: str, batch: Batch, stage: StageSpec) -> None:
    assert stage.dataset is not None
    course = ctx.prefetches.courses.setdefault(key, Course(stage.dataset.id))
    if not _may_plan(ctx, key, course):
        return
    pending = sorted(ctx.index.tasks_by_stage[batch.id, stage.name].pending)[
        : prefetch_inputs.most(ctx)
    ]
    numbers = [ctx.tables.tasks[f"{batch.id}/{index}"].number for index in pending]
    is_first = not course.plans and len(pending) == min(stage.count, prefetch_inputs.most(ctx))
    may_wait = ctx.params.prefetch.is_waiting and is_first
    ask = replace(prefetch_inputs.ask_for(ctx, stage, numbers, may_wait=may_wait), course=key)
    plan = _adopt(ctx, key, course, ctx.localizer.plan(ask))
    if plan.delay_us:
        course.hold_us = ctx.now_us + plan.delay_us
        ctx.arm(course.hold_us, MACHINE, key)
        ctx.publish("prefetch.holds", batch.id, stage=stage.name, until_us=course.hold_us)


def _may_plan(ctx: Context, key: str, course: Course) -> bool:
    """Whether the plan of a course has come to its end, and enough time has passed since."""
    if (course.queue and not _is_stale(ctx, course)) or _has_under_way(ctx, key):
        return False
    if ctx.now_us < course.hold_us:
        course.hold_us = 0
        ctx.serve_again(key)  # nothing is left to wait for
    return ctx.now_us >= course.again_us


def _is_stale(ctx: Context, course: Course) -> bool:
    return ctx.now_us >= course.planned_us + STALE_US


def _has_under_way(ctx: Context, key: str) -> bool:
    return any(one.course == key for one in ctx.prefetches.under_way.values())


def _adopt(ctx: Context, key: str, course: Course, plan: PrefetchPlan) -> PrefetchPlan:
    _sweep(ctx)
    ctx.prefetches.counts["dropped"] += len(course.queue)
    course.queue = [row for row in plan.copies if _is_new(ctx, course, row)]
    course.limit = max(1, min(plan.limit, ctx.params.prefetch.per_device))
    course.planned_us, course.again_us = ctx.now_us, ctx.now_us + AGAIN_US
    course.plans += 1
    ctx.arm(course.again_us, MACHINE, key)
    return plan


def _is_new(ctx: Context, course: Course, row: PlannedCopy) -> bool:
    block = f"{course.dataset}/{row.key}"
    return block not in ctx.prefetches.under_way and block not in ctx.prefetches.made


# asked for by people


def order(ctx: Context, dataset: Dataset) -> None:
    """Have as much of a dataset as fits copied into memory on the nodes that hold it."""
    key = f"dataset:{dataset.id}"
    ctx.prefetches.courses[key] = Course(dataset.id, is_ordered=True)
    ctx.serve_again(dataset.id)


def _plan_order(ctx: Context, key: str, course: Course) -> None:
    """Plan the next blocks of a dataset that was asked for; nothing is left once all were."""
    dataset = ctx.tables.datasets.get(course.dataset)
    if dataset is None or dataset.is_going:
        _end(ctx, key, course)
        return
    if (course.queue and not _is_stale(ctx, course)) or _has_under_way(ctx, key):
        return
    if course.cursor >= dataset.spec.blocks:
        ctx.prefetches.counts["dropped"] += len(course.queue)
        del ctx.prefetches.courses[key]
        return
    until = min(dataset.spec.blocks, course.cursor + prefetch_inputs.most(ctx))
    ask = prefetch_inputs.ask_for_all(ctx, dataset, range(course.cursor, until))
    course.cursor = until
    _adopt(ctx, key, course, ctx.localizer.plan(ask))


# copies


def _begin(ctx: Context, key: str, course: Course) -> None:
    """Begin the copies whose turn has come, as many at a time from one device as planned."""
    if not course.queue:
        return
    busy: dict[tuple[str, str], int] = {}
    for one in ctx.prefetches.under_way.values():
        place = one.row.node, one.row.device
        busy[place] = busy.get(place, 0) + 1
    left = []
    for row in course.queue:
        place = row.node, row.device
        block = ctx.tables.blocks.get(f"{course.dataset}/{row.key}")
        is_awaited = _is_awaited(ctx, key, course, row.key)
        if block is None or not is_awaited or _since_us(ctx, block, row.node) is not None:
            ctx.prefetches.counts["dropped"] += 1
        elif busy.get(place, 0) >= course.limit or not copies.cache(ctx, block, row.node):
            left.append(row)
        else:
            busy[place] = busy.get(place, 0) + 1
            begun = UnderWay(row, key, ctx.now_us, busy[place])
            ctx.prefetches.under_way[block.key] = begun
            block_records.recount(ctx, block.key)
            ctx.prefetches.counts["begun"] += 1
    course.queue = left
    if left:
        ctx.arm(max(ctx.now_us + AGAIN_US, course.planned_us + STALE_US), MACHINE, key)


def _take_in(ctx: Context) -> None:
    """Notice copies that have arrived, or never will, and those that have left memory unread."""
    prefetches = ctx.prefetches
    if prefetches.turn == ctx.block_index.turn:
        return
    prefetches.turn = ctx.block_index.turn
    for key, one in list(prefetches.under_way.items()):
        block = ctx.tables.blocks.get(key)
        state = None if block is None else _since_us(ctx, block, one.row.node)
        if state is None:
            del prefetches.under_way[key]
            block_records.recount(ctx, key)
            prefetches.counts["cancelled" if one.is_aborted else "failed"] += 1
        elif state >= 0:
            del prefetches.under_way[key]
            prefetches.counts["done"] += 1
            prefetches.made[key] = Made(one.row.node, one.course)
            block_records.recount(ctx, key)
            ctx.localizer.learn_copy(one.row.alone_us * one.sharing, state - one.begun_us)
            _settle_late(ctx, key, one)


def _learn(ctx: Context) -> None:
    """Have the model of a stage learn what its tasks took that have ended."""
    ended, ctx.prefetches.ended = ctx.prefetches.ended, []
    for task in (ctx.tables.tasks.get(key) for key in ended):
        course = None if task is None else key_of(task.batch, task.stage)
        if task is not None and course in ctx.prefetches.courses:
            taken = prefetch_inputs.taken_by(ctx, task)
            if taken is not None:
                ctx.localizer.learn_task(course, taken)


def _cancel(ctx: Context) -> None:
    """Give up copies under way that nobody waits for any more."""
    for key, one in list(ctx.prefetches.under_way.items()):
        if one.is_aborted or _is_wanted(ctx, key, one):
            continue
        block = ctx.tables.blocks.get(key)
        for replica in () if block is None else block.replicas:
            if replica.node == one.row.node and not replica.is_present and _is_memory(ctx, replica):
                ctx.prefetches.under_way[key] = replace(one, is_aborted=True)
                ctx.emit(Abort(replica.effect))


def _is_wanted(ctx: Context, block: str, one: UnderWay) -> bool:
    """Whether some course still waits for the block of a copy."""
    dataset, _, number = block.rpartition("/")
    return any(
        course.dataset == dataset and _is_awaited(ctx, key, course, int(number))
        for key, course in ctx.prefetches.courses.items()
    )


def _is_memory(ctx: Context, replica: Replica) -> bool:
    tier = replicas.tier_of(ctx, replica)
    return tier is not None and tier.kind is TierKind.MEMORY


def _since_us(ctx: Context, block: Block, node: str) -> int | None:
    """Return since when a copy is in a node's memory, -1 while it comes, None if neither."""
    for replica in block.replicas:
        if replica.node == node and _is_memory(ctx, replica):
            return replica.since_us if replica.is_present else -1
    return None


def _settle_late(ctx: Context, key: str, one: UnderWay) -> None:
    """Count a copy as waste that came after its task began, or after its batch was over."""
    course = ctx.prefetches.courses.get(one.course)
    if course is None or not _is_awaited(ctx, one.course, course, one.row.key):
        _unmake(ctx, key)
        ctx.prefetches.counts["wasted"] += 1


def _unmake(ctx: Context, key: str) -> Made | None:
    """Forget that a copy was made ahead of its reader, if one was."""
    made = ctx.prefetches.made.pop(key, None)
    if made is not None:
        block_records.recount(ctx, key)
    return made


def _is_awaited(ctx: Context, key: str, course: Course, number: int) -> bool:
    """Whether the task of a block still waits for a node, or somebody asked for the dataset."""
    if course.is_ordered:
        return True
    batch, _, stage = key.rpartition("/")
    found = ctx.tables.batches.get(batch)
    if found is None:
        return False
    return found.spec.first_of(stage) + number in ctx.index.tasks_by_stage[batch, stage].pending


def on_read(ctx: Context, block: Block, here: Location) -> bool:
    """Take in that a task begins to read a copy; return whether it was made ahead of it."""
    made = _unmake(ctx, block.key)
    if made is None:
        return False
    is_hit = here.kind is TierKind.MEMORY and here.node == made.node
    ctx.prefetches.counts["hits" if is_hit else "wasted"] += 1
    return is_hit


def _sweep(ctx: Context) -> None:
    """Count as waste what has left memory unread."""
    moved, ctx.prefetches.moved = ctx.prefetches.moved, set()
    for key in moved:
        block, made = ctx.tables.blocks.get(key), ctx.prefetches.made.get(key)
        if made is not None and (block is None or _since_us(ctx, block, made.node) is None):
            _unmake(ctx, key)
            ctx.prefetches.counts["wasted"] += 1


def _end(ctx: Context, key: str, course: Course) -> None:
    """Give up what a course has not begun; of what it made, unread copies are waste."""
    ctx.prefetches.counts["dropped"] += len(course.queue)
    del ctx.prefetches.courses[key]
    ctx.localizer.forget_course(key)
    for block, made in list(ctx.prefetches.made.items()):
        if made.course == key:
            _unmake(ctx, block)
            ctx.prefetches.counts["wasted"] += 1


def rearm(ctx: Context) -> None:
    """Have everything planned anew after a restart."""
    ctx.prefetches.turn = -1
