"""Decisions that take a while: a slow policy is asked elsewhere, and its answer checked again.

Theory of operation. The head of the queue is first answered by the policy's stand-in, which is
fast; where that finds no place there is nothing to ask. Else ``Decide`` goes out and the queue
waits. The answer counts only if, on the fleet as it is by then, its nodes still take the job, in
time and no dearer than the stand-in's; else it is asked for again, a few times. Promises were made
with the job in the stand-in's place, so an answer that would break one is done without. Meanwhile
others wait too: for half of what every promise in the queue can still bear, at most. Where no
answer comes by then, or none is good, the stand-in's place is taken, and the job's record says why.

A question is not stored. After a restart it is asked anew, and an answer that nobody waits for is
ignored: only the pass of the queue places a job, and only one that is still in the line. Owns
``Questions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tenure.core.capacity import snapshots
from tenure.core.capacity.snapshots import Scene
from tenure.core.jobs import start
from tenure.core.state.context import Context
from tenure.core.state.owned import Owned
from tenure.model.effects import Decide
from tenure.model.job import Job
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.placing import Ask, Forecast, Placed, Queued
from tenure.model.units import US

#: Owner of the effects.
MACHINE = "decision"
#: A fleet that changes faster than it can be decided upon is not asked about for ever.
ASKS = 3
#: With less time than this a solver need not be started.
LEAST_US = US // 5
#: Solvers reckon in floating point: what is dearer by less than this part is as good.
ROUNDING = 1_000_000


@dataclass(slots=True)
class Question:
    """What was asked about a job, for the ``asks``-th time; ``outcome`` None: not answered yet."""

    effect: str
    until_us: int
    asks: int
    outcome: Outcome | None = None


class Questions(Owned):
    """What slow policies were asked, by job."""

    def __init__(self) -> None:
        self.by_job: dict[str, Question] = {}


@dataclass(frozen=True, slots=True)
class Head:
    """The job at the head of the queue, and where its policy's stand-in would put it."""

    job: Job
    ask: Ask
    here: Scene
    quick: Placed


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a job goes; ``decision`` is who says so, empty where its policy answers at once."""

    answer: Placed
    decision: str = ""


def choose(ctx: Context, head: Head) -> Choice | None:
    """Return where the head of the queue goes, None while that is being decided."""
    job, policy = head.job, head.job.spec.policy
    if ctx.placer.stand_in(policy) == policy:
        return Choice(head.quick)
    question = ctx.own(Questions).by_job.get(job.id)
    if question is None:
        return _ask(ctx, head, asks=1)
    if question.outcome is not None:
        return _weigh(ctx, head, question)
    bearable_us = _bearable_us(ctx, head.here)
    if ctx.now_us >= question.until_us or bearable_us < LEAST_US:
        return _instead(ctx, head, f"{policy} took too long")
    ctx.arm(min(question.until_us, ctx.now_us + bearable_us), start.MACHINE, job.id)
    return None


def _ask(ctx: Context, head: Head, *, asks: int) -> Choice | None:
    job, policy = head.job, head.job.spec.policy
    bearable_us = _bearable_us(ctx, head.here)
    if bearable_us < LEAST_US:
        return _instead(ctx, head, f"no time to ask {policy}")
    if asks > ASKS:
        return _instead(ctx, head, f"the fleet changed whenever {policy} had an answer")
    key, until_us = ctx.effect_id(), ctx.now_us + bearable_us
    ctx.own(Questions).by_job[job.id] = Question(key, until_us, asks)
    owner, limit_s = f"{MACHINE}:{job.id}", bearable_us / US
    ctx.emit(Decide(key, owner, policy, head.here.view, head.ask, ctx.now_us, limit_s))
    ctx.arm(until_us, start.MACHINE, job.id)
    return None


def _weigh(ctx: Context, head: Head, question: Question) -> Choice | None:
    """Return the answer if it is still good, else what is done instead."""
    outcome, policy = question.outcome, head.job.spec.policy
    if isinstance(outcome, Refused):
        return _instead(ctx, head, outcome.detail or outcome.code)
    if isinstance(outcome, Done):
        found = ctx.placer.recheck(head.here.view, head.ask, outcome.counts, ctx.now_us)
        if found is not None and _is_as_good(found, head, ctx.now_us):
            if late_behind(ctx, head, found):
                return _instead(ctx, head, f"in the place that {policy} chose others would be late")
            return Choice(found, policy)
    return _ask(ctx, head, asks=question.asks + 1)


def _is_as_good(found: Placed, head: Head, now_us: int) -> bool:
    """Whether a place is in time, if one can be, and costs no more than the stand-in's."""
    quick, deadline_us = head.quick, head.ask.deadline_us
    ends_us = [now_us + one.delay_us + one.run_us for one in (found, quick)]
    is_late = deadline_us is not None and ends_us[0] >= deadline_us > ends_us[1]
    most_nano = quick.cost_nano + quick.cost_nano // ROUNDING + 1
    return not is_late and found.cost_nano <= most_nano


def _instead(ctx: Context, head: Head, why: str) -> Choice:
    return Choice(head.quick, f"{ctx.placer.stand_in(head.job.spec.policy)}: {why}")


def _bearable_us(ctx: Context, here: Scene) -> int:
    """Return how long the head may be thought about: half the least slack of those in time.

    Half, so that some is left for those behind, whose places take time to be found too.
    """
    rows = _rows(ctx)
    slacks_us = _slacks_us(rows, ctx.placer.predict(here.view, here.running, rows, ctx.now_us))
    return min((2 * ctx.params.solve_us, *slacks_us.values())) // 2


def late_behind(ctx: Context, head: Head, found: Placed) -> bool:
    """Whether a job that would be in time behind the stand-in's place would not be behind this."""
    rows = [row for row in _rows(ctx) if row.ask.id != head.job.id]
    here, ask, now_us = head.here, head.ask, ctx.now_us
    behind = ctx.placer.predict_behind
    due, kept = (
        _slacks_us(rows, behind(here.view, here.running, ask, placed, rows, now_us)).keys()
        for placed in (head.quick, found)
    )
    return not due <= kept


def _rows(ctx: Context) -> list[Queued]:
    return snapshots.queued(ctx, [ctx.tables.jobs[key] for key in ctx.index.waiting_jobs])


def _slacks_us(rows: list[Queued], forecasts: Mapping[str, Forecast | None]) -> dict[str, int]:
    """Return how much time each job has left that will be in time."""
    slacks_us = {}
    for row in rows:
        forecast, deadline_us = forecasts[row.ask.id], row.ask.deadline_us
        if forecast is not None and deadline_us is not None and forecast.end_us < deadline_us:
            slacks_us[row.ask.id] = deadline_us - forecast.end_us
    return slacks_us


def on_end(ctx: Context, effect: str, outcome: Outcome) -> None:
    """Take in an answer and have the queue served; one to an older question is ignored."""
    for question in ctx.own(Questions).by_job.values():
        if question.effect == effect and question.outcome is None:
            question.outcome = outcome
            ctx.serve_again(effect)


def forget(ctx: Context, job: str) -> None:
    """Drop what was asked about a job: it cannot be placed now."""
    ctx.own(Questions).by_job.pop(job, None)


def skip(ctx: Context, step_us: int) -> None:
    """Have slow policies as long for their answers as before a step of the clock."""
    for question in ctx.own(Questions).by_job.values():
        question.until_us += step_us


def sweep(ctx: Context) -> None:
    """Drop the questions about jobs that wait no more."""
    for job in [job for job in ctx.own(Questions).by_job if job not in ctx.index.waiting_jobs]:
        del ctx.own(Questions).by_job[job]
