"""A cycle in a replay: the snapshot that a worker would read, and the product's plan of it."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.cycles.planner import plan
from tenure.cycles.snapshot import ServiceView, Snapshot
from tenure.model.container import Profile
from tenure.model.plan import CycleSpec, Move
from tenure.model.resources import Resources
from tenure.simulation.generations.machines import Guest, Machine, node_view
from tenure.simulation.generations.setup import Setup


def planned(
    spec: CycleSpec,
    setup: Setup,
    machines: Iterable[Machine],
    guests: Iterable[Guest],
    now_us: int,
) -> tuple[Move, ...]:
    """Return the moves of the product's plan for ``spec`` now."""
    alive = [guest for guest in guests if guest.node]
    snapshot = Snapshot(
        revision=0,
        now_us=now_us,
        cooldown_us=setup.cooldown_us,
        nodes=tuple(node_view(machine, setup.headroom, setup.model) for machine in machines),
        services=tuple(_service(guest) for guest in alive),
        profiles=tuple(_profile(guest, setup, now_us) for guest in alive),
        cycles=(spec,),
        min_on={setup.sizes[0][0]: 1},
    )
    return plan(snapshot, spec, "replay").moves


def _service(guest: Guest) -> ServiceView:
    is_settled = guest.started_us is not None and not guest.target
    return ServiceView(
        id=guest.task.id,
        name=guest.task.id,
        app=guest.task.app,
        node=guest.node,
        generation=guest.generation,
        incarnation=guest.turn,
        since_us=guest.since_us,
        state="running" if is_settled else "moving",
        reserved=Resources(),
        moved_us=guest.moved_us,
    )


def _profile(guest: Guest, setup: Setup, now_us: int) -> Profile:
    samples = guest.samples(now_us, setup.sample_us)
    return Profile(guest.task.id, guest.task.use, samples, now_us - guest.since_us)
