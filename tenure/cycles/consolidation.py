"""Consolidation: nodes of a generation are emptied onto others of it (GENPACK section 4.1).

A node is emptied wholly or not at all, onto nodes that are in use anyway, and only where that lets
it be switched off at a saving that is worth the moves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tenure.cycles.candidates import Candidate, by_size, candidate_of, shape_of
from tenure.cycles.fit import Pool, Seat
from tenure.cycles.snapshot import NodeView, ServiceView, Snapshot
from tenure.cycles.words import amount
from tenure.model.container import Profile
from tenure.model.plan import CycleSpec, Kept, NodeNote

Seated = tuple[Candidate, Seat]


@dataclass(frozen=True, slots=True)
class Scene:
    """What consolidation works on: the services on each node, and profiles by container."""

    snapshot: Snapshot
    spec: CycleSpec
    services: Mapping[str, Sequence[ServiceView]]
    profiles: Mapping[str, Profile]


@dataclass(frozen=True, slots=True)
class Emptied:
    """The moves that empty nodes, the nodes they empty, and a note for each that was not."""

    seats: tuple[Seated, ...]
    nodes: tuple[str, ...]
    notes: tuple[NodeNote, ...]


def consolidate(scene: Scene, pool: Pool, receiving: Collection[str], limit: int) -> Emptied:
    """Choose nodes of ``pool`` to empty, those first that save most watts for each move.

    Takes at most ``limit`` moves; ``receiving`` nodes take in containers by the same plan, and are
    not emptied. ``pool`` is filled as the moves say. O(services x nodes) array work.
    """
    occupied = [node for node in pool.nodes if scene.services.get(node.name)]
    staying = {node.name for node in (*occupied, *(n for n in pool.nodes if n.held))}
    # never onto a node that could itself go off
    pool.close([n.name for n in pool.nodes if n.name not in staying.union(receiving)])
    donors = [node for node in occupied if node.name not in receiving and node.is_on]
    donors.sort(key=lambda node: _worth(scene, pool, node))
    spare = sum(node.is_on for node in pool.nodes) - scene.snapshot.min_on.get(scene.spec.target, 0)
    seats: list[Seated] = []
    emptied: list[str] = []
    notes: list[NodeNote] = []
    taking: set[str] = set()
    for node in donors:
        if node.name in taking:
            continue  # it takes in what others gave: in use for good
        made = _empty(scene, pool, node, limit - len(seats))
        if isinstance(made, NodeNote):
            notes.append(made)
        elif len(emptied) >= spare:
            notes.append(node.note("min_on", "as many nodes as are on are to be kept on"))
        elif (short := _short_of_headroom(scene, pool, (*emptied, node.name), made)) > 0:
            what = f"would leave {amount('cpu_m', short)} less free than power.headroom_cpus keeps"
            notes.append(node.note("headroom", what))
        else:
            for candidate, seat in made:
                pool.place(candidate, may_escape=False)
                taking.add(seat.node.name)
            pool.close([node.name])
            seats += made
            emptied.append(node.name)
    return Emptied(tuple(seats), tuple(emptied), tuple(notes))


def _worth(scene: Scene, pool: Pool, node: NodeView) -> tuple[float, float, str]:
    moves = len(scene.services[node.name])
    return -node.idle_w / moves, -pool.availability_of(node.name), node.name


def _short_of_headroom(
    scene: Scene, pool: Pool, emptied: Collection[str], made: Sequence[Seated]
) -> int:
    """Return how much CPU (thousandths of a core) is missing on those that would stay on.

    As the core asks before it switches a node off: only what takes new work counts.
    """
    staying = [n for n in pool.nodes if n.is_on and n.is_schedulable and n.name not in emptied]
    need: dict[str, int] = {}
    for candidate, seat in made:
        need[seat.node.name] = need.get(seat.node.name, 0) + candidate.need.cpu_m
    free = (pool.free_on(n.name).cpu_m - need.get(n.name, 0) for n in staying)
    return scene.snapshot.spare_cpu_m - sum(max(0, cpu_m) for cpu_m in free)


def _empty(scene: Scene, pool: Pool, node: NodeView, limit: int) -> list[Seated] | NodeNote:
    """Return the moves that empty a node, each with its seat, or why it stays as it is."""
    why = _no_donor(node)
    if why is not None:
        return node.note(*why)
    found = [
        candidate_of(scene.snapshot, scene.spec, service, scene.profiles.get(service.id))
        for service in scene.services[node.name]
    ]
    stuck = next((one for one in found if isinstance(one, Kept)), None)
    if stuck is not None:
        return node.note(stuck.code, f"container {stuck.container[:12]} stays: {stuck.reason}")
    moving = [one for one in found if isinstance(one, Candidate)]
    if len(moving) > limit:
        what = f"needs {len(moving)} moves; this run may make {limit} more"
        return node.note("move_limit", what)
    least_w = scene.spec.min_saving_w
    if 0 < node.idle_w < least_w * len(moving):
        what = f"would save {node.idle_w:g} W for {len(moving)} moves; {least_w:g} W each required"
        return node.note("not_worthwhile", what)
    return _rehearse(pool, node, moving)


def _no_donor(node: NodeView) -> tuple[str, str] | None:
    """Return code and words of why emptying a node would save nothing, or is another's to do."""
    if node.is_draining:
        return "draining", "is drained: that moves what is on it"
    if node.held:
        return "held", f"would stay on for {node.held}"
    if not node.is_switchable:
        return "not_switchable", "has no power driver: emptying it saves nothing"
    return None


def _rehearse(pool: Pool, node: NodeView, moving: Sequence[Candidate]) -> list[Seated] | NodeNote:
    trial = pool.copy()
    trial.close([node.name])
    shape = shape_of(one.capacity for one in pool.nodes)
    seats: list[Seated] = []
    for candidate in by_size(moving, shape):
        seat = trial.place(candidate, may_escape=False)
        if seat is None:
            what = f"the other nodes in use have no room for container {candidate.service.id[:12]}"
            return node.note("no_room", what)
        seats.append((candidate, seat))
    return seats
