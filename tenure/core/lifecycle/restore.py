"""After a restore the state is older than the engines: look at every node before anything begins.

Theory of operation (ours). A restored state knows nothing of what the fleet did since the backup:
an executor that waits in it may be running somewhere, a container may have moved twice. So nothing
is created, started, stopped, moved or switched off until every node was listed, is off by its
driver's word, or was given up by an operator (``FenceNode``). Commands are turned away meanwhile.
Then ``adopt`` makes each record agree with the newest copy that was seen of it, and the fleet goes
on as after any restart. The mark is durable: a daemon that dies amid the survey begins it again.

Nor does the state know which power commands were under way. One that ended unknown may act until
``Params.power_retry_us`` after the daemon that gave it has ended, so until then a node that could
be switched off is not taken for one that is on, though it answers.

Numbers never repeat. Events and effects are numbered on from the restore's time in microseconds,
which no numbering can have reached; attempts and incarnations that are begun anew skip
``SKIPPED_TURNS``. Owns what the record of the fleet says of a restore.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tenure.core.attempts import tombstones
from tenure.core.blocks.block_records import put_mark
from tenure.core.capacity import ledger
from tenure.core.lifecycle import adopt
from tenure.core.nodes import power
from tenure.core.state.context import Context
from tenure.core.state.tables import Meta
from tenure.model.effects import Relist
from tenure.model.events import Command, FenceNode, ScheduleNode
from tenure.model.facts import ContainerFacts
from tenure.model.node import Node, Power, Reach
from tenure.model.units import US, iso

Copy = tuple[str, int]
MACHINE = "restore"
#: Sub-machines whose timers are served during the survey; the others wait for its end.
AWAKE = frozenset((power.MACHINE, tombstones.MACHINE, MACHINE))
#: A timer that came too early is armed again for so much later.
DEFER_US = US
#: What people may ask for during the survey: what can end it, and what keeps work away.
ALLOWED = (FenceNode, ScheduleNode)


def marked(meta: Meta, now_us: int) -> Meta:
    """Return the counters of a restored state: the survey is due, and no number comes again.

    ``now_us`` is the time of the restore.
    """
    return replace(
        meta,
        is_restoring=True,
        restored_us=max(now_us, meta.clock_us),
        given_up=(),
        next_effect=max(meta.next_effect, now_us),
        next_event=max(meta.next_event, now_us),
    )


def begin(ctx: Context) -> None:
    """Believe no stored power state: a node that was off may have been switched on since.

    The time of the restore is of a wall that may have been stepped: it counts as now.
    Nor what was to be removed from tiers: the file may be the last copy of a block by now. A look
    at the tier finds what is still to go.
    """
    if not ctx.meta.is_restoring:
        return
    for mark in list(ctx.tables.tiers.values()):
        if mark.drops:
            put_mark(ctx, replace(mark, drops=()))
    ctx.set_meta(restored_us=ctx.now_us)
    ctx.publish("state.restored", "tenured", restored_us=ctx.meta.restored_us)
    for node in list(ctx.tables.nodes.values()):
        if node.power is Power.OFF:
            ctx.put_node(replace(node, power=Power.UNKNOWN))


def note(ctx: Context, node: str, copies: Mapping[Copy, ContainerFacts]) -> None:
    """Keep what a listing shows of our containers, until every node was looked at."""
    ctx.own(adopt.Sightings).by_node[node] = dict(copies)


def _hear(ctx: Context) -> None:
    """Note which nodes went off or were declared dead; what that means is for the end to say."""
    for name, is_off in ctx.notices.gone:
        if is_off:
            ledger.close_interval(ctx, name)
        elif name not in ctx.meta.given_up:
            ctx.set_meta(given_up=(*ctx.meta.given_up, name))
    ctx.notices.gone.clear()
    ctx.notices.unbooted.clear()


def pending(ctx: Context) -> list[str]:
    """Return the nodes that the survey still waits for, by name."""
    return sorted(n.name for n in ctx.tables.nodes.values() if not _is_accounted(ctx, n))


def _is_accounted(ctx: Context, node: Node) -> bool:
    if node.name in ctx.meta.given_up or node.power is Power.OFF:
        return True
    if node.name in ctx.own(adopt.Sightings).by_node:
        return not (node.is_switchable and ctx.now_us < _commands_act_until_us(ctx))
    return node.is_removed and _is_seen_renamed(ctx, node)


def _is_seen_renamed(ctx: Context, node: Node) -> bool:
    """Whether the engine of a node was seen under the name that the configuration has for it now.

    Nobody reaches a node that is named no longer, but that is no word on what runs there: of what
    was put on it since the backup, its record knows nothing.
    """
    others = ctx.tables.nodes.values()
    same = [
        n
        for n in others
        if n.engine_id == node.engine_id and n.name in ctx.own(adopt.Sightings).by_node
    ]
    return bool(node.engine_id and same)


def _commands_act_until_us(ctx: Context) -> int:
    """Return until when a power command from before the restore may act."""
    return ctx.meta.restored_us + ctx.params.power_retry_us


def explain(ctx: Context) -> str:
    """Return in a sentence what the survey waits for, and the remedy."""
    if not len(ctx.tables.nodes):
        return (
            "the state was restored from a backup, and no node is configured: name the nodes of "
            "the fleet under nodes in tenured.yml and reload it (SIGHUP)"
        )
    waits = pending(ctx)
    missing = ", ".join(name for name in waits if name not in ctx.own(adopt.Sightings).by_node)
    if not missing:
        return (
            f"the state was restored from a backup; a power command of before may still act on "
            f"{', '.join(waits)}: nothing begins until {iso(_commands_act_until_us(ctx))}"
        )
    is_dropped = any(ctx.tables.nodes[name].is_removed for name in waits)
    named = " (name those in tenured.yml that it lacks)" if is_dropped else ""
    return (
        f"the state was restored from a backup; nothing begins until every node was seen, "
        f"and these were not: {missing}; bring them back{named}, or if nothing can run there: "
        "tenure node fence NAME --yes"
    )


def turns_away(ctx: Context, command: Command) -> bool:
    """Refuse a command that the survey has no answer to yet; return whether it was."""
    if not ctx.meta.is_restoring or isinstance(command, ALLOWED):
        return False
    ctx.refuse(command, "restoring", explain(ctx), status=503)
    return True


def review(ctx: Context) -> bool:
    """End the survey if every node is accounted for; return whether the fleet may go on."""
    _hear(ctx)
    if not len(ctx.tables.nodes) or pending(ctx):
        if ctx.now_us < _commands_act_until_us(ctx):
            ctx.arm(_commands_act_until_us(ctx), MACHINE, "")
        return False
    # one that came back before the end, and was listed, speaks for itself
    given_up = tuple(
        name for name in ctx.meta.given_up if name not in ctx.own(adopt.Sightings).by_node
    )
    ctx.set_meta(given_up=given_up)
    tally = adopt.all_copies(ctx)
    ctx.set_meta(is_restoring=False, given_up=())
    ctx.publish("state.settled", "tenured", **tally)
    # ``nodes.retire`` looks here: a node named no longer may be forgotten before its next listing
    seen = ctx.own(adopt.Sightings)
    seen.by_node = {n: rows for n, rows in seen.by_node.items() if n in ctx.index.removed}
    ctx.learned.fresh.clear()  # a node may be called empty by a listing from now on only
    for node in ctx.tables.nodes.values():
        if node.reach is Reach.OK:
            ctx.emit(Relist(node.name))
        if node.power is Power.OFF or node.name in given_up:
            ctx.notices.gone.append((node.name, node.power is Power.OFF))
    ctx.notices.jobs |= ctx.index.open_jobs
    ctx.notices.services |= {service.id for service in ctx.tables.services.values()}
    ctx.serve_again(MACHINE)
    return True


def on_timer(ctx: Context, key: str) -> None:
    """Do nothing but have the survey reviewed, as it is after every event."""
