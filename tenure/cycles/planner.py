"""The plan of one cycle: who may move, in which order, where to (GENPACK Algorithm 1).

Overloaded nodes of the target generation are relieved. Candidates of the source generation are
parted into envelopes, blended, and seated by first fit on the nodes of the target generation; then
that is consolidated where it frees nodes. Each of these is a module of its own; all of them are
plain functions of the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable

from tenure.cycles.candidates import Candidate, select
from tenure.cycles.consolidation import Emptied, Scene, Seated, consolidate
from tenure.cycles.fit import Pool, Seat
from tenure.cycles.outlook import node_notes
from tenure.cycles.packing import Packing, best_packing, blended
from tenure.cycles.relief import Relief, relieve
from tenure.cycles.snapshot import ServiceView, Snapshot
from tenure.model.plan import CycleSpec, Kept, Move, NodeNote, Plan, saving_of
from tenure.model.units import US

#: A plan that is older is refused: the fleet it saw is gone. Moves queue behind the budgets, so it
#: must be long enough for the moves of one run.
PLAN_TTL_US = 600 * US


def plan(
    snapshot: Snapshot, spec: CycleSpec, run_id: str, *, expires_us: int | None = None
) -> Plan:
    """Return the plan of ``spec`` for ``run_id``: a move or a reason for each container of its
    source generation, a note for each node that it frees, starts or leaves in use.

    Never plans more onto a node than is free there, nor more than ``spec.max_moves`` moves. The
    same snapshot gives the same plan, in whatever order it lists things. ``expires_us`` defaults
    to ``PLAN_TTL_US`` after the snapshot. O(containers x nodes).
    """
    targets = (node for node in snapshot.nodes if node.generation == spec.target)
    pool = Pool(targets, snapshot.services)
    candidates, kept = select(snapshot, spec)
    services = _by_node(snapshot.services)
    profiles = {profile.container: profile for profile in snapshot.profiles}
    scene = Scene(snapshot, spec, services, profiles)
    relief = relieve(scene, pool, spec.max_moves)
    limit = spec.max_moves - len(relief.seats)
    order = blended(pool, candidates, spec.envelopes)
    occupied = {node.name for node in pool.nodes if services.get(node.name) or node.held}
    occupied |= {seat.node.name for _, seat in relief.seats}
    packed = best_packing(pool, order.order, limit=limit, occupied=occupied)
    if spec.escape == "saving" and not _is_saving(snapshot, services, packed):
        pool.stay_off()
        packed = best_packing(pool, order.order, limit=limit, occupied=occupied)
    kept += _kept(packed)
    moves = [_move(candidate, seat, "relief") for candidate, seat in relief.seats]
    moves += [
        _move(candidate, seat, order.envelope_of[candidate.service.id])
        for candidate, seat in packed.seats
    ]
    emptied = _consolidated(scene, packed, relief, limit)
    moves += [_move(candidate, seat, "consolidation") for candidate, seat in emptied.seats]
    started = _started((*relief.seats, *packed.seats))
    notes = [*relief.notes, *node_notes(snapshot, services, moves, started)]
    return Plan(
        run_id=run_id,
        generation=spec.source,
        revision=snapshot.revision,
        expires_us=snapshot.now_us + PLAN_TTL_US if expires_us is None else expires_us,
        moves=tuple(moves),
        kept=tuple(sorted(kept, key=lambda row: row.container)),
        nodes=(*notes, *sorted(emptied.notes, key=_node_name)),
    )


def _started(seats: Iterable[Seated]) -> list[str]:
    return [seat.node.name for _, seat in seats if seat.is_escape]


def _is_saving(snapshot: Snapshot, services: dict[str, list[ServiceView]], packed: Packing) -> bool:
    """Whether a packing switches no node on, or frees more than it costs (ours)."""
    started = _started(packed.seats)
    if not started:
        return True
    moves = [_move(candidate, seat, "") for candidate, seat in packed.seats]
    return saving_of(node_notes(snapshot, services, moves, started)).is_worthwhile


def _by_node(services: Iterable[ServiceView]) -> dict[str, list[ServiceView]]:
    found: dict[str, list[ServiceView]] = {}
    for service in sorted(services, key=lambda row: row.id):
        if service.node:
            found.setdefault(service.node, []).append(service)
    return found


def _consolidated(scene: Scene, packed: Packing, relief: Relief, limit: int) -> Emptied:
    """Consolidate with the moves that relief and promotions leave, which come first.

    Nodes that were overloaded lately neither give nor take: they would be so again.
    """
    if not scene.spec.is_consolidating:
        return Emptied((), (), ())
    strained = {*scene.snapshot.strains.get(scene.spec.name, ()), *map(_node_name, relief.notes)}
    packed.pool.close([node.name for node in packed.pool.nodes if node.name in strained])
    receiving = {seat.node.name for _, seat in (*relief.seats, *packed.seats)}
    return consolidate(scene, packed.pool, receiving | strained, limit - len(packed.seats))


def _kept(packed: Packing) -> list[Kept]:
    rows = []
    for candidate in packed.unseated:
        none = packed.pool.explain(candidate)
        rows.append(Kept(candidate.service.id, none.code, none.reason))
    detail = f"this run already moves {len(packed.seats)} containers, its limit"
    rows += [Kept(row.service.id, "move_limit", detail) for row in packed.beyond]
    return rows


def _move(candidate: Candidate, seat: Seat, why: str) -> Move:
    service, profile = candidate.service, candidate.profile
    measured = f"{profile.samples} samples over {profile.age_us // US} s"
    return Move(
        container=service.id,
        incarnation=service.incarnation,
        source=service.node,
        target=seat.node.name,
        reason=f"{why}: {seat.reason(candidate)}; from {measured}",
    )


def _node_name(note: NodeNote) -> str:
    return note.node
