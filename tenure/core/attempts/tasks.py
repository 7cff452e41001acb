"""Tasks of batches: one attempt after another, each a container below the node's harvest parent.

Theory of operation. An attempt gets a node; its container is created under a name that is the same
after any restart; its input is sent into the container, read back and compared; then it is
started. Ended well, its output is brought to the daemon's disk, and only then it is done; its
container is removed in any case, by its tombstone. Whatever was started and whose end is not known
holds back the next attempt, so that no task runs twice at a time.

What ended unknown is not tried again on the same container: a send that comes late would write into
the input of a task that runs. Only a collection is, for it changes nothing on the engine. Owns the
records of tasks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.core.attempts import task_bodies, tombstones
from tenure.core.attempts.executors import ENGINE_END_CODES, JUDGE_US, is_node_ready
from tenure.core.blocks import pins, tiers
from tenure.core.capacity import node_agents
from tenure.core.state.context import Context
from tenure.core.state.transitions import may_go
from tenure.model.batch import (
    Batch,
    StageSpec,
    Task,
    TaskState,
)
from tenure.model.container import Tombstone
from tenure.model.effects import (
    AskJournal,
    CollectOutput,
    CreateContainer,
    Relist,
    SendInput,
    StartContainer,
)
from tenure.model.facts import ContainerFacts
from tenure.model.node import Node
from tenure.model.outcome import Done, Outcome, Refused

MACHINE = "task"
S = TaskState
#: What a task is given to end by itself: it is begun anew anyway.
GRACE_S = 1
OOM_NOTE = "killed for memory: it used more than it asked for"
#: Refusals that mean that the batch can never succeed.
HOPELESS = frozenset(("input_changed", "no_input"))
#: Ends that look like an agent's doing, of which none can tell, that cost a task no retry. Each
#: takes an agent that falls silent for a minute: a task that has had more of them ends itself so.
MOST_UNPROVEN = 3
#: Waits before another attempt grow with the tries, up to so many times ``Params.retry_us``.
MOST_WAITS = 5


def stage_of(ctx: Context, task: Task) -> StageSpec:
    """Return the stage that a task belongs to."""
    return ctx.tables.batches[task.batch].spec.stage(task.stage)


def to(ctx: Context, task: Task, state: TaskState, **changes: Any) -> Task:
    """Move a task to a later state of its attempt; an illegal step quarantines it."""
    if not may_go(ctx, MACHINE, task.key, task.state, state):
        return task
    defaults: dict[str, Any] = {"changed_us": ctx.now_us, "is_unsure": False, "effect": ""}
    return ctx.put_task(replace(task, state=state, **(defaults | changes)))


# forward


def place(ctx: Context, task: Task, node: Node) -> None:
    """Give a pending task its node and have its container created."""
    task = ctx.put_task(replace(task, node=node.name))
    stage = stage_of(ctx, task)
    if task.sent_to not in ("", node.name) and task.reading is None:
        count_remote(ctx, task)
    effect = CreateContainer(
        id=ctx.effect_id(),
        owner=f"{MACHINE}:{task.key}",
        node=node.name,
        name=task.container_name,
        body=task_bodies.body_of(ctx, task, node),
        pull=stage.is_pullable,
    )
    to(ctx, task, S.CREATING, effect=effect.id)
    ctx.emit(effect)


def count_remote(ctx: Context, task: Task) -> None:
    """Count an attempt that begins where its input did not lie."""
    batch = ctx.tables.batches[task.batch]
    ctx.put_batch(replace(batch, remote=batch.remote + 1))


def advance(ctx: Context, task: Task) -> None:
    """Send the next effect of a task, if its turn has come."""
    batch = ctx.tables.batches.get(task.batch)
    if batch is None or batch.is_ending or task.effect or task.is_unsure:
        return
    if _is_overtime(ctx, task):
        fail(ctx, task, "it ran longer than its stage's max_runtime_s", may_run=True)
        return
    if not is_node_ready(ctx.tables.nodes.get(task.node)):
        return
    if ctx.now_us < task.retry_us:
        ctx.arm(task.retry_us, MACHINE, task.key)
    elif task.state in (S.CREATED, S.READY) and _is_unguarded(ctx, task):
        _wait_for_guard(ctx, task)
    elif task.state is S.CREATED:
        _send(ctx, task, batch)
    elif task.state is S.READY and not task.is_ahead:
        _start(ctx, task)
    elif task.state is S.EXITED:
        _ask(ctx, task)
    elif task.state in (S.ENDED, S.COLLECTING):
        _collect(ctx, task)


def _is_unguarded(ctx: Context, task: Task) -> bool:
    """Whether no agent protects the owners of a task's node."""
    return bool(node_agents.objection(ctx, ctx.tables.nodes[task.node]))


def _is_overtime(ctx: Context, task: Task) -> bool:
    """Whether a task runs for longer than it may; looked at again when it will."""
    most_us = stage_of(ctx, task).max_runtime_us
    if task.state is not S.RUNNING or not most_us or task.started_us is None:
        return False
    until_us = task.started_us + most_us
    if ctx.now_us < until_us:
        ctx.arm(until_us, MACHINE, task.key)
    return ctx.now_us >= until_us


def _send(ctx: Context, task: Task, batch: Batch) -> None:
    stage = batch.spec.stage(task.stage)
    effect = SendInput(
        id=ctx.effect_id(),
        owner=f"{MACHINE}:{task.key}",
        node=task.node,
        engine_id=task.engine_id,
        parts=task_bodies.parts_of(ctx, task),
        source=stage.input if task.reading is None else None,
    )
    to(ctx, task, S.SENDING, effect=effect.id)
    ctx.emit(effect)


def _start(ctx: Context, task: Task) -> None:
    key, owner = ctx.effect_id(), f"{MACHINE}:{task.key}"
    effect = StartContainer(key, owner, task.node, task.engine_id)
    to(ctx, task, S.STARTING, effect=key)
    ctx.emit(effect)


def _wait_for_guard(ctx: Context, task: Task) -> None:
    """Begin nothing while the agent is away; once that is lost, begin elsewhere."""
    guard = ctx.learned.guards.get(task.node)
    if guard is None:
        return  # it is heard of soon, one way or the other
    lost_us = max(guard.since_us, task.changed_us) + ctx.params.agent_lost_us
    if ctx.now_us >= lost_us:
        reclaim(ctx, task, "its node's agent is lost")
    else:
        ctx.arm(lost_us, MACHINE, task.key)


def _ask(ctx: Context, task: Task) -> None:
    """Have the agent's journal read: what it did to this task decides what the exit costs."""
    effect = AskJournal(ctx.effect_id(), f"{MACHINE}:{task.key}", task.node)
    ctx.put_task(replace(task, effect=effect.id))
    ctx.emit(effect)


def _collect(ctx: Context, task: Task) -> None:
    effect = CollectOutput(
        id=ctx.effect_id(),
        owner=f"{MACHINE}:{task.key}",
        node=task.node,
        engine_id=task.engine_id,
        folder=task_bodies.folder_of(task.batch, task.index),
        limit_bytes=ctx.params.output_bytes,
    )
    if task.state is S.ENDED:
        task = to(ctx, task, S.COLLECTING)
    ctx.put_task(replace(task, effect=effect.id, changed_us=ctx.now_us))
    ctx.emit(effect)


# ends of effects


def on_effect(ctx: Context, key: str, effect: str, outcome: Outcome) -> None:
    """Take in the end of a task's effect; one that nobody waits for is ignored."""
    task = ctx.tables.tasks.get(key)
    if task is None or task.effect != effect:
        return
    if task.state is S.EXITED:
        _told(ctx, replace(task, effect=""), is_covered=isinstance(outcome, Done))
    elif isinstance(outcome, Done):
        _done(ctx, task, outcome)
    elif task.state is S.COLLECTING:
        _not_collected(ctx, task, outcome)
    elif isinstance(outcome, Refused) and outcome.code != "unreachable":
        _refused(ctx, task, outcome)
    elif task.state is S.SENDING or isinstance(outcome, Refused):
        lose(ctx, task, outcome.detail or "its input was not confirmed")
    else:
        ctx.put_task(replace(task, effect="", is_unsure=True, changed_us=ctx.now_us))
        ctx.emit(Relist(task.node))


def _done(ctx: Context, task: Task, outcome: Done) -> None:
    if task.state is S.CREATING:
        to(ctx, task, S.CREATED, engine_id=outcome.value)
    elif task.state is S.SENDING:
        stage = stage_of(ctx, task)
        is_sent = stage.input is not None and task.reading is None
        has_input = is_sent or bool(stage.shuffle)
        to(ctx, task, S.READY, sent_to=task.node if has_input else "")
        if outcome.resent:
            _resent(ctx, task, outcome.resent)
    elif task.state is S.STARTING:
        to(ctx, task, S.RUNNING, started_us=ctx.now_us)
        ctx.publish("task.running", task.key, node=task.node, stage=task.stage)
    elif task.state is S.COLLECTING:
        note = "" if task.fetches else task.note
        done = to(ctx, task, S.DONE, output_bytes=outcome.moved_bytes, note=note)
        condemn(ctx, done, may_run=False)
        ctx.publish("task.done", task.key, node=task.node, stage=task.stage)


def _resent(ctx: Context, task: Task, rounds: int) -> None:
    batch = ctx.tables.batches[task.batch]
    ctx.put_batch(replace(batch, resent=batch.resent + rounds))
    ctx.publish("task.input_resent", task.key, node=task.node, rounds=rounds)


def _not_collected(ctx: Context, task: Task, outcome: Outcome) -> None:
    """Ask again for an output, have the task work again where it is gone, or call it failed."""
    if isinstance(outcome, Refused) and outcome.code in ("bad_output", "too_large"):
        fail(ctx, task, f"{outcome.code}: {outcome.detail}")
    elif isinstance(outcome, Refused) and outcome.code == "no_such_container":
        lose(ctx, task, "its container is gone, and its output with it")
    elif task.fetches >= ctx.params.task_fetches:
        lose(ctx, task, f"its output could not be fetched: {getattr(outcome, 'detail', '')}")
    else:
        retry_us = ctx.now_us + ctx.params.retry_us * min(task.fetches + 1, MOST_WAITS)
        note = f"its output cannot be fetched yet: {getattr(outcome, 'detail', '')}"
        again = replace(task, effect="", fetches=task.fetches + 1, note=note)
        ctx.put_task(replace(again, retry_us=retry_us, changed_us=ctx.now_us))


def _refused(ctx: Context, task: Task, outcome: Refused) -> None:
    note = f"{outcome.code}: {outcome.detail}" if outcome.detail else outcome.code
    if outcome.code in HOPELESS:
        batch = ctx.tables.batches[task.batch]
        reason = f"stage {task.stage}: {outcome.detail or outcome.code}"
        ctx.put_batch(replace(batch, is_failing=True, reason=reason))
        lose(ctx, task, note)
    elif (
        task.reading is not None
        and task.reading.path
        and task_bodies.may_lack_a_mount(outcome.code, task.note)
    ):
        tiers.survey_soon(ctx, task.node)  # the copy that it was to read may be gone
        lose(ctx, task, note, may_run=task.state is S.STARTING)
    elif task.state is S.STARTING and outcome.code == "start_failed":
        fail(ctx, task, note, may_run=True)
    elif task.state is S.CREATING and outcome.code in ("bad_request", "name_taken"):
        fail(ctx, task, note)
    else:
        lose(ctx, task, note, may_run=task.state is S.STARTING)


# ends of attempts


def fail(ctx: Context, task: Task, note: str, *, code: int = 125, may_run: bool = False) -> None:
    """End an attempt by its own fault; the next one costs a retry."""
    if not may_go(ctx, MACHINE, task.key, task.state, S.FAILED):
        return
    over = to(
        ctx,
        task,
        S.FAILED,
        exit_code=code,
        note=note,
        finished_us=ctx.now_us,
        failures=task.failures + 1,
    )
    condemn(ctx, over, may_run=may_run)
    batch = ctx.tables.batches[task.batch]
    ctx.put_batch(replace(batch, retried=batch.retried + 1))
    ctx.publish("task.failed", task.key, node=task.node, exit_code=code, note=note)
    if over.failures <= batch.spec.retries:
        renew(ctx, over)


def lose(ctx: Context, task: Task, note: str, *, may_run: bool = False) -> None:
    """End an attempt by the fleet's doing, and begin the next one, unless it was too often."""
    if not may_go(ctx, MACHINE, task.key, task.state, S.ABANDONED):
        return
    over = to(ctx, task, S.ABANDONED, note=note, finished_us=ctx.now_us, mishaps=task.mishaps + 1)
    condemn(ctx, over, may_run=may_run)
    ctx.publish("task.lost", task.key, node=task.node, note=note)
    if over.mishaps <= ctx.params.task_mishaps:
        renew(ctx, over)


def reclaim(ctx: Context, task: Task, why: str) -> None:
    """End an attempt because owners need its room, or its node goes; it costs no retry."""
    if task.state is S.PENDING or not may_go(ctx, MACHINE, task.key, task.state, S.ABANDONED):
        return
    may_run = task.state in (S.STARTING, S.RUNNING) or task.is_unsure or bool(task.effect)
    over = to(ctx, task, S.ABANDONED, note=why, finished_us=ctx.now_us, reclaims=task.reclaims + 1)
    condemn(ctx, over, may_run=may_run)
    batch = ctx.tables.batches[task.batch]
    ctx.put_batch(replace(batch, reclaimed=batch.reclaimed + 1))
    ctx.publish("task.reclaimed", task.key, node=task.node, why=why)
    if over.reclaims <= ctx.params.task_reclaims:
        renew(ctx, over)


def renew(ctx: Context, over: Task, *, shunned: str | None = None) -> None:
    """Begin the next attempt, which has no node yet; rather not on the last one's (None)."""
    if ctx.tables.batches[over.batch].is_ending:
        return
    wait_us = ctx.params.retry_us * min(over.failures + over.mishaps + over.reclaims, MOST_WAITS)
    fresh = Task(
        batch=over.batch,
        index=over.index,
        stage=over.stage,
        number=over.number,
        chunk=over.chunk,
        attempt=over.attempt + 1,
        changed_us=ctx.now_us,
        failures=over.failures,
        mishaps=over.mishaps,
        reclaims=over.reclaims,
        retry_us=ctx.now_us + wait_us,
        shunned=over.node if shunned is None else shunned,
        note=over.note,
        sent_to=over.sent_to,
        unproven=over.unproven,
    )
    ctx.arm(fresh.retry_us, MACHINE, fresh.key)
    ctx.put_task(fresh)


def withdraw(ctx: Context, task: Task) -> None:
    """Take back a task that has not begun: it is planned elsewhere. That costs nothing.

    It had not to leave its node: a later plan may have it there again.
    """
    if not may_go(ctx, MACHINE, task.key, task.state, S.ABANDONED):
        return
    over = to(ctx, task, S.ABANDONED, note="planned elsewhere", finished_us=ctx.now_us)
    condemn(ctx, over, may_run=bool(task.effect) or task.is_unsure)
    renew(ctx, over, shunned=over.shunned)


def abandon(ctx: Context, task: Task, note: str) -> None:
    """Stop a task whose batch ends early."""
    if not may_go(ctx, MACHINE, task.key, task.state, S.ABANDONED):
        return
    may_run = task.state in (S.STARTING, S.RUNNING) or task.is_unsure or bool(task.effect)
    over = to(ctx, task, S.ABANDONED, note=note, finished_us=ctx.now_us)
    condemn(ctx, over, may_run=may_run)


def condemn(ctx: Context, over: Task, *, may_run: bool) -> None:
    """Have the container of an attempt that is over removed once its log is kept."""
    pins.release(ctx, over)
    if not over.node:
        return
    key = f"{over.key}/{over.attempt}"
    tombstone = Tombstone(
        id=key,
        node=over.node,
        owner=over.key,
        turn=over.attempt,
        name=over.container_name,
        engine_id=over.engine_id,
        created_us=ctx.now_us,
        may_run=may_run,
        grace_s=GRACE_S,
        logs_key=key,
    )
    tombstones.condemn(ctx, tombstone)


# listings


def on_listing(ctx: Context, task: Task, facts: ContainerFacts | None, started_us: int) -> None:
    """Take in what an engine shows of this attempt (None: it is not there)."""
    if started_us <= task.changed_us or task.effect or not task.node:
        return
    if ctx.is_quarantined(MACHINE, task.key):
        return
    if facts is None:
        lose(ctx, task, "its container vanished from its engine")
    elif facts.is_running and task.state is S.STARTING:
        to(ctx, task, S.RUNNING, started_us=_began_us(ctx, task, facts))
        ctx.publish("task.running", task.key, node=task.node, stage=task.stage)
    elif facts.is_running and task.is_unsure:
        ctx.put_task(replace(task, is_unsure=False, changed_us=ctx.now_us))
    elif facts.state == "created" and task.state is S.CREATING:
        to(ctx, task, S.CREATED, engine_id=facts.engine_id)
    elif facts.state == "created" and task.state is S.STARTING:
        lose(ctx, task, "its start was not confirmed", may_run=True)  # it may still happen
    elif facts.state in ("exited", "dead") and task.state in (S.STARTING, S.RUNNING):
        _exited(ctx, task, facts)


def _began_us(ctx: Context, task: Task, facts: ContainerFacts) -> int:
    since_us, apart_us = (
        ctx.tables.batches[task.batch].arrival_us,
        ctx.learned.apart.get(task.node, 0),
    )
    return facts.began_us(since_us, ctx.now_us, apart_us=apart_us)


def _exited(ctx: Context, task: Task, facts: ContainerFacts) -> None:
    """Take in an exit; a bad one is judged once the journal of the node's agent covers it."""
    code = 255 if facts.exit_code is None else facts.exit_code
    started_us = task.started_us or _began_us(ctx, task, facts)
    finished_us = facts.ended_us(started_us, ctx.now_us)
    task = ctx.put_task(replace(task, started_us=started_us))
    if code == 0:
        if task.reading is not None and ctx.prefetches.courses:
            ctx.prefetches.ended.append(task.key)
        to(ctx, task, S.ENDED, exit_code=0, finished_us=finished_us)
        return
    note = OOM_NOTE if facts.is_oom_killed else facts.error or f"exit code {code}"
    exited = to(ctx, task, S.EXITED, exit_code=code, finished_us=finished_us, note=note)
    if exited.killed or not _has_agent(ctx, exited):
        _judge(ctx, exited, is_covered=bool(exited.killed))


def _has_agent(ctx: Context, task: Task) -> bool:
    spec = ctx.tables.nodes[task.node].spec
    return spec.agent is not None and spec.harvest is not None


def _told(ctx: Context, task: Task, *, is_covered: bool) -> None:
    """Judge an exit by the journal; ask an agent that does not answer again until it is lost."""
    is_lost = ctx.now_us >= task.changed_us + ctx.params.agent_lost_us
    if is_covered or is_lost or not _has_agent(ctx, task):
        _judge(ctx, task, is_covered=is_covered)
    else:
        ctx.put_task(replace(task, retry_us=ctx.now_us + ctx.params.retry_us))


def _judge(ctx: Context, task: Task, *, is_covered: bool) -> None:
    """End an exited attempt: reclaimed if the agent ended it, lost with its engine, or failed.

    Without an agent's word whoever sent SIGKILL or SIGTERM may have been the agent. An engine that
    goes down ends its containers before it is missed, so such an exit waits for a moment.
    """
    code = 255 if task.exit_code is None else task.exit_code
    from_outside = code in ENGINE_END_CODES and task.note != OOM_NOTE
    judge_us = task.changed_us + JUDGE_US
    if task.killed and not (task.is_guess and task.note == OOM_NOTE):
        reclaim(ctx, task, task.killed)
    elif from_outside and ctx.tables.nodes[task.node].reconnected_us > (task.started_us or 0):
        lose(ctx, task, f"ended with its engine ({task.note})")
    elif from_outside and not (is_covered and _is_known(ctx, task)):
        _unproven(ctx, task, code)
    elif from_outside and ctx.now_us < judge_us:
        ctx.put_task(replace(task, retry_us=judge_us))
    else:
        fail(ctx, task, task.note, code=code)


def _is_known(ctx: Context, task: Task) -> bool:
    """Whether the journal of a task's node has lost nothing since the task began."""
    mark = ctx.tables.harvests.get(task.node)
    return mark is None or mark.gap_us <= (task.started_us or 0)


def _unproven(ctx: Context, task: Task, code: int) -> None:
    """Take an end for giving way, unless the task has often ended so and nobody could tell why."""
    if task.unproven < MOST_UNPROVEN:
        why = f"killed ({task.note}), and its node's agent cannot tell by whom"
        reclaim(ctx, replace(task, unproven=task.unproven + 1), why)
    else:
        told = f"{task.note}, and {task.unproven} times before no agent could tell by whom"
        fail(ctx, task, told, code=code)
