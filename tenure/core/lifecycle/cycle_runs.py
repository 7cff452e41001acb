"""Runs of cycles: the table of due runs, and the plans that workers submit for them.

A row of this table, not a queue, is the record of what must happen. A worker claims a due row,
reads a snapshot, and submits a plan under the row's id; every move of it is checked here again, and
the same plan twice is one plan. Owns the records of runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tenure.core.capacity import forecasts, room
from tenure.core.services.migration import admission, migrations
from tenure.core.services.migration.move_records import choice_of
from tenure.core.services.migration.move_vetoes import (
    GO_VETOES,
    LEAVE_VETOES,
    Asks,
    Going,
    Leaving,
)
from tenure.core.state.context import Context
from tenure.core.state.transitions import may_go
from tenure.core.state.vetoes import Reason
from tenure.model.effects import Trigger
from tenure.model.events import (
    ClaimRun,
    Command,
    CycleDue,
    FailRun,
    RequestRun,
    SubmitForecasts,
    SubmitPlan,
)
from tenure.model.plan import STRAIN_RUNS, STRAINED, CycleSpec, Move, Run, RunState, Verdict
from tenure.model.resources import Resources
from tenure.model.units import FOREVER_US, US

MACHINE = "run"
#: A manual run that no worker takes in this time has failed.
UNCLAIMED_US = 60 * US
#: A worker reads weeks of a whole fleet's past before it forecasts.
FORECAST_CLAIM_US = 900 * US


def to(ctx: Context, run: Run, state: RunState, reason: str = "") -> Run:
    """Move a run forward; an illegal step quarantines it."""
    if not may_go(ctx, MACHINE, run.id, run.state, state):
        return run
    run = replace(run, state=state, reason=reason or run.reason)
    if run.is_over:
        run = replace(run, finished_us=ctx.now_us)
    ctx.put_run(run)
    ctx.publish(f"run.{state.value}", run.id, cycle=run.cycle, reason=run.reason)
    return run


def open_runs(ctx: Context, cycle: str) -> list[Run]:
    """Return the runs of a cycle that are not over, oldest first.

    One that is left as it is does not stand in the way of the next.
    """
    keys = (key for key in ctx.index.open_runs if not ctx.is_quarantined(MACHINE, key))
    found = [ctx.tables.runs[key] for key in keys]
    return sorted((r for r in found if r.cycle == cycle), key=lambda r: (r.due_us, r.id))


def on_due(ctx: Context, event: CycleDue) -> None:
    """Note that a cycle fell due: once per moment, the one before is missed, none overlap."""
    key = f"{event.cycle}@{event.due_us}"
    spec = ctx.learned.cycles.get(event.cycle)
    if key in ctx.tables.runs or spec is None or spec.mode == "off":
        return
    run = Run(key, event.cycle, event.due_us)
    before = open_runs(ctx, event.cycle)
    for old in before:
        if old.state is RunState.DUE and not old.is_manual:
            to(ctx, old, RunState.MISSED, "no worker took it before the next one fell due")
    ctx.put_run(run)
    if any(old.state in (RunState.CLAIMED, RunState.ENACTING) for old in before):
        to(ctx, run, RunState.SKIPPED, "overlap")
    else:
        ctx.publish("run.due", key, cycle=event.cycle)


def request(ctx: Context, command: RequestRun) -> None:
    """Make a due row because a person asks, and have a worker triggered."""
    spec = ctx.learned.cycles.get(command.cycle)
    if spec is None:
        known = ", ".join(sorted(ctx.learned.cycles)) or "none"
        detail = f"no cycle {command.cycle!r}; configured are: {known}"
        ctx.refuse(command, "not_found", detail, status=404)
        return
    if any(run.state is not RunState.DUE for run in open_runs(ctx, command.cycle)):
        detail = f"a run of cycle {command.cycle} is under way; try again when it is over"
        ctx.refuse(command, "overlap", detail, status=409)
        return
    key = f"{command.cycle}@manual-{ctx.now_us}"
    run = ctx.put_run(Run(key, command.cycle, ctx.now_us, is_dry=command.is_dry, is_manual=True))
    ctx.publish("run.due", key, cycle=command.cycle, is_dry=command.is_dry)
    ctx.arm(ctx.now_us + UNCLAIMED_US, MACHINE, key)
    ctx.emit(Trigger(command.cycle, key))
    ctx.reply(command, run)


def claim(ctx: Context, command: ClaimRun) -> None:
    """Give a worker the run it names, or the latest due run of the cycle."""
    due = [r for r in open_runs(ctx, command.cycle) if r.state is RunState.DUE]
    if command.run_id:
        due = [run for run in due if run.id == command.run_id]
    else:
        due = [run for run in due if not run.is_manual]
    busy = [r for r in open_runs(ctx, command.cycle) if r.state is not RunState.DUE]
    if not due or busy:
        detail = f"no run of cycle {command.cycle} is due" if not due else "a run is under way"
        ctx.refuse(command, "nothing_due", detail, status=409)
        return
    run = to(ctx, replace(due[-1], claimed_us=ctx.now_us), RunState.CLAIMED)
    ctx.arm(ctx.now_us + _claim_us(ctx, run), MACHINE, run.id)
    ctx.reply(command, run)


def _claim_us(ctx: Context, run: Run) -> int:
    """Return how long a worker may take for a run."""
    spec = ctx.learned.cycles.get(run.cycle)
    is_long = spec is not None and spec.kind == "forecast"
    return FORECAST_CLAIM_US if is_long else ctx.params.claim_us


def fail(ctx: Context, command: FailRun) -> None:
    """Take a worker's word that it could not plan."""
    run = _known(ctx, command, command.run_id)
    if run is None:
        return
    if run.state in (RunState.DUE, RunState.CLAIMED):
        run = to(ctx, run, RunState.FAILED, command.reason[:500])
    ctx.reply(command, run)


def _known(ctx: Context, command: Command, key: str) -> Run | None:
    run = ctx.tables.runs.get(key)
    if run is None:
        ctx.refuse(command, "not_found", f"no run {key}", status=404, field="run_id")
    return run


def submit(ctx: Context, command: SubmitPlan) -> None:
    """Check every move of a plan against the present state and accept or refuse it."""
    plan = command.plan
    run = _known(ctx, command, plan.run_id)
    if run is None:
        return
    if run.state is not RunState.CLAIMED:
        if run.state in (RunState.ENACTING, RunState.DONE, RunState.ADVISED):
            ctx.reply(command, run)
        else:
            detail = f"run {run.id} is {run.state.value}, not claimed"
            ctx.refuse(command, "wrong_state", detail, status=409, field="run_id")
        return
    spec = ctx.learned.cycles.get(run.cycle)
    if spec is not None and spec.kind != "generation":
        _refuse_kind(ctx, command, run, "forecasts")
        return
    if spec is None or plan.expires_us <= ctx.now_us:
        reason = "the cycle was removed" if spec is None else "the plan came after it expired"
        run = to(ctx, run, RunState.FAILED, reason)
        ctx.reply(command, run)
        return
    batch = _Batch(run, spec, plan.expires_us, is_act=spec.mode == "act" and not run.is_dry)
    verdicts = _verdicts(ctx, batch, plan.moves)
    run = replace(
        run,
        verdicts=verdicts,
        moves=plan.moves,
        kept=plan.kept,
        nodes=plan.nodes,
        expires_us=plan.expires_us,
    )
    if batch.is_act:
        run = to(ctx, run, RunState.ENACTING)
        ctx.arm(plan.expires_us + US, MACHINE, run.id)
    else:
        run = to(ctx, run, RunState.ADVISED)
    settle(ctx)
    ctx.reply(command, ctx.tables.runs[run.id])


def submit_forecasts(ctx: Context, command: SubmitForecasts) -> None:
    """Take some of the forecasts of a claimed run; it ends with the last of them."""
    run = _known(ctx, command, command.run_id)
    if run is None:
        return
    if run.state in (RunState.DONE, RunState.ADVISED):
        ctx.reply(command, run)  # the last of them, sent again
        return
    if run.state is not RunState.CLAIMED:
        detail = f"run {run.id} is {run.state.value}, not claimed"
        ctx.refuse(command, "wrong_state", detail, status=409, field="run_id")
        return
    spec = ctx.learned.cycles.get(run.cycle)
    if spec is not None and spec.kind != "forecast":
        _refuse_kind(ctx, command, run, "a plan")
        return
    if spec is None:
        run = to(ctx, run, RunState.FAILED, "the cycle was removed")
    else:
        run = ctx.put_run(forecasts.submit(ctx, command, run))
        if command.is_last:
            is_act = forecasts.is_enacted(ctx, run)
            run = to(ctx, run, RunState.DONE if is_act else RunState.ADVISED)
    ctx.reply(command, run)


def _refuse_kind(ctx: Context, command: Command, run: Run, wanted: str) -> None:
    detail = f"run {run.id} is of cycle {run.cycle}, whose runs end with {wanted}"
    ctx.refuse(command, "wrong_kind", detail, status=409, field="run_id")


@dataclass(frozen=True, slots=True)
class _Batch:
    """The moves of one plan under way: whose they are, and whether they are enacted."""

    run: Run
    spec: CycleSpec
    expires_us: int
    is_act: bool


def _verdicts(ctx: Context, batch: _Batch, moves: tuple[Move, ...]) -> tuple[Verdict, ...]:
    found: list[Verdict] = []
    reserved: dict[str, Resources] = {}
    seen: set[str] = set()
    for number, move in enumerate(moves):
        veto = _veto(ctx, batch.spec, move, reserved)
        if move.container in seen:
            veto = Reason("duplicate", "is moved by this plan already")
        seen.add(move.container)
        if veto is None and sum(v.code == "accepted" for v in found) >= batch.spec.max_moves:
            veto = Reason("budget", "is one too many for the cycle's budget")
        if veto is not None:
            found.append(Verdict(move.container, move.target, veto.code, detail=veto.advice))
            continue
        service = ctx.tables.services[move.container]
        told = choice_of(ctx, service, move.target).told
        need = room.need_of(ctx, service, batch.spec.target)
        reserved[move.target] = reserved.get(move.target, Resources()) + need
        key = f"{batch.run.id}#{number}" if batch.is_act else ""
        if key:
            _accept(ctx, key, batch, move)
        found.append(Verdict(move.container, move.target, "accepted", key, told))
    return tuple(found)


def _veto(
    ctx: Context, spec: CycleSpec, move: Move, reserved: dict[str, Resources]
) -> Reason | None:
    """Return why a proposed move is refused now."""
    service = ctx.tables.services.get(move.container)
    node = ctx.tables.nodes.get(move.target)
    if service is None:
        return Reason("no_container", "is no more")
    if node is None:
        return Reason("no_node", f"was to go to node {move.target}, which is no more")
    leaving = Leaving(service, move.source, move.incarnation)
    veto = LEAVE_VETOES.first(Asks.CYCLE, ctx, leaving)
    going = Going(service, node, reserved.get(node.name, Resources()), spec)
    return veto or GO_VETOES.first(Asks.CYCLE, ctx, going)


def _accept(ctx: Context, key: str, batch: _Batch, move: Move) -> None:
    admission.queue(
        ctx,
        ctx.tables.services[move.container],
        key=key,
        run_id=batch.run.id,
        target=move.target,
        generation=batch.spec.target,
        expires_us=batch.expires_us,
    )


def strains(ctx: Context) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return which nodes the latest due runs of each cycle found overloaded, how many runs ago.

    Runs that people ask for do not count: many of them say no more than one. O(stored runs).
    """
    judged = (RunState.ENACTING, RunState.DONE, RunState.ADVISED)
    runs = [run for run in ctx.tables.runs.values() if run.state in judged and not run.is_manual]
    latest: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: -run.due_us):
        latest.setdefault(run.cycle, []).append(run)
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for cycle, rows in latest.items():
        for age, run in enumerate(rows[:STRAIN_RUNS], 1):
            for note in run.nodes:
                if note.code in STRAINED:
                    nodes = found.setdefault(cycle, {})
                    nodes[note.node] = (*nodes.get(note.node, ()), age)
    return found


def settle(ctx: Context) -> None:
    """End the enacting runs whose last move has ended, or waits for what may never come.

    Such a move goes on by itself; its run would have its whole cycle stand still until then, for
    none overlaps another.
    """
    busy = set()
    for move in ctx.open_moves():
        held_up_us = migrations.held_up_us(ctx, move)
        if ctx.now_us < held_up_us:
            busy.add(move.run_id)
            if held_up_us < FOREVER_US and move.run_id in ctx.index.open_runs:
                ctx.arm(held_up_us, MACHINE, move.run_id)
    for key in sorted(ctx.index.open_runs):
        run = ctx.tables.runs[key]
        if run.state is RunState.ENACTING and key not in busy:
            to(ctx, run, RunState.DONE)


def on_timer(ctx: Context, key: str) -> None:
    """End a run whose worker died, or that no worker took; look at one whose move is held up."""
    run = ctx.tables.runs.get(key)
    if run is None or run.is_over:
        return
    if run.state is RunState.ENACTING:
        ctx.serve_again(key)
    late_us = (run.claimed_us or 0) + _claim_us(ctx, run)
    if run.state is RunState.CLAIMED and ctx.now_us < late_us:
        ctx.arm(late_us, MACHINE, key)  # the call before was the one for an unclaimed run
    elif run.state is RunState.CLAIMED:
        to(ctx, run, RunState.FAILED, "its worker did not submit a plan in time")
    is_forgotten = run.is_manual and ctx.now_us >= run.due_us + UNCLAIMED_US
    if run.state is RunState.DUE and is_forgotten:
        to(ctx, run, RunState.FAILED, "no worker took it in time")


def rearm(ctx: Context) -> None:
    """Set the timers of loaded runs."""
    for key in ctx.index.open_runs:
        run = ctx.tables.runs[key]
        if run.state is RunState.CLAIMED:
            ctx.arm((run.claimed_us or 0) + _claim_us(ctx, run), MACHINE, key)
        elif run.is_manual:
            ctx.arm(run.due_us + UNCLAIMED_US, MACHINE, key)
