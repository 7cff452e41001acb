"""Graves: copies on engines that must never run (again), until a listing shows them gone.

Every removal goes this way, so that none is forgotten by a crash, and a copy that comes to life
late (an engine that was away, a request that took effect after its time-out) is stopped.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.state.context import Context
from tenure.model.container import Grave
from tenure.model.effects import Relist, RetireContainer
from tenure.model.facts import ContainerFacts
from tenure.model.node import Power, Reach
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.resources import Resources
from tenure.model.units import US

MACHINE = "grave"
RETRY_US = 2 * US
#: What the operator does on the node of a copy that its engine neither starts nor ends.
REMEDY = (
    "on that node: ctr -n moby tasks kill -s SIGKILL ID; ctr -n moby tasks rm ID "
    "(where that does not come back: kill -9 its containerd-shim); then restart the engine"
)
#: Back-off doubles up to 2**5 times RETRY_US, about a minute.
MAX_DOUBLINGS = 5


def bury(ctx: Context, grave: Grave) -> None:
    """Have a copy stopped, its log kept if asked for, and removed."""
    if grave.id in ctx.tables.graves:
        return
    if ctx.tables.nodes[grave.node].is_fenced:
        grave = _fenced(grave)
    dig(ctx, ctx.put_grave(replace(grave, created_us=ctx.now_us, changed_us=ctx.now_us)))


def dig(ctx: Context, grave: Grave) -> None:
    """Send the removal of a copy, if its engine can be reached and none is under way.

    Where its engine id was never learned a listing has to tell it, or that there is no such copy.
    """
    node = ctx.tables.nodes.get(grave.node)
    if grave.effect or node is None or node.reach is not Reach.OK or node.power is not Power.ON:
        return
    if not grave.engine_id:
        # by name a removal that comes late would hit the successor, which has the same name
        ctx.emit(Relist(grave.node))
        return
    effect = RetireContainer(
        id=ctx.effect_id(),
        owner=f"{MACHINE}:{grave.id}",
        node=grave.node,
        target=grave.engine_id,
        grace_s=grave.grace_s,
        logs_key=grave.logs_key,
        is_fenced=grave.is_fenced,
    )
    ctx.put_grave(replace(grave, effect=effect.id, tries=grave.tries + 1))
    ctx.emit(effect)


def on_effect(ctx: Context, key: str, effect: str, outcome: Outcome) -> None:
    """Take in the end of a removal."""
    grave = ctx.tables.graves.get(key)
    if grave is None or grave.effect != effect:
        return
    is_absent = isinstance(outcome, Refused) and outcome.code == "no_such_container"
    if isinstance(outcome, Done) or is_absent:
        ctx.drop_grave(grave)
        return
    wait = RETRY_US << min(grave.tries, MAX_DOUBLINGS)
    is_blocked = isinstance(outcome, Refused) and outcome.code == "start_blocked"
    if is_blocked and not grave.reason:
        tell_blocked(ctx, grave.owner, grave.node, grave.engine_id, outcome.detail)
    reason = outcome.detail if is_blocked else ""
    # its process may run, whatever was known before
    grave = replace(grave, effect="", reason=reason, may_run=grave.may_run or is_blocked)
    ctx.put_grave(replace(grave, changed_us=ctx.now_us, retry_us=ctx.now_us + wait))
    ctx.arm(ctx.now_us + wait, MACHINE, key)


def tell_blocked(ctx: Context, owner: str, node: str, engine_id: str, why: str) -> None:
    """Say, once, that only somebody at the node can clear a copy."""
    ctx.publish("copy.blocked", owner, node=node, engine_id=engine_id, reason=why, remedy=REMEDY)


def on_timer(ctx: Context, key: str) -> None:
    """Ask for a fresh listing: it says whether the copy is still there."""
    grave = ctx.tables.graves.get(key)
    if grave is not None and not grave.effect:
        ctx.emit(Relist(grave.node))


def on_listing(ctx: Context, grave: Grave, facts: ContainerFacts | None, started_us: int) -> None:
    """Take in what a listing says of the copy."""
    if grave.effect or started_us <= grave.changed_us:
        return
    if facts is None:
        ctx.drop_grave(grave)
        return
    if facts.engine_id != grave.engine_id:
        grave = ctx.put_grave(replace(grave, engine_id=facts.engine_id))
    if ctx.now_us >= grave.retry_us or facts.is_running:
        dig(ctx, grave)
    else:
        ctx.arm(grave.retry_us, MACHINE, grave.id)


def on_connected(ctx: Context, node: str) -> None:
    """Note that an engine that is back may have revived copies by their restart policy.

    One that is restarted because a copy was cleared (``REMEDY``) is asked for it at once.
    """
    for grave in ctx.graves_on(node):
        may_run = grave.may_run or "/" not in grave.owner
        if grave.reason:
            ctx.put_grave(replace(grave, may_run=may_run, retry_us=ctx.now_us, tries=0))
        elif may_run and not grave.may_run:
            ctx.put_grave(replace(grave, may_run=True))


def on_node_off(ctx: Context, node: str) -> None:
    """Note that nothing runs on a node that is off; the graves stay until seen empty."""
    for grave in ctx.graves_on(node):
        if grave.may_run or not grave.is_fenced:
            ctx.put_grave(_fenced(grave))
            ctx.touch_owner(grave.owner)


def _fenced(grave: Grave) -> Grave:
    return replace(grave, may_run=False, request=Resources(), is_fenced=True)


def rearm(ctx: Context) -> None:
    """Set the timers of loaded graves."""
    for grave in list(ctx.tables.graves.values()):
        ctx.arm(max(ctx.now_us, grave.retry_us), MACHINE, grave.id)
