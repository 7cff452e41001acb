"""Tasks over datasets begin by the plan: it says where how many do, the matching says which (ours).

Theory of operation. A start of such a stage is an opening on its node as soon as it could begin
there by the rules of the roster: it is due, or there is room for as long as it lasts and nothing
before it is kept from its time. Room that nobody has use for until then is an opening too, for
tasks that end there no later than the last one of the stage is planned to, or than one that takes
a start would that is open now: that delays nobody. The
cheapest matching of tasks to openings (Eq. 1 to 3 of the Trident paper) counts as far as tasks find
a copy of their block there.

Where the plan has a block brought from another node, that begins so long before the start as it and
a task before it should take, for starts come early where nodes are faster than planned. Of the
tasks that wait the one whose holders can best do without is taken. A start that nobody took for a
while, because copies have gone or others are late, may have a block brought too, if no slot beside
a copy is free sooner.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tenure.core import inputs, lending, reading, roster, slices
from tenure.core.blockindex import nodes_of
from tenure.core.context import Context
from tenure.core.reading import Wait
from tenure.core.roster import Entry
from tenure.model.batch import Batch, StageSpec, Task
from tenure.model.locality import Seats
from tenure.model.node import Node

#: Tasks of a stage that are looked at for one that has its block on a certain node: 2 us each.
MOST_LOOKED = 1_000


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


def fill(ctx: Context, batch: Batch, stage: StageSpec) -> None:
    """Place tasks of a stage over a dataset on nodes where the plan has them begin now."""
    if ctx.slice.is_spent:
        ctx.arm(ctx.now_us, roster.MACHINE, "rest")
        return
    if not reading.may_fill(ctx, batch, stage):
        return
    named = {node.name: node for node in ctx.tables.nodes.values() if node.spec.tiers}
    found = {name: opening_on(ctx, batch, stage, node) for name, node in named.items()}
    starting = (opening.end_us for opening in found.values() if opening.free)
    end_us = max(ctx.roster.ends_us.get((batch.id, stage.name), 0), max(starting, default=0))

    def room_on(node: Node) -> int:
        opening = found[node.name]
        return opening.free + (opening.idle if opening.end_us <= end_us else 0)

    # together, for the plan does not know of tiers: a copy in memory may lie beside idle room
    seats = reading.seats_of(ctx, room_on)
    is_placed = _is_matched(ctx, batch, stage, seats)
    is_open = any(one.brings or one.overdue for one in found.values())
    if is_open:
        _bring(ctx, batch, stage, found)
    if (is_open or any(seats.free)) and not is_placed:
        reading.rest(ctx, batch, stage)


def opening_on(ctx: Context, batch: Batch, stage: StageSpec, node: Node) -> Opening:
    """Return what of a stage may begin on a node now. O(starts looked at)."""
    found, run_us = Opening(), lending.task_us(stage, node)
    entries = ctx.roster.entries.get(node.name, ())[: roster.MOST_LOOKED]
    most = reading.slots(ctx, stage, node)
    is_bringing = any(entry.brought for entry in entries) and lending.is_lendable(ctx, node)
    if not (most or is_bringing):
        return found
    blocked_us = roster.blocked_before_us(ctx, node)
    for entry in entries:
        if (entry.batch, entry.stage) != (batch.id, stage.name):
            due_us = max(entry.at_us, ctx.now_us) if entry.count else blocked_us
            blocked_us = min(blocked_us, due_us)
            continue
        if ctx.now_us >= entry.at_us or ctx.now_us + run_us <= blocked_us:
            found.free += entry.count
        else:
            blocked_us = min(blocked_us, entry.at_us)
        if entry.brought and ctx.now_us + run_us >= entry.at_us - roster.ahead_us(ctx, entry, node):
            found.brings.append(entry)
        elif ctx.now_us >= entry.at_us + roster.PATIENCE_US:
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
    inputs.learn_rates(ctx)
    reads = [reading.read(ctx, stage, wait) for wait in waits.values()]
    is_placed = False
    for fit in ctx.localizer.match(seats, reads):
        wait = waits[fit.key]
        here = next((place for place in wait.places if place.node == fit.node), None)
        if here is not None:
            reading.begin(ctx, wait, here, fit)
            roster.take(ctx, wait.task, fit.node)
            ctx.slice.spend(slices.PLACE)
            is_placed = True
    return is_placed


def _with_copies(ctx: Context, batch: Batch, stage: StageSpec, open_: set[str]) -> list[Wait]:
    """Return tasks that may be placed and whose block can be read on one of some nodes.

    So many as are matched at once; where they are few among many, the next look goes on behind
    those that were looked at.
    """
    key, found = (batch.id, stage.name), list[Wait]()
    looked = 0
    for looked, (task, names) in enumerate(_circle(ctx, batch, stage), 1):
        if names & open_ and _may_begin(ctx, stage, task):
            wait = reading.look_at(ctx, stage, task)
            if wait is not None and any(place.node in open_ for place in wait.places):
                found.append(wait)
        if looked == MOST_LOOKED and not found:
            ctx.roster.cursors[key] = task.index
        if looked == MOST_LOOKED or len(found) == inputs.most(ctx):
            break
    ctx.slice.spend(looked // slices.LOOKS)
    return found


def _circle(ctx: Context, batch: Batch, stage: StageSpec) -> Iterator[tuple[Task, set[str]]]:
    """Yield the tasks that wait, each with the nodes of its block, from a place on."""
    assert stage.dataset is not None
    pending = sorted(ctx.index.strands[batch.id, stage.name].pending)
    begin = bisect_right(pending, ctx.roster.cursors.get((batch.id, stage.name), -1))
    for index in (*pending[begin:], *pending[:begin]):
        task = ctx.tables.tasks[f"{batch.id}/{index}"]
        block = ctx.tables.blocks.get(stage.dataset.key(task.number))
        if block is not None:
            yield task, set(nodes_of(block))


def _may_begin(ctx: Context, stage: StageSpec, task: Task) -> bool:
    """Whether nothing holds back the next attempt of a task, nor is its block being brought."""
    is_held = ctx.now_us < task.retry_us or any(g.may_run for g in ctx.graves_of(task.key))
    return not (is_held or reading.is_on_its_way(ctx, stage, task))


def _bring(ctx: Context, batch: Batch, stage: StageSpec, found: dict[str, Opening]) -> None:
    """Have blocks brought to nodes on which the plan has tasks begin that lack theirs."""
    waits = list(_dispensable(ctx, batch, stage))
    mine = (at for key, at in ctx.ahead.brought.items() if key.startswith(f"{batch.id}/"))
    coming = Counter(node for node, _ in mine)
    for name, opening in sorted(found.items()):
        for entry in opening.brings:
            while entry.brought and _is_brought(ctx, stage, waits, name, is_planned=True):
                entry.brought -= 1
        for _ in range(opening.overdue - coming[name]):
            if not _is_brought(ctx, stage, waits, name, is_planned=False):
                break


def _is_brought(
    ctx: Context, stage: StageSpec, waits: list[Wait], name: str, *, is_planned: bool
) -> bool:
    """Have the first of some blocks that a node has not be brought there; whether one is."""
    for wait in waits:
        if any(place.node == name for place in wait.places):
            continue
        reading.bring(ctx, stage, wait, name, is_planned=is_planned)
        if wait.task.key in ctx.ahead.brought:
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
        for entry in ctx.roster.entries.get(name, ()):
            if (entry.batch, entry.stage) == (batch.id, stage.name):
                spare[name] -= entry.count - entry.brought
    ctx.slice.spend(len(rows) // slices.LOOKS)
    rows.sort(key=lambda row: (-min((spare[name] for name in row[1]), default=0), row[0].index))
    for task, _ in rows[: inputs.most(ctx)]:
        wait = reading.look_at(ctx, stage, task) if _may_begin(ctx, stage, task) else None
        if wait is not None and wait.places:
            yield wait
