"""Whether the queue is planned, and what the plan has to do with a node (policy ``tenure``).

One job of a policy that plans makes a plan of the whole queue, and it stays one until nobody waits
any more: what was promised on a plan is kept by it alone. Owns nothing: ``queue_plan`` has the
records.
"""

from __future__ import annotations

from tenure.core.state.context import Context
from tenure.model.node import Node

#: A reservation this near is begun with nodes that are on, whatever their boot: executors that end
#: together are seen to have ended within it.
NEAR_US = 1000


def is_planned(ctx: Context) -> bool:
    """Whether the queue is planned, or reservations are left that nobody needs any more."""
    if len(ctx.tables.reservations):
        return True
    return any(ctx.placer.is_planned(policy) for policy in ctx.index.waiting_jobs.policies)


def counts_on(ctx: Context, node: Node) -> bool:
    """Whether a start on a node is so near that to switch it off would delay it.

    The plan relies on it: of a node that is on now it expects no boot for such a start.
    """
    near_us = ctx.now_us + node.spec.power.boot_us + NEAR_US
    return any(
        reservation.start_us <= near_us and any(name == node.name for name, _ in reservation.counts)
        for reservation in ctx.tables.reservations.values()
    )
