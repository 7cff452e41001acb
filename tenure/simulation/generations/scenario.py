"""The experiments of GENPACK's section 3: how many machines each strategy needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tenure.cycles.planner import plan
from tenure.cycles.snapshot import ServiceView, Snapshot
from tenure.model.container import Profile
from tenure.model.placing import Ask
from tenure.model.plan import CycleSpec
from tenure.model.resources import Resources
from tenure.model.units import MIB
from tenure.placement.policies import Policies
from tenure.simulation.generations.machines import (
    Guest,
    Machine,
    PowerModel,
    cluster_view,
    node_view,
)
from tenure.simulation.generations.tasks import Task

CPU_HEAVY, MEM_HEAVY = Resources(2000, 1024 * MIB), Resources(1000, 2048 * MIB)
#: A host takes 3 cpu-heavy, 3 mem-heavy or 2 of each: 6 cores and 6 GB, not the text's 8 and 8.
USABLE = Resources(6000, 6144 * MIB)
#: Arrival orders of Figure 3.1, and of Figures 3.2 and 3.3.
TWELVE = (CPU_HEAVY,) * 4 + (MEM_HEAVY,) * 2 + (CPU_HEAVY,) * 2 + (MEM_HEAVY,) * 4
TWENTY = ((CPU_HEAVY,) * 5 + (MEM_HEAVY,) * 5) * 2
SPEC = CycleSpec("c", "nursery", "young", headroom=1.0, max_moves=1000)


def machines_needed(uses: Sequence[Resources], strategy: str, seed: int = 0) -> int:
    """Return the least number of machines on which a strategy places all of ``uses``.

    ``strategy`` is a policy for arrivals (one after the other), or ``genpack``: the plan of a cycle
    over all of them.
    """
    for count in range(1, len(uses) + 1):
        if placed(uses, strategy, count, seed) == len(uses):
            return count
    return len(uses)


def placed(uses: Sequence[Resources], strategy: str, machines: int, seed: int = 0) -> int:
    """Return how many of ``uses`` a strategy places on so many machines that are on."""
    fleet = [Machine(f"n{i:02}", "young", "on", USABLE) for i in range(machines)]
    if strategy == "genpack":
        return _by_plan(uses, fleet)
    policies = Policies()
    count = 0
    for number, use in enumerate(uses):
        view = cluster_view(fleet, 1.0, 0, 0)
        ask = Ask("", 1, *use.values()[:2], 0, 0, None, np.ones(machines, dtype=np.bool_))
        name = policies.spread(strategy, view, ask, seed + number)
        if name is not None:
            guest = Guest(Task(str(number), "", 0, 1, use, use), "young", name)
            machine = next(m for m in fleet if m.name == name)
            machine.guests[guest.task.id], machine.kept = guest, None
            count += 1
    return count


def _by_plan(uses: Sequence[Resources], fleet: Sequence[Machine]) -> int:
    names = [f"c{number:03}" for number in range(len(uses))]
    snapshot = Snapshot(
        revision=0,
        now_us=0,
        nodes=tuple(node_view(machine, 1.0, PowerModel()) for machine in fleet),
        services=tuple(
            ServiceView(name, name, "", "n", "nursery", 1, number - 1000, "running", Resources())
            for number, name in enumerate(names)
        ),
        profiles=tuple(Profile(name, use, 9, 1) for name, use in zip(names, uses, strict=True)),
    )
    return len(plan(snapshot, SPEC, "scenario").moves)


def table() -> list[dict[str, object]]:
    """Return a row for each strategy: machines needed by both experiments, and placed on three."""
    return [
        {
            "strategy": strategy,
            "twelve": machines_needed(TWELVE, strategy),
            "twelve_on_three": placed(TWELVE, strategy, 3),
            "twenty": machines_needed(TWENTY, strategy),
        }
        for strategy in ("spread", "binpack", "random", "genpack")
    ]
