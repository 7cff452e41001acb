"""What a drain does at this moment: the moves that it begins, and what it cannot move.

One function answers the dry run, shows progress, and says what is enacted. A service goes to a node
of its generation that passes the filters of every placement and has room by its profile, also where
it does not run: it may be started there. The policy for services chooses the node
(``destinations``); the largest first. Owns nothing, reads only.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenure.core.blocks import replicas
from tenure.core.capacity import room
from tenure.core.capacity.destinations import Destinations, NoDestination
from tenure.core.services.migration.move_records import choice_of
from tenure.core.services.migration.move_vetoes import LEAVE_VETOES, WAIT, Asks, Leaving, no_kind
from tenure.core.state.context import Context
from tenure.core.state.vetoes import Reason
from tenure.model.container import Service, Step
from tenure.model.drain import Blocker, DrainPlan, PlannedMove, Setback
from tenure.model.node import Node, Power
from tenure.model.units import iso

#: How the codes of containers begin that no node takes.
NOWHERE = ("no_room", "no_node")
ARRIVING = Reason(
    "arriving",
    "is arriving by a move that had begun before; it is moved on then",
    WAIT,
    is_passing=True,
)


def plan(ctx: Context, node: Node, setbacks: Mapping[str, Setback]) -> DrainPlan:
    """Return what a drain of ``node`` does now; ``setbacks`` are its failed moves by container.

    O(services there x nodes of their generation). Reads only.
    """
    leaving = [s for s in ctx.services_on(node.name) if ctx.move_of(s.id) is None]
    destinations = Destinations(ctx, node.name)
    moves, blockers = [], []
    for service in sorted(leaving, key=lambda s: _by_size(ctx, s)):
        setback = setbacks.get(service.id)
        question = Leaving(service, node.name, service.incarnation, setback=setback)
        veto = LEAVE_VETOES.first(Asks.DRAIN, ctx, question)
        found = veto or _destined(ctx, destinations, service, setback)
        if isinstance(found, Reason):
            blockers.append(_blocker(service, found))
        else:
            moves.append(found)
    off = {move.target for move in moves if ctx.tables.nodes[move.target].power is not Power.ON}
    return DrainPlan(
        node=node.name,
        moves=tuple(moves),
        blockers=(
            *blockers,
            *_executors(ctx, node),
            *_arriving(ctx, node),
            *_copies(ctx, node),
            *_blocks(ctx, node),
        ),
        switch_on=tuple(sorted(off)),
        under_way=tuple(m for m in ctx.open_moves() if m.source == node.name),
        strangers=ctx.learned.strangers.get(node.name, ()),
    )


def _by_size(ctx: Context, service: Service) -> tuple[int, int, str]:
    need = room.need_of(ctx, service)
    return (-need.memory_bytes, -need.cpu_m, service.id)


def _blocker(service: Service, why: Reason) -> Blocker:
    text = f"container {service.name} {why.text}"
    return Blocker(
        "container",
        service.id,
        service.name,
        why.code,
        text,
        why.remedy,
        why.is_passing,
        why.until_us,
    )


def _executors(ctx: Context, node: Node) -> list[Blocker]:
    """Return the executors there: they are never moved or stopped, the drain waits for them."""
    found = []
    for executor in ctx.executors_on(node.name):
        name = f"{ctx.tables.jobs[executor.job].spec.name}/{executor.index}"
        end_us = max(ctx.now_us, room.end_estimate_us(ctx, executor))
        reason = f"executor {name} runs until about {iso(end_us)}"
        remedy = f"wait for it, or tenure job cancel {executor.job}"
        is_there = node.is_reachable
        if not is_there:
            reason = f"executor {name} is on a node that does not answer"
            remedy = f"bring the node back, or if nothing runs there: tenure node fence {node.name}"
        until = end_us if is_there else None
        found.append(
            Blocker("executor", executor.key, name, "executor", reason, remedy, is_there, until)
        )
    return found


def _arriving(ctx: Context, node: Node) -> list[Blocker]:
    """Return the services on their way here by moves that had begun before."""
    here = [m for m in ctx.open_moves() if m.target == node.name and m.step is not Step.QUEUED]
    return [_blocker(ctx.tables.services[move.container], ARRIVING) for move in here]


def _copies(ctx: Context, node: Node) -> list[Blocker]:
    """Return old copies still to be cleared away that belong to no open move."""
    found = []
    for tombstone in ctx.tombstones_on(node.name):
        if ctx.move_of(tombstone.owner) is not None:
            continue
        is_there = node.is_reachable
        remedy = WAIT if is_there else f"bring node {node.name} back: it is cleared away then"
        reason = f"an old copy of {tombstone.name} is still to be cleared away"
        found.append(
            Blocker("copy", tombstone.id, tombstone.name, "clearing", reason, remedy, is_there)
        )
    return found


def _blocks(ctx: Context, node: Node) -> list[Blocker]:
    """Return the datasets with blocks on this node alone: those are copied elsewhere first."""
    found = []
    sole = replicas.sole_counts(ctx, node.name)
    notes = replicas.notes_on(ctx, node.name) if sole else {}
    for key, count in sorted(sole.items()):
        name = ctx.tables.datasets[key].spec.name
        reason = f"{count} blocks of dataset {name} are on this node alone"
        remedy = "wait; they are copied to other nodes"
        if key in notes:
            reason = f"{reason}: {notes[key]}"
            remedy = f"give other nodes tiers with room for them, or tenure dataset rm {name}"
        is_passing = key not in notes and node.is_reachable
        found.append(Blocker("dataset", key, name, "last_replica", reason, remedy, is_passing))
    return found


def _destined(
    ctx: Context, destinations: Destinations, service: Service, setback: Setback | None
) -> PlannedMove | Reason:
    """Give a service its place, or say why there is none."""
    generation = destinations.home(service.generation)
    destination = destinations.find(
        service, generation, setback.avoid if setback is not None else ()
    )
    if isinstance(destination, NoDestination):
        return _nowhere(generation, destination)
    reason = f"{ctx.params.service_policy} over {destination.count} nodes that fit"
    if ctx.tables.nodes[destination.node].power is not Power.ON:
        reason = "no node that is on fits; this one is switched on"
    choice = choice_of(ctx, service, destination.node)
    if not choice.kind:
        return no_kind(service, choice.why)
    return PlannedMove(
        container=service.id,
        name=service.name,
        incarnation=service.incarnation,
        target=destination.node,
        generation=generation,
        method=choice.method,
        reason=reason,
        why=choice.why,
    )


def _nowhere(generation: str, none: NoDestination) -> Reason:
    """Name what is missing: room where filters leave any node, else what they say."""
    if not none.nodes:
        text = f"cannot go anywhere: there is no other node of generation {generation}"
        remedy = f"add a node of generation {generation}, or stop and remove the container"
        return Reason("no_node", text, remedy)
    told = ", ".join(f"{name}: {why}" for name, why in none.told)
    more = f" and {none.nodes - len(none.told)} more" if none.nodes > len(none.told) else ""
    text = f"fits on no other node of generation {generation} ({told}{more})"
    if none.short:
        remedy = f"make room in generation {generation} or add a node there"
        return Reason(f"no_room_{none.short}", text, remedy)
    remedy = f"make a node of generation {generation} take it again, or add one"
    return Reason("no_node", text, remedy)
