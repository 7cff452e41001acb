"""What a drain does at this moment: the moves that it begins, and what it cannot move.

One function answers the dry run, shows progress, and says what is enacted. A service goes to a node
of its generation that passes the filters of every placement and has room by its profile, also where
it does not run: it may be started there. The policy for services chooses the node
(``destinations``); the largest first. Owns nothing, reads only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tenure.core.attempts import tombstones
from tenure.core.blocks import replicas
from tenure.core.capacity import room
from tenure.core.capacity.destinations import Destinations, NoDestination
from tenure.core.services.migration import eligibility
from tenure.core.services.migration.move_records import choice_of
from tenure.core.state.context import Context
from tenure.model.container import ContainerState, Service, Step
from tenure.model.drain import Blocker, DrainPlan, PlannedMove, Setback
from tenure.model.node import Node, Power, Reach
from tenure.model.units import iso

S = ContainerState
#: States that end by themselves, and what is told of them.
PASSING = {
    S.CREATING: ("starting", "is being created"),
    S.CREATED: ("starting", "is about to be started"),
    S.STARTING: ("starting", "is being started"),
    S.STOPPING: ("stopping", "is being stopped"),
    S.MOVING: ("moving", "is being moved"),
}
WAIT = "wait; it ends by itself"
#: How the codes of containers begin that no node takes.
NOWHERE = ("no_room", "no_node")


def plan(ctx: Context, node: Node, setbacks: Mapping[str, Setback]) -> DrainPlan:
    """Return what a drain of ``node`` does now; ``setbacks`` are its failed moves by container.

    O(services there x nodes of their generation). Reads only.
    """
    leaving = [s for s in ctx.services_on(node.name) if ctx.move_of(s.id) is None]
    destinations = Destinations(ctx, node.name)
    moves, blockers = [], []
    for service in sorted(leaving, key=lambda s: _by_size(ctx, s)):
        setback = setbacks.get(service.id)
        found = _held(ctx, node, service, setback) or _destined(ctx, destinations, service, setback)
        if isinstance(found, Blocker):
            blockers.append(found)
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


def _held(ctx: Context, node: Node, service: Service, setback: Setback | None) -> Blocker | None:
    """Return why a service cannot be moved now, wherever to; None if it can."""
    if service.is_removing:
        return _passing(service, "removing", "is being removed")
    if service.state is S.EXITED and ctx.now_us < service.guard_us:
        return _passing(service, "starting", "is about to be started")
    if service.state in PASSING:
        return _under_way(service)
    barred = eligibility.never(service)
    if barred is not None:
        code, why = barred
        remedy = f"tenure container rm {service.name}, and create it again: it goes elsewhere"
        return _stuck(service, code, f"may not be moved: {why}", remedy)
    if not _answers(node):
        remedy = f"bring the node back, or if nothing runs there: tenure node fence {node.name}"
        return _stuck(service, "unreachable", "is on a node that does not answer", remedy)
    return _not_yet(ctx, service, setback)


def _under_way(service: Service) -> Blocker:
    if service.state is S.CREATING and not (service.effect or service.is_unsure):
        text = "was not sent to the node yet; the drain has it placed elsewhere"
        return _passing(service, "unsent", text)
    return _passing(service, *PASSING[service.state])


def _not_yet(ctx: Context, service: Service, setback: Setback | None) -> Blocker | None:
    """Return what only has to be waited for: a start that may still happen, the next try."""
    if ctx.now_us < service.late_us or service.is_unsure or service.effect:
        # a late start could revive the source beside the target
        until = service.late_us if ctx.now_us < service.late_us else None
        text = "had a call that was not confirmed and may still happen"
        return _passing(service, "unsure", text, until)
    old = next(
        (tombstone for tombstone in ctx.tombstones_of(service.id) if tombstone.may_run), None
    )
    if old is not None:
        text = f"has an older copy on {old.node} that may run, and is removed first"
        remedy = tombstones.REMEDY if old.reason else WAIT
        return replace(_passing(service, "unsure", text), remedy=remedy)
    if setback is not None and ctx.now_us < setback.retry_us:
        text = f"could not be moved ({setback.count} times): {setback.reason}"
        remedy = f"it is tried again; else see tenure container inspect {service.name}"
        return replace(_passing(service, "retrying", text, setback.retry_us), remedy=remedy)
    return None


def _stuck(service: Service, code: str, text: str, remedy: str) -> Blocker:
    """Return a blocker that somebody has to do something about."""
    reason = f"container {service.name} {text}"
    return Blocker("container", service.id, service.name, code, reason, remedy)


def _passing(service: Service, code: str, text: str, until_us: int | None = None) -> Blocker:
    """Return a blocker that ends by itself."""
    return replace(_stuck(service, code, text, WAIT), is_passing=True, until_us=until_us)


def _executors(ctx: Context, node: Node) -> list[Blocker]:
    """Return the executors there: they are never moved or stopped, the drain waits for them."""
    found = []
    for executor in ctx.executors_on(node.name):
        name = f"{ctx.tables.jobs[executor.job].spec.name}/{executor.index}"
        end_us = max(ctx.now_us, room.end_estimate_us(ctx, executor))
        reason = f"executor {name} runs until about {iso(end_us)}"
        remedy = f"wait for it, or tenure job cancel {executor.job}"
        is_there = _answers(node)
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
    return [
        _passing(
            ctx.tables.services[move.container],
            "arriving",
            "is arriving by a move that had begun before; it is moved on then",
        )
        for move in here
    ]


def _copies(ctx: Context, node: Node) -> list[Blocker]:
    """Return old copies still to be cleared away that belong to no open move."""
    found = []
    for tombstone in ctx.tombstones_on(node.name):
        if ctx.move_of(tombstone.owner) is not None:
            continue
        is_there = _answers(node)
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
        is_passing = key not in notes and _answers(node)
        found.append(Blocker("dataset", key, name, "last_replica", reason, remedy, is_passing))
    return found


def _answers(node: Node) -> bool:
    return node.power is Power.ON and node.reach is Reach.OK


def _destined(
    ctx: Context, destinations: Destinations, service: Service, setback: Setback | None
) -> PlannedMove | Blocker:
    """Give a service its place, or say why there is none."""
    generation = destinations.home(service.generation)
    destination = destinations.find(
        service, generation, setback.avoid if setback is not None else ()
    )
    if isinstance(destination, NoDestination):
        return _nowhere(service, generation, destination)
    reason = f"{ctx.params.service_policy} over {destination.count} nodes that fit"
    if ctx.tables.nodes[destination.node].power is not Power.ON:
        reason = "no node that is on fits; this one is switched on"
    choice = choice_of(ctx, service, destination.node)
    if not choice.kind:
        remedy = f"tenure container rm {service.name}, and create it again: it goes elsewhere"
        return _stuck(service, "not_movable", f"may not be moved: {choice.why}", remedy)
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


def _nowhere(service: Service, generation: str, none: NoDestination) -> Blocker:
    """Name what is missing: room where filters leave any node, else what they say."""
    if not none.nodes:
        text = f"cannot go anywhere: there is no other node of generation {generation}"
        remedy = f"add a node of generation {generation}, or stop and remove the container"
        return _stuck(service, "no_node", text, remedy)
    told = ", ".join(f"{name}: {why}" for name, why in none.told)
    more = f" and {none.nodes - len(none.told)} more" if none.nodes > len(none.told) else ""
    text = f"fits on no other node of generation {generation} ({told}{more})"
    if none.short:
        remedy = f"make room in generation {generation} or add a node there"
        return _stuck(service, f"no_room_{none.short}", text, remedy)
    remedy = f"make a node of generation {generation} take it again, or add one"
    return _stuck(service, "no_node", text, remedy)
