"""The plan of the queue: each waiting job has a place in time and on nodes (policy ``tenure``).

Theory of operation. A job is given its place when it is admitted, and the place is stored with it:
a restart forgets no promise. Whenever room changes, the plan is brought up to date (``Placer.plan``
says how), and the jobs whose start has come are placed. While estimates hold places stay as they
are; where executors end later than estimated, those behind them start later on the same nodes, and
where room comes back early some jobs are put where they are best now, a few at a time. Of a long
queue the head is planned (``plan_head``). Owns the records of reservations, and ``Memory``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from tenure.core.capacity import room, snapshots
from tenure.core.capacity.snapshots import Scene
from tenure.core.jobs import locality_preference, plan_head, start
from tenure.core.jobs.slow_decisions import Head
from tenure.core.nodes import capacity_probes
from tenure.core.state.context import Context
from tenure.core.state.owned import Owned
from tenure.model.arrays import np
from tenure.model.job import Job, JobState
from tenure.model.node import Node
from tenure.model.placing import (
    LAST_CALL_US,
    Admitted,
    Bools,
    ClusterView,
    Forecast,
    Ints,
    Look,
    Planned,
    Queued,
    QueuePlan,
    RefusedJob,
    Rotation,
    Running,
    Situation,
)
from tenure.model.reservation import Reservation
from tenure.model.units import FOREVER_US, US

#: For so long beyond its run time a job without a deadline may be put off by those that have one.
PUT_OFF_US = 3600 * US
#: The queue is looked at again this soon where a start waits for executors that are overdue.
LOOK_US = US
#: A node that is silent for so long keeps no place for a start that has come and is not in a hurry.
AWAY_US = 10 * US
#: Room that comes back earlier than this was not expected yet.
EARLY_US = US
#: A start that moved by less is not stored again: executors never end to the microsecond.
TOLD_US = 10_000
#: The timer of the plan.
KEY = "plan"


@dataclass(frozen=True, slots=True)
class Row:
    """A waiting job as the plan saw it, true while what it was made of is the same."""

    job: Job
    queued: Queued
    reservation: Reservation | None
    turn: int
    planned: Planned


@dataclass(slots=True)
class Sitting:
    """The plan as it is now: true while the fleet is ``here`` and the line is at its ``turn``.

    Who comes meanwhile is planned on ``look``, and a pass has nothing to plan. ``reservations`` are
    all places by job; those stored may differ by a moment (``TOLD_US``).
    """

    here: Scene
    look: Look | None
    turn: int
    reservations: dict[str, Reservation]


@dataclass(slots=True)
class Memory(Owned):
    """What is not stored: how improving goes on, and waiting jobs as the plan saw them, by id.

    ``is_head_left``: the one that ``rotation.head_us`` tells of may have been given up, or begin
    earlier than it says.
    ``seen`` is the fleet as it was at the last pass. ``sitting`` is None where the plan must be
    looked at anew, ``offered`` one with a job that was not accepted yet.
    """

    is_derived: ClassVar[bool] = True

    rotation: Rotation = field(default_factory=Rotation)
    is_head_left: bool = False
    rows: dict[str, Row] = field(default_factory=dict)
    seen: Scene | None = None
    sitting: Sitting | None = None
    offered: Sitting | None = None


def _memory(ctx: Context) -> Memory:
    return ctx.own(Memory)


def serve(ctx: Context) -> None:
    """Bring the plan of the queue up to date, and start the jobs whose time has come."""
    memory, here = _memory(ctx), snapshots.scene(ctx)
    is_left = _sweep(ctx)
    queue = plan_head.planned(ctx)
    is_early = _has_come_early(ctx, memory, here) or is_left
    is_due = memory.rotation.left > 0 and memory.rotation.due_us <= ctx.now_us
    sitting = _sitting(ctx, memory, here)
    if is_early or is_due or sitting is None or _is_passing(ctx, sitting):
        site, rows = situation(ctx, here), planned(ctx, queue)
        queue_plan = ctx.placer.plan(site, rows, rotation=memory.rotation, is_early=is_early)
        _take(ctx, queue_plan)
        sitting = Sitting(here, None, ctx.index.waiting_jobs.turn, dict(queue_plan.reservations))
        memory.sitting = sitting
    memory.is_head_left |= is_early
    if memory.is_head_left:
        _draw_near(ctx, memory, sitting.reservations.values())
    for job in queue:
        _begin_or_wait(ctx, job, sitting.reservations.get(job.id), here)
    _arm(ctx, memory, sitting.reservations)


def _sitting(ctx: Context, memory: Memory, here: Scene) -> Sitting | None:
    """Return the plan as it is now, None where the fleet or the line has changed since."""
    found = memory.sitting
    is_true = found is not None and found.here is here and found.turn == ctx.index.waiting_jobs.turn
    return found if is_true else None


def _is_passing(ctx: Context, sitting: Sitting) -> bool:
    """Whether a start has come that passes a higher priority, in a plan made for who came.

    A promise asks nobody who would be passed so: a pass does.
    """
    if sitting.look is None:
        return False
    due: list[int] = []
    later: list[int] = []
    for key, one in sitting.reservations.items():
        job = ctx.tables.jobs.get(key)
        if job is not None and key in ctx.index.waiting_jobs:
            (due if one.start_us <= ctx.now_us else later).append(job.spec.priority)
    return bool(due and later and min(due) < max(later))


def _sweep(ctx: Context) -> bool:
    """Forget reservations of jobs that wait no more; return whether there were any."""
    keys = [key for key, _ in ctx.tables.reservations.items() if key not in ctx.index.waiting_jobs]
    for key in keys:
        ctx.tables.reservations.drop(key)
    plan_head.hold(ctx)
    return bool(keys)


def _draw_near(ctx: Context, memory: Memory, reservations: Iterable[Reservation]) -> None:
    """Have who comes count as prompt behind those who are left at most.

    ``placement.planning.budget`` says what prompt is. Somebody was given up before his start, so
    nobody would have waited behind him either, or room came early, and with it his start. None of
    the others is planned to begin later than the last of them, whose start may come nearer yet.
    """
    last_us = max((one.start_us for one in reservations), default=0)
    head_us = min(memory.rotation.head_us, last_us)
    memory.rotation = memory.rotation._replace(head_us=head_us)
    memory.is_head_left = head_us > ctx.now_us


def situation(ctx: Context, here: Scene) -> Situation:
    """Return the fleet for planning: a node that takes no work now is full until it does.

    When that is nobody knows mostly, so it may be at once: who is due there waits, and is planned
    anew when his deadline would be missed so.
    """
    is_blocked = ~here.usable & here.welcome
    if not is_blocked.any():
        return Situation(here.view, here.running, ctx.now_us)
    blocked = np.flatnonzero(is_blocked)
    until_us = [max(room.retry_us(here.nodes[j]), ctx.now_us + 1) for j in blocked.tolist()]
    running = _with_rows(here, blocked, np.array(until_us, dtype=np.int64))
    return Situation(_without(here.view, is_blocked), running, ctx.now_us)


def _with_rows(here: Scene, blocked: Ints, until_us: Ints) -> Running:
    view, running = here.view, here.running
    return Running(
        np.concatenate((running.node, blocked)),
        np.concatenate((running.cpu_m, view.free_cpu_m[blocked])),
        np.concatenate((running.memory_bytes, view.free_memory[blocked])),
        np.concatenate((running.end_us, until_us)),
    )


def _without(view: ClusterView, is_blocked: Bools) -> ClusterView:
    return replace(
        view,
        free_cpu_m=np.where(is_blocked, 0, view.free_cpu_m),
        free_memory=np.where(is_blocked, 0, view.free_memory),
    )


def _has_come_early(ctx: Context, memory: Memory, here: Scene) -> bool:
    """Whether a node has room that was not expected by now, or serves now and did not before."""
    before, memory.seen = memory.seen, here
    if before is None:
        return False
    view, running = before.view, before.running
    if view.names != here.view.names:
        return True
    cpu_m, memory_bytes = view.free_cpu_m.copy(), view.free_memory.copy()
    is_due = running.end_us <= ctx.now_us + EARLY_US
    np.add.at(cpu_m, running.node[is_due], running.cpu_m[is_due])
    np.add.at(memory_bytes, running.node[is_due], running.memory_bytes[is_due])
    more = (here.view.free_cpu_m > cpu_m) | (here.view.free_memory > memory_bytes)
    return bool((more | (here.serving & ~before.serving)).any())


def planned(ctx: Context, queue: Sequence[Job]) -> list[Planned]:
    """Return waiting jobs with their places, as the plan sees them; the same objects until changed.

    Whether nodes still serve a job is asked again when filters say something else of any.
    """
    memory, reservations = _memory(ctx), ctx.tables.reservations
    rows, turn, found = memory.rows, snapshots.filter_turn(ctx), []
    if len(rows) > 2 * len(ctx.index.waiting_jobs) + snapshots.SPARE_ASKS:
        rows = memory.rows = {
            key: row for key, row in rows.items() if key in ctx.index.waiting_jobs
        }
    for job, queued in zip(queue, snapshots.queued(ctx, queue), strict=True):
        row, reservation = rows.get(job.id), reservations.get(job.id)
        is_known = row is not None and row.job is job and row.queued is queued
        if row is None or not is_known or row.reservation is not reservation or row.turn != turn:
            row = rows[job.id] = _row(ctx, job, queued, turn, row)
        found.append(row.planned)
    return found


def _reservation(ctx: Context, job: Job) -> Reservation | None:
    """Return the place of a job, None if it has none or its nodes will never serve it again.

    A node that does not answer for the moment is no reason to give up a place there: the plan looks
    for another where a deadline would be missed. Whom none drives away looks for one after a while.
    """
    reservation = ctx.tables.reservations.get(job.id)
    if reservation is None:
        return None
    is_due = reservation.start_us <= ctx.now_us
    is_patient = not is_due or not (job.spec.deadline_us is None or reservation.is_late)
    for name, _ in reservation.counts:
        node = ctx.tables.nodes.get(name)
        if node is None or not _serves(ctx, job, node):
            return None
        if not is_patient and _is_gone(ctx, node):
            return None
    return reservation


def _serves(ctx: Context, job: Job, node: Node) -> bool:
    return room.is_welcome(node) and not room.never_for(job, node, ctx.params.job_generations())


def _is_gone(ctx: Context, node: Node) -> bool:
    silent_us = ctx.now_us - (ctx.now_us if node.unreachable_us is None else node.unreachable_us)
    return room.is_away(node) and silent_us > AWAY_US


def _row(ctx: Context, job: Job, queued: Queued, turn: int, before: Row | None) -> Row:
    guard_us = job.spec.deadline_us
    if guard_us is None:
        guard_us = min(job.arrival_us + queued.ask.hybrid_us + PUT_OFF_US, FOREVER_US)
    one = Planned(queued, -job.spec.priority, job.arrival_us, guard_us, _reservation(ctx, job))
    if before is not None and _is_alike(before.planned, one):
        one = before.planned
    return Row(job, queued, ctx.tables.reservations.get(job.id), turn, one)


def _is_alike(one: Planned, other: Planned) -> bool:
    is_same = one.queued is other.queued and one.reservation is other.reservation
    return is_same and (one.rank, one.guard_us) == (other.rank, other.guard_us)


def admit(ctx: Context, job: Job) -> Admitted | RefusedJob | None:
    """Return the promise for a new job beside the plan, or why there is none. Changes nothing.

    None: it may be held behind those who are planned, and no end is promised.

    Jobs that come at one moment are planned one after another on one look at the queue.
    """
    memory, here = _memory(ctx), snapshots.scene(ctx)
    sitting, line = _sitting(ctx, memory, here), plan_head.line_for(ctx, job)
    memory.sitting = memory.offered = None
    if line is None:
        (queued,) = snapshots.queued(ctx, [job])
        is_fit = ctx.placer.could_hold(job.spec.policy, here.view, queued.ask)
        return None if is_fit else RefusedJob("never_fits")
    if sitting is not None and sitting.look is not None and line.is_whole:
        (new,) = planned(ctx, [job])
        found = sitting.look.admit(new, line.position)
        if found is not None:
            memory.offered = sitting
            return found
    site, (*rows, new) = situation(ctx, here), planned(ctx, [*line.jobs, job])
    answer = ctx.placer.admit_planned(
        site, rows, new, rotation=memory.rotation, position=line.position
    )
    if isinstance(answer, Admitted) and answer.look is not None and line.is_whole:
        memory.offered = Sitting(here, answer.look, 0, {})
    return answer


def at_once(ctx: Context, job: Job) -> Forecast | None:
    """Return what a planned job would be promised if it were to end as early as it can."""
    site = situation(ctx, snapshots.scene(ctx))
    rows = planned(ctx, plan_head.planned(ctx))
    return ctx.placer.at_once(site, rows, job.id)


def accept(ctx: Context, queue_plan: QueuePlan) -> None:
    """Store the plan with the job that ``admit`` was asked about last, which is in the line now."""
    memory = _memory(ctx)
    sitting, memory.offered = memory.offered, None
    _take(ctx, queue_plan)
    if sitting is not None:
        sitting.turn = ctx.index.waiting_jobs.turn
        if queue_plan.is_whole:
            sitting.reservations.clear()
        sitting.reservations.update(queue_plan.reservations)
    memory.sitting = sitting


def _take(ctx: Context, queue_plan: QueuePlan) -> None:
    """Store where the plan has changed."""
    _memory(ctx).rotation, table = queue_plan.rotation, ctx.tables.reservations
    head = ctx.index.waiting_jobs.head(ctx.params.max_planned) if queue_plan.is_whole else ()
    for key in tuple(head or queue_plan.reservations):
        fresh, old = queue_plan.reservations.get(key), table.get(key)
        if fresh is None:
            table.drop(key)
        elif fresh is not old and (old is None or _has_moved(old, fresh)):
            table.put(key, fresh)


def _has_moved(old: Reservation, fresh: Reservation) -> bool:
    is_alike = (old.counts, old.mode, old.is_late) == (fresh.counts, fresh.mode, fresh.is_late)
    by_us = max(abs(old.start_us - fresh.start_us), abs(old.end_us - fresh.end_us))
    return not is_alike or by_us >= TOLD_US


def _begin_or_wait(ctx: Context, job: Job, reservation: Reservation | None, here: Scene) -> None:
    if reservation is None:
        start.wait(ctx, job, "no_node")
        capacity_probes.hear_job(ctx, job)
    elif reservation.start_us > ctx.now_us:
        if start.reason_of(ctx, job.id) != "planned" or job.state is JobState.ACCEPTED:
            start.wait(ctx, job, "planned")
    elif not all(here.usable[here.position[name]] for name, _ in reservation.counts):
        start.wait(ctx, job, "node_not_ready")
        ctx.arm(ctx.now_us + LOOK_US, start.MACHINE, KEY)
    else:
        now, ask = snapshots.scene(ctx), snapshots.ask_now(ctx, job)
        answer = ctx.placer.as_booked(now.view, ask, reservation)
        ctx.tables.reservations.drop(job.id)
        choice = locality_preference.choose(ctx, Head(job, ask, now, answer))
        start.place(ctx, job, choice.answer, decision=choice.decision)


def _last_calls(ctx: Context, reservations: Iterable[Reservation]) -> list[int]:
    """Return when jobs that should run by now have to look for another place to be in time."""
    calls = []
    for one in reservations:
        job = ctx.tables.jobs.get(one.job)
        if one.start_us <= ctx.now_us + 1 and job is not None and job.spec.deadline_us is not None:
            calls.append(job.spec.deadline_us - (one.end_us - one.start_us) - LAST_CALL_US - 1)
    return [at for at in calls if at > ctx.now_us]


def _arm(ctx: Context, memory: Memory, reservations: Mapping[str, Reservation]) -> None:
    """Have the queue served when the next start comes, or when there is more to improve."""
    waiting = [one.start_us for key, one in reservations.items() if key in ctx.index.waiting_jobs]
    later = [at for at in waiting if at > ctx.now_us + 1]
    if len(later) < len(waiting):
        # behind executors that are overdue: their end is an event, but the deadline may come first
        later += [ctx.now_us + LOOK_US, *_last_calls(ctx, reservations.values())]
    if memory.rotation.left and waiting:  # with no place given there is none to improve
        later.append(max(memory.rotation.due_us, ctx.now_us + 1))
    if later:
        ctx.arm(min(later), start.MACHINE, KEY)
