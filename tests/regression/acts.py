"""What the regression tests over the core have in common: a service, a move, a node that goes."""

from __future__ import annotations

from typing import Any

from tenure.model.container import Migration
from tenure.model.events import (
    ClaimRun,
    Configured,
    FenceNode,
    NodeLost,
    RequestRun,
    SubmitPlan,
    Tick,
)
from tenure.model.outcome import Done
from tenure.model.plan import CycleSpec, Move, Plan
from tenure.model.units import US
from tests.unit.core.bench import Bench

CYCLE = CycleSpec("promote", "nursery", "young", interval_us=60 * US)
ALWAYS = {"RestartPolicy": {"Name": "always"}}
#: A published port: the move has to stop the source first.
PUBLISHED = {"PortBindings": {"80/tcp": [{"HostPort": "80"}]}}


def run_service(bench: Bench, name: str = "web", **body: Any) -> tuple[str, Any]:
    """Have a service run; return its id and the effect that created it."""
    service = bench.create(name, **body)
    made = bench.open("create")
    bench.end(made, Done(f"engine-{name}"))
    bench.end(bench.open("start"))
    return service.id, made


def claim_run(bench: Bench) -> str:
    """Ask for a run of the cycle and have a worker take it; return its id."""
    specs = tuple(node.spec for node in bench.tables.nodes.values())
    bench.say(Configured(at_us=0, nodes=specs, cycles=(CYCLE,)))
    bench.say(RequestRun(at_us=0, request="ask", cycle=CYCLE.name))
    run: str = list(bench.tables.runs.values())[-1].id
    bench.say(ClaimRun(at_us=0, request="claim", cycle=CYCLE.name, run_id=run))
    return run


def begin_move(bench: Bench, service: str, source: str, target: str) -> None:
    """Have a worker's plan move a service."""
    run = claim_run(bench)
    turn = bench.tables.services[service].incarnation
    moves = (Move(service, turn, source, target, "test"),)
    plan = Plan(run, "young", 0, bench.now_us + 600 * US, moves)
    bench.say(SubmitPlan(at_us=0, request="plan", plan=plan))
    assert bench.tables.runs[run].verdicts[0].code == "accepted"


def the_move(bench: Bench) -> Migration:
    (move,) = bench.tables.migrations.values()
    found: Migration = move
    return found


def power_gone(bench: Bench, name: str) -> None:
    """Have a node lost, and its power driver say that it is off."""
    bench.say(NodeLost(at_us=0, node=name))
    for effect in list(bench.tables.effects.values()):
        if effect.kind == "probe" and effect.node == name:
            bench.end(effect, Done("off"))


def fence(bench: Bench, name: str) -> None:
    """Have an operator say that nothing runs there."""
    bench.say(NodeLost(at_us=0, node=name))
    bench.say(FenceNode(at_us=0, request="fence", node=name))


def wait(bench: Bench, seconds: int) -> None:
    """Let time pass, a tick every five seconds."""
    for _ in range(seconds // 5):
        bench.say(Tick(at_us=0), after_us=5 * US)


def effects_on(bench: Bench, node: str, *kinds: str) -> list[Any]:
    """Return the effects of some kinds that were ever sent to a node."""
    return [e for e in bench.effects if e.kind in kinds and e.node == node]  # type: ignore[union-attr]
