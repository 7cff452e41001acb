"""Tasks over datasets begin by the plan: it says where how many do, the matching says which (ours).

Theory of operation. A start of such a stage is an opening on its node as soon as it could begin
there by the rules of the dispatch list: it is due, or there is room for as long as it lasts and
nothing before it is kept from its time. Room that nobody has use for until then is an opening too,
for tasks that end there no later than the last one of the stage is planned to, or than one that
takes a start would that is open now, or where a start is late on a node that does not get on: that
delays nobody. Tasks are matched to openings beside a copy of their block by the scores of the
Trident paper (Eq. 1), and together with these to all starts that the plan has later: which task
begins leaves each of those one that it can begin, too. A task waits some seconds for a start beside
a faster copy rather than read a slower one now.

Where the plan has a block brought from another node, that begins so long before the start as it and
a task before it should take, for starts come early where nodes are faster than planned. Of the
tasks that wait the one whose holders can best do without is taken. A start that nobody took for a
while, because copies have gone or others are late, may have a block brought too, if no slot beside
a copy is free sooner. Owns nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tenure.core.datasets import prefetch_inputs, reads
from tenure.core.dispatch import backoff, dispatch_list, task_inputs
from tenure.core.dispatch.dispatch_list import Entry
from tenure.core.dispatch.task_inputs import Wait
from tenure.core.nodes import harvestable
from tenure.core.state import work_limits
from tenure.core.state.block_index import nodes_of
from tenure.core.state.context import Context
from tenure.model.batch import Batch, StageSpec, Task
from tenure.model.locality import Later, Seats
from tenure.model.node import Node
from tenure.model.units import US

#: Tasks of a stage that are looked at for one that has its block on a certain node: 2 us each.
MOST_LOOKED = 1_000
#: Starts that come so much later are waited for by tasks whose block is read faster there, for so
#: long behind their time or since their node last got on.
SOON_US = dispatch_list.PATIENCE_US
#: Whether one is waited for in vain is looked at so often.
LOOK_US = US


@dataclass(slots=True)
class Opening:
    """What of a stage may begin on a node now: ``free`` tasks, and which starts lack a block.

    ``idle`` more would find room that nobody has use for, and end at ``end_us``. ``brings`` are
    planned so that a block is brought, ``overdue`` ones found no task for a while.
    """

    free: int = 0
    idle: int = 0
    end_us: int = 0
    brings: list[Entry] = field(default_factory=list)
    overdue: int = 0


def place_by_plan(ctx: Context, batch: Batch, stage: StageSpec) -> None:
    """Place tasks of a stage over a dataset on nodes where the plan has them begin now."""
    if ctx.work.is_spent:
        ctx.arm(ctx.now_us, dispatch_list.MACHINE, "rest")
        return
    if not task_inputs.may_place(ctx, batch, stage):
        return
    named = {node.name: node for node in ctx.tables.nodes.values() if node.spec.tiers}
    found = {name: opening_on(ctx, batch, stage, node) for name, node in named.items()}
    starting = (opening.end_us for opening in found.values() if opening.free)
    end_us = max(
        ctx.own(dispatch_list.DispatchList).ends_us.get((batch.id, stage.name), 0),
        max(starting, default=0),
    )
    if any(opening.idle and opening.end_us > end_us for opening in found.values()):
        _look_again(ctx, batch, stage)
        end_us = dispatch_list.FAR_US if _is_stuck(ctx, batch, stage, found) else end_us

    def room_on(node: Node) -> int:
        opening = found[node.name]
        return opening.free + (opening.idle if opening.end_us <= end_us else 0)

    # together, for the plan does not know of tiers: a copy in memory may lie beside idle room
    seats = reads.seats_of(ctx, room_on)
    is_placed = _is_matched(ctx, batch, stage, seats)
    is_open = any(one.brings or one.overdue for one in found.values())
    if is_open:
        _bring(ctx, batch, stage, found)
    if (is_open or any(seats.free)) and not is_placed:
        task_inputs.rest(ctx, batch, stage)


def opening_on(ctx: Context, batch: Batch, stage: StageSpec, node: Node) -> Opening:
    """Return what of a stage may begin on a node now. O(starts looked at)."""
    found, run_us = Opening(), harvestable.task_us(stage, node)
    entries = ctx.own(dispatch_list.DispatchList).entries.get(node.name, ())[
        : dispatch_list.MOST_LOOKED
    ]
    most = task_inputs.slots(ctx, stage, node)
    is_bringing = any(entry.brought for entry in entries) and harvestable.is_lendable(ctx, node)
    if not (most or is_bringing):
        return found
    blocked_us = dispatch_list.blocked_before_us(ctx, node)
    for entry in entries:
        if (entry.batch, entry.stage) != (batch.id, stage.name):
            due_us = max(entry.at_us, ctx.now_us) if entry.count else blocked_us
            blocked_us = min(blocked_us, due_us)
            continue
        if ctx.now_us >= entry.at_us or ctx.now_us + run_us <= blocked_us:
            found.free += entry.count
        else:
            blocked_us = min(blocked_us, entry.at_us)
        ahead_us = dispatch_list.ahead_us(ctx, entry, node) if entry.brought else 0
        if entry.brought and ctx.now_us + run_us >= entry.at_us - ahead_us:
            found.brings.append(entry)
        elif ctx.now_us >= entry.at_us + dispatch_list.PATIENCE_US:
            found.overdue += entry.count
    found.end_us = ctx.now_us + run_us
    found.free = min(found.free, most)
    found.idle = most - found.free if found.end_us <= blocked_us else 0
    return found


def _is_matched(ctx: Context, batch: Batch, stage: StageSpec, seats: Seats) -> bool:
    """Begin tasks that have their block on a node with an opening; return whether any did."""
    open_ = {name for name, free in zip(seats.nodes, seats.free, strict=True) if free}
    found = _with_copies(ctx, batch, stage, open_) if open_ else ()
    waits = {wait.task.index: wait for wait in found}
    if not waits:
        return False
    prefetch_inputs.learn_rates(ctx)
    reads = [task_inputs.read(ctx, stage, wait) for wait in waits.values()]
    later = _later(ctx, batch, stage, seats)
    fits = ctx.localizer.match_now(seats, later, reads)
    if len(fits) < sum(seats.free) and any(later.soon):  # some may wait, and give up in time
        _look_again(ctx, batch, stage)
    starts = zip(seats.free, later.soon, later.far, strict=True)
    room = dict(zip(seats.nodes, starts, strict=True))
    for fit in fits:
        wait = waits[fit.key]
        here = next(place for place in wait.places if place.node == fit.node)
        task_inputs.begin(ctx, wait, here, fit, room)
        dispatch_list.take(ctx, wait.task, fit.node)
        ctx.work.spend(work_limits.PLACE)
    return bool(fits)


def _look_again(ctx: Context, batch: Batch, stage: StageSpec) -> None:
    """Have a stage looked at again in a while though nothing happens."""
    ctx.arm(ctx.now_us + LOOK_US, dispatch_list.MACHINE, f"again/{batch.id}/{stage.name}")


def _later(ctx: Context, batch: Batch, stage: StageSpec, seats: Seats) -> Later:
    """Return how many tasks that wait are planned beside a copy on each node, beyond those now.

    Starts to which blocks are brought, or are to be, have tasks of their own.
    """
    rows = [(ctx.tables.tasks[key], name) for key, name in _brought(ctx, batch, stage)]
    coming = Counter(name for task, name in rows if task_inputs.is_on_its_way(ctx, stage, task))
    soon, far = list[int](), list[int]()
    for name, free in zip(seats.nodes, seats.free, strict=True):
        entries = ctx.own(dispatch_list.DispatchList).entries.get(name, ())[
            : dispatch_list.MOST_LOOKED
        ]
        mine = [e for e in entries if (e.batch, e.stage) == (batch.id, stage.name)]
        count = sum(entry.count - entry.brought for entry in mine) - coming[name] - free
        lends = count > 0 and harvestable.is_lendable(ctx, ctx.tables.nodes[name])
        soon.append(min(count, _soon(ctx, name, mine, is_open=free > 0)) if lends else 0)
        far.append(count - soon[-1] if lends else 0)
    return Later(tuple(soon), tuple(far))


def _soon(ctx: Context, name: str, entries: list[Entry], *, is_open: bool) -> int:
    """Return how many of a stage's starts on a node are worth waiting for: they come soon.

    That is within SOON_US, or they are late on a node that gets on. ``is_open``: some begin now.
    """
    since_us = ctx.now_us - SOON_US
    is_late = any(entry.at_us <= since_us for entry in entries)
    if is_late and (
        is_open or _got_on_us(ctx, name, (entries[0].batch, entries[0].stage)) > since_us
    ):
        since_us = 0
    rows = (e for e in entries if since_us < e.at_us <= ctx.now_us + SOON_US)
    return sum(entry.count - entry.brought for entry in rows)


def _is_stuck(ctx: Context, batch: Batch, stage: StageSpec, found: dict[str, Opening]) -> bool:
    """Whether a start of a stage is late on a node that does not get on with its tasks."""
    key, since_us = (batch.id, stage.name), ctx.now_us - SOON_US
    for name, entries in ctx.own(dispatch_list.DispatchList).entries.items():
        if name in found and found[name].free:
            continue
        mine = (e.at_us for e in entries if (e.batch, e.stage) == key and e.count)
        if next(mine, ctx.now_us) <= since_us and _got_on_us(ctx, name, key) <= since_us:
            return True
    return False


def _got_on_us(ctx: Context, name: str, key: dispatch_list.Key) -> int:
    """Return when a task of a stage last got on on a node, 0: none is there.

    A node with other load is slower than planned, and goes on.
    """
    here = (task for task in ctx.tasks_on(name) if (task.batch, task.stage) == key)
    return max((task.changed_us for task in here), default=0)


def _with_copies(ctx: Context, batch: Batch, stage: StageSpec, open_: set[str]) -> list[Wait]:
    """Return tasks to be matched: first those whose block is on an ``open_`` node, then others.

    None if there are none of the first; where these are few among many, the next look goes on
    behind those that were looked at.
    """
    key, found, others = (batch.id, stage.name), list[Wait](), list[Task]()
    looked, most = 0, prefetch_inputs.most(ctx)
    for looked, (task, names) in enumerate(_circle(ctx, batch, stage), 1):
        if names & open_ and _may_begin(ctx, stage, task):
            wait = task_inputs.look_at(ctx, stage, task)
            if wait is not None and any(place.node in open_ for place in wait.places):
                found.append(wait)
        elif len(others) < most:
            others.append(task)
        if looked == MOST_LOOKED and not found:
            ctx.own(dispatch_list.DispatchList).cursors[key] = task.index
        if looked == MOST_LOOKED or len(found) == most:
            break
    ctx.work.spend(looked // work_limits.LOOKS)
    if found:
        for task in others[: most - len(found)]:
            wait = task_inputs.look_at(ctx, stage, task) if _may_begin(ctx, stage, task) else None
            found += [wait] if wait is not None else []
    return found


def _circle(ctx: Context, batch: Batch, stage: StageSpec) -> Iterator[tuple[Task, set[str]]]:
    """Yield the tasks that wait, each with the nodes of its block, from a place on."""
    assert stage.dataset is not None
    pending = sorted(ctx.index.tasks_by_stage[batch.id, stage.name].pending)
    begin = bisect_right(
        pending, ctx.own(dispatch_list.DispatchList).cursors.get((batch.id, stage.name), -1)
    )
    for index in (*pending[begin:], *pending[:begin]):
        task = ctx.tables.tasks[f"{batch.id}/{index}"]
        block = ctx.tables.blocks.get(stage.dataset.key(task.number))
        if block is not None:
            yield task, set(nodes_of(block))


def _may_begin(ctx: Context, stage: StageSpec, task: Task) -> bool:
    """Whether nothing holds back the next attempt of a task, nor is its block being brought."""
    is_held = backoff.is_held(ctx, task)
    return not (is_held or task_inputs.is_on_its_way(ctx, stage, task))


def _bring(ctx: Context, batch: Batch, stage: StageSpec, found: dict[str, Opening]) -> None:
    """Have blocks brought to nodes on which the plan has tasks begin that lack theirs."""
    waits = list(_dispensable(ctx, batch, stage))
    coming = Counter(node for _, node in _brought(ctx, batch, stage))
    for name, opening in sorted(found.items()):
        for entry in opening.brings:
            while entry.brought and _is_brought(ctx, stage, waits, name, is_planned=True):
                entry.brought -= 1
        for _ in range(opening.overdue - coming[name]):
            if not _is_brought(ctx, stage, waits, name, is_planned=False):
                break


def _brought(ctx: Context, batch: Batch, stage: StageSpec) -> Iterator[tuple[str, str]]:
    """Yield the tasks of a stage for which a block is brought, or was, and to which node."""
    for key, (node, _) in ctx.prefetches.brought.items():
        task = ctx.tables.tasks.get(key)
        if task is not None and (task.batch, task.stage) == (batch.id, stage.name):
            yield key, node


def _is_brought(
    ctx: Context, stage: StageSpec, waits: list[Wait], name: str, *, is_planned: bool
) -> bool:
    """Have the first of some blocks that a node has not be brought there; whether one is."""
    for wait in waits:
        if any(place.node == name for place in wait.places):
            continue
        task_inputs.bring(ctx, stage, wait, name, is_planned=is_planned)
        if wait.task.key in ctx.prefetches.brought:
            waits.remove(wait)
            return True
        return False
    return False


def _dispensable(ctx: Context, batch: Batch, stage: StageSpec) -> Iterator[Wait]:
    """Yield tasks whose block can be read, those first whose holders have most of them to spare.

    A node has as many to spare as tasks that wait have a copy there beyond those planned there.
    """
    rows: list[tuple[Task, set[str]]] = []
    spare: Counter[str] = Counter()
    for task, names in _circle(ctx, batch, stage):
        rows.append((task, names))
        spare.update(names)
        if len(rows) == MOST_LOOKED:
            break
    for name in spare:
        for entry in ctx.own(dispatch_list.DispatchList).entries.get(name, ()):
            if (entry.batch, entry.stage) == (batch.id, stage.name):
                spare[name] -= entry.count - entry.brought
    ctx.work.spend(len(rows) // work_limits.LOOKS)
    rows.sort(key=lambda row: (-min((spare[name] for name in row[1]), default=0), row[0].index))
    for task, _ in rows[: prefetch_inputs.most(ctx)]:
        wait = task_inputs.look_at(ctx, stage, task) if _may_begin(ctx, stage, task) else None
        if wait is not None and wait.places:
            yield wait
