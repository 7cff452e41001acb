"""How long the plan of one cycle takes over 1,000 nodes and 20,000 containers, and in what memory.

Each plan is made in a process of its own, as a worker's first: what it imports counts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from random import Random
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure
from benchmarks.rig import say
from tenure.cycles.snapshot import NodeView, ServiceView, Snapshot
from tenure.model.container import Profile
from tenure.model.plan import CycleSpec
from tenure.model.resources import Resources, total
from tenure.model.units import MIB, US
from testbed import bounded

NOW_US = 10**15
NODE = Resources(32_000, 128 * 1024 * MIB, 10**9, 10**9)
SPEC = CycleSpec("c", "young", "tenured", max_moves=50_000, is_consolidating=True)
#: What a container uses mostly, and how much of it in shares of a node, from and to.
KINDS = ((0.01, 0.08), (0.01, 0.08), (0.005, 0.05), (0.005, 0.05))
LIGHT = (0.001, 0.01)
#: Name, share of the containers that move (the others are in the old generation already), goal.
CASES = (
    ("promote", 1.0, "20,000 containers move to 500 nodes that are off"),
    ("consolidate", 0.5, "10,000 move to 750 nodes, and the 10,000 there are consolidated"),
)
GOAL_S, GOAL_MIB = Goal("below", 5.0), Goal("below", 1024.0)


def measure(*, is_quick: bool = False) -> Report:
    """Take the figures; quick: a hundredth of the fleet."""
    scale = 100 if is_quick else 1
    figures: list[Figure] = []
    for name, share, what in CASES:
        say(f"cycle: {what}")
        taken = [_in_child(share, scale) for _ in range(1 if is_quick else 3)]
        plans, peaks = [t["plan_s"] for t in taken], [t["peak_mib"] for t in taken]
        figures += [
            figure(f"{name}_s", f"plan: {what}", "s", plans, GOAL_S),
            figure(f"{name}_mib", "peak memory of that worker", "MiB", peaks, GOAL_MIB),
            figure(f"{name}_moves", "moves of that plan", "", taken[0]["moves"]),
        ]
    notes = (
        "1,000 nodes of 32 cores and 20,000 containers of four kinds, drawn with seed 1, all "
        "different. From the snapshot's JSON to the finished plan, scikit-learn's import with it.",
    )
    return Report("cycle", tuple(figures), notes)


def _in_child(share: float, scale: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.cycle", str(share), str(scale)]
    done = bounded.run(command, text=True)
    if done.returncode != 0:
        raise BenchError(f"the plan failed: {done.stderr[-500:]}")
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def fleet(share: float, scale: int) -> Snapshot:
    """Return the fleet: ``share`` of the containers in young, the others in tenured."""
    random = Random(1)
    containers, nodes = 20_000 // scale, 1_000 // scale
    young = round(containers * share)
    targets = max(1, nodes // 2 if share == 1 else nodes * 3 // 4)
    old = [f"t{i:04}" for i in range(targets)]
    rows, profiles = [], []
    for i in range(containers):
        row, profile = _container(random, i, is_young=i < young, old=old)
        rows.append(row)
        profiles.append(profile)
    used: dict[str, list[Resources]] = {}
    for row, profile in zip(rows, profiles, strict=True):
        used.setdefault(row.node, []).append(profile.p90.scaled(SPEC.headroom))
    views = [_node(name, "tenured", total(used.get(name, ()))) for name in old]
    views += [_node(f"y{i:04}", "young", Resources()) for i in range(nodes - targets)]
    return Snapshot(1, NOW_US, 0, tuple(views), tuple(rows), tuple(profiles), (SPEC,))


def _container(
    random: Random, i: int, *, is_young: bool, old: list[str]
) -> tuple[ServiceView, Profile]:
    kind = random.randrange(4)
    shares = [random.uniform(*(KINDS[d] if d == kind else LIGHT)) for d in range(4)]
    use = Resources(*(round(s * whole) for s, whole in zip(shares, NODE.values(), strict=True)))
    generation = "young" if is_young else "tenured"
    node = f"y{i % 250:04}" if is_young else random.choice(old)
    row = ServiceView(f"{i:064x}", f"c{i}", "app", node, generation, 1, i, "running", Resources())
    return row, Profile(row.id, use, 100, 3000 * US)


def _node(name: str, generation: str, used: Resources) -> NodeView:
    # in the promotion the nodes are off: each is an escape
    return NodeView(
        name,
        generation,
        NODE,
        NODE - used,
        is_on=used != Resources(),
        is_switchable=True,
        idle_w=120.0,
        peak_w=200.0,
    )


def _child(share: float, scale: int) -> Mapping[str, Any]:
    from tenure.cycles.snapshot import snapshot_to_json
    from testbed.host import memory_mib

    text = json.dumps(snapshot_to_json(fleet(share, scale)))
    begun = time.perf_counter()
    from tenure.cycles.planner import plan
    from tenure.cycles.snapshot import plan_to_json, snapshot_from_json

    made = plan(snapshot_from_json(json.loads(text)), SPEC, "run")
    plan_to_json(made)
    took_s = time.perf_counter() - begun
    return {
        "plan_s": took_s,
        "peak_mib": memory_mib(os.getpid())["hwm"],
        "moves": len(made.moves),
        "kept": len(made.kept),
        "freed": sum(note.code == "freed" for note in made.nodes),
    }


if __name__ == "__main__":
    print(json.dumps(_child(float(sys.argv[1]), int(sys.argv[2]))))
