"""Tasks of batches: one attempt after another, each a container below the node's harvest parent.

``attempt`` says how an attempt lives. That of a task is created as soon as it has a node; then its
input is sent into the container, read back and compared, and only then it is started. Ended well,
its output is brought to the daemon's disk, and only then it is done; its container is removed in
any case. Ended badly, it is judged by what its node's agent did to it. Whatever was started and
whose end is not known holds back the next attempt, so that no task runs twice at a time.

What ended unknown is not tried again on the same container: a send that comes late would write into
the input of a task that runs. Only a collection is, for it changes nothing on the engine. Owns the
records of tasks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.core.attempts import task_bodies
from tenure.core.attempts.attempt import (
    ABANDONED,
    ENGINE_END_CODES,
    JUDGE_US,
    MOST_TOLD,
    Terms,
    Work,
)
from tenure.core.blocks import pins
from tenure.core.capacity import node_agents
from tenure.core.state.context import Context
from tenure.model.batch import Batch, StageSpec, Task, TaskState
from tenure.model.effects import AskJournal, CollectOutput, SendInput
from tenure.model.facts import ContainerFacts
from tenure.model.harvest import HarvestAction
from tenure.model.node import Node
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.resources import Resources

S = TaskState
COUNTS = frozenset(("failures", "mishaps", "reclaims", "unproven"))
#: What a task is given to end by itself: it is begun anew anyway.
GRACE_S = 1
OOM_NOTE = "killed for memory: it used more than it asked for"
#: Refusals that mean that the batch can never succeed.
HOPELESS = frozenset(("input_changed", "no_input"))
#: Refusals of outputs that no other attempt would change.
BAD_OUTPUT = ("bad_output", "too_large")
#: Ends that look like an agent's doing, of which none can tell, that cost a task no retry. Each
#: takes an agent that falls silent for a minute: a task that has had more of them ends itself so.
MOST_UNPROVEN = 3


def stage_of(ctx: Context, task: Task) -> StageSpec:
    """Return the stage that a task belongs to."""
    return ctx.tables.batches[task.batch].spec.stage(task.stage)


class Tasks(Work[Task]):
    """The attempts of tasks: what is theirs alone."""

    KEPT = frozenset(("batch", "index", "stage", "number", "chunk", "note", "sent_to")) | COUNTS

    def _body(self, ctx: Context, record: Task) -> dict[str, Any]:
        return task_bodies.body_of(ctx, record, ctx.tables.nodes[record.node])

    def _terms(self, ctx: Context, record: Task) -> Terms:
        """Return its terms; what runs on lent room is counted by its task (``harvestable``)."""
        batch, most = ctx.tables.batches[record.batch], ctx.params.task_mishaps
        is_pullable = batch.spec.stage(record.stage).is_pullable
        return Terms(is_pullable, Resources(), GRACE_S, batch.arrival_us, most)

    def _is_ending(self, ctx: Context, record: Task) -> bool:
        return ctx.tables.batches[record.batch].is_ending

    # forward

    def place(self, ctx: Context, task: Task, node: Node) -> None:
        """Give a pending task its node and have its container created."""
        task = self.put(ctx, replace(task, node=node.name))
        if task.sent_to not in ("", node.name) and task.reading is None:
            count_remote(ctx, task)
        self.create(ctx, task)

    def unplace(self, ctx: Context, record: Task, reason: str) -> None:
        """Do nothing: a task to which nothing was sent has no node."""

    def advance(self, ctx: Context, task: Task) -> None:
        """Send the next effect of a task, if its turn has come."""
        batch = ctx.tables.batches.get(task.batch)
        if batch is None or batch.is_ending or task.effect or task.is_unsure:
            return
        if self._is_overtime(ctx, task):
            self.fail(ctx, task, "it ran longer than its stage's max_runtime_s", may_run=True)
        elif not ctx.is_reachable(task.node) or not self.is_due(ctx, task):
            return
        elif task.state in (S.CREATED, S.READY) and _is_unguarded(ctx, task):
            self._wait_for_guard(ctx, task)
        elif task.state is S.CREATED:
            self._send_input(ctx, task, batch)
        elif task.state is S.READY and not task.is_ahead:
            self.start(ctx, task)
        elif task.state is S.EXITED:
            # what the agent did to this task decides what the exit costs: its journal is read
            effect = AskJournal(*self._call(ctx, task), task.node)
            self.put(ctx, replace(task, effect=effect.id))
            ctx.emit(effect)
        elif task.state in (S.ENDED, S.COLLECTING):
            self._collect(ctx, task)

    def _found_made(self, ctx: Context, record: Task, facts: ContainerFacts) -> None:
        """Take in that its container was created; one that somebody started has no input."""
        if facts.state == "created":
            super()._found_made(ctx, record, facts)
        else:
            made = replace(record, engine_id=facts.engine_id)
            self.lose(ctx, made, "somebody has started it without its input", may_run=True)

    def _is_overtime(self, ctx: Context, task: Task) -> bool:
        """Whether a task runs for longer than it may; looked at again when it will."""
        most_us = stage_of(ctx, task).max_runtime_us
        if task.state is not S.RUNNING or not most_us or task.started_us is None:
            return False
        until_us = task.started_us + most_us
        if ctx.now_us < until_us:
            ctx.arm(until_us, self.machine, task.key)
        return ctx.now_us >= until_us

    def _wait_for_guard(self, ctx: Context, task: Task) -> None:
        """Begin nothing while the agent is away; once that is lost, begin elsewhere."""
        guard = ctx.learned.guards.get(task.node)
        if guard is None:
            return  # it is heard of soon, one way or the other
        lost_us = max(guard.since_us, task.changed_us) + ctx.params.agent_lost_us
        if ctx.now_us >= lost_us:
            self.reclaim(ctx, task, "its node's agent is lost")
        else:
            ctx.arm(lost_us, self.machine, task.key)

    def _send_input(self, ctx: Context, task: Task, batch: Batch) -> None:
        stage, (key, owner) = batch.spec.stage(task.stage), self._call(ctx, task)
        parts = task_bodies.parts_of(ctx, task)
        source = stage.input if task.reading is None else None
        effect = SendInput(key, owner, task.node, task.engine_id, parts=parts, source=source)
        self._send(ctx, task, S.SENDING, effect)

    def _collect(self, ctx: Context, task: Task) -> None:
        key, owner = self._call(ctx, task)
        effect = CollectOutput(
            id=key,
            owner=owner,
            node=task.node,
            engine_id=task.engine_id,
            folder=task_bodies.folder_of(task.batch, task.index),
            limit_bytes=ctx.params.output_bytes,
        )
        self._send(ctx, task, S.COLLECTING, effect)

    # ends of effects

    def _settle(self, ctx: Context, record: Task, outcome: Outcome) -> None:
        is_done = isinstance(outcome, Done)
        is_away = isinstance(outcome, Refused) and outcome.code == "unreachable"
        is_unknown = not isinstance(outcome, Done | Refused)
        if record.state is S.EXITED:
            self._told(ctx, replace(record, effect=""), is_covered=is_done)
        elif record.state is S.COLLECTING and not is_done:
            self._not_collected(ctx, record, outcome)
        elif is_away or (record.state is S.SENDING and is_unknown):
            told = "" if isinstance(outcome, Done) else outcome.detail
            self.lose(ctx, record, told or "its input was not confirmed")
        else:
            super()._settle(ctx, record, outcome)

    def _done(self, ctx: Context, record: Task, outcome: Done) -> None:
        if record.state is S.SENDING:
            stage = stage_of(ctx, record)
            is_sent = stage.input is not None and record.reading is None
            has_input = is_sent or bool(stage.shuffle)
            self.to(ctx, record, S.READY, sent_to=record.node if has_input else "")
            if outcome.resent:
                batch = ctx.tables.batches[record.batch]
                ctx.put_batch(replace(batch, resent=batch.resent + outcome.resent))
                self._publish(ctx, "input_resent", record, rounds=outcome.resent)
        elif record.state is S.COLLECTING:
            note = "" if record.fetches else record.note
            self.close(
                ctx, record, S.DONE, may_run=False, output_bytes=outcome.moved_bytes, note=note
            )
            self._publish(ctx, "done", record, stage=record.stage)
        else:
            super()._done(ctx, record, outcome)

    def _running(self, ctx: Context, record: Task, **changes: Any) -> None:
        self.to(ctx, record, S.RUNNING, **changes)
        self._publish(ctx, "running", record, stage=record.stage)

    def _not_collected(self, ctx: Context, task: Task, outcome: Outcome) -> None:
        """Ask again for an output, have the task work again where it is gone, or call it failed."""
        code = outcome.code if isinstance(outcome, Refused) else ""
        detail = "" if isinstance(outcome, Done) else outcome.detail
        if code in BAD_OUTPUT:
            self.fail(ctx, task, f"{code}: {detail}")
        elif code == "no_such_container":
            self.lose(ctx, task, "its container is gone, and its output with it")
        elif task.fetches >= ctx.params.task_fetches:
            self.lose(ctx, task, f"its output could not be fetched: {detail}")
        else:
            retry_us = self._again_us(ctx, task.fetches + 1)
            note = f"its output cannot be fetched yet: {detail}"
            again = replace(task, effect="", fetches=task.fetches + 1, note=note)
            self.put(ctx, replace(again, retry_us=retry_us, changed_us=ctx.now_us))

    def _refused(self, ctx: Context, record: Task, refused: Refused, note: str) -> None:
        code, is_starting = refused.code, record.state is S.STARTING
        path = "" if record.reading is None else record.reading.path
        if code in HOPELESS:
            batch = ctx.tables.batches[record.batch]
            reason = f"stage {record.stage}: {refused.detail or code}"[:MOST_TOLD]
            ctx.put_batch(replace(batch, is_failing=True, reason=reason))
            self.lose(ctx, record, note)
        elif self._is_missing_copy(ctx, record, path, code):
            self.lose(ctx, record, note, may_run=is_starting)
        elif (is_starting and code == task_bodies.START_FAILED) or (
            record.state is S.CREATING and code in ("bad_request", "name_taken")
        ):
            self.fail(ctx, record, note, may_run=is_starting)
        else:
            self.lose(ctx, record, note, may_run=is_starting)

    # ends of attempts

    def fail(
        self, ctx: Context, task: Task, note: str, *, code: int = 125, may_run: bool = False
    ) -> None:
        """End an attempt by its own fault; the next one costs a retry."""
        failures = task.failures + 1
        ends = {"note": note, "failures": failures, "exit_code": code}
        over = self._end(ctx, task, S.FAILED, may_run=may_run, **ends)
        if over is not None:
            batch = ctx.tables.batches[task.batch]
            ctx.put_batch(replace(batch, retried=batch.retried + 1))
            self._publish(ctx, "failed", task, exit_code=code, note=note)
            if failures <= batch.spec.retries:
                self.renew(ctx, over)

    def reclaim(self, ctx: Context, task: Task, why: str) -> None:
        """End an attempt because owners need its room, or its node goes; it costs no retry."""
        if task.state is S.PENDING:
            return
        reclaims, may_run = task.reclaims + 1, self.may_run(task)
        over = self._end(ctx, task, ABANDONED, may_run=may_run, note=why, reclaims=reclaims)
        if over is not None:
            batch = ctx.tables.batches[task.batch]
            ctx.put_batch(replace(batch, reclaimed=batch.reclaimed + 1))
            self._publish(ctx, "reclaimed", task, why=why)
            if reclaims <= ctx.params.task_reclaims:
                self.renew(ctx, over)

    def withdraw(self, ctx: Context, task: Task) -> None:
        """Take back a task that has not begun: it is planned elsewhere. That costs nothing.

        It had not to leave its node: a later plan may have it there again.
        """
        over = self.abandon(ctx, task, "planned elsewhere")
        if over is not None:
            self.renew(ctx, over, shunned=over.shunned)

    def renew(self, ctx: Context, over: Task, *, shunned: str | None = None) -> None:
        """Begin the next attempt, which has no node yet; rather not on the last one's (None)."""
        if self._is_ending(ctx, over):
            return
        shunned = over.node if shunned is None else shunned
        tries = over.failures + over.mishaps + over.reclaims
        self._anew(ctx, over, tries, shunned=shunned)

    def condemn(self, ctx: Context, record: Task, *, may_run: bool) -> None:
        """Have its container removed, and let go of the block that it read."""
        pins.release(ctx, record)
        super().condemn(ctx, record, may_run=may_run)

    # exits

    def _exited(self, ctx: Context, record: Task, code: int, facts: ContainerFacts) -> None:
        """Take in an exit; a bad one is judged once the journal of the node's agent covers it."""
        finished_us = facts.ended_us(record.started_us or 0, ctx.now_us)
        if code == 0:
            if record.reading is not None and ctx.prefetches.courses:
                ctx.prefetches.ended.append(record.key)
            self.to(ctx, record, S.ENDED, exit_code=0, finished_us=finished_us)
            return
        note = OOM_NOTE if facts.is_oom_killed else facts.error or f"exit code {code}"
        ends = {"exit_code": code, "finished_us": finished_us, "note": note}
        over = self.to(ctx, record, S.EXITED, **ends)
        if over.killed or not _has_agent(ctx, over):
            self._judge(ctx, over, is_covered=bool(over.killed))

    def _told(self, ctx: Context, task: Task, *, is_covered: bool) -> None:
        """Judge an exit by the journal; ask an agent that is silent again until it is lost."""
        is_lost = ctx.now_us >= task.changed_us + ctx.params.agent_lost_us
        if is_covered or is_lost or not _has_agent(ctx, task):
            self._judge(ctx, task, is_covered=is_covered)
        else:
            self.put(ctx, replace(task, retry_us=self._again_us(ctx, 1)))

    def _judge(self, ctx: Context, task: Task, *, is_covered: bool) -> None:
        """End an exited attempt: reclaimed if the agent ended it, lost with its engine, or failed.

        Without an agent's word whoever sent SIGKILL or SIGTERM may have been the agent. An engine
        that goes down ends its containers before it is missed, so such an exit waits for a moment.
        """
        code = 255 if task.exit_code is None else task.exit_code
        from_outside = code in ENGINE_END_CODES and task.note != OOM_NOTE
        judge_us = task.changed_us + JUDGE_US
        if task.killed and not (task.is_guess and task.note == OOM_NOTE):
            self.reclaim(ctx, task, task.killed)
        elif from_outside and self._was_away(ctx, task):
            self.lose(ctx, task, f"ended with its engine ({task.note})")
        elif from_outside and not (is_covered and _is_known(ctx, task)):
            self._unproven(ctx, task, code)
        elif from_outside and ctx.now_us < judge_us:
            self.put(ctx, replace(task, retry_us=judge_us))
        else:
            self.fail(ctx, task, task.note, code=code)

    def _unproven(self, ctx: Context, task: Task, code: int) -> None:
        """Take an end for giving way, unless the task often ended so and nobody could tell why."""
        if task.unproven < MOST_UNPROVEN:
            why = f"killed ({task.note}), and its node's agent cannot tell by whom"
            self.reclaim(ctx, replace(task, unproven=task.unproven + 1), why)
        else:
            told = f"{task.note}, and {task.unproven} times before no agent could tell by whom"
            self.fail(ctx, task, told, code=code)

    # what becomes of nodes

    def on_kill(self, ctx: Context, node: str, action: HarvestAction) -> None:
        """Note that a node's agent ended a task, or is about to, or saw the kernel do so."""
        is_oom = action.kind == "oom"
        is_guess = is_oom and not action.numbers.get("is_certain")
        why = f"its node's agent ended it for its owners ({action.resource}, {action.reason})"
        if is_oom:
            why = "the kernel ended it, for its node was short of memory"
        for task in ctx.tasks_on(node):
            is_here = task.engine_id == action.task
            if is_here and task.state in (S.STARTING, S.RUNNING, S.EXITED):
                self.put(ctx, replace(task, killed=why, is_guess=is_guess))

    def evict(self, ctx: Context, node: str, why: str) -> bool:
        """End every task of a node; return whether there was any."""
        found = ctx.tasks_on(node)
        for task in found:
            self.reclaim(ctx, task, why)
        return bool(found)


TASKS = Tasks(
    machine="task",
    record="task",
    table=lambda tables: tables.tasks,
    on_node=Context.tasks_on,
    put=Context.put_task,
)


def count_remote(ctx: Context, task: Task) -> None:
    """Count an attempt that begins where its input did not lie."""
    batch = ctx.tables.batches[task.batch]
    ctx.put_batch(replace(batch, remote=batch.remote + 1))


def _is_unguarded(ctx: Context, task: Task) -> bool:
    """Whether no agent protects the owners of a task's node."""
    return bool(node_agents.objection(ctx, ctx.tables.nodes[task.node]))


def _has_agent(ctx: Context, task: Task) -> bool:
    spec = ctx.tables.nodes[task.node].spec
    return spec.agent is not None and spec.harvest is not None


def _is_known(ctx: Context, task: Task) -> bool:
    """Whether the journal of a task's node has lost nothing since the task began."""
    mark = ctx.tables.harvests.get(task.node)
    return mark is None or mark.gap_us <= (task.started_us or 0)
