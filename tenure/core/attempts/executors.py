"""Executors: one attempt after another of one of a job's identical containers.

Theory of operation. An executor is placed on a node; once the node is ready its container is
created under a name that is the same after any restart; when all executors of the job are created
they are started together; its exit ends the attempt. An effect that ended unknown leaves the
executor unsure, and only a listing asked for later than that says what happened. An attempt is
never tried on another node before its node is fenced, unless nothing was ever sent for it. Owns the
records of executors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.core.attempts import spark_bodies, task_bodies, tombstones
from tenure.core.blocks import pins, tiers
from tenure.core.capacity import ledger
from tenure.core.state.context import Context
from tenure.core.state.transitions import may_go
from tenure.model.batch import CHUNK_NAME, INPUT_FOLDER
from tenure.model.container import Tombstone
from tenure.model.effects import CreateContainer, Relist, StartContainer
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
from tenure.model.node import Node, Power, Reach, Scheduling
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.resources import Resources
from tenure.model.units import US

MACHINE = "executor"
S = ExecutorState
#: Exit codes by which an engine's own end shows: SIGKILL, SIGTERM, and Docker's "unknown".
ENGINE_END_CODES = frozenset((137, 143, 255))
#: An engine that goes down ends its containers before it is missed: so long such an exit may be
#: its doing. A silent death is noticed within two pings of 3 s each and the 2 s between them.
JUDGE_US = 10 * US


def to(ctx: Context, executor: Executor, state: ExecutorState, **changes: Any) -> Executor:
    """Move an executor to a later state of its attempt; an illegal step quarantines it."""
    if not may_go(ctx, MACHINE, executor.key, executor.state, state):
        return executor
    defaults: dict[str, Any] = {"changed_us": ctx.now_us, "is_unsure": False, "effect": ""}
    return ctx.put_executor(replace(executor, state=state, **(defaults | changes)))


def is_node_ready(node: Node | None) -> bool:
    """Whether effects can be sent to the node's engine."""
    return node is not None and node.power is Power.ON and node.reach is Reach.OK


def advance(ctx: Context, executor: Executor, job: Job) -> None:
    """Send the next effect of an executor, if its turn has come."""
    if executor.effect or executor.is_unsure or job.is_cancelling or job.is_failing:
        return
    if not is_node_ready(ctx.tables.nodes.get(executor.node)):
        return
    if ctx.now_us < executor.retry_us:
        ctx.arm(executor.retry_us, MACHINE, executor.key)
        return
    if executor.state is S.PLACED:
        _create(ctx, executor, job)
    elif executor.state is S.CREATED and job.launched_us is not None:
        _start(ctx, executor)
    elif executor.suspect_us and ctx.now_us >= executor.suspect_us + JUDGE_US:
        ctx.emit(Relist(executor.node))


def _create(ctx: Context, executor: Executor, job: Job) -> None:
    if executor.attempt > 1 and any(g.may_run for g in ctx.tombstones_of(executor.key)):
        return  # the attempt before may still be running: no executor runs twice
    if not pins.are_there(ctx, executor, job):
        _choose_copies(ctx, executor)
        return
    joined = spark_bodies.joined(ctx, executor, job)
    if joined is None:
        return  # where its driver listens is not known yet
    executor = joined
    effect = CreateContainer(
        id=ctx.effect_id(),
        owner=f"{MACHINE}:{executor.key}",
        node=executor.node,
        name=executor.container_name,
        body=body_of(ctx, executor, job),
        pull=job.spec.is_pullable,
    )
    to(ctx, executor, S.CREATING, effect=effect.id)
    ctx.emit(effect)


def _choose_copies(ctx: Context, executor: Executor) -> None:
    """Have ``executor_inputs`` choose what copies an executor reads, anew where one has gone."""
    ctx.prefetches.readers.setdefault(executor.key, -1)
    if executor.readings:
        ctx.put_executor(replace(executor, readings=()))


def _start(ctx: Context, executor: Executor) -> None:
    effect = StartContainer(
        id=ctx.effect_id(),
        owner=f"{MACHINE}:{executor.key}",
        node=executor.node,
        engine_id=executor.engine_id,
    )
    to(ctx, executor, S.STARTING, effect=effect.id)
    ctx.emit(effect)


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


def on_effect(ctx: Context, executor: Executor, effect: str, outcome: Outcome) -> None:
    """Take in the end of the executor's create or start."""
    if executor.effect != effect:
        return
    if isinstance(outcome, Done):
        if executor.state is S.CREATING:
            to(ctx, executor, S.CREATED, engine_id=outcome.value)
        elif executor.state is S.STARTING:
            to(ctx, executor, S.RUNNING, started_us=ctx.now_us)
            ctx.publish("executor.running", executor.key, node=executor.node)
    elif isinstance(outcome, Refused) and outcome.code != "unreachable":
        _refused(ctx, executor, outcome)
    else:
        ctx.put_executor(replace(executor, effect="", is_unsure=True, changed_us=ctx.now_us))
        ctx.emit(Relist(executor.node))


def _refused(ctx: Context, executor: Executor, outcome: Refused) -> None:
    note = f"{outcome.code}: {outcome.detail}" if outcome.detail else outcome.code
    if outcome.code == "no_image":
        job = ctx.tables.jobs[executor.job]
        ctx.put_job(replace(job, avoid=(*job.avoid, executor.node)))
        lose(ctx, executor, note, is_elsewhere=True)
    elif outcome.code == "no_such_container":
        lose(ctx, executor, note)
    elif executor.readings and task_bodies.may_lack_a_mount(outcome.code, executor.note):
        tiers.survey_soon(ctx, executor.node)  # a copy that it was to read may be gone
        lose(ctx, executor, note, may_run=executor.state is S.STARTING)
    elif executor.state is S.STARTING and outcome.code in ("engine_error", "start_blocked"):
        # its engine's trouble, not its own; what was told to start may run until it is removed
        lose(ctx, executor, note, may_run=True)
    else:
        is_starting = executor.state is S.STARTING
        # engines report errors after success: what was told to start may run until it is removed
        end(ctx, executor, 127 if is_starting else 125, note=note, may_run=is_starting)


def end(  # noqa: PLR0913 - how an attempt ended is these things
    ctx: Context,
    executor: Executor,
    code: int,
    *,
    note: str = "",
    at_us: int | None = None,
    may_run: bool = False,
) -> None:
    """End the attempt with an exit code; its container is removed once its log is kept."""
    if not may_go(ctx, MACHINE, executor.key, executor.state, S.EXITED):
        return
    ended = to(
        ctx,
        executor,
        S.EXITED,
        exit_code=code,
        note=note,
        finished_us=ctx.now_us if at_us is None else at_us,
        failures=executor.failures + (code != 0),
    )
    ledger.end_stay(ctx, stay_of(executor))
    if pins.has_succeeded(ended):
        pins.leave(ctx, ended)
    inter(ctx, ended, may_run=may_run)
    ctx.publish("executor.exited", executor.key, node=executor.node, exit_code=code, note=note)


def lose(
    ctx: Context,
    executor: Executor,
    note: str,
    *,
    is_elsewhere: bool = False,
    may_run: bool = False,
) -> None:
    """End an attempt that was the fleet's fault, not its own, and begin the next one.

    After too many mishaps there is no next one: the executor stays abandoned and its job fails.
    """
    if not may_go(ctx, MACHINE, executor.key, executor.state, S.ABANDONED):
        return
    over = to(
        ctx, executor, S.ABANDONED, note=note, finished_us=ctx.now_us, mishaps=executor.mishaps + 1
    )
    ledger.end_stay(ctx, stay_of(executor))
    inter(ctx, over, may_run=may_run)
    ctx.publish("executor.lost", executor.key, node=executor.node, note=note)
    if over.mishaps <= ctx.params.mishaps:
        renew(ctx, over, node="" if is_elsewhere else over.node)


def renew(ctx: Context, over: Executor, *, node: str) -> Executor:
    """Begin the next attempt; ``node`` empty means that a node must be found first.

    One that takes no new work any more is left for another: an attempt is new work.
    """
    kept = ctx.tables.nodes.get(node)
    if kept is not None and kept.scheduling is not Scheduling.YES:
        node = ""
    if node != over.node:
        pins.move_out(ctx, over, ctx.tables.jobs[over.job])
    wait = ctx.params.retry_us * min(over.failures + over.mishaps, 5)
    fresh = Executor(
        job=over.job,
        index=over.index,
        attempt=over.attempt + 1,
        node=node,
        failures=over.failures,
        mishaps=over.mishaps,
        changed_us=ctx.now_us,
        placed_us=ctx.now_us,
        retry_us=ctx.now_us + wait,
        note=over.note,
        blocks=over.blocks,
    )
    ctx.arm(fresh.retry_us, MACHINE, fresh.key)
    if node:
        ledger.begin_stay(ctx, stay_of(fresh), node, fresh.job)
    return ctx.put_executor(fresh)


def abandon(ctx: Context, executor: Executor, note: str) -> None:
    """Stop an executor whose job ends early; its tombstone holds its room until it is gone."""
    if not may_go(ctx, MACHINE, executor.key, executor.state, S.ABANDONED):
        return
    may_run = executor.state in (S.STARTING, S.RUNNING) or executor.is_unsure
    over = to(ctx, executor, S.ABANDONED, note=note, finished_us=ctx.now_us)
    ledger.end_stay(ctx, stay_of(executor))
    if executor.state is not S.PLACED:
        inter(ctx, over, may_run=may_run or executor.state is S.CREATING)


def inter(ctx: Context, over: Executor, *, may_run: bool) -> None:
    """Put an attempt that is over into its tombstone."""
    if not over.node:
        return
    request = ctx.tables.jobs[over.job].spec.request if may_run else Resources()
    tombstone = Tombstone(
        id=f"{over.key}/{over.attempt}",
        node=over.node,
        owner=over.key,
        turn=over.attempt,
        name=over.container_name,
        engine_id=over.engine_id,
        created_us=ctx.now_us,
        may_run=may_run,
        request=request,
        grace_s=ctx.params.grace_stop_s,
        logs_key=f"{over.key}/{over.attempt}",
    )
    tombstones.condemn(ctx, tombstone)


def place(ctx: Context, executor: Executor, node: str) -> Executor:
    """Give an executor its node."""
    placed = ctx.put_executor(
        replace(executor, node=node, placed_us=ctx.now_us, changed_us=ctx.now_us)
    )
    ledger.begin_stay(ctx, stay_of(placed), node, placed.job)
    return placed


def unplace(ctx: Context, executor: Executor) -> Executor:
    """Take an executor off a node to which nothing was ever sent for this attempt."""
    ledger.end_stay(ctx, stay_of(executor))
    turn = executor.attempt + 1
    fresh = replace(executor, node="", attempt=turn, readings=(), changed_us=ctx.now_us)
    return ctx.put_executor(fresh)


def stay_of(executor: Executor) -> str:
    """Return the ledger's key of this attempt's stay on its node."""
    return f"{executor.key}/{executor.attempt}"


def on_listing(
    ctx: Context, executor: Executor, facts: ContainerFacts | None, started_us: int
) -> None:
    """Take in what an engine shows of this attempt (None: it is not there)."""
    if started_us <= executor.changed_us or executor.effect or not executor.node:
        return
    if ctx.is_quarantined(MACHINE, executor.key):
        return
    if facts is None:
        _absent(ctx, executor)
    elif facts.state == "created":
        _found_created(ctx, executor, facts)
    elif facts.is_running:
        _found_running(ctx, executor, facts)
    elif facts.state in ("exited", "dead"):
        _found_exited(ctx, executor, facts)


def _absent(ctx: Context, executor: Executor) -> None:
    if executor.state is S.PLACED:
        return
    if executor.state is S.CREATING:
        # the create never happened: the same name again cannot make two
        _create_again(ctx, executor)
    else:
        lose(ctx, executor, "container vanished from its engine")


def _create_again(ctx: Context, executor: Executor) -> None:
    job = ctx.tables.jobs[executor.job]
    if job.is_cancelling or job.is_failing:
        abandon(ctx, executor, executor.note)
        return
    if spark_bodies.is_outdated(ctx, executor, job):
        return  # it begins again, for its driver did
    effect = CreateContainer(
        id=ctx.effect_id(),
        owner=f"{MACHINE}:{executor.key}",
        node=executor.node,
        name=executor.container_name,
        body=body_of(ctx, executor, job),
        pull=job.spec.is_pullable,
    )
    ctx.put_executor(replace(executor, effect=effect.id, is_unsure=False, changed_us=ctx.now_us))
    ctx.emit(effect)


def _found_created(ctx: Context, executor: Executor, facts: ContainerFacts) -> None:
    if executor.state is S.CREATING:
        to(ctx, executor, S.CREATED, engine_id=facts.engine_id)
    elif executor.state is S.STARTING:
        # The start did not happen yet but still may. Sent again, a run that ends before the late
        # one arrives would be run twice; so this container is removed, and the next attempt waits.
        lose(ctx, executor, "start was not confirmed", may_run=True)


def _found_running(ctx: Context, executor: Executor, facts: ContainerFacts) -> None:
    if executor.state is S.STARTING:
        to(
            ctx,
            executor,
            S.RUNNING,
            engine_id=facts.engine_id,
            started_us=_began_us(ctx, executor, facts),
        )
        ctx.publish("executor.running", executor.key, node=executor.node)
    elif executor.state is S.RUNNING and executor.is_unsure:
        ctx.put_executor(replace(executor, is_unsure=False, changed_us=ctx.now_us))


def _began_us(ctx: Context, executor: Executor, facts: ContainerFacts) -> int:
    apart_us = ctx.learned.apart.get(executor.node, 0)
    return facts.began_us(executor.placed_us, ctx.now_us, apart_us=apart_us)


def _found_exited(ctx: Context, executor: Executor, facts: ContainerFacts) -> None:
    if executor.state not in (S.STARTING, S.RUNNING):
        return
    started = executor.started_us or _began_us(ctx, executor, facts)
    executor = ctx.put_executor(replace(executor, started_us=started))
    code = 255 if facts.exit_code is None else facts.exit_code
    if code in ENGINE_END_CODES and not facts.is_oom_killed:
        if _was_away(ctx, executor):
            lose(ctx, executor, f"ended with its engine (exit code {code})")
            return
        if _is_judged_later(ctx, executor):
            return
    note = "killed for memory (OOM)" if facts.is_oom_killed else facts.error
    end(ctx, executor, code, note=note, at_us=facts.ended_us(started, ctx.now_us))


def _was_away(ctx: Context, executor: Executor) -> bool:
    node = ctx.tables.nodes[executor.node]
    was_away = node.reconnected_us > (executor.started_us or 0)
    return was_away and executor.mishaps < ctx.params.mishaps


def _is_judged_later(ctx: Context, executor: Executor) -> bool:
    """Wait whether the engine turns out to have gone down; a later listing asks again."""
    if executor.mishaps >= ctx.params.mishaps:
        return False
    if not executor.suspect_us:
        executor = ctx.put_executor(replace(executor, suspect_us=ctx.now_us))
    judge_us = executor.suspect_us + JUDGE_US
    if ctx.now_us >= judge_us:
        return False
    ctx.arm(judge_us, MACHINE, executor.key)
    return True


def _movable(ctx: Context, node: str) -> list[Executor]:
    """Return the executors on a node, but for those that are left as they are."""
    return [one for one in ctx.executors_on(node) if not ctx.is_quarantined(MACHINE, one.key)]


def on_node_off(ctx: Context, node: str) -> None:
    """Give every executor of a fenced node a new attempt elsewhere."""
    for executor in _movable(ctx, node):
        job = ctx.tables.jobs[executor.job]
        if executor.state is S.PLACED and not executor.effect:
            if job.is_cancelling or job.is_failing:
                continue
            unplace(ctx, executor)
        elif job.is_cancelling or job.is_failing:
            abandon(ctx, executor, "node is off")
        else:
            lose(ctx, executor, "node is off", is_elsewhere=True)


def unplace_unsent(ctx: Context, node: str) -> None:
    """Let executors to which nothing was sent look for another node."""
    for executor in _movable(ctx, node):
        job = ctx.tables.jobs[executor.job]
        is_ending = job.is_cancelling or job.is_failing
        if executor.state is S.PLACED and not executor.effect and not is_ending:
            unplace(ctx, executor)


def rearm(ctx: Context) -> None:
    """Set the timers of loaded executors that wait for their next attempt or a judgement."""
    for key in ctx.index.open_jobs:
        for executor in ctx.executors_of(key):
            if executor.state is S.PLACED and executor.retry_us > ctx.now_us:
                ctx.arm(executor.retry_us, MACHINE, executor.key)
            elif executor.suspect_us and not executor.is_over:
                ctx.arm(executor.suspect_us + JUDGE_US, MACHINE, executor.key)
