"""Executors: one attempt after another of one of a job's identical containers.

``attempt`` says how an attempt lives. An executor is placed with its job; its container is created
once its node is ready, what it reads is there, and nothing of its last attempt may run. When all
executors of the job are created they are started together; the exit of one ends its attempt. Owns
the records of executors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.core.attempts import spark_bodies, task_bodies, tombstones
from tenure.core.attempts.attempt import (
    ENGINE_END_CODES,
    JUDGE_US,
    OOM_NOTE,
    Terms,
    Work,
)
from tenure.core.blocks import pins
from tenure.core.capacity import ledger
from tenure.core.state.context import Context
from tenure.model.batch import CHUNK_NAME, INPUT_FOLDER
from tenure.model.effects import Relist
from tenure.model.facts import (
    LABEL_ATTEMPT,
    LABEL_BLOCKS,
    LABEL_EXECUTOR,
    LABEL_FLEET,
    LABEL_GENERATION,
    LABEL_JOB,
    ContainerFacts,
)
from tenure.model.job import Executor, ExecutorState, Job, JobSpec
from tenure.model.node import Scheduling
from tenure.model.outcome import Refused

S = ExecutorState


class Executors(Work[Executor]):
    """The attempts of executors: what is theirs alone."""

    KEPT = frozenset(("job", "index", "failures", "mishaps", "note", "blocks"))

    def _body(self, ctx: Context, record: Executor) -> dict[str, Any]:
        return body_of(ctx, record, ctx.tables.jobs[record.job])

    def _terms(self, ctx: Context, record: Executor) -> Terms:
        spec, params = ctx.tables.jobs[record.job].spec, ctx.params
        since_us, most = record.placed_us, params.mishaps
        return Terms(spec.is_pullable, spec.request, params.grace_stop_s, since_us, most)

    def place(self, ctx: Context, executor: Executor, node: str) -> Executor:
        """Give an executor its node."""
        placed = self.put(
            ctx, replace(executor, node=node, placed_us=ctx.now_us, changed_us=ctx.now_us)
        )
        ledger.begin_stay(ctx, self.stay_of(placed), node, placed.job)
        return placed

    def unplace(self, ctx: Context, record: Executor, reason: str) -> None:
        """Take it off its node: another is found for its next attempt."""
        ledger.end_stay(ctx, self.stay_of(record))
        turn = record.attempt + 1
        self.put(ctx, replace(record, node="", attempt=turn, readings=(), changed_us=ctx.now_us))

    def _is_unsent(self, ctx: Context, record: Executor) -> bool:
        """Whether an executor may leave its node: not that of a job that ends."""
        return super()._is_unsent(ctx, record) and not self._is_ending(ctx, record)

    def _is_ending(self, ctx: Context, record: Executor) -> bool:
        return ctx.tables.jobs[record.job].is_ending

    def advance(self, ctx: Context, executor: Executor, job: Job) -> None:
        """Send the next effect of an executor, if its turn has come."""
        if job.is_ending or not ctx.is_reachable(executor.node) or not self.is_due(ctx, executor):
            return
        if executor.state is S.PLACED:
            self._begin(ctx, executor, job)
        elif executor.state is S.CREATED and job.launched_us is not None:
            self.start(ctx, executor)
        elif executor.suspect_us and ctx.now_us >= executor.suspect_us + JUDGE_US:
            ctx.emit(Relist(executor.node))

    def _begin(self, ctx: Context, executor: Executor, job: Job) -> None:
        if executor.attempt > 1 and tombstones.may_run(ctx, executor.key):
            return  # the attempt before may still be running: no executor runs twice
        if not pins.are_there(ctx, executor, job):
            # ``executor_inputs`` chooses what copies it reads, anew where one has gone
            ctx.prefetches.readers.setdefault(executor.key, -1)
            if executor.readings:
                self.put(ctx, replace(executor, readings=()))
            return
        joined = spark_bodies.joined(ctx, executor, job)
        if joined is not None:  # else it is not known yet where its driver listens
            self.create(ctx, joined)

    def _absent(self, ctx: Context, record: Executor) -> None:
        if record.state is not S.PLACED:
            super()._absent(ctx, record)

    def _uncreated(self, ctx: Context, record: Executor) -> None:
        """Send its create again, unless it begins anew because its driver did."""
        job = ctx.tables.jobs[record.job]
        if job.is_ending or not spark_bodies.is_outdated(ctx, record, job):
            super()._uncreated(ctx, record)

    def _refused(self, ctx: Context, record: Executor, refused: Refused, note: str) -> None:
        code, is_starting = refused.code, record.state is S.STARTING
        path = record.readings[0].path if record.readings else ""
        if code == "no_image":
            job = ctx.tables.jobs[record.job]
            ctx.put_job(replace(job, avoid=(*job.avoid, record.node)))
            self.lose(ctx, record, note)
        elif code == "no_such_container":
            self.lose(ctx, record, note)
        elif self._is_missing_copy(ctx, record, path, code) or (
            is_starting and code in ("engine_error", "start_blocked")
        ):
            # its engine's trouble, not its own; what was told to start may run until it is removed
            self.lose(ctx, record, note, may_run=is_starting)
        else:
            # engines report errors after success: what was told to start may run meanwhile
            self.end(ctx, record, 127 if is_starting else 125, note=note, may_run=is_starting)

    def _exited(self, ctx: Context, record: Executor, code: int, facts: ContainerFacts) -> None:
        is_judged = record.mishaps < ctx.params.mishaps
        if is_judged and code in ENGINE_END_CODES and not facts.is_oom_killed:
            if self._was_away(ctx, record):
                self.lose(ctx, record, f"ended with its engine (exit code {code})")
                return
            if self._is_judged_later(ctx, record):
                return
        note = OOM_NOTE if facts.is_oom_killed else facts.error
        self.end(
            ctx, record, code, note=note, at_us=facts.ended_us(record.started_us or 0, ctx.now_us)
        )

    def _is_judged_later(self, ctx: Context, executor: Executor) -> bool:
        """Wait whether the engine turns out to have gone down; a later listing asks again."""
        if not executor.suspect_us:
            executor = self.put(ctx, replace(executor, suspect_us=ctx.now_us))
        judge_us = executor.suspect_us + JUDGE_US
        if ctx.now_us < judge_us:
            ctx.arm(judge_us, self.machine, executor.key)
        return ctx.now_us < judge_us

    def end(  # noqa: PLR0913 - how an attempt ended is these things
        self,
        ctx: Context,
        executor: Executor,
        code: int,
        *,
        note: str = "",
        at_us: int | None = None,
        may_run: bool = False,
    ) -> None:
        """End the attempt with an exit code; its container is removed once its log is kept."""
        at_us = ctx.now_us if at_us is None else at_us
        failures = executor.failures + (code != 0)
        ends = {"exit_code": code, "note": note, "finished_us": at_us, "failures": failures}
        ended = self.close(ctx, executor, S.EXITED, may_run=may_run, **ends)
        if ended is not None:
            if pins.has_succeeded(ended):
                pins.leave(ctx, ended)
            self._publish(ctx, "exited", executor, exit_code=code, note=note)

    def lose(self, ctx: Context, record: Executor, note: str, *, may_run: bool = False) -> None:
        """End an attempt that was the fleet's fault; that of a job that ends is not told of."""
        if self._is_ending(ctx, record):
            self._end(ctx, record, S.ABANDONED, may_run=may_run, note=note)
        else:
            super().lose(ctx, record, note, may_run=may_run)

    def renew(self, ctx: Context, over: Executor) -> None:
        """Begin the next attempt, on the same node unless that takes no new work or cannot run it.

        Else a node is found for it first. An executor whose job ends has no next attempt.
        """
        job, kept = ctx.tables.jobs[over.job], ctx.tables.nodes.get(over.node)
        if job.is_ending:
            return
        is_kept = (
            kept is not None
            and kept.is_reachable
            and kept.scheduling is Scheduling.YES
            and over.node not in job.avoid
            and not ctx.meta.is_restoring  # what else runs there was not known
        )
        if not is_kept:
            pins.move_out(ctx, over, job)
        node, now_us = over.node if is_kept else "", ctx.now_us
        tries = over.failures + over.mishaps
        fresh = self._anew(ctx, over, tries, node=node, placed_us=now_us)
        if node:
            ledger.begin_stay(ctx, self.stay_of(fresh), node, fresh.job)

    def on_timer(self, ctx: Context, key: str) -> None:
        """Have the job of an executor reviewed."""
        ctx.notices.jobs.add(key.partition("/")[0])

    def rearm(self, ctx: Context) -> None:
        """Set the timers of loaded executors that wait for their next attempt or a judgement."""
        for key in ctx.index.open_jobs:
            for executor in ctx.executors_of(key):
                if executor.state is S.PLACED and executor.retry_us > ctx.now_us:
                    ctx.arm(executor.retry_us, self.machine, executor.key)
                elif executor.suspect_us and not executor.is_over:
                    ctx.arm(executor.suspect_us + JUDGE_US, self.machine, executor.key)


EXECUTORS = Executors(
    machine="executor",
    record="executor",
    table=lambda tables: tables.executors,
    on_node=Context.executors_on,
    put=Context.put_executor,
)


def body_of(ctx: Context, executor: Executor, job: Job) -> dict[str, Any]:
    """Return Docker's create body of an executor; restart policy ``no``: retries are tenure's."""
    spec = job.spec
    node = ctx.tables.nodes[executor.node]
    labels = dict(spec.labels) | {
        LABEL_FLEET: ctx.meta.fleet,
        LABEL_JOB: job.id,
        LABEL_EXECUTOR: str(executor.index),
        LABEL_ATTEMPT: str(executor.attempt),
        LABEL_GENERATION: node.spec.generation,
    }
    identity = [
        f"TENURE_JOB={job.id}",
        f"TENURE_EXECUTOR={executor.index}",
        f"TENURE_EXECUTORS={spec.executors}",
        f"TENURE_ATTEMPT={executor.attempt}",
    ]
    body: dict[str, Any] = {
        "Image": spec.image,
        "Env": [*spec.env, *identity],
        "Labels": labels,
        "HostConfig": {
            "NanoCpus": spec.request.cpu_m * 1_000_000,
            "Memory": spec.request.memory_bytes,
            "Binds": list(spec.volumes),
            "RestartPolicy": {"Name": "no"},
            "Init": True,
        },
    }
    if spec.command:
        body["Cmd"] = list(spec.command)
    if spec.dataset is not None:
        _give_input(body, executor, spec)
    return spark_bodies.dressed(ctx, body, executor, job)


def _give_input(body: dict[str, Any], executor: Executor, spec: JobSpec) -> None:
    """Add the blocks of an executor, read-only, and what names them."""
    body["HostConfig"]["Mounts"] = [
        task_bodies.mount_of(reading, block_file(spec, number))
        for number, reading in zip(executor.blocks, executor.readings, strict=True)
    ]
    numbers = " ".join(map(str, executor.blocks))
    body["Labels"][LABEL_BLOCKS] = numbers
    body["Env"] += [f"TENURE_INPUT={INPUT_FOLDER}", f"TENURE_BLOCKS={numbers}"]


def block_file(spec: JobSpec, number: int) -> str:
    """Return a block's name in the folder of inputs: ``chunk`` where nobody reads more than one."""
    is_sole = spec.dataset is not None and spec.dataset.blocks <= spec.executors
    return CHUNK_NAME if is_sole else f"{CHUNK_NAME}-{number:05d}"
