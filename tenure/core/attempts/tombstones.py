"""Tombstones: copies on engines that must never run (again), until a listing shows them gone.

Every removal goes this way, so that none is forgotten by a crash, and a copy that comes to life
late (an engine that was away, a request that took effect after its time-out) is stopped. Owns the
records of tombstones.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.state.context import Context
from tenure.model.container import Tombstone
from tenure.model.effects import Relist, RetireContainer
from tenure.model.facts import ContainerFacts
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


def condemn(ctx: Context, tombstone: Tombstone) -> None:
    """Have a copy stopped, its log kept if asked for, and removed."""
    if tombstone.id in ctx.tables.tombstones:
        return
    if ctx.tables.nodes[tombstone.node].is_fenced:
        tombstone = _fenced(tombstone)
    dig(ctx, ctx.put_tombstone(replace(tombstone, created_us=ctx.now_us, changed_us=ctx.now_us)))


def may_run(ctx: Context, owner: str, turn: int | None = None) -> bool:
    """Whether a copy of an owner may still run that must not, or that of one ``turn``."""
    found = (one for one in ctx.tombstones_of(owner) if turn in (None, one.turn))
    return any(tombstone.may_run for tombstone in found)


def dig(ctx: Context, tombstone: Tombstone) -> None:
    """Send the removal of a copy, if its engine can be reached and none is under way.

    Where its engine id was never learned a listing has to tell it, or that there is no such copy.
    """
    if tombstone.effect or not ctx.is_reachable(tombstone.node):
        return
    if not tombstone.engine_id:
        # by name a removal that comes late would hit the successor, which has the same name
        ctx.emit(Relist(tombstone.node))
        return
    effect = RetireContainer(
        id=ctx.effect_id(),
        owner=f"{MACHINE}:{tombstone.id}",
        node=tombstone.node,
        target=tombstone.engine_id,
        grace_s=tombstone.grace_s,
        logs_key=tombstone.logs_key,
        is_fenced=tombstone.is_fenced,
    )
    ctx.put_tombstone(replace(tombstone, effect=effect.id, tries=tombstone.tries + 1))
    ctx.emit(effect)


def on_effect(ctx: Context, key: str, effect: str, outcome: Outcome) -> None:
    """Take in the end of a removal."""
    tombstone = ctx.tables.tombstones.get(key)
    if tombstone is None or tombstone.effect != effect:
        return
    is_absent = isinstance(outcome, Refused) and outcome.code == "no_such_container"
    if isinstance(outcome, Done) or is_absent:
        ctx.drop_tombstone(tombstone)
        return
    wait = RETRY_US << min(tombstone.tries, MAX_DOUBLINGS)
    is_blocked = isinstance(outcome, Refused) and outcome.code == "start_blocked"
    if is_blocked and not tombstone.reason:
        tell_blocked(ctx, tombstone.owner, tombstone.node, tombstone.engine_id, outcome.detail)
    reason = outcome.detail if is_blocked else ""
    # its process may run, whatever was known before
    tombstone = replace(
        tombstone, effect="", reason=reason, may_run=tombstone.may_run or is_blocked
    )
    ctx.put_tombstone(replace(tombstone, changed_us=ctx.now_us, retry_us=ctx.now_us + wait))
    ctx.arm(ctx.now_us + wait, MACHINE, key)


def tell_blocked(ctx: Context, owner: str, node: str, engine_id: str, why: str) -> None:
    """Say, once, that only somebody at the node can clear a copy."""
    ctx.publish("copy.blocked", owner, node=node, engine_id=engine_id, reason=why, remedy=REMEDY)


def on_timer(ctx: Context, key: str) -> None:
    """Ask for a fresh listing: it says whether the copy is still there."""
    tombstone = ctx.tables.tombstones.get(key)
    if tombstone is not None and not tombstone.effect:
        ctx.emit(Relist(tombstone.node))


def on_listing(
    ctx: Context, tombstone: Tombstone, facts: ContainerFacts | None, started_us: int
) -> None:
    """Take in what a listing says of the copy."""
    if tombstone.effect or started_us <= tombstone.changed_us:
        return
    if facts is None:
        ctx.drop_tombstone(tombstone)
        return
    if facts.engine_id != tombstone.engine_id:
        tombstone = ctx.put_tombstone(replace(tombstone, engine_id=facts.engine_id))
    if ctx.now_us >= tombstone.retry_us or facts.is_running:
        dig(ctx, tombstone)
    else:
        ctx.arm(tombstone.retry_us, MACHINE, tombstone.id)


def on_connected(ctx: Context, node: str) -> None:
    """Note that an engine that is back may have revived copies by their restart policy.

    One that is restarted because a copy was cleared (``REMEDY``) is asked for it at once.
    """
    for tombstone in ctx.tombstones_on(node):
        may_run = tombstone.may_run or "/" not in tombstone.owner
        if tombstone.reason:
            ctx.put_tombstone(replace(tombstone, may_run=may_run, retry_us=ctx.now_us, tries=0))
        elif may_run and not tombstone.may_run:
            ctx.put_tombstone(replace(tombstone, may_run=True))


def on_node_off(ctx: Context, node: str) -> None:
    """Note that nothing runs on a node that is off; the tombstones stay until seen empty."""
    for tombstone in ctx.tombstones_on(node):
        if tombstone.may_run or not tombstone.is_fenced:
            ctx.put_tombstone(_fenced(tombstone))
            ctx.touch_owner(tombstone.owner)


def _fenced(tombstone: Tombstone) -> Tombstone:
    return replace(tombstone, may_run=False, request=Resources(), is_fenced=True)


def rearm(ctx: Context) -> None:
    """Set the timers of loaded tombstones."""
    for tombstone in list(ctx.tables.tombstones.values()):
        ctx.arm(max(ctx.now_us, tombstone.retry_us), MACHINE, tombstone.id)
