"""The planned starts of each node in their order, and which tasks may begin there now.

Theory of operation. The plan says how many tasks of which stage begin where and when; tasks of a
stage are alike, so the next one that waits takes the place. The order of a node's starts counts
more than their times, for estimates are wrong: a start that is due and has no room waits for it,
and one that is not due begins early where its node has room for as long as it lasts, unless it
would keep what stands before it from its own time. Starts of stages that wait for others stand
apart until the turn of these has come, so that however many there are, they hold up nobody. Inputs
are sent ahead: a task gets its container and its input shortly before it is due, and takes room of
its node only when it begins.

What is here is worked out of the schedules when these change: a ``listing`` is made in slices and
adopted at once; what nodes began since the plan was asked for, and what lies there, is taken off
node by node before any is served (``_reconcile``). Nodes are served in slices too, in a circle.
After a restart all is planned anew. Owns ``DispatchList``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tenure.core.attempts.tasks import TASKS, stage_of
from tenure.core.datasets import prefetch_inputs
from tenure.core.dispatch import backoff, planner_inputs, shuffle_sizes
from tenure.core.nodes import harvestable
from tenure.core.state import work_limits
from tenure.core.state.context import Context
from tenure.core.state.owned import Owned
from tenure.model.batch import Batch, StageSpec, Task, TaskState
from tenure.model.node import Node
from tenure.model.resources import Resources, exhausted, total
from tenure.model.units import US, iso

MACHINE = "dispatch"
#: Of what waits on a node so many starts are looked at: those behind come later anyway.
MOST_LOOKED = 32
#: Beside its way over the link, what a container takes to be made and its input to be compared.
AHEAD_US = 5 * US
#: Where a link's speed is not stated, inputs are sent ahead as if it were this (bytes a second).
ASSUMED_LINK = 20_000_000
#: So many starts of a node keep their room from tasks that no plan holds.
NEXT_STARTS = 8
#: A task that had to leave a node gets another start there only so long after it was due.
PATIENCE_US = 10 * US
FAR_US = 1 << 62
Key = tuple[str, str]


@dataclass(slots=True)
class Entry:
    """``count`` planned starts of a stage on a node that were not taken yet.

    For ``brought`` of them the input is still to be brought from another node.
    """

    at_us: int
    seq: int
    batch: str
    stage: str
    count: int
    brought: int = 0


@dataclass(slots=True)
class DispatchList(Owned):
    """Entries by node in order of time, those ``apart`` by stage; ``left`` how many of each stage.

    ``latest`` is when the last start of a (batch, stage) was planned, ``ends_us`` when the last of
    its tasks is to end. ``placed`` counts, by batch, then (stage, node), what began since the
    planner was told of it; ``taken`` is that of the plan in force, which its ``unsettled`` nodes do
    not know of yet. ``quiet`` are nodes that were served and need not be again while what they lend
    is as it was, until a time; ``stir`` ends that. The circle goes on ``after`` a node, that of
    ``plan_drift`` with the one to be ``looked`` at next. ``cursors`` are how far the tasks of
    stages over datasets were looked at in vain.
    """

    entries: dict[str, list[Entry]] = field(default_factory=dict)
    apart: dict[str, dict[Key, list[Entry]]] = field(default_factory=dict)
    left: dict[Key, int] = field(default_factory=dict)
    latest: dict[Key, int] = field(default_factory=dict)
    ends_us: dict[Key, int] = field(default_factory=dict)
    placed: dict[str, Counter[Key]] = field(default_factory=dict)
    taken: dict[str, Counter[Key]] = field(default_factory=dict)
    unsettled: list[str] = field(default_factory=list)
    quiet: dict[str, tuple[harvestable.Look, int]] = field(default_factory=dict)
    after: str = ""
    looked: str = ""
    cursors: dict[Key, int] = field(default_factory=dict)


def is_matched(stage: StageSpec) -> bool:
    """Whether the tasks of a stage begin as they are matched, not by the plan: over HDFS.

    Where such blocks lie is not known to the planner.
    """
    return stage.dataset is not None and stage.dataset.is_external


def adopt(ctx: Context, dispatch: DispatchList) -> None:
    """Have nodes begin by a list from now on."""
    taken = ctx.own(DispatchList).placed
    ctx.put_own(dispatch)
    dispatch.taken = taken
    dispatch.unsettled = sorted({*dispatch.entries, *ctx.index.tasks}, reverse=True)


def clear(ctx: Context) -> None:
    """Have nodes begin nothing by plan: there is none. What was sent ahead begins when it may."""
    ctx.put_own(DispatchList())


def _reconcile(ctx: Context, name: str) -> None:
    """Take off a node's starts what began there since its plan was asked for, and what lies there.

    Inputs that lie there for tasks that are planned elsewhere are given up.
    """
    dispatch = ctx.own(DispatchList)
    lying = _ahead(ctx, name)
    entries = sorted(dispatch.entries.get(name, ()), key=lambda entry: (entry.at_us, entry.seq))
    for entry in entries:
        key = entry.batch, entry.stage
        _drop(dispatch, entry, _drawn(dispatch.taken, entry, name))
        there = lying.get(key, [])[: entry.count]
        for task in there:
            ctx.put_task(replace(task, start_us=entry.at_us))
        if there:
            lying[key] = lying[key][len(there) :]
            _drop(dispatch, entry, len(there))
    for rest in lying.values():
        for task in rest:
            TASKS.withdraw(ctx, task)
            ctx.work.spend(work_limits.PLACE)
    ctx.work.spend(work_limits.ENTRY * len(entries))
    _sort_in(ctx, name, [entry for entry in entries if entry.count])


def _sort_in(ctx: Context, name: str, entries: list[Entry]) -> None:
    """Have those of a node's starts stand apart whose stage waits for another."""
    dispatch, turns = ctx.own(DispatchList), dict[Key, bool]()
    dispatch.entries[name], apart = [], dispatch.apart.setdefault(name, {})
    for entry in entries:
        key = entry.batch, entry.stage
        if key not in turns:
            turns[key] = _has_turn_or_none(ctx, key)
        if turns[key]:
            dispatch.entries[name].append(entry)
        else:
            apart.setdefault(key, []).append(entry)


def _has_turn_or_none(ctx: Context, key: Key) -> bool:
    """Whether the turn of a stage has come, or never will."""
    batch = ctx.tables.batches.get(key[0])
    is_over = batch is None or batch.is_over or batch.is_ending
    return batch is None or is_over or has_turn(ctx, batch, batch.spec.stage(key[1]))


def _let_in(ctx: Context, name: str) -> None:
    """Have those of a node's starts that stand apart take their places whose turn has come."""
    dispatch = ctx.own(DispatchList)
    apart = dispatch.apart.get(name)
    due = [key for key in apart or () if _has_turn_or_none(ctx, key)]
    if apart is not None and due:
        entries = dispatch.entries.setdefault(name, [])
        for key in due:
            entries += apart.pop(key)
        entries.sort(key=lambda entry: (entry.at_us, entry.seq))


def take(ctx: Context, task: Task, node: str) -> None:
    """Count a task over a dataset that begins (``planned_starts``): it takes a start of its node.

    Where none is planned there, one that is planned elsewhere is left over, and goes with the last
    of those that wait.
    """
    _count(ctx, task, node)
    for entry in ctx.own(DispatchList).entries.get(node, ()):
        if (entry.batch, entry.stage) == (task.batch, task.stage) and entry.count:
            _drop(ctx.own(DispatchList), entry, 1)
            return


def _count(ctx: Context, task: Task, node: str) -> None:
    """Count a task that began, for a plan that does not know of it."""
    ctx.own(DispatchList).placed.setdefault(task.batch, Counter())[task.stage, node] += 1


def _drawn(counts: Mapping[str, Counter[Key]], entry: Entry, node: str) -> int:
    """Take as much from a count as a start is for, and return how many."""
    of_batch = counts.get(entry.batch, Counter())
    drawn = min(entry.count, of_batch[entry.stage, node])
    if drawn:
        of_batch[entry.stage, node] -= drawn
    return drawn


def _drop(dispatch: DispatchList, entry: Entry, count: int) -> None:
    """Take tasks off a start."""
    entry.count -= count
    entry.brought = min(entry.brought, entry.count)
    dispatch.left[entry.batch, entry.stage] -= count


def _ahead(ctx: Context, name: str) -> dict[Key, list[Task]]:
    """Return the tasks of a node whose input was sent ahead, of batches that are planned."""
    found: dict[Key, list[Task]] = {}
    for task in ctx.tasks_on(name):
        is_planned = task.is_ahead and task.batch in ctx.tables.schedules
        if is_planned and not ctx.tables.batches[task.batch].is_ending:
            found.setdefault((task.batch, task.stage), []).append(task)
    return found


def serve(ctx: Context) -> None:
    """Give tasks to the nodes whose turn has come, and begin those whose input lies there."""
    turn, dispatch = _Turn(ctx), ctx.own(DispatchList)
    looks = ctx.own(harvestable.Looks).by_node
    while dispatch.unsettled and not ctx.work.is_spent:
        _reconcile(ctx, dispatch.unsettled.pop())
    if dispatch.unsettled:
        ctx.arm(ctx.now_us, MACHINE, "rest")
        return
    names = sorted({*ctx.index.tasks, *dispatch.entries})
    begin = bisect_left(names, dispatch.after)
    for name in (*names[begin:], *names[:begin]):
        node, quiet = ctx.tables.nodes.get(name), dispatch.quiet.get(name)
        is_same = quiet is not None and looks.get(name) is quiet[0]
        if node is None or (is_same and quiet is not None and ctx.now_us < quiet[1]):
            continue
        if ctx.work.is_spent:
            dispatch.after = name
            break
        if harvestable.is_lendable(ctx, node):
            _let_in(ctx, name)
            turn.begin_ahead(name)
            if turn.serve(node):
                dispatch.quiet[name] = (harvestable.look_at(ctx, node), turn.until_us(node))
            # not before: where that is all there is to spend, nobody would ever be served
            ctx.work.spend(work_limits.NODE)
    if ctx.work.is_spent:
        ctx.arm(ctx.now_us, MACHINE, "rest")


def stir(ctx: Context) -> None:
    """Have all nodes looked at anew: there may be work that was not there before."""
    ctx.own(DispatchList).quiet.clear()


@dataclass(slots=True)
class _Waiting:
    """Tasks of a stage that may be placed: those tried before, then the others as they are.

    ``passed`` are tried ones that were not for the nodes that asked so far.
    """

    again: Iterator[Task]
    fresh: Iterator[Task]
    passed: list[Task] = field(default_factory=list)


@dataclass(slots=True)
class _Turn:
    """One pass over the nodes; ``waiting`` are the tasks that may be placed, by stage."""

    ctx: Context
    waiting: dict[Key, _Waiting] = field(default_factory=dict)

    def begin_ahead(self, name: str) -> None:
        """Let tasks whose input lies on a node take its room, in the order of their starts."""
        ctx, node = self.ctx, self.ctx.tables.nodes.get(name)
        if node is None or not harvestable.is_lendable(ctx, node):
            return
        for key in harvestable.look_at(ctx, node).ahead:
            task = ctx.tables.tasks[key]
            stage = stage_of(ctx, task)
            if task.state is not TaskState.READY:
                continue
            if not has_room(ctx, node, stage, task.start_us):
                if task.start_us > ctx.now_us:
                    ctx.arm(task.start_us, MACHINE, name)
                return
            ctx.put_task(replace(task, is_ahead=False))
            ctx.work.spend(work_limits.BEGIN)
            _count(ctx, task, name)

    def serve(self, node: Node) -> bool:
        """Place what may be placed on a node; return whether all of it was looked at."""
        ctx, dispatch = self.ctx, self.ctx.own(DispatchList)
        entries = dispatch.entries.get(node.name, [])
        blocked_us, looked = blocked_before_us(ctx, node), 0
        for entry in entries:
            if ctx.work.is_spent or looked == MOST_LOOKED:
                break
            batch = ctx.tables.batches.get(entry.batch)
            is_over = batch is None or batch.is_over or batch.is_ending
            if (
                batch is None
                or is_over
                or not ctx.index.tasks_by_stage[batch.id, entry.stage].pending
            ):
                _drop(dispatch, entry, entry.count)
                ctx.work.spend(work_limits.ENTRY)
                continue  # however many there are, they hide nobody behind them
            looked += 1
            stage = batch.spec.stage(entry.stage)
            if stage.dataset is None and has_turn(ctx, batch, stage):
                self._place(node, entry, stage, blocked_us)
            if entry.count:  # one over a dataset waits for the task that is matched to it
                blocked_us = min(blocked_us, max(entry.at_us, ctx.now_us))
        entries[:] = [entry for entry in entries if entry.count]
        return not ctx.work.is_spent

    def until_us(self, node: Node) -> int:
        """Return when a node that was served has to be looked at again, and have that happen."""
        ctx = self.ctx
        entries = ctx.own(DispatchList).entries.get(node.name, [])[:MOST_LOOKED]
        times = [e.at_us - ahead_us(ctx, e, node) for e in entries]
        times += [time_us for e in entries for time_us in (e.at_us, e.at_us + PATIENCE_US)]
        soonest_us = min((at_us for at_us in times if at_us > ctx.now_us), default=FAR_US)
        if soonest_us < FAR_US:
            ctx.arm(soonest_us, MACHINE, node.name)
        return min(soonest_us, harvestable.look_at(ctx, node).until_us)

    def _place(self, node: Node, entry: Entry, stage: StageSpec, blocked_us: int) -> None:
        ctx = self.ctx
        while entry.count and not ctx.work.is_spent:
            look = harvestable.look_at(ctx, node)
            begins = has_room(ctx, node, stage, entry.at_us, blocked_us)
            is_soon = ctx.now_us >= entry.at_us - ahead_us(ctx, entry, node)
            most = ctx.params.preparing
            if (look.preparing >= most) or not (begins or (is_soon and len(look.ahead) < most)):
                return
            task = self._next(entry, node.name)
            if task is None:
                return
            TASKS.place(ctx, replace(task, start_us=entry.at_us, is_ahead=not begins), node)
            ctx.work.spend(work_limits.PLACE)
            if begins:
                _count(ctx, task, node.name)
            _drop(ctx.own(DispatchList), entry, 1)

    def _next(self, entry: Entry, node: str) -> Task | None:
        """Return the next task of a stage that waits for a node, None if there is none for this.

        Those that had to leave another node come first, those that had to leave this one only
        where nothing else came of the plan for a while.
        """
        ctx, key = self.ctx, (entry.batch, entry.stage)
        if key not in self.waiting:
            stage_tasks = ctx.index.tasks_by_stage[key]
            again = backoff.free(ctx, entry.batch, stage_tasks, stage_tasks.retried())
            fresh = backoff.free(ctx, entry.batch, stage_tasks, stage_tasks.fresh())
            self.waiting[key] = _Waiting(again, fresh)
        row = self.waiting[key]
        others = len(ctx.own(DispatchList).entries) > 1
        waits = others and ctx.now_us < entry.at_us + PATIENCE_US
        for place, task in enumerate(row.passed):
            if not (waits and task.shunned == node):
                return row.passed.pop(place)
        for task in row.again:
            if not (waits and task.shunned == node):
                return task
            row.passed.append(task)
        return next(row.fresh, None)


def blocked_before_us(ctx: Context, node: Node) -> int:
    """Return when the first start of a node is due that its row does not show.

    That is one whose input lies there, or whose stage waits for another.
    """
    ahead = (ctx.tables.tasks[key] for key in harvestable.look_at(ctx, node).ahead)
    times = [task.start_us for task in ahead]
    times += [rows[0].at_us for rows in ctx.own(DispatchList).apart.get(node.name, {}).values()]
    return min((max(at_us, ctx.now_us) for at_us in times), default=FAR_US)


def has_room(
    ctx: Context, node: Node, stage: StageSpec, at_us: int, blocked_us: int = FAR_US
) -> bool:
    """Whether a task planned for ``at_us`` may begin on a node now.

    One that is not due has to end before ``blocked_us``, when something else is.
    """
    run_us = harvestable.task_us(stage, node)
    if ctx.now_us < at_us and ctx.now_us + run_us > blocked_us:
        return False
    free = harvestable.look_at(ctx, node).free
    if run_us > harvestable.AHEAD_US or exhausted(stage.request, free, node.capacity):
        free = harvestable.free_on(ctx, node, run_us)  # what comes later is no reason
    return not exhausted(stage.request, free, node.capacity)


def is_left(ctx: Context, stage: StageSpec, node: Node) -> bool:
    """Whether a task of a stage that no plan holds keeps no planned start from its room on a node.

    The next ones that begin there before it would end must fit beside it and what runs then: what
    is due waits for room that comes a moment later. O(tasks there).
    """
    run_us, batches = harvestable.task_us(stage, node), ctx.tables.batches
    rows = [
        ctx.own(DispatchList).entries.get(node.name, []),
        *ctx.own(DispatchList).apart.get(node.name, {}).values(),
    ]
    open_ = (e for row in rows for e in row[:NEXT_STARTS] if e.batch in ctx.index.open_batches)
    next_ = sorted(open_, key=lambda entry: entry.at_us)[:NEXT_STARTS]
    before = [entry for entry in next_ if entry.at_us < ctx.now_us + run_us]
    here = [task for task in ctx.tasks_on(node.name) if before and not task.is_ahead]
    ends = [(planner_inputs.end_us(ctx, task), stage_of(ctx, task).request) for task in here]
    spare, planned = harvestable.spare_on(ctx, node, run_us), Resources()
    for entry in before:
        planned += batches[entry.batch].spec.stage(entry.stage).request.scaled(entry.count)
        runs = total(request for end_us, request in ends if end_us > max(entry.at_us, ctx.now_us))
        if exhausted(stage.request, spare - planned - runs, node.capacity):
            return False
    return True


def has_turn(ctx: Context, batch: Batch, stage: StageSpec) -> bool:
    """Whether all that a stage waits for is done."""
    return not any(ctx.index.tasks_by_stage[batch.id, name].undone for name in stage.after)


def ahead_us(ctx: Context, entry: Entry, node: Node) -> int:
    """Return how long before its start a task's input is sent, or brought from another node."""
    batch, link = ctx.tables.batches[entry.batch], node.capacity.net_bytes_per_s
    stage = batch.spec.stage(entry.stage)
    if stage.dataset is not None:
        speed = min(link or prefetch_inputs.USUAL_BYTES_PER_S, prefetch_inputs.USUAL_BYTES_PER_S)
        return US + prefetch_inputs.bring_us(stage.dataset.block_bytes, speed)
    return AHEAD_US + shuffle_sizes.sent_bytes(ctx, batch, stage) * US // (link or ASSUMED_LINK)


def next_start(ctx: Context, batch: str, stage: str) -> str:
    """Say where and when the next task of a stage is planned to begin."""
    dispatch = ctx.own(DispatchList)
    rows = [(name, e) for name, entries in dispatch.entries.items() for e in entries]
    for name, apart in dispatch.apart.items():
        rows += [(name, e) for e in apart.get((batch, stage), ())]
    mine = [(e.at_us, name) for name, e in rows if (e.batch, e.stage) == (batch, stage)]
    if not mine:
        return "no start of it is planned"
    at_us, name = min(mine)
    return f"the next begins on {name}, planned for {iso(at_us)}"
