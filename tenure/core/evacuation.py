"""What a drain does at this moment: the moves that it begins, and what it cannot move.

One function answers the dry run, shows progress, and says what is enacted. A running service goes
to a node of its generation that passes the filters of every placement and has room by its profile,
chosen by the policy for services; the largest first. A node that is off is taken only if no node
that is on fits, and one that boots or is to be switched on anyway before another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tenure.core import board, room
from tenure.core.context import Context
from tenure.core.steps import MOVABLE, may_be_start_first
from tenure.model.container import ContainerState, Service, Step
from tenure.model.drain import Blocker, DrainPlan, PlannedMove, Setback
from tenure.model.node import Node, Power, Reach
from tenure.model.placing import Ask
from tenure.model.resources import Resources, exhausted
from tenure.model.units import FOREVER_US, iso

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


def plan(ctx: Context, node: Node, setbacks: Mapping[str, Setback]) -> DrainPlan:
    """Return what a drain of ``node`` does now; ``setbacks`` are its failed moves by container.

    O(services there x nodes of their generation). Reads only.
    """
    leaving = [s for s in ctx.services_on(node.name) if ctx.move_of(s.id) is None]
    board = _Board(ctx, node)
    moves, blockers = [], []
    for service in sorted(leaving, key=lambda s: _by_size(ctx, s)):
        setback = setbacks.get(service.id)
        found = _held(ctx, node, service, setback) or board.seat(service, setback)
        if isinstance(found, Blocker):
            blockers.append(found)
        else:
            moves.append(found)
    off = {move.target for move in moves if ctx.tables.nodes[move.target].power is not Power.ON}
    return DrainPlan(
        node=node.name,
        moves=tuple(moves),
        blockers=(*blockers, *_executors(ctx, node), *_arriving(ctx, node), *_copies(ctx, node)),
        switch_on=tuple(sorted(off)),
        under_way=tuple(m for m in ctx.open_moves() if m.source == node.name),
        strangers=ctx.strangers.get(node.name, ()),
    )


def _by_size(ctx: Context, service: Service) -> tuple[int, int, str]:
    need = room.need_of(ctx, service)
    return (-need.memory_bytes, -need.cpu_m, service.id)


def _held(ctx: Context, node: Node, service: Service, setback: Setback | None) -> Blocker | None:
    """Return why a service cannot be moved now, wherever to; None if it can."""
    if service.is_removing:
        return _passing(service, "removing", "is being removed")
    if service.state in (S.STOPPED, S.EXITED):
        return _at_rest(ctx, service)
    if service.state in PASSING:
        return _under_way(service)
    if service.migrate not in MOVABLE:
        text = f"may not be moved: tenure.migrate={service.migrate}"
        remedy = f"tenure container rm {service.name}, and create it again: it goes elsewhere"
        return _stuck(service, "never_migrate", text, remedy)
    if not _answers(node):
        remedy = f"bring the node back, or if nothing runs there: tenure node fence {node.name}"
        return _stuck(service, "unreachable", "is on a node that does not answer", remedy)
    return _not_yet(ctx, service, setback)


def _under_way(service: Service) -> Blocker:
    if service.state is S.CREATING and not (service.effect or service.is_unsure):
        text = "was not sent to the node yet; the drain has it placed elsewhere"
        return _passing(service, "unsent", text)
    return _passing(service, *PASSING[service.state])


def _at_rest(ctx: Context, service: Service) -> Blocker:
    """Moving would create it anew: its files and its log exist on this engine alone."""
    if service.state is S.EXITED and ctx.now_us < service.guard_us:
        return _passing(service, "starting", "is about to be started")
    text = f"is {service.state.value}; its files and log are on this node alone"
    remedy = f"tenure container start {service.name} and it is moved, or tenure container rm"
    return _stuck(service, "stopped", text, f"{remedy} {service.name}")


def _not_yet(ctx: Context, service: Service, setback: Setback | None) -> Blocker | None:
    """Return what only has to be waited for: a start that may still happen, the next try."""
    if ctx.now_us < service.late_us or service.is_unsure or service.effect:
        # a late start could revive the source beside the target
        until = service.late_us if ctx.now_us < service.late_us else None
        text = "had a start that was not confirmed and may still happen"
        return _passing(service, "unsure", text, until)
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
    for grave in ctx.graves_on(node.name):
        if ctx.move_of(grave.owner) is not None:
            continue
        is_there = _answers(node)
        remedy = WAIT if is_there else f"bring node {node.name} back: it is cleared away then"
        reason = f"an old copy of {grave.name} is still to be cleared away"
        found.append(Blocker("copy", grave.id, grave.name, "clearing", reason, remedy, is_there))
    return found


def _answers(node: Node) -> bool:
    return node.power is Power.ON and node.reach is Reach.OK


class _Board:
    """The other nodes with their room, less what this plan has given away already."""

    def __init__(self, ctx: Context, source: Node) -> None:
        self._ctx = ctx
        self._source = source
        self._scene: board.Scene | None = None
        self._free: dict[str, Resources] = {}
        self._ports: dict[str, set[tuple[str, str]]] = {}
        self._wanted: set[str] = set()

    def seat(self, service: Service, setback: Setback | None) -> PlannedMove | Blocker:
        """Give a service its place, or say why there is none."""
        generation = room.home(self._ctx, service.generation)
        drops = self._drops(service, generation)
        fits = sorted(name for name, code in drops.items() if not code)
        if not fits:
            return self._nowhere(service, generation, drops)
        avoid = setback.avoid if setback is not None else ()
        fresh = [name for name in fits if name not in avoid]
        target = self._choose(service, fresh or fits)
        self._take(service, target)
        is_start_first = may_be_start_first(service.body, overlap=service.overlap)
        return PlannedMove(
            container=service.id,
            name=service.name,
            incarnation=service.incarnation,
            target=target,
            generation=generation,
            method="start-first" if is_start_first else "stop-first",
            reason=self._why(target, len(fits)),
        )

    def _why(self, target: str, count: int) -> str:
        if self._ctx.tables.nodes[target].power is Power.ON:
            return f"{self._ctx.params.service_policy} over {count} nodes that fit"
        return "no node that is on fits; this one is switched on"

    def _drops(self, service: Service, generation: str) -> dict[str, str]:
        """Return what keeps the service from each node of the generation, "" where it fits."""
        need = room.need_of(self._ctx, service)
        wanted = room.host_ports(service)
        found = {}
        for node in self._ctx.tables.nodes.values():
            if node.spec.generation != generation or node.name == self._source.name:
                continue
            code = room.drop_for(self._ctx, service, node)
            if not code and wanted & self._ports.get(node.name, set()):
                code = "port"
            short = () if code else exhausted(need, self._free_on(node), node.capacity)
            found[node.name] = f"no_room_{short[0]}" if short else code
        return found

    def _free_on(self, node: Node) -> Resources:
        if node.name not in self._free:
            self._free[node.name] = room.free_on(self._ctx, node)
        return self._free[node.name]

    def _choose(self, service: Service, fits: list[str]) -> str:
        nodes = self._ctx.tables.nodes
        on = [name for name in fits if nodes[name].power is Power.ON]
        if on:
            return self._spread(service, on) or on[0]
        return min(fits, key=self._boot_order)

    def _boot_order(self, name: str) -> tuple[bool, int, str]:
        node = self._ctx.tables.nodes[name]
        comes_anyway = name in self._wanted or node.power is Power.BOOTING
        return (not comes_anyway, node.spec.price_nano_per_h, name)

    def _spread(self, service: Service, names: list[str]) -> str | None:
        """Ask the policy for services, as for a new one, with the room that is left."""
        if self._scene is None:
            self._scene = board.scene(self._ctx)
        here, need = self._scene, room.need_of(self._ctx, service)
        cpu, memory = here.view.free_cpu_m.copy(), here.view.free_memory.copy()
        for name, free in self._free.items():
            cpu[here.position[name]] = max(0, free.cpu_m)
            memory[here.position[name]] = max(0, free.memory_bytes)
        mask = np.zeros(len(here.nodes), dtype=np.bool_)
        mask[[here.position[name] for name in names]] = True
        ask = Ask(
            id=service.id,
            executors=1,
            cpu_m=need.cpu_m,
            memory_bytes=need.memory_bytes,
            local_us=FOREVER_US,
            hybrid_us=FOREVER_US,
            deadline_us=None,
            eligible=mask,
        )
        view = replace(here.view, free_cpu_m=cpu, free_memory=memory)
        policy = self._ctx.params.service_policy
        return self._ctx.placer.spread(policy, view, ask, room.seed_of(service))

    def _take(self, service: Service, target: str) -> None:
        node = self._ctx.tables.nodes[target]
        self._free[target] = self._free_on(node) - room.need_of(self._ctx, service)
        self._ports.setdefault(target, set()).update(room.host_ports(service))
        if node.power is not Power.ON:
            self._wanted.add(target)

    def _nowhere(self, service: Service, generation: str, drops: dict[str, str]) -> Blocker:
        """Name what is missing: room where filters leave any node, else what they say."""
        if not drops:
            text = f"cannot go anywhere: there is no other node of generation {generation}"
            remedy = f"add a node of generation {generation}, or stop and remove the container"
            return _stuck(service, "no_node", text, remedy)
        rooms = Counter(code for code in drops.values() if code.startswith("no_room"))
        code = min(rooms, key=lambda c: (-rooms[c], c)) if rooms else "no_node"
        told = ", ".join(f"{name}: {why}" for name, why in sorted(drops.items())[:10])
        more = f" and {len(drops) - 10} more" if len(drops) > 10 else ""
        text = f"fits on no other node of generation {generation} ({told}{more})"
        remedy = f"make room in generation {generation} or add a node there"
        if not rooms:
            remedy = f"make a node of generation {generation} take it again, or add one"
        return _stuck(service, code, text, remedy)
