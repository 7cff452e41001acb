"""Backups of a bench that are put back, and what engines show afterwards."""

from __future__ import annotations

from typing import Any

from tenure.core.fleet import FleetState
from tenure.core.lifecycle import restore
from tenure.locality.localizer import Tiers
from tenure.model.events import (
    Configured,
    NodeConnected,
    Started,
)
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.outcome import Done
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.regression.acts import run_service
from tests.unit.core.bench import IMAGE, SIZE, Bench, node, shown

NODES = (node("n", "nursery"), node("a"), node("b"))
Records = dict[str, dict[str, Any]]
HOUR_US = 3_600 * US


def backup(bench: Bench) -> Records:
    return {kind: dict(rows) for kind, rows in bench.records.items()}


def put_back(bench: Bench, records: Records, *nodes: Any) -> None:
    """Begin anew from a backup, as ``tenured restore`` leaves it; no engine answers yet.

    Without ``nodes`` the configuration names those of the backup.
    """
    named = nodes or tuple(row.spec for row in records.get("nodes", {}).values())
    meta = restore.marked(records["meta"]["meta"], bench.now_us)
    bench.records = backup(bench) and {kind: dict(rows) for kind, rows in records.items()}
    bench.records["meta"] = {"meta": meta}
    bench.effects.clear()
    bench.public.clear()
    bench.state = FleetState(bench.params, Policies, localizer=Tiers(), fleet="bench")
    bench.state.load(bench.records)
    bench.say(Started(at_us=0))
    bench.say(Configured(at_us=0, nodes=named))


def show(bench: Bench, name: str, *containers: ContainerFacts) -> None:
    """Have an engine answer and show these containers."""
    facts = EngineFacts(f"id-{name}", SIZE, images=(IMAGE,))
    bench.say(NodeConnected(at_us=0, node=name, facts=facts))
    bench.listed(name, *containers)


def began(bench: Bench) -> list[str]:
    """Return every effect since the restore that touches a container or a node's power."""
    kinds = ("create", "start", "stop", "retire", "power")
    return [e.kind for e in bench.effects if e.kind in kinds]


def fleet() -> Bench:
    bench = Bench(*NODES)
    for spec in NODES:
        bench.connect(spec.name)
    return bench


def running_job(bench: Bench, job: str = "j", **spec: Any) -> Any:
    """Have a job of one executor run; return the effect that created its container."""
    bench.submit(job, **spec)
    create = bench.open("create")
    bench.end(create, Done(f"engine-{job}"))
    bench.end(bench.open("start"))
    return create


def dropped_with_a_forgotten_copy() -> tuple[Bench, str, Any]:
    """Return a bench whose configuration lost a node on which, by its record, nothing runs.

    A move brought a container there after the backup, and had stopped it where it was.
    """
    bench = Bench(*NODES)
    bench.connect("n")
    service, create = run_service(bench)
    put_back(bench, backup(bench), NODES[0], NODES[1])
    show(bench, "a")
    show(bench, "n", shown(create, "engine-web", "exited", exit_code=143))
    return bench, service, create
