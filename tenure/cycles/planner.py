"""The plan of one cycle: who may move, in which order, where to (GENPACK Algorithm 1).

``plan`` is candidates x ordering x node choice. Each is a part of its own: this is first fit on
profiles; envelopes and blending come as another ``Ordering``, power savings as another choice.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenure.cycles.candidates import Candidate, Ordering, by_size, select, shape_of
from tenure.cycles.fit import Choice, FirstFit, NoChoice
from tenure.cycles.snapshot import Snapshot
from tenure.model.plan import CycleSpec, Kept, Move, Plan
from tenure.model.units import US

#: A plan that is older is refused: the fleet it saw is gone. Moves queue behind the budgets, so it
#: must be long enough for the moves of one run.
PLAN_TTL_US = 600 * US


@dataclass(frozen=True, slots=True)
class Strategy:
    """The exchangeable parts of a plan."""

    ordering: Ordering = by_size


def plan(
    snapshot: Snapshot,
    spec: CycleSpec,
    run_id: str,
    *,
    expires_us: int | None = None,
    strategy: Strategy | None = None,
) -> Plan:
    """Return the plan of ``spec`` for ``run_id``: a move or a reason for each container of its
    source generation.

    Never plans more onto a node than is free there. The same snapshot gives the same plan, in
    whatever order it lists things. ``expires_us`` defaults to ``PLAN_TTL_US`` after the snapshot.
    O(containers x nodes).
    """
    targets = [node for node in snapshot.nodes if node.generation == spec.target]
    candidates, kept = select(snapshot, spec)
    ordering = (strategy or Strategy()).ordering
    choices = FirstFit(targets)
    moves: list[Move] = []
    for candidate in ordering(candidates, shape_of(node.capacity for node in targets)):
        service = candidate.service
        if len(moves) >= spec.max_moves:
            detail = f"this run already moves {len(moves)} containers, its limit"
            kept.append(Kept(service.id, "move_limit", detail))
            continue
        choice = choices.choose(candidate)
        if isinstance(choice, NoChoice):
            kept.append(Kept(service.id, choice.code, choice.reason))
        else:
            moves.append(_move(candidate, choice))
    return Plan(
        run_id=run_id,
        generation=spec.source,
        revision=snapshot.revision,
        expires_us=snapshot.now_us + PLAN_TTL_US if expires_us is None else expires_us,
        moves=tuple(moves),
        kept=tuple(sorted(kept, key=lambda row: row.container)),
    )


def _move(candidate: Candidate, choice: Choice) -> Move:
    service, profile = candidate.service, candidate.profile
    measured = f"{profile.samples} samples over {profile.age_us // US} s"
    return Move(
        container=service.id,
        incarnation=service.incarnation,
        source=service.node,
        target=choice.node,
        reason=f"{choice.reason}; from {measured}",
    )
