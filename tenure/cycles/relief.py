"""Relief: nodes that hold more than they have shed containers onto others of their generation.

GENPACK section 4.1 has containers of the last generation stay "barring important workload
variations"; this is what becomes of those. A node is overloaded where what is counted there passes
the line of the cycle, or where its owners leave next to nothing of it now; what is harvested is in
neither, for it yields. It sheds, once it was so in some runs in a row, what frees most for the
least to be moved. All nodes that give or take come out with room to spare, so that none of them
is the next: that, the runs in a row and the cool-down of containers are the hysteresis (ours).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tenure.cycles.candidates import Candidate, candidate_of
from tenure.cycles.consolidation import Scene, Seated
from tenure.cycles.fit import Pool
from tenure.cycles.snapshot import NodeView
from tenure.cycles.words import shown
from tenure.model.plan import Kept, NodeNote
from tenure.model.resources import Resources, larger, smaller, total

#: Used now of a node that is full: a processor that is short is never seen wholly used.
BUSY = 0.95
#: Nodes that shed, and those that take in, come out with no more than this part in use.
CALM = 0.9


@dataclass(frozen=True, slots=True)
class Relief:
    """The moves off overloaded nodes, and a note for each of these."""

    seats: tuple[Seated, ...] = ()
    notes: tuple[NodeNote, ...] = ()


def relieve(scene: Scene, pool: Pool, limit: int) -> Relief:
    """Choose what overloaded nodes of ``pool`` shed, in at most ``limit`` moves.

    ``pool`` is filled as the moves say, and takes nothing more on overloaded nodes.
    O(services of these x nodes) array work.
    """
    spec = scene.spec
    nodes = [n for n in pool.nodes if n.is_on and not n.is_draining and scene.services.get(n.name)]
    above = {n.name: over for n in nodes if any((over := _above(n, spec.relief_above)).values())}
    if not (spec.relief_after and above):
        return Relief()
    pool.close(above)
    calm = Pool((replace(n, free=_calm_room(n)) for n in pool.nodes), scene.snapshot.services)
    calm.close(above)
    if spec.escape == "saving":
        calm.stay_off()
    ages = scene.snapshot.strains.get(spec.name, {})
    seats: list[Seated] = []
    notes: list[NodeNote] = []
    for node in sorted((n for n in nodes if n.name in above), key=lambda n: n.name):
        runs = _in_a_row(ages.get(node.name, ())) + 1
        what = f"is overloaded by {shown(above[node.name])}"
        if runs < spec.relief_after:
            what += f" in {runs} runs in a row; relieved from {spec.relief_after} on"
            notes.append(node.note("overloaded", what))
            continue
        made, why = _shed(scene, calm, node, limit - len(seats))
        for candidate, seat in made:
            pool.take(candidate, seat.node.name)
        seats += made
        notes.append(node.note("relieved" if made else "overloaded", f"{what}: {why}"))
    return Relief(tuple(seats), tuple(notes))


def _in_a_row(ages: Sequence[int]) -> int:
    """Return how many runs up to the latest found a node overloaded."""
    return next(i for i in range(len(ages) + 1) if i + 1 not in ages)


def _counted(node: NodeView) -> Resources:
    return node.capacity - node.free


def _stated(node: NodeView, amounts: Resources) -> Resources:
    """Return amounts above 0 of the dimensions that a node states."""
    pairs = zip(amounts.values(), node.capacity.values(), strict=True)
    return Resources(*(max(0, amount) if has > 0 else 0 for amount, has in pairs))


def _above(node: NodeView, line: float) -> Resources:
    """Return by how much a node is overloaded in each dimension."""
    counted = _counted(node) - node.capacity.scaled(line)
    return _stated(node, larger(counted, node.used - node.capacity.scaled(line * BUSY)))


def _calm_room(node: NodeView) -> Resources:
    """Return what a node takes in for others and stays calm, by what is counted and used now."""
    held = larger(_counted(node), node.used)
    return node.capacity - held - (node.capacity - node.capacity.scaled(CALM))


def _shed(scene: Scene, calm: Pool, node: NodeView, limit: int) -> tuple[list[Seated], str]:
    """Return the moves that relieve a node as far as can be, and what to tell of them.

    Whoever of its containers uses what no profile tells of, there must be room for that as well.
    """
    over = _above(node, scene.spec.relief_above)
    excess = larger(_counted(node), node.used) - node.capacity.scaled(CALM)
    pairs = zip(excess.values(), over.values(), strict=True)
    left = excess = Resources(*(amount if is_over else 0 for amount, is_over in pairs))
    unknown = _stated(node, node.used - _counted(node)) if any(node.used.values()) else Resources()
    found = [
        candidate_of(scene.snapshot, scene.spec, service, scene.profiles.get(service.id))
        for service in scene.services[node.name]
    ]
    moving = [one for one in found if isinstance(one, Candidate)]
    seats: list[Seated] = []
    why = next((f"container {k.container[:12]} stays: {k.reason}" for k in _kept(found)), "")
    while any(left.values()) and moving and len(seats) < limit:
        moving.sort(key=lambda one: (-_worth(node, one, left), one.need.values(), one.service.id))
        one = moving.pop(0)
        if not _worth(node, one, left):
            break
        asked = replace(one, need=one.need + unknown)
        seat = calm.place(asked)
        if seat is None:
            why = f"container {one.service.id[:12]} {calm.explain(asked).reason}"
            continue
        seats.append((one, seat))
        left = _stated(node, left - one.need)
    for pair in [pair for pair in seats if not pair[1].is_escape]:
        rest = [other for other in seats if other is not pair]
        if not any(_stated(node, excess - total(one.need for one, _ in rest)).values()):
            seats = rest
    made = f"{len(seats)} moves" if len(seats) != 1 else "1 move"
    if not any(left.values()):
        return seats, f"{made} relieve it"
    if len(seats) >= limit:
        why = f"this run moves no more than {scene.spec.max_moves}"
    return seats, f"not relieved by {made}; {why or 'nothing more of it frees any'}"


def _kept(found: Sequence[Candidate | Kept]) -> list[Kept]:
    return [one for one in found if isinstance(one, Kept)]


def _worth(node: NodeView, one: Candidate, left: Resources) -> float:
    """Return the part of what is left to free that a move frees, for each move and memory moved."""
    freed = smaller(one.need, left)
    parts = zip(freed.values(), left.values(), strict=True)
    weight = one.need.memory_bytes / max(1, node.capacity.memory_bytes)
    return sum(part / whole for part, whole in parts if whole > 0) / (1 + weight)
