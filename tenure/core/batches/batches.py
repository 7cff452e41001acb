"""Batches: the answer to a submission, the order of their tasks, their ends (docs/batches.md).

All or nothing: a batch is accepted if all of its tasks can be done within the window beside those
before it, which the holistic planner says (``planning``); what is plainly wrong is refused at once.
Then tasks begin as planned (``dispatch_list``); those of a batch that has no plan are given to the
nodes that can lend most, in the order of arrival. Tasks end as soon as owners need their memory; of
CPU they get what is left anyway. Owns the records of batches.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import replace

from tenure.core.attempts.tasks import TASKS, stage_of
from tenure.core.batches import planning, stage_times
from tenure.core.batches.planner_question import expected
from tenure.core.dispatch import backoff, dispatch_list, input_replicas, planned_starts, task_inputs
from tenure.core.nodes import harvestable
from tenure.core.state import quotas, work_limits
from tenure.core.state.context import Context
from tenure.core.state.indexes import StageTasks, wanted_by_batch
from tenure.core.state.transitions import may_go
from tenure.model.batch import (
    EXITED,
    TASK_OVER,
    Batch,
    BatchSpec,
    BatchState,
    StageSpec,
    Task,
    TaskState,
)
from tenure.model.errors import FieldError, Problem
from tenure.model.events import CancelBatch, SubmitBatch
from tenure.model.node import Node
from tenure.model.resources import DIMENSIONS, exhausted
from tenure.model.units import size_text

S = TaskState
B = BatchState
#: Nodes that a refusal names with what stands against each.
MAX_TOLD = 5
#: Nodes that are looked at for tasks that no plan holds, whether they leave planned ones room.
MOST_SEATS = 64


def to(ctx: Context, batch: Batch, state: BatchState) -> Batch:
    """Move a batch forward; an illegal step quarantines it."""
    if not may_go(ctx, "batch", batch.id, batch.state, state):
        return batch
    batch = ctx.put_batch(replace(batch, state=state))
    if batch.is_over:
        ctx.tables.drop_schedule(batch.id)
        input_replicas.release(ctx, batch)
    ctx.publish(f"batch.{state.value}", batch.id, name=batch.spec.name, reason=batch.reason)
    return batch


# submission


def submit(ctx: Context, command: SubmitBatch) -> None:
    """Accept or refuse a batch at once, or say what the answer would be."""
    if command.batch in ctx.tables.batches:
        ctx.refuse(command, "duplicate_id", f"batch {command.batch} exists", status=409)
        return
    spec = stage_times.stated(ctx, command.spec)
    command = replace(command, spec=input_replicas.kept(command.batch, spec))
    wanted = expected(ctx, command).plus(wanted_by_batch(command.spec))
    problem = quotas.objection(ctx, command.owner, wanted)
    problem = problem or quotas.outputs_objection(ctx, command.owner)
    problem = problem or objection(ctx, command.batch, command.spec)
    if problem is None:
        planning.enlist(ctx, command)
        return
    planning.turn_away(ctx, command, problem)


def objection(ctx: Context, key: str, spec: BatchSpec) -> Problem | None:
    """Return why a batch is refused without a plan, None if it may be planned. Changes nothing."""
    coming = expected(ctx)
    if len(ctx.index.open_batches) + coming.batches >= ctx.params.max_batches:
        detail = f"{ctx.params.max_batches} batches are open already; try again later"
        return Problem("queue_full", detail, 429)
    idle = [stage.name for stage in spec.stages if not stage.count]
    if idle or not spec.stages:
        told = f"stage {idle[0]} has no tasks: its input is empty" if idle else "it has no tasks"
        return _problem("zero_tasks", told, "stages")
    if spec.tasks > ctx.params.max_tasks:
        detail = (
            f"it has {spec.tasks} tasks, and may have {ctx.params.max_tasks}: have each do more"
        )
        return _problem("too_many_tasks", detail, "stages")
    open_ = sum(ctx.tables.batches[key].spec.tasks for key in ctx.index.open_batches)
    open_ += coming.tasks
    if open_ + spec.tasks > ctx.params.max_open_tasks:
        most = ctx.params.max_open_tasks
        detail = f"open batches have {open_} tasks, and may have {most} with its {spec.tasks}"
        return Problem("queue_full", f"{detail}; try again later", 429)
    for number, stage in enumerate(spec.stages):
        problem = _unfit(ctx, stage, number)
        if problem is not None:
            return problem
    return input_replicas.objection(ctx, key, spec)


def _unfit(ctx: Context, stage: StageSpec, number: int) -> Problem | None:
    """Return why no node that lends could ever take a task of the stage, None where one could."""
    path = f"stages.{number}"
    nodes = list(ctx.tables.nodes.values())
    largest = max((node.capacity.memory_bytes for node in nodes), default=0)
    if stage.chunk_bytes > largest:
        detail = f"stage {stage.name}: a chunk of {size_text(stage.chunk_bytes)} is larger than "
        detail += f"the memory of any node, at most {size_text(largest)}: split it finer"
        return _problem("chunk_too_large", detail, f"{path}.input.split")
    lenders = [node for node in nodes if harvestable.is_lendable(ctx, node)]
    if not lenders:
        return Problem("no_lender", _no_lender(ctx, nodes), 422)
    problem = None if stage.keeps_chunks else task_inputs.objection(ctx, stage)
    if problem is not None:
        return replace(problem, fields=(FieldError(f"{path}.input.dataset", problem.detail),))
    lenders = [node for node in lenders if harvestable.holds(node, stage)]
    if not lenders:
        detail = f"stage {stage.name}: no node that lends has its image, {stage.image}"
        return _problem("no_node", detail, path)
    return _too_large(ctx, stage, lenders, path)


def _too_large(ctx: Context, stage: StageSpec, lenders: list[Node], path: str) -> Problem | None:
    """Return that one task asks for more than any node could lend if its owners used nothing."""
    if not all(_short_of(ctx, stage, node) for node in lenders):  # most often the first fits
        return None
    most = [(node, node.capacity - harvestable.margin_of(ctx, node)) for node in lenders]
    short = [exhausted(stage.request, left, node.capacity) for node, left in most]
    missing = [name for name in DIMENSIONS if any(name in one for one in short)]
    told = []
    for name in missing:
        node, left = max(most, key=lambda row: getattr(row[1], name))
        asked, has = getattr(stage.request, name), max(0, getattr(left, name))
        told.append(f"{_amount(name, asked)}, and {node.name} has the most, {_amount(name, has)}")
    detail = f"stage {stage.name}: no node can lend what one of its tasks asks for: "
    return _problem("no_room", f"{detail}{'; '.join(told)} after the margin", path)


def _amount(name: str, value: int) -> str:
    """Return what a task asks for in words: CPU or memory."""
    return f"{value / 1000:g} CPUs" if name == "cpu_m" else f"{size_text(value)} of memory"


def _short_of(ctx: Context, stage: StageSpec, node: Node) -> Sequence[str]:
    """Return what a node has not enough of for a task of a stage, however idle."""
    return exhausted(stage.request, node.capacity - harvestable.margin_of(ctx, node), node.capacity)


def _no_lender(ctx: Context, nodes: list[Node]) -> str:
    """Say why nothing is lent at all, and what to do about it."""
    said = [node for node in nodes if harvestable.is_said_to_lend(node)]
    if not said:
        return (
            "no node lends its idle capacity: set harvest.mode: act and agent.url of nodes in the "
            "configuration, where tenured agent protects their owners"
        )
    why = [f"{node.name}: {harvestable.objection(ctx, node)}" for node in said[:MAX_TOLD]]
    more = f"; and {len(said) - MAX_TOLD} others" if len(said) > MAX_TOLD else ""
    return f"no node lends its idle capacity now: {'; '.join(why)}{more}"


def _problem(code: str, detail: str, path: str) -> Problem:
    return Problem(code, detail, 422, (FieldError(path, detail),))


def cancel(ctx: Context, command: CancelBatch) -> None:
    """Cancel a batch; what runs of it is stopped. One that is over stays as it is."""
    batch = ctx.find(command, ctx.tables.batches, "batch", command.batch)
    if batch is None:
        return
    if not (batch.is_over or batch.is_ending):
        ctx.put_batch(replace(batch, is_cancelling=True, reason="cancelled"))
        review(ctx, batch.id)
    ctx.reply(command, ctx.tables.batches[batch.id])


# progress


def review_touched(ctx: Context) -> None:
    """Bring forward the tasks that were touched, and their batches.

    Those that are left of a forgotten batch (``drafts``) are none of its any more.
    """
    touched, ctx.notices.tasks = sorted(ctx.notices.tasks), set()
    for key in touched:
        task = None if ctx.is_quarantined(TASKS.machine, key) else ctx.tables.tasks.get(key)
        if task is not None and task.batch in ctx.tables.batches:
            is_end = task.state is S.DONE and not _stage_tasks(ctx, task).undone
            if task.state is S.PENDING:
                backoff.release(ctx, task)
            if is_end or task.state is S.PENDING:
                dispatch_list.stir(ctx)
            _judge(ctx, task)
            TASKS.advance(ctx, ctx.tables.tasks[key])
    for batch in sorted({key.partition("/")[0] for key in touched}):
        review(ctx, batch)


def _stage_tasks(ctx: Context, task: Task) -> StageTasks:
    return ctx.index.tasks_by_stage[task.batch, task.stage]


def _judge(ctx: Context, task: Task) -> None:
    """Have a batch fail one of whose tasks has no attempt left."""
    batch = ctx.tables.batches[task.batch]
    if task.state in (S.FAILED, S.ABANDONED) and not (batch.is_ending or batch.is_over):
        reason = f"stage {task.stage}, task {task.number}: {task.note}"
        ctx.put_batch(replace(batch, is_failing=True, reason=reason))


def review(ctx: Context, key: str) -> None:
    """Bring a batch forward as far as its tasks allow."""
    batch = ctx.tables.batches.get(key)
    if batch is None or batch.is_over or ctx.is_quarantined("batch", key):
        return
    if batch.is_ending:
        _wind_down(ctx, batch)
        return
    tasks_by_stage = [ctx.index.tasks_by_stage[key, stage.name] for stage in batch.spec.stages]
    waiting = sum(len(stage_tasks.pending) for stage_tasks in tasks_by_stage)
    if batch.state is B.ACCEPTED and waiting < batch.spec.tasks:
        batch = to(ctx, replace(batch, started_us=ctx.now_us), B.RUNNING)
    input_replicas.release(ctx, batch)
    if not any(stage_tasks.undone for stage_tasks in tasks_by_stage):
        stage_times.learn(ctx, to(ctx, replace(batch, finished_us=ctx.now_us), B.SUCCEEDED))


def tasks_of(ctx: Context, batch: Batch) -> list[Task]:
    """Return the tasks of a batch in their order."""
    return [ctx.tables.tasks[f"{batch.id}/{index}"] for index in range(batch.spec.tasks)]


def _wind_down(ctx: Context, batch: Batch) -> None:
    """Stop what is left; the batch is over when nothing of it can be running any more."""
    input_replicas.release(ctx, batch)
    tasks_by_stage = [ctx.index.tasks_by_stage[batch.id, stage.name] for stage in batch.spec.stages]
    if ctx.work.is_spent and any(stage_tasks.open for stage_tasks in tasks_by_stage):
        ctx.arm(ctx.now_us, TASKS.machine, batch.id)
        return  # each task of it that ends has it reviewed: nothing is sorted for that
    for stage_tasks in tasks_by_stage:
        for index in sorted(stage_tasks.open):
            if ctx.work.is_spent:
                ctx.arm(ctx.now_us, TASKS.machine, batch.id)
                return
            task = ctx.tables.tasks[f"{batch.id}/{index}"]
            ctx.work.spend(work_limits.END if not task.node else work_limits.PLACE)
            TASKS.abandon(ctx, task, batch.reason)
    if ctx.index.tombstoned.get(batch.id):
        return
    state = B.CANCELLED if batch.is_cancelling else B.FAILED
    to(ctx, replace(batch, finished_us=ctx.now_us), state)


def on_timer(ctx: Context, key: str) -> None:
    """Go on with a task whose wait is over, or with a batch that ends."""
    ctx.notices.tasks.add(key)
    ctx.serve_again(key)


# who runs where


def settle(ctx: Context) -> None:
    """Take back what owners need, then give tasks to the nodes that can lend to them."""
    if not ctx.index.open_batches:
        planning.go_on(ctx)
        return
    for name in sorted(ctx.index.tasks):
        _give_way(ctx, name)
    if ctx.is_closing:
        return
    planning.review(ctx)
    dispatch_list.serve(ctx)
    open_ = (ctx.tables.batches[key] for key in ctx.index.open_batches)
    for batch in sorted(open_, key=lambda b: b.seq):
        if not batch.is_ending:
            _serve(ctx, batch)


def _give_way(ctx: Context, name: str) -> None:
    """End the latest-started tasks of a node as long as owners lack the memory that they hold.

    Not before half of the margin is used up: a little more use by owners ends nothing.
    """
    node = ctx.tables.nodes.get(name)
    if node is None:
        return
    if not harvestable.is_said_to_lend(node):
        TASKS.evict(ctx, name, "its node lends no more")  # nobody protects its owners
        return
    short = harvestable.look_at(ctx, node).short_bytes
    if short <= 0:
        return
    # one whose input is sent ahead holds nothing yet
    here = [t for t in ctx.tasks_on(name) if t.state not in EXITED and not t.is_ahead]
    for task in sorted(here, key=lambda t: (t.started_us or ctx.now_us, t.index), reverse=True):
        if short <= 0:
            return
        short -= stage_of(ctx, task).request.memory_bytes
        TASKS.reclaim(ctx, task, "its node's owners need the memory")


def _serve(ctx: Context, batch: Batch) -> None:
    """Place the pending tasks of every stage whose turn has come."""
    for stage in batch.spec.stages:
        is_waiting = bool(ctx.index.tasks_by_stage[batch.id, stage.name].pending)
        if is_waiting and dispatch_list.has_turn(ctx, batch, stage):
            is_planned = planning.is_planned(ctx, batch.id)
            if stage.dataset is not None and (dispatch_list.is_matched(stage) or not is_planned):
                task_inputs.place_where_free(ctx, batch, stage, is_planned=is_planned)
            elif stage.dataset is not None:
                planned_starts.place_by_plan(ctx, batch, stage)
            elif not is_planned:
                _place_where_free(ctx, batch, stage)


def _place_where_free(ctx: Context, batch: Batch, stage: StageSpec) -> None:
    """Place tasks of a stage that no plan holds where there is room."""
    seats = [] if ctx.work.is_spent else _seats(ctx, stage)
    for task in backoff.placeable(ctx, batch.id, stage.name):
        if ctx.work.is_spent:
            ctx.arm(ctx.now_us, dispatch_list.MACHINE, "rest")
            return
        if not seats:
            return
        ctx.work.spend(work_limits.PLACE)
        # on another node than the one it had to leave, where there is one
        turn = int(len(seats) > 1 and seats[0][-1] == task.shunned)
        node = ctx.tables.nodes[seats.pop(turn)[-1]]
        TASKS.place(ctx, task, node)
        again = harvestable.seat(ctx, stage, node)
        if again is not None and dispatch_list.is_left(ctx, stage, node):
            insort(seats, again)


def _seats(ctx: Context, stage: StageSpec) -> list[harvestable.Seat]:
    """Return nodes for one more task of a stage that no plan holds, the best first."""
    nodes = ctx.tables.nodes
    found = harvestable.seats(ctx, stage)[:MOST_SEATS]
    return [seat for seat in found if dispatch_list.is_left(ctx, stage, nodes[seat[-1]])]


def rearm(ctx: Context) -> None:
    """Set the timers of loaded tasks and have those of open batches reviewed."""
    for key in sorted(ctx.index.open_batches):
        ctx.notices.tasks.add(key)
        for task in tasks_of(ctx, ctx.tables.batches[key]):
            if task.state in TASK_OVER or task.node:
                ctx.notices.tasks.add(task.key)
            if task.retry_us > ctx.now_us:
                ctx.arm(task.retry_us, TASKS.machine, task.key)
