"""The planned starts of each node in their order, and which tasks may begin there now.

Theory of operation. The plan says how many tasks of which stage begin where and when; tasks of a
stage are alike, so the next one that waits takes the place. The order of a node's starts counts
more than their times, for estimates are wrong: a start that is due and has no room waits for it,
and one that is not due begins early where its node has room for as long as it lasts, unless it
would keep what stands before it from its own time. Inputs are sent ahead: a task gets its container
and its input shortly before it is due, and takes room of its node only when it begins.

What is here is worked out of the schedules when these change (``rebuild``); after a restart all is
planned anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tenure.core import lending, tasks
from tenure.core.context import Context
from tenure.model.batch import Batch, StageSpec, Task, TaskState
from tenure.model.node import Node
from tenure.model.resources import exhausted
from tenure.model.units import US, iso

MACHINE = "roster"
#: Of what waits on a node so many starts are looked at: those behind come later anyway.
MOST_LOOKED = 32
#: Beside its way over the link, what a container takes to be made and its input to be compared.
AHEAD_US = 5 * US
#: Where a link's speed is not stated, inputs are sent ahead as if it were this (bytes a second).
ASSUMED_LINK = 20_000_000
#: A task that had to leave a node gets another start there only so long after it was due.
PATIENCE_US = 10 * US
FAR_US = 1 << 62
Key = tuple[str, str]


@dataclass(slots=True)
class Entry:
    """``count`` planned starts of a stage on a node that were not taken yet."""

    at_us: int
    seq: int
    batch: str
    stage: str
    count: int


@dataclass(slots=True)
class Roster:
    """Entries by node in order of time; ``left`` how many there are of each (batch, stage).

    ``placed`` counts, by (batch, stage, node), what began since the newest question to the planner,
    whose answer does not know of it. ``quiet`` are nodes that were served and need not be again
    while what they lend is as it was, until a time; ``stir`` ends that.
    """

    entries: dict[str, list[Entry]] = field(default_factory=dict)
    left: dict[Key, int] = field(default_factory=dict)
    placed: dict[tuple[str, str, str], int] = field(default_factory=dict)
    quiet: dict[str, tuple[lending.Look, int]] = field(default_factory=dict)


def rebuild(ctx: Context) -> None:
    """Take over the schedules of all open batches; inputs that lie elsewhere are given up.

    O(starts).
    """
    taken, roster = ctx.roster.placed, Roster()
    ctx.roster = roster
    lying = _ahead(ctx)
    for key in sorted(ctx.index.open_batches):
        batch, schedule = ctx.tables.batches[key], ctx.tables.schedules.get(key)
        if schedule is None or batch.is_ending:
            continue
        ahead = lying.get(key, {})
        over_datasets = {s.name for s in batch.spec.stages if s.dataset is not None}
        for start in schedule.starts:
            if start.stage in over_datasets:
                continue  # they begin where their blocks are (``reading``)
            count = start.count - _drawn(taken, (key, start.stage, start.node), start.count)
            there = ahead.get((start.stage, start.node), [])
            for task in there[:count]:
                ctx.put_task(replace(task, start_us=start.at_us))
            count, there[:count] = count - len(there[:count]), []
            if count:
                entry = Entry(start.at_us, batch.seq, key, start.stage, count)
                roster.entries.setdefault(start.node, []).append(entry)
                roster.left[key, start.stage] = roster.left.get((key, start.stage), 0) + count
        for task in (task for rest in ahead.values() for task in rest):
            tasks.withdraw(ctx, task)
    for entries in roster.entries.values():
        entries.sort(key=lambda entry: (entry.at_us, entry.seq))


def _count(ctx: Context, key: tuple[str, str, str]) -> None:
    """Count a task that began, for a plan that does not know of it."""
    ctx.roster.placed[key] = ctx.roster.placed.get(key, 0) + 1


def _drawn(counts: dict[tuple[str, str, str], int], key: tuple[str, str, str], most: int) -> int:
    """Take up to ``most`` from a count and return how many."""
    drawn = min(most, counts.get(key, 0))
    if drawn:
        counts[key] -= drawn
    return drawn


def _ahead(ctx: Context) -> dict[str, dict[Key, list[Task]]]:
    """Return the tasks whose input was sent ahead, by batch, stage and node."""
    found: dict[str, dict[Key, list[Task]]] = {}
    for node in sorted(ctx.index.tasks):
        for task in ctx.tasks_on(node):
            if task.is_ahead:
                of_batch = found.setdefault(task.batch, {})
                of_batch.setdefault((task.stage, node), []).append(task)
    return found


def serve(ctx: Context) -> None:
    """Give tasks to the nodes whose turn has come, and begin those whose input lies there."""
    turn, roster = _Turn(ctx), ctx.roster
    busy = (name for name, keys in ctx.index.tasks.items() if keys)
    for name in sorted({*busy, *roster.entries}):
        node, quiet = ctx.tables.nodes.get(name), roster.quiet.get(name)
        is_same = quiet is not None and ctx.lent.get(name) is quiet[0]
        if node is None or (is_same and quiet is not None and ctx.now_us < quiet[1]):
            continue
        if lending.is_lendable(ctx, node):
            turn.begin_ahead(name)
            turn.serve(node, roster.entries.get(name, []))
            roster.quiet[name] = (lending.look_at(ctx, node), turn.until_us(node))


def stir(ctx: Context) -> None:
    """Have all nodes looked at anew: there may be work that was not there before."""
    ctx.roster.quiet.clear()


@dataclass(slots=True)
class _Turn:
    """One pass over the nodes; ``waiting`` are the tasks that may be placed, by stage."""

    ctx: Context
    waiting: dict[Key, list[Task]] = field(default_factory=dict)

    def begin_ahead(self, name: str) -> None:
        """Let tasks whose input lies on a node take its room, in the order of their starts."""
        ctx, node = self.ctx, self.ctx.tables.nodes.get(name)
        if node is None or not lending.is_lendable(ctx, node):
            return
        for key in lending.look_at(ctx, node).ahead:
            task = ctx.tables.tasks[key]
            stage = tasks.stage_of(ctx, task)
            if task.state is not TaskState.READY:
                continue
            if not self._has_room(node, stage, task.start_us):
                if task.start_us > ctx.now_us:
                    ctx.arm(task.start_us, MACHINE, name)
                return
            ctx.put_task(replace(task, is_ahead=False))
            _count(ctx, (task.batch, task.stage, name))

    def serve(self, node: Node, entries: list[Entry]) -> None:
        """Place what may be placed on a node."""
        ctx = self.ctx
        ahead = (ctx.tables.tasks[key] for key in lending.look_at(ctx, node).ahead)
        blocked_us = min((max(task.start_us, ctx.now_us) for task in ahead), default=FAR_US)
        for entry in entries[:MOST_LOOKED]:
            batch = ctx.tables.batches.get(entry.batch)
            is_over = batch is None or batch.is_over or batch.is_ending
            if batch is None or is_over or not ctx.index.strands[batch.id, entry.stage].pending:
                self._drop(entry, entry.count)
                continue
            stage = batch.spec.stage(entry.stage)
            if has_turn(ctx, batch, stage):
                self._place(node, entry, stage, blocked_us)
            if entry.count:
                blocked_us = min(blocked_us, max(entry.at_us, ctx.now_us))
        entries[:] = [entry for entry in entries if entry.count]

    def until_us(self, node: Node) -> int:
        """Return when a node that was served has to be looked at again, and have that happen."""
        ctx = self.ctx
        entries = ctx.roster.entries.get(node.name, [])[:MOST_LOOKED]
        times = [e.at_us - ahead_us(ctx, e, node) for e in entries]
        times += [time_us for e in entries for time_us in (e.at_us, e.at_us + PATIENCE_US)]
        soonest_us = min((at_us for at_us in times if at_us > ctx.now_us), default=FAR_US)
        if soonest_us < FAR_US:
            ctx.arm(soonest_us, MACHINE, node.name)
        return min(soonest_us, lending.look_at(ctx, node).until_us)

    def _place(self, node: Node, entry: Entry, stage: StageSpec, blocked_us: int) -> None:
        ctx = self.ctx
        while entry.count:
            look = lending.look_at(ctx, node)
            begins = self._has_room(node, stage, entry.at_us, blocked_us)
            is_soon = ctx.now_us >= entry.at_us - ahead_us(ctx, entry, node)
            most = ctx.params.preparing
            if (look.preparing >= most) or not (begins or (is_soon and len(look.ahead) < most)):
                return
            task = self._next(entry, node.name)
            if task is None:
                return
            tasks.place(ctx, replace(task, start_us=entry.at_us, is_ahead=not begins), node)
            if begins:
                _count(ctx, (entry.batch, entry.stage, node.name))
            self._drop(entry, 1)

    def _drop(self, entry: Entry, count: int) -> None:
        entry.count -= count
        self.ctx.roster.left[entry.batch, entry.stage] -= count

    def _next(self, entry: Entry, node: str) -> Task | None:
        """Return the next task of a stage that waits for a node, None if there is none for this.

        Those that had to leave another node come first, those that had to leave this one only
        where nothing else came of the plan for a while.
        """
        key = entry.batch, entry.stage
        if key not in self.waiting:
            found = list(placeable(self.ctx, *key))
            self.waiting[key] = sorted(found, key=lambda task: (not task.shunned, task.index))
        row = self.waiting[key]
        waits = self.ctx.now_us < entry.at_us + PATIENCE_US and len(self.ctx.roster.entries) > 1
        for place, task in enumerate(row):
            if not (waits and task.shunned == node):
                return row.pop(place)
        return None

    def _has_room(self, node: Node, stage: StageSpec, at_us: int, blocked_us: int = FAR_US) -> bool:
        """Whether a task planned for ``at_us`` may begin on a node now."""
        ctx, run_us = self.ctx, lending.task_us(stage, node)
        if ctx.now_us < at_us and ctx.now_us + run_us > blocked_us:
            return False
        free = lending.look_at(ctx, node).free
        if run_us > lending.AHEAD_US or exhausted(stage.request, free, node.capacity):
            free = lending.free_on(ctx, node, run_us)  # what comes later is no reason
        return not exhausted(stage.request, free, node.capacity)


def has_turn(ctx: Context, batch: Batch, stage: StageSpec) -> bool:
    """Whether all that a stage waits for is done."""
    return not any(ctx.index.strands[batch.id, name].undone for name in stage.after)


def placeable(ctx: Context, batch: str, stage: str) -> Iterator[Task]:
    """Yield the tasks of a stage that wait for a node and may begin, by index."""
    for index in sorted(ctx.index.strands[batch, stage].pending):
        task = ctx.tables.tasks[f"{batch}/{index}"]
        is_waiting = ctx.now_us < task.retry_us
        if not is_waiting and not any(grave.may_run for grave in ctx.graves_of(task.key)):
            yield task


def ahead_us(ctx: Context, entry: Entry, node: Node) -> int:
    """Return how long before its start a task's input is sent."""
    stage = ctx.tables.batches[entry.batch].spec.stage(entry.stage)
    link = node.capacity.net_bytes_per_s or ASSUMED_LINK
    return AHEAD_US + stage.chunk_bytes * US // link


def drift(ctx: Context, slack_us: int) -> str:
    """Return in words how a node is off the plan by more than ``slack_us``, "" if none is.

    Behind it: what is due has no room, also where its input lies there already. Ahead of it: it has
    nothing more to begin, and what it has room for is planned elsewhere for later.
    O(entries + nodes x stages).
    """
    latest: dict[Key, int] = {}
    for name, entries in sorted(ctx.roster.entries.items()):
        for entry in entries:
            key = entry.batch, entry.stage
            latest[key] = max(latest.get(key, 0), entry.at_us)
        node = ctx.tables.nodes.get(name)
        if node is not None and entries and _is_late(ctx, node, entries[0], slack_us):
            return f"{name} is behind its plan"
    for name in sorted(name for name, keys in ctx.index.tasks.items() if keys):
        node = ctx.tables.nodes.get(name)
        if node is not None and _is_stuck(ctx, node, slack_us):
            return f"{name} is behind its plan"
    for node in list(ctx.tables.nodes.values()):
        if not ctx.roster.entries.get(node.name) and lending.is_said_to_lend(node):
            for key, at_us in sorted(latest.items()):
                if _could_begin(ctx, node, key, at_us - slack_us):
                    return f"{node.name} is ahead of its plan"
    return ""


def _is_late(ctx: Context, node: Node, entry: Entry, slack_us: int) -> bool:
    batch = ctx.tables.batches.get(entry.batch)
    if batch is None or batch.is_over or batch.is_ending:
        return False
    stage = batch.spec.stage(entry.stage)
    late_us = entry.at_us + slack_us + lending.task_us(stage, node) // 2
    return has_turn(ctx, batch, stage) and ctx.now_us > late_us


def _is_stuck(ctx: Context, node: Node, slack_us: int) -> bool:
    """Whether the first task whose input lies on a node should have begun there long ago."""
    ahead = lending.look_at(ctx, node).ahead
    if not ahead:
        return False
    task = ctx.tables.tasks[ahead[0]]
    lasts_us = lending.task_us(tasks.stage_of(ctx, task), node)
    return ctx.now_us > task.start_us + slack_us + lasts_us // 2


def _could_begin(ctx: Context, node: Node, key: Key, before_us: int) -> bool:
    """Whether a task of a stage would end on an idle node before it is to begin elsewhere."""
    batch = ctx.tables.batches[key[0]]
    stage = batch.spec.stage(key[1])
    if ctx.now_us + lending.task_us(stage, node) > before_us or not has_turn(ctx, batch, stage):
        return False
    return lending.seat(ctx, stage, node) is not None


def next_start(ctx: Context, batch: str, stage: str) -> str:
    """Say where and when the next task of a stage is planned to begin."""
    rows = ((name, entry) for name, entries in ctx.roster.entries.items() for entry in entries)
    mine = [(e.at_us, name) for name, e in rows if (e.batch, e.stage) == (batch, stage)]
    if not mine:
        return "no start of it is planned"
    at_us, name = min(mine)
    return f"the next begins on {name}, planned for {iso(at_us)}"


def on_timer(ctx: Context, key: str) -> None:
    """Look again: something is due on a node."""
    ctx.is_room_changed = True
