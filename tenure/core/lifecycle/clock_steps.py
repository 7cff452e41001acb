"""Steps of the wall clock: what is under way goes on as if the time that was skipped had not been.

Records hold moments of our time (``model.ourtime``), and time-outs are differences of them. So
where it skips, what began before is told to have begun later by as much: nothing runs too long, no
node is lost or idle, no attempt is due, no answer too old and nothing costs for a step. What is
meant as a moment stays: deadlines, due runs of cycles, what has ended. A timer that comes too early
finds that its time has not come. Our time never goes back, so a step back is only told.

Where the machine was started anew, what the wall says of the time since the last commit may be a
step. So what waits for a time waits on as if none had passed: it may come late, never early. Nodes
cost for it, for that is the likelier mistake, and the smaller one to put right. Owns the clock in
the record of the fleet; moments in all records are moved by it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tenure.core.batches.planner_question import Planning
from tenure.core.capacity import ledger
from tenure.core.jobs import slow_decisions
from tenure.core.nodes.harvestable import Starved
from tenure.core.state.context import Context
from tenure.model.batch import TaskState
from tenure.model.container import ContainerState
from tenure.model.events import ClockStepped, Event, Started, Tick
from tenure.model.ourtime import Anchor, Resumed

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = TypeVar("Row", bound="DataclassInstance")
NODE = ("unreachable_us", "reconnected_us", "idle_us", "retry_us", "power_since_us")
JOB = ("placed_us", "launched_us", "started_us", "end_estimate_us")
EXECUTOR = ("placed_us", "started_us", "finished_us", "retry_us", "suspect_us")
TASK = ("started_us", "finished_us", "retry_us")
SERVICE = (
    *("since_us", "started_us", "retry_us", "moved_us"),
    *("guard_us", "late_us", "live_retry_us", "suspect_us"),
)
MOVE = ("retry_us", "verify_us", "expires_us", "started_us", "down_us", "up_us")
MEMBER = ("retry_us", "ready_us")
RUN = ("claimed_us", "expires_us")


def at_start(begin: Resumed) -> list[Event]:
    """Return the events with which a daemon begins."""
    started = Started(
        at_us=begin.at_us,
        step_us=max(0, begin.step_us),
        is_same_boot=begin.is_same_boot,
        clock=begin.anchor,
    )
    if begin.step_us >= 0:
        return [started]
    return [started, ClockStepped(at_us=begin.at_us, step_us=begin.step_us, clock=begin.anchor)]


def at_step(was_us: int, now_us: int, clock: Anchor, step_us: int) -> list[Event]:
    """Return the events that tell of a step, found when our time was ``was_us``, before others.

    The tick has what the step touched reviewed in the time after it.
    """
    return [ClockStepped(at_us=was_us, step_us=step_us, clock=clock), Tick(at_us=now_us)]


def stepped(ctx: Context, event: ClockStepped) -> None:
    """Tell of a step; of one forward, have everything under way go on behind it."""
    ctx.set_meta(clock=event.clock)
    if event.step_us:
        ctx.publish("clock.stepped", "tenured", by_s=round(event.step_us / 1e6, 3))
    if event.step_us > 0:
        _skip(ctx, event.step_us, is_known=True)


def resumed(ctx: Context, event: Started) -> None:
    """Go on behind what the wall was stepped by while no daemon ran, or may have been."""
    ctx.set_meta(clock=event.clock)
    if not event.step_us:
        return
    kind = "clock.stepped" if event.is_same_boot else "clock.unsure"
    ctx.publish(kind, "tenured", by_s=round(event.step_us / 1e6, 3))
    _skip(ctx, event.step_us, is_known=event.is_same_boot)
    ctx.now_us += event.step_us


def _skip(ctx: Context, step_us: int, *, is_known: bool) -> None:
    """Have everything under way begin later; nodes cost nothing for a step that is known for one.

    One walk over what is open, some 10 us a record: a step is rare.
    """
    _nodes(ctx, step_us)
    if is_known:
        for name in sorted(ctx.index.interval):
            ledger.skip(ctx, name, step_us)
    _jobs(ctx, step_us)
    _copies(ctx, step_us)
    _orders(ctx, step_us)
    _unrecorded(ctx, step_us)


def _later(row: Row, step_us: int, names: tuple[str, ...]) -> Row:
    """Return a record whose moments of these names, where it has them, are later."""
    moments = {name: getattr(row, name) for name in names}
    return replace(row, **{name: at + step_us for name, at in moments.items() if at})


def _all_later(moments: Mapping[str, int], step_us: int) -> dict[str, int]:
    return {key: at_us + step_us for key, at_us in moments.items()}


def _nodes(ctx: Context, step_us: int) -> None:
    for node in list(ctx.tables.nodes.values()):
        ctx.put_node(_later(node, step_us, NODE))
    ctx.learned.apart = _all_later(ctx.learned.apart, step_us)
    starved = ctx.own(Starved)
    starved.by_node = _all_later(starved.by_node, step_us)


def _jobs(ctx: Context, step_us: int) -> None:
    for key in sorted(ctx.index.open_jobs):
        ctx.put_job(_later(ctx.tables.jobs[key], step_us, JOB))
        for executor in ctx.executors_of(key):
            ctx.put_executor(_later(executor, step_us, EXECUTOR))
    for mark in list(ctx.tables.harvests.values()):
        ctx.tables.harvests.put(mark.node, _later(mark, step_us, ("gap_us",)))
    for node in sorted(ctx.index.tasks):
        for task in ctx.tasks_on(node):
            is_judged = task.state is TaskState.EXITED  # so long after it became that
            ctx.put_task(_later(task, step_us, (*TASK, "changed_us") if is_judged else TASK))


def _copies(ctx: Context, step_us: int) -> None:
    for service in list(ctx.tables.services.values()):
        if service.state is not ContainerState.REMOVED:
            ctx.put_service(_later(service, step_us, SERVICE))
    for row in list(ctx.tables.deployments.values()):
        members = tuple(_later(member, step_us, MEMBER) for member in row.members)
        ctx.put_deployment(replace(row, members=members))
    for move in list(ctx.tables.migrations.values()):
        if not move.is_over:
            ctx.put_migration(_later(move, step_us, MOVE))
    for tombstone in list(ctx.tables.tombstones.values()):
        ctx.put_tombstone(_later(tombstone, step_us, ("retry_us",)))


def _orders(ctx: Context, step_us: int) -> None:
    """Runs, drains and a restore under way, and answers that are kept for those who ask again."""
    if ctx.meta.is_restoring:
        ctx.set_meta(restored_us=ctx.meta.restored_us + step_us)
    for run in sorted(ctx.index.open_runs):
        ctx.put_run(_later(ctx.tables.runs[run], step_us, RUN))
    for node in sorted(ctx.index.open_drains):
        ctx.put_drain(_later(ctx.tables.drains[node], step_us, ("deadline_us",)))
    for answer in list(ctx.tables.answers.values()):
        ctx.tables.answers.put(answer.key, _later(answer, step_us, ("at_us",)))


def _unrecorded(ctx: Context, step_us: int) -> None:
    """What no record holds: questions that are open, agents that are away, blocks that are lost."""
    ctx.own(Planning).skip(step_us)
    slow_decisions.skip(ctx, step_us)
    ctx.learned.guards = {
        node: _later(guard, step_us, ("since_us",)) for node, guard in ctx.learned.guards.items()
    }
    ctx.prefetches.lost_us = _all_later(ctx.prefetches.lost_us, step_us)
