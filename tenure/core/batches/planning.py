"""Batches are planned elsewhere, by the holistic planner; its answers are taken over here.

Theory of operation. A submission that is not refused at once waits for a plan, as its request does;
it is told within ``Params.reply_us`` that there is none. One question is open at a time: all open
batches in the order of their arrival, and those that wait. The answer accepts or refuses each
whole. What it says of when and where tasks begin is kept as the schedules of the batches and
enacted by ``dispatch_list``. A plan that is not proven is asked for once more, with more time.

A question about a thousand nodes, and an answer for ten thousand tasks, are worked on in slices
(``work_limits``), with other events between: a question is first a ``Draft``, an answer an
``Intake``. Nobody sees either before it is whole. Then, in one transaction, all schedules are taken
over, the batches are stored, whose tasks lie there as drafts by then, and those who wait are
answered.

Reality departs from plans. The rest is planned anew (``want``) when other nodes lend, when tasks
have to begin anew, and when nodes are ahead of their part or behind it. What was begun stays;
inputs that lie on nodes count. While no plan comes, or none holds a batch, that batch is served
greedily.

A question is not stored: after a restart all is planned anew, and who waited asks again. Owns the
schedules of batches, and with ``planner_question`` what is being planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tenure.core.batches import drafts, plan_drift
from tenure.core.batches.planner_question import Aim, Asked, Draft, Intake, Offering, Planning
from tenure.core.capacity import forecasts
from tenure.core.dispatch import dispatch_list, input_replicas, planner_inputs, shuffle_sizes
from tenure.core.dispatch.listing import Listing
from tenure.core.state import idempotency, quotas, work_limits
from tenure.core.state.context import Context
from tenure.model.batch import Batch, Forecasted
from tenure.model.effects import PlanBatches
from tenure.model.errors import Problem
from tenure.model.events import SubmitBatch
from tenure.model.node import Node
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.planning import BatchNeed, PlanAnswer, PlanQuestion, Schedule
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


def enlist(ctx: Context, command: SubmitBatch) -> None:
    """Have a submission planned; it is answered when there is a plan."""
    state = ctx.own(Planning)
    if len(state.waiting) >= ctx.params.max_batches:
        detail = f"{len(state.waiting)} batches wait for a plan already; try again later"
        ctx.reply(command, Problem("queue_full", detail, 429))
        return
    state.waiting.append(command)
    ctx.arm(command.at_us + ctx.params.reply_us, MACHINE, command.request)
    ask(ctx)


def want(ctx: Context, why: str, *, wait_us: int = 0) -> None:
    """Have the rest planned anew in ``wait_us``, or when it was wanted before if that is sooner."""
    state, due_us = ctx.own(Planning), ctx.now_us + wait_us
    if state.why and state.due_us <= due_us:
        return
    state.why, state.due_us = why, due_us
    ctx.arm(due_us, MACHINE, "all")


def go_on(ctx: Context) -> None:
    """Go on with what is being worked on, and ask what there is to ask."""
    _take_in(ctx)
    ask(ctx)


def ask(ctx: Context) -> None:
    """Ask the planner, if there is something to ask and no answer is awaited."""
    while _must_ask_again(ctx):
        pass


def _must_ask_again(ctx: Context) -> bool:
    """Go on with a question, or begin one; return whether nothing was asked though somebody waits.

    Each call that returns true told somebody, or found that nothing is to be planned anew.
    """
    state = ctx.own(Planning)
    if state.intake is not None or ctx.meta.is_restoring:
        return False
    if state.draft is None:
        state.draft = _begin(ctx)
    return state.draft is not None and _drawn_up(ctx, state.draft) and _must_go_on(ctx, state.draft)


def _begin(ctx: Context) -> Draft | None:
    """Begin a question, if there is something to ask."""
    state = ctx.own(Planning)
    is_free = state.asked is None or state.asked.aim.is_improving
    if not is_free or (state.asked is not None and not (state.waiting or state.why)):
        return None
    state.waiting[:] = [one for one in state.waiting if not idempotency.recall(ctx, one)]
    is_due = bool(state.why) and ctx.now_us >= state.due_us
    commands = _next(state)
    if is_due and any(command.is_dry for command in commands):
        commands = ()  # whose question says nothing of the others; it comes behind
    why = state.why if is_due else ("a submission" if commands else "more time for it")
    if not (commands or is_due or state.is_improving):
        return None
    del state.waiting[: len(commands)]
    is_improving, state.is_improving = not (commands or is_due), False
    state.why = "" if is_due else state.why  # where nothing is left of any batch too
    state.asked = None
    survey = planner_inputs.Survey(ctx)
    open_ = sorted((ctx.tables.batches[key] for key in ctx.index.open_batches), key=_arrival)
    aim = Aim(commands, why, is_improving)
    lenders = _offering(ctx, survey.lenders)
    return Draft(aim, survey, lenders, [batch.id for batch in open_])


def _drawn_up(ctx: Context, draft: Draft) -> bool:
    """Go on with a question; return whether it is whole. The rest is for the next transaction."""
    window_us = ctx.params.harvest_window_us
    if not draft.survey.go_on(ctx.now_us + window_us):
        ctx.arm(ctx.now_us, MACHINE, "draft")
        return False
    while draft.left:
        if ctx.work.is_spent:
            ctx.arm(ctx.now_us, MACHINE, "draft")
            return False
        batch = ctx.tables.batches.get(draft.left.pop(0))
        if batch is None or batch.is_over or batch.is_ending:
            continue
        ctx.own(dispatch_list.DispatchList).placed.pop(
            batch.id, None
        )  # what begins from now on the answer does not know
        need = draft.survey.of_batch(batch)
        if any(stage.count > stage.ended for stage in need.stages):
            draft.found.append(need)
    return True


def _must_go_on(ctx: Context, draft: Draft) -> bool:
    """Send a question that is whole; return whether there is none though somebody waits."""
    state, aim = ctx.own(Planning), draft.aim
    state.draft = None
    commands = [command for command in aim.commands if command.request not in state.told]
    found = [*draft.found, *(draft.survey.of_spec(one.batch, one.spec) for one in commands)]
    if not draft.survey.lenders or not found:
        for command in commands:  # whoever lent when they came does not any more
            _tell(ctx, command, Problem("no_lender", "no node lends its idle capacity now", 422))
        state.told.clear()
        return bool(state.waiting)
    limit_us = ctx.params.plan_limit_us if aim.is_improving else ctx.params.answer_us
    key, until_us = ctx.effect_id(), ctx.now_us + limit_us + LATE_US
    state.asked = Asked(aim, key, until_us, draft.lenders)
    question = _question_of(ctx, draft.survey, found)
    ctx.emit(PlanBatches(key, f"{MACHINE}:all", question, limit_us / US))
    if not aim.is_dry:
        needs_ = ((need.batch, part) for need in found for part in need.stages)
        ctx.own(shuffle_sizes.Planned).sent_bytes = {
            (key, part.name): part.chunk_bytes for key, part in needs_
        }
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


def _question_of(
    ctx: Context, survey: planner_inputs.Survey, found: Sequence[BatchNeed]
) -> PlanQuestion:
    """Return what is to be planned: the rest of the open batches, then those that wait."""
    return PlanQuestion(
        now_us=ctx.now_us,
        window_us=ctx.params.harvest_window_us,
        offers=survey.offers,
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
    state = ctx.own(Planning)
    asked = state.asked
    if asked is None or asked.effect != effect:
        return False
    state.asked = None
    if isinstance(outcome, Done) and outcome.plan is not None:
        state.fails = 0
        _take(ctx, asked, outcome.plan)
    else:
        if not asked.aim.is_improving:
            _without(ctx, asked.aim, outcome)
        state.told.clear()
    ctx.serve_again(MACHINE)
    ask(ctx)
    return True


def _without(ctx: Context, aim: Aim, outcome: Outcome) -> None:
    """Ask again where no plan came; after some tries tell those who wait, and go on without."""
    state = ctx.own(Planning)
    state.fails += 1
    is_hopeless = isinstance(outcome, Refused) and outcome.code == "no_solver"
    commands = [command for command in aim.commands if command.request not in state.told]
    if state.fails < ASKS and not is_hopeless:
        state.waiting[:0] = commands
        if not aim.commands:
            want(ctx, aim.why, wait_us=SETTLE_US)
        return
    detail = getattr(outcome, "detail", "") or "the planner gave no answer"
    for command in commands:
        _tell(ctx, command, _no_plan(detail))
    if not aim.commands:
        for key in ctx.index.open_batches:
            ctx.tables.drop_schedule(key)
        dispatch_list.clear(ctx)
        state.unplanned = frozenset(ctx.index.open_batches)
        state.fails = 0
        want(ctx, aim.why, wait_us=2 * DRIFT_US)


def _no_plan(detail: str) -> Problem:
    return Problem("no_plan", f"it could not be planned: {detail}", 503)


def _tell(ctx: Context, command: SubmitBatch, problem: Problem) -> None:
    """Refuse a submission, unless its key was answered meanwhile: then say that again."""
    if not idempotency.recall(ctx, command):
        ctx.reply(command, problem)


def _tell_overdue(ctx: Context) -> None:
    """Tell those who waited for too long: who is told later may have gone, and asked again."""
    state = ctx.own(Planning)
    due_us = ctx.now_us - ctx.params.reply_us
    late = [command for command in state.waiting if command.at_us <= due_us]
    state.waiting[:] = [command for command in state.waiting if command.at_us > due_us]
    for command in state.planned:
        if command.at_us <= due_us and command.request not in state.told:
            state.told.add(command.request)
            late.append(command)
    seconds = ctx.params.reply_us / US
    for command in late:
        _tell(ctx, command, _no_plan(f"the planner gave no answer within {seconds:g} s"))


def _take(ctx: Context, asked: Asked, answer: PlanAnswer) -> None:
    """Answer those who get nothing stored, and begin to take over the schedules of all."""
    found = {schedule.batch: schedule for schedule in answer.schedules}
    refusals = {batch: (code, detail) for batch, code, detail in answer.refusals}
    coming: list[SubmitBatch] = []
    for command in asked.aim.commands:
        if command.request in ctx.own(Planning).told or idempotency.recall(ctx, command):
            continue
        schedule = found.get(command.batch)
        problem = input_replicas.objection(ctx, command.batch, command.spec)
        if schedule is None:
            _refuse(ctx, command, *refusals.get(command.batch, ("no_room", "")))
        elif problem is not None:  # others have taken the room of its replicas meanwhile
            turn_away(ctx, command, problem)
        elif command.is_dry:
            ctx.reply(command, Forecasted(schedule.end_us, schedule))
        else:
            coming.append(command)
    if asked.aim.is_dry:
        ctx.own(Planning).told.clear()
        return
    made = (task for command in coming for task in drafts.tasks_of(ctx, command))
    listing = Listing(ctx, found, coming)
    ctx.own(Planning).intake = Intake(asked, answer, found, tuple(coming), made, listing)
    _take_in(ctx)


def _take_in(ctx: Context) -> None:
    """Go on with an answer; once all of it is there, it counts."""
    intake = ctx.own(Planning).intake
    if intake is None:
        return
    for task in intake.tasks:
        drafts.put(ctx, task)
        ctx.work.spend(work_limits.TASK)
        if ctx.work.is_spent:
            break
    if ctx.work.is_spent or not intake.listing.go_on():
        ctx.arm(ctx.now_us, MACHINE, "intake")
        return
    ctx.own(Planning).intake = None
    _conclude(ctx, intake)


def _conclude(ctx: Context, intake: Intake) -> None:
    """Store and answer what is accepted, and have the dispatch list go by the new schedules."""
    state, aim = ctx.own(Planning), intake.asked.aim
    accepted = 0
    for command in intake.coming:
        if command.request in state.told or idempotency.recall(ctx, command):
            drafts.drop(ctx, command.batch, command.spec)
            continue
        problem = input_replicas.objection(ctx, command.batch, command.spec)
        if problem is not None:  # others have taken the room of its replicas meanwhile
            drafts.drop(ctx, command.batch, command.spec)
            turn_away(ctx, command, problem)
            continue
        accepted += 1
        batch = _accept(ctx, command, intake.schedules[command.batch])
        idempotency.remember(ctx, command, "batches", batch.id)
        ctx.reply(command, batch)
    state.told.clear()
    for key in sorted(ctx.index.open_batches):
        found = intake.schedules.get(key)
        if found is None:
            ctx.tables.drop_schedule(key)
            continue
        ctx.tables.put_schedule(key, replace(found, why=aim.why))
        if found.starts and not aim.commands:
            ctx.publish("batch.replanned", key, why=aim.why, end=iso(found.end_us))
    state.lenders = intake.asked.lenders
    state.unplanned = frozenset(ctx.index.open_batches - intake.schedules.keys())
    is_open = any(not schedule.is_proven for schedule in intake.answer.schedules)
    is_longer = ctx.params.plan_limit_us > ctx.params.answer_us
    state.is_improving = bool(accepted) and is_open and is_longer
    dispatch_list.adopt(ctx, intake.listing.dispatch)


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
    """Refuse a batch; of one that was really submitted everybody may hear, unless by its quota."""
    if not command.is_dry and problem.code != quotas.EXCEEDED:
        ctx.publish("batch.refused", command.batch, name=command.spec.name, code=problem.code)
    ctx.reply(command, problem)


def _accept(ctx: Context, command: SubmitBatch, schedule: Schedule) -> Batch:
    """Store a batch whose tasks lie there; its schedule goes with it."""
    spec, seq = command.spec, ctx.meta.next_seq
    ctx.set_meta(next_seq=seq + 1)
    made = Batch(command.batch, seq, spec, ctx.now_us, schedule.end_us, owner=command.owner)
    batch = ctx.put_batch(made)
    input_replicas.put(ctx, batch)
    end = iso(schedule.end_us)
    ctx.publish("batch.accepted", batch.id, name=spec.name, tasks=spec.tasks, end=end)
    return batch


# when to plan anew


def review(ctx: Context) -> None:
    """Want the rest planned anew where reality departed from the plan; ask if it is time."""
    state = ctx.own(Planning)
    _take_in(ctx)
    open_ = [ctx.tables.batches[key] for key in sorted(ctx.index.open_batches)]
    open_ = [batch for batch in open_ if not batch.is_ending]
    if open_ and not state.why and state.intake is None:
        _look(ctx, open_)
    ask(ctx)


def _look(ctx: Context, open_: Sequence[Batch]) -> None:
    """Compare the plan with what became of it."""
    state = ctx.own(Planning)
    if ctx.now_us < state.looked_us + LOOK_US:
        ctx.arm(state.looked_us + LOOK_US, MACHINE, "all")
        return
    state.looked_us = ctx.now_us
    now = _offering(ctx, planner_inputs.lenders(ctx))
    open_question = state.draft or state.asked
    before = state.lenders if open_question is None else open_question.lenders
    if now != before:
        is_same = [name for name, _ in now] == [name for name, _ in before]
        why = "forecasts were revised" if is_same else "other nodes lend"
        if now:
            want(ctx, why, wait_us=SETTLE_US if state.lenders else 0)
        return
    if open_question is not None:
        return
    if any(_is_short(ctx, batch) for batch in open_ if batch.id not in state.unplanned):
        want(ctx, "tasks have to begin anew", wait_us=SETTLE_US)
    elif why := shuffle_sizes.revised(ctx, open_, _links(ctx, now)):
        want(ctx, why)
    elif ctx.now_us >= state.drifted_us + DRIFT_US:
        is_without = any(batch.id in state.unplanned for batch in open_)
        off = plan_drift.drift(ctx, DRIFT_US) or ("a batch has no plan" if is_without else "")
        if off:
            state.drifted_us = ctx.now_us
            want(ctx, off)


def _links(ctx: Context, lenders: Offering) -> int:
    """Return the bytes a second to all nodes that lend, as far as they are stated."""
    nodes = (ctx.tables.nodes[name] for name, _ in lenders)
    return sum(node.capacity.net_bytes_per_s for node in nodes)


def _is_short(ctx: Context, batch: Batch) -> bool:
    """Whether more tasks of a batch wait for a node than are planned."""
    for stage in batch.spec.stages:
        if dispatch_list.is_matched(stage):
            continue
        waiting = len(ctx.index.tasks_by_stage[batch.id, stage.name].pending)
        if waiting > ctx.own(dispatch_list.DispatchList).left.get((batch.id, stage.name), 0):
            return True
    return False


def on_timer(ctx: Context, key: str) -> None:
    """Tell those who waited for too long, give up an answer that is late, and look again."""
    _tell_overdue(ctx)
    state, asked = ctx.own(Planning), ctx.own(Planning).asked
    if asked is not None and ctx.now_us >= asked.until_us:
        on_end(ctx, asked.effect, Refused("no_plan", "the planner gave no answer"))
    elif asked is not None:
        ctx.arm(asked.until_us, MACHINE, "all")
    for command in (*state.waiting, *state.planned):
        if command.request == key and key not in state.told:  # too early: the clock was stepped
            ctx.arm(command.at_us + ctx.params.reply_us, MACHINE, key)
    ctx.serve_again(MACHINE)


def is_planned(ctx: Context, batch: str) -> bool:
    """Whether a batch's tasks begin by a plan; else they are served greedily."""
    return batch in ctx.tables.schedules and batch not in ctx.own(Planning).unplanned


def reset(ctx: Context) -> None:
    """Begin with nothing asked and nothing planned."""
    ctx.put_own(Planning())
    ctx.put_own(dispatch_list.DispatchList())
    ctx.put_own(shuffle_sizes.Planned())


def rearm(ctx: Context) -> None:
    """Have all planned anew: what the plan knew is no longer known."""
    reset(ctx)
    drafts.sweep(ctx)
    if ctx.index.open_batches:
        want(ctx, "the daemon restarted")
