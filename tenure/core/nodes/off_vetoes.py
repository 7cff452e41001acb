"""What forbids that a node is switched off, called drained, or forgotten: one table for all.

The sentences begin with what the node is or has; its name is ``{node}``. Owns nothing, reads only.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Flag, auto

from tenure.core.blocks import replicas
from tenure.core.capacity import ledger, room
from tenure.core.state import reservations
from tenure.core.state.context import Context
from tenure.core.state.vetoes import Reason, Veto, VetoTable
from tenure.model.container import ContainerState
from tenure.model.job import Job
from tenure.model.node import Node, Power, Reach

#: A listing older than this is too old to call a node empty before it is switched off.
FRESH_US = 3_000_000
#: A person's power-off accepts a listing up to this old; each relist interval renews it.
STALE_US = 30_000_000


class Asks(Flag):
    """Who asks, about a node: idle ones go, people order, lost ones are fenced.

    ``LEAVING``: whether an idle node is on its way off, so that nothing new is lent there.
    ``DRAINED``, ``FORGOTTEN``: whether a drain is done, whether a removed node leaves the records.
    """

    LEAVING = auto()
    IDLE = auto()
    PERSON = auto()
    LOST = auto()
    DRAINED = auto()
    FORGOTTEN = auto()


def awaited(ctx: Context, nodes: Iterable[Node]) -> frozenset[str]:
    """Return the nodes on which a waiting job may count, so that empty they stay on.

    Where the queue is planned, those with a start so near that to switch them off would delay it;
    else those on which a job that was promised its deadline could run. Never one that takes no new
    work: a cordon or a drain has taken the promise back.
    """
    welcome = [node for node in nodes if room.is_welcome(node)]
    if reservations.is_planned(ctx):
        return frozenset(node.name for node in welcome if reservations.counts_on(ctx, node))
    allowed = ctx.params.job_generations()
    promised = [
        job for job in map(ctx.tables.jobs.__getitem__, ctx.index.waiting_jobs) if _waits(ctx, job)
    ]
    return frozenset(
        node.name
        for node in welcome
        if any(not room.never_for(job, node, allowed) for job in promised)
    )


def _waits(ctx: Context, job: Job) -> bool:
    """Whether a job in the queue was promised a deadline that is still to come."""
    deadline_us = job.spec.deadline_us
    is_promised = job.admission.class_ == "admitted" and deadline_us is not None
    return is_promised and ctx.now_us < (deadline_us or 0)


def is_needed(ctx: Context, node: Node) -> bool:
    """Whether anything but tasks of batches is or may be on the node, ours or foreign."""
    return room.is_needed(ctx, node.name) or node.foreign_running > 0


def _is_changing(ctx: Context, node: Node) -> bool | Reason:
    is_changing = node.power in (Power.BOOTING, Power.STOPPING)
    return is_changing and Reason("busy", f"is {node.power.value}; try again later")


def _is_occupied(ctx: Context, node: Node) -> bool:
    return room.is_busy(ctx, node.name) or node.foreign_running > 0


def _has_containers(ctx: Context, node: Node) -> bool:
    ended = (ContainerState.REMOVED, ContainerState.STOPPED)
    has_ours = any(service.state not in ended for service in ctx.services_on(node.name))
    return has_ours or bool(ctx.index.moves_at.get(node.name)) or node.foreign_running > 0


def _is_last_on(ctx: Context, node: Node) -> bool:
    """Whether fewer nodes of its generation than configured would be on and take new work."""
    least = ctx.params.min_on.get(node.spec.generation, 0)
    return least > 0 and len(_others_on(ctx, node)) < least


def _is_spare(ctx: Context, node: Node) -> bool:
    if ctx.params.spare_cpu_m <= 0:
        return False
    free = sum(max(0, room.free_on(ctx, other).cpu_m) for other in _others_on(ctx, node))
    return free < ctx.params.spare_cpu_m


def _others_on(ctx: Context, node: Node) -> list[Node]:
    return [
        other
        for other in ctx.tables.nodes.values()
        if other.spec.generation == node.spec.generation
        and other.name != node.name
        and room.is_welcome(other)
        and other.is_reachable
    ]


def _is_due(ctx: Context, node: Node) -> bool | Reason:
    """Forbid it before the grace time and the minimum billing period end.

    Until then the node costs the same, and may be of use.
    """
    idle_us = ctx.now_us if node.idle_us is None else node.idle_us
    due_us = max(idle_us + ctx.params.grace_us, ledger.billed_us(ctx, node.name))
    text = "was empty for less than the grace time, or its minimum billing period runs"
    return ctx.now_us < due_us and Reason("grace", text, is_passing=True, until_us=due_us)


def _was_listed(within_us: int, ctx: Context, node: Node) -> bool:
    return ctx.now_us - ctx.learned.fresh.get(node.name, 0) <= within_us


def _is_unseen(ctx: Context, node: Node) -> bool:
    return node.is_reachable and node.name not in ctx.learned.fresh


_GOES = Asks.LEAVING | Asks.IDLE
_ENDS = Asks.DRAINED | Asks.FORGOTTEN
#: In this order: what is told first of several, and what a waiting node is kept for.
OFF_VETOES: VetoTable[Node] = VetoTable(
    Asks,
    Veto(
        "no_power_driver",
        "has power driver none; configure one",
        _GOES | Asks.PERSON | Asks.LOST,
        lambda ctx, node: not node.is_switchable,
    ),
    Veto("busy", "boots or stops; try again later", Asks.PERSON, _is_changing),
    Veto("not_on", "is not on", _GOES, lambda ctx, node: node.power is not Power.ON),
    Veto(
        "commanded",
        "has a power command under way",
        _GOES | Asks.FORGOTTEN,
        lambda ctx, node: bool(node.effect),
    ),
    Veto(
        "maintenance",
        "is in maintenance: a person alone switches it",
        _GOES | Asks.LOST,
        lambda ctx, node: node.is_in_maintenance,
    ),
    Veto(
        "restoring",
        "was not looked at yet since a backup was restored",
        _GOES | Asks.LOST,
        lambda ctx, node: ctx.meta.is_restoring,
    ),
    Veto("not_empty", "is not empty: tenure node drain {node} first", Asks.PERSON, _is_occupied),
    Veto("needed", "has work that is no task of a batch, ours or foreign", _GOES, is_needed),
    Veto("containers", "may run containers, which nobody can see", Asks.LOST, _has_containers),
    Veto(
        "idle",
        "has neither executors nor tasks, so nobody waits for it",
        Asks.LOST,
        lambda ctx, node: not (ctx.executors_on(node.name) or ctx.tasks_on(node.name)),
    ),
    Veto("ours", "has work of ours", _ENDS, lambda ctx, node: room.is_busy(ctx, node.name)),
    Veto(
        "last_replica",
        "has the last replica of a block, one in its memory that a dataset asks for, or one on "
        "its way: tenure node drain {node} copies it elsewhere",
        _GOES | Asks.PERSON,
        lambda ctx, node: replicas.is_needed(ctx, node.name),
    ),
    Veto(
        "sole_replica",
        "alone has a block, which is copied elsewhere first",
        _ENDS,
        lambda ctx, node: replicas.is_sole(ctx, node.name),
    ),
    Veto(
        "unreachable",
        "cannot be seen to be empty; fence it instead",
        _GOES | Asks.PERSON,
        lambda ctx, node: node.reach is not Reach.OK,
    ),
    Veto("min_on", "is one of those of its generation that stay on", _GOES, _is_last_on),
    Veto("spare", "has CPU that its generation keeps ready", _GOES, _is_spare),
    Veto("grace", "was empty for too short a time", Asks.IDLE, _is_due),
    Veto(
        "awaited",
        "is counted on by a job that waits",
        _GOES,
        lambda ctx, node: bool(awaited(ctx, (node,))),
    ),
    Veto(
        "unsure",
        "was not listed lately; try again",
        Asks.PERSON,
        lambda ctx, node: not _was_listed(STALE_US, ctx, node),
    ),
    Veto(
        "unlisted",
        "is listed once more first",
        Asks.IDLE,
        lambda ctx, node: not _was_listed(FRESH_US, ctx, node),
    ),
    Veto("unseen", "was not listed since it answers", Asks.DRAINED, _is_unseen),
    Veto(
        "tasks",
        "has tasks of batches, which are stopped first",
        Asks.IDLE,
        lambda ctx, node: room.is_busy(ctx, node.name),
    ),
)
