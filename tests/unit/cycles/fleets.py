"""Fleets as cycles see them, for tests: nodes, services with profiles, snapshots."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from tenure.cycles.snapshot import NodeView, ServiceView, Snapshot
from tenure.model.container import Profile
from tenure.model.plan import CycleSpec, Plan
from tenure.model.resources import Resources
from tenure.model.units import MIB, US

NOW_US = 1_000_000 * US
SPEC = CycleSpec("promote", "nursery", "young", interval_us=US, max_moves=1000, headroom=1.0)
GIB = 1024 * MIB
#: The paper's two types (section 3): 2 cores and 1 GB, 1 core and 2 GB.
CPU_HEAVY = Resources(2000, 1 * GIB)
MEM_HEAVY = Resources(1000, 2 * GIB)
#: A node takes 3 cpu-heavy, 3 mem-heavy or 2 of each: 6 cores and 6 GB.
USABLE = Resources(6000, 6 * GIB)


def node(name: str, capacity: Resources = USABLE, **changed: Any) -> NodeView:
    row = NodeView(name, "young", capacity, capacity, is_on=True, is_switchable=True)
    return dataclasses.replace(row, **changed)


def service(name: str, **changed: Any) -> ServiceView:
    row = ServiceView(
        id=name,
        name=name,
        app="app",
        node="nursery-1",
        generation="nursery",
        incarnation=1,
        since_us=NOW_US - 100 * US,
        state="running",
        reserved=Resources(),
    )
    return dataclasses.replace(row, **changed)


def profile(name: str, use: Resources, samples: int = 9) -> Profile:
    return Profile(name, use, samples, 90 * US)


def arriving(uses: Iterable[Resources], nodes: Sequence[NodeView]) -> Snapshot:
    """A snapshot of containers that came into the nursery in this order."""
    rows = list(enumerate(uses))
    return Snapshot(
        revision=1,
        now_us=NOW_US,
        nodes=tuple(nodes),
        services=tuple(service(f"c{i:03}", since_us=i) for i, _ in rows),
        profiles=tuple(profile(f"c{i:03}", use) for i, use in rows),
        cycles=(SPEC,),
    )


def nodes_used(made: Plan) -> int:
    return len({move.target for move in made.moves})
