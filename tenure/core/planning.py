"""Batches are planned elsewhere, by the holistic planner; its answers are taken over here.

Theory of operation. A submission that is not refused at once waits for a plan, as its request does;
nothing of it is stored before. One question is open at a time: all open batches in the order of
their arrival, and those that wait. The answer accepts or refuses each whole. What it says of when
and where tasks begin is kept as the schedules of the batches and enacted by ``roster``. Where the
plan is not proven, it is asked for once more with more time.

Reality departs from plans. The rest is planned anew (``want``) when other nodes lend, when tasks
have to begin anew, and when nodes are ahead of their part or behind it. What was begun stays;
inputs that lie on nodes count. While no plan comes, or none holds a batch, that batch is served
greedily.

A question is not stored: after a restart all is planned anew, and who waited asks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tenure.core import answers, chunks, forecasts, needs, roster
from tenure.core.context import Context
from tenure.model.batch import Batch, Chunk, Forecasted, Task
from tenure.model.effects import PlanBatches
from tenure.model.errors import Problem
from tenure.model.events import SubmitBatch
from tenure.model.node import Node
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.planning import PlanAnswer, PlanQuestion, Schedule
from tenure.model.units import US, iso

MACHINE = "planning"
#: An answer that has not come so long after its time is not waited for.
LATE_US = 15 * US
#: Tries before those who wait are told that there is no plan.
ASKS = 3
#: What was lost is planned anew after so long at the earliest, that more of it may be known.
SETTLE_US = US
#: What became of the plan is looked at so often at most.
LOOK_US = US // 4
#: Nodes that are ahead of the plan or behind it are no haste.
DRIFT_US = 30 * US
#: Which nodes lend, by name, and the run of a cycle that made the forecast of each.
Offering = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Asked:
    """A question that is open: who waits for it, and which nodes lent then."""

    effect: str
    until_us: int
    commands: tuple[SubmitBatch, ...]
    lenders: Offering
    why: str
    is_improving: bool = False

    @property
    def is_dry(self) -> bool:
        return any(command.is_dry for command in self.commands)


@dataclass(slots=True)
class Planning:
    """What is being planned.

    ``why`` the rest is to be planned anew ("": it is not), from ``due_us`` on.
    ``lenders`` are the nodes that the newest plan knows, ``unplanned`` the batches that it does
    not hold; ``fails`` in a row had no answer.
    """

    waiting: list[SubmitBatch] = field(default_factory=list)
    asked: Asked | None = None
    why: str = ""
    due_us: int = 0
    is_improving: bool = False
    lenders: Offering = ()
    unplanned: frozenset[str] = frozenset()
    fails: int = 0
    drifted_us: int = 0
    looked_us: int = 0


def enlist(ctx: Context, command: SubmitBatch) -> None:
    """Have a submission planned; it is answered when there is a plan."""
    state = ctx.planning
    if len(state.waiting) >= ctx.params.max_batches:
        detail = f"{len(state.waiting)} batches wait for a plan already; try again later"
        ctx.reply(command, Problem("queue_full", detail, 429))
        return
    state.waiting.append(command)
    ask(ctx)


def expected(ctx: Context) -> tuple[int, int]:
    """Return how many batches, and tasks of them, may be accepted by plans that are not there yet.

    They count against the bounds of open ones: many that come at once are all planned together.
    """
    state = ctx.planning
    asked = state.asked.commands if state.asked is not None else ()
    found = [command.spec.tasks for command in (*state.waiting, *asked) if not command.is_dry]
    return len(found), sum(found)


def want(ctx: Context, why: str, *, wait_us: int = 0) -> None:
    """Have the rest planned anew in ``wait_us``, or when it was wanted before if that is sooner."""
    state, due_us = ctx.planning, ctx.now_us + wait_us
    if state.why and state.due_us <= due_us:
        return
    state.why, state.due_us = why, due_us
    ctx.arm(due_us, MACHINE, "all")


def ask(ctx: Context) -> None:
    """Ask the planner, if there is something to ask and no answer is awaited."""
    while _must_ask_again(ctx):
        pass


def _must_ask_again(ctx: Context) -> bool:
    """Ask once; return whether nothing was asked though somebody waits still.

    Each call that returns true told somebody, or found that nothing is to be planned anew.
    """
    state = ctx.planning
    if state.asked is not None and not (state.asked.is_improving and (state.waiting or state.why)):
        return False
    if ctx.meta.is_restoring:
        return False
    state.waiting[:] = [one for one in state.waiting if not answers.recall(ctx, one)]
    is_due = bool(state.why) and ctx.now_us >= state.due_us
    commands = _next(state)
    if is_due and any(command.is_dry for command in commands):
        commands = ()  # whose question says nothing of the others; it comes behind
    why = state.why if is_due else ("a submission" if commands else "more time for it")
    if not (commands or is_due or state.is_improving):
        return False
    survey = needs.Survey(ctx)
    question = question_of(ctx, survey, commands)
    del state.waiting[: len(commands)]
    is_improving, state.is_improving = not (commands or is_due), False
    state.why = "" if is_due else state.why  # where nothing is left of any batch too
    if not survey.lenders or not question.batches:
        for command in commands:  # whoever lent when they came does not any more
            _tell(ctx, command, Problem("no_lender", "no node lends its idle capacity now", 422))
        return bool(state.waiting)
    limit_us = ctx.params.plan_limit_us if is_improving else ctx.params.answer_us
    key, until_us = ctx.effect_id(), ctx.now_us + limit_us + LATE_US
    state.asked = Asked(key, until_us, commands, _offering(ctx, survey.lenders), why, is_improving)
    ctx.roster.placed.clear()
    ctx.emit(PlanBatches(key, f"{MACHINE}:all", question, limit_us / US))
    ctx.arm(until_us, MACHINE, "all")
    return False


def _offering(ctx: Context, lenders: Sequence[Node]) -> Offering:
    """Return which nodes lend, each with the run that made its forecast ("": none in force)."""
    made = ((node.name, forecasts.in_force(ctx, node.name)) for node in lenders)
    return tuple((name, "" if found is None else found.run_id) for name, found in made)


def _next(state: Planning) -> tuple[SubmitBatch, ...]:
    """Return who is answered next: submissions in a row, or one dry run.

    Of those with one key the first alone: what it is answered is what the others are.
    """
    if state.waiting and state.waiting[0].is_dry:
        return (state.waiting[0],)
    row: list[SubmitBatch] = []
    keys: set[str] = set()
    for command in state.waiting:
        key = command.idempotency_key
        if command.is_dry or key in keys:
            break
        row.append(command)
        keys |= {key} - {""}
    return tuple(row)


def question_of(
    ctx: Context, survey: needs.Survey, commands: Sequence[SubmitBatch]
) -> PlanQuestion:
    """Return what is to be planned: the rest of the open batches, then those that wait."""
    open_ = sorted((ctx.tables.batches[key] for key in ctx.index.open_batches), key=_arrival)
    left = [survey.of_batch(batch) for batch in open_ if not batch.is_ending]
    found = [need for need in left if any(s.count > s.ended for s in need.stages)]
    found += [survey.of_spec(command.batch, command.spec) for command in commands]
    window_us = ctx.params.harvest_window_us
    return PlanQuestion(
        now_us=ctx.now_us,
        window_us=window_us,
        offers=survey.offers(ctx.now_us + window_us),
        batches=tuple(found),
        solver=ctx.params.plan_solver,
        sharing=ctx.params.plan_sharing,
        cores=ctx.params.plan_cores,
    )


def _arrival(batch: Batch) -> int:
    return batch.seq


# answers


def on_end(ctx: Context, effect: str, outcome: Outcome) -> bool:
    """Take in an answer; return whether it was awaited."""
    state = ctx.planning
    asked = state.asked
    if asked is None or asked.effect != effect:
        return False
    state.asked = None
    if isinstance(outcome, Done) and outcome.plan is not None:
        state.fails = 0
        _take(ctx, asked, outcome.plan)
    elif not asked.is_improving:
        _without(ctx, asked, outcome)
    ctx.is_room_changed = True
    ask(ctx)
    return True


def _without(ctx: Context, asked: Asked, outcome: Outcome) -> None:
    """Ask again where no plan came; after some tries tell those who wait, and go on without."""
    state = ctx.planning
    state.fails += 1
    is_hopeless = isinstance(outcome, Refused) and outcome.code == "no_solver"
    if state.fails < ASKS and not is_hopeless:
        state.waiting[:0] = asked.commands
        if not asked.commands:
            want(ctx, asked.why, wait_us=SETTLE_US)
        return
    detail = getattr(outcome, "detail", "") or "the planner gave no answer"
    for command in asked.commands:
        _tell(ctx, command, Problem("no_plan", f"it could not be planned: {detail}", 503))
    if not asked.commands:
        for key in ctx.index.open_batches:
            ctx.tables.schedules.drop(key)
        roster.rebuild(ctx)
        state.unplanned = frozenset(ctx.index.open_batches)
        state.fails = 0
        want(ctx, asked.why, wait_us=2 * DRIFT_US)


def _tell(ctx: Context, command: SubmitBatch, problem: Problem) -> None:
    """Refuse a submission, unless its key was answered meanwhile: then say that again."""
    if not answers.recall(ctx, command):
        ctx.reply(command, problem)


def _take(ctx: Context, asked: Asked, answer: PlanAnswer) -> None:
    """Answer those who wait, and take over the schedules of all."""
    state = ctx.planning
    found = {schedule.batch: schedule for schedule in answer.schedules}
    refusals = {batch: (code, detail) for batch, code, detail in answer.refusals}
    accepted = 0
    for command in asked.commands:
        if answers.recall(ctx, command):
            continue
        schedule = found.get(command.batch)
        problem = chunks.objection(ctx, command.batch, command.spec)
        if schedule is None:
            _refuse(ctx, command, *refusals.get(command.batch, ("no_room", "")))
        elif problem is not None:  # others have taken the room of its replicas meanwhile
            turn_away(ctx, command, problem)
        elif command.is_dry:
            ctx.reply(command, Forecasted(schedule.end_us, schedule))
        else:
            accepted += 1
            batch = _accept(ctx, command, schedule)
            answers.remember(ctx, command, "batches", batch.id)
            ctx.reply(command, batch)
    if asked.is_dry:
        return
    for key in sorted(ctx.index.open_batches):
        if key in found:
            schedule = ctx.tables.schedules.put(key, replace(found[key], why=asked.why))
            if schedule.starts and not asked.commands:
                end = iso(schedule.end_us)
                ctx.publish("batch.replanned", key, why=asked.why, end=end)
        else:
            ctx.tables.schedules.drop(key)
    state.lenders = asked.lenders
    state.unplanned = frozenset(ctx.index.open_batches - found.keys())
    is_open = any(not schedule.is_proven for schedule in answer.schedules)
    is_longer = ctx.params.plan_limit_us > ctx.params.answer_us
    state.is_improving = bool(accepted) and is_open and is_longer
    roster.rebuild(ctx)


def _refuse(ctx: Context, command: SubmitBatch, code: str, detail: str) -> None:
    window_us = ctx.params.harvest_window_us
    detail = detail.replace(command.batch, command.spec.name)  # what nobody has, nobody knows
    if code == "no_room" or max(stage.run_us for stage in command.spec.stages) > window_us:
        hours = window_us / 3600 / US
        code, detail = "outside_window", f"it cannot end within the window of {hours:g} h: {detail}"
    else:
        code = "no_node" if code == "no_nodes" else "no_room"
    turn_away(ctx, command, Problem(code, detail, 422))


def turn_away(ctx: Context, command: SubmitBatch, problem: Problem) -> None:
    """Refuse a batch; of one that was really submitted everybody may hear."""
    if not command.is_dry:
        name = command.spec.name
        ctx.publish("batch.refused", command.batch, name=name, code=problem.code)
    ctx.reply(command, problem)


def _accept(ctx: Context, command: SubmitBatch, schedule: Schedule) -> Batch:
    """Store a batch with its tasks; its schedule goes with it."""
    spec, seq = command.spec, ctx.meta.next_seq
    ctx.set_meta(next_seq=seq + 1)
    batch = ctx.put_batch(Batch(command.batch, seq, spec, ctx.now_us, schedule.end_us))
    index = 0
    for stage in spec.stages:
        pieces = command.chunks.get(stage.name, ())
        for number in range(stage.count):
            chunk: Chunk | None = pieces[number] if pieces else None
            ctx.put_task(Task(batch.id, index, stage.name, number, chunk, changed_us=ctx.now_us))
            index += 1
    chunks.put(ctx, batch)
    end = iso(schedule.end_us)
    ctx.publish("batch.accepted", batch.id, name=spec.name, tasks=spec.tasks, end=end)
    return batch


# when to plan anew


def review(ctx: Context) -> None:
    """Want the rest planned anew where reality departed from the plan; ask if it is time."""
    state = ctx.planning
    open_ = [ctx.tables.batches[key] for key in sorted(ctx.index.open_batches)]
    open_ = [batch for batch in open_ if not batch.is_ending]
    if open_ and not state.why:
        _look(ctx, open_)
    ask(ctx)


def _look(ctx: Context, open_: Sequence[Batch]) -> None:
    state = ctx.planning
    if ctx.now_us < state.looked_us + LOOK_US:
        ctx.arm(state.looked_us + LOOK_US, MACHINE, "all")
        return
    state.looked_us = ctx.now_us
    now = _offering(ctx, needs.lenders(ctx))
    before = state.asked.lenders if state.asked is not None else state.lenders
    if now != before:
        is_same = [name for name, _ in now] == [name for name, _ in before]
        why = "forecasts were revised" if is_same else "other nodes lend"
        if now:
            want(ctx, why, wait_us=SETTLE_US if state.lenders else 0)
        return
    if state.asked is not None:
        return
    if any(_is_short(ctx, batch) for batch in open_ if batch.id not in state.unplanned):
        want(ctx, "tasks have to begin anew", wait_us=SETTLE_US)
    elif ctx.now_us >= state.drifted_us + DRIFT_US:
        is_without = any(batch.id in state.unplanned for batch in open_)
        drift = roster.drift(ctx, DRIFT_US) or ("a batch has no plan" if is_without else "")
        if drift:
            state.drifted_us = ctx.now_us
            want(ctx, drift)


def _is_short(ctx: Context, batch: Batch) -> bool:
    """Whether more tasks of a batch wait for a node than are planned."""
    for stage in batch.spec.stages:
        if stage.dataset is not None:
            continue  # its tasks begin where their blocks are
        waiting = len(ctx.index.strands[batch.id, stage.name].pending)
        if waiting > ctx.roster.left.get((batch.id, stage.name), 0):
            return True
    return False


def on_timer(ctx: Context, key: str) -> None:
    """Give up an answer that is late, and look again."""
    asked = ctx.planning.asked
    if asked is not None and ctx.now_us >= asked.until_us:
        on_end(ctx, asked.effect, Refused("no_plan", "the planner gave no answer"))
    ctx.is_room_changed = True


def is_planned(ctx: Context, batch: str) -> bool:
    """Whether a batch's tasks begin by a plan; else they are served greedily."""
    return batch in ctx.tables.schedules and batch not in ctx.planning.unplanned


def reset(ctx: Context) -> None:
    """Begin with nothing asked and nothing planned."""
    ctx.planning, ctx.roster = Planning(), roster.Roster()


def rearm(ctx: Context) -> None:
    """Have all planned anew: what the plan knew is no longer known."""
    reset(ctx)
    if ctx.index.open_batches:
        want(ctx, "the daemon restarted")
