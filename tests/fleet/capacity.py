"""L12: whenever something is placed on a node, everything there fits its usable capacity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenure.core.state.tables import Changes
from tenure.model.container import ContainerState, Migration, Profile, Service, Step, Tombstone
from tenure.model.job import Executor, Job
from tenure.model.matching import satisfies_all
from tenure.model.node import Node
from tenure.model.plan import HEADROOM, CycleSpec
from tenure.model.resources import Resources, larger, total
from tests.fleet.store import SimStore
from tests.fleet.story import LawBroken

IDLE = frozenset(
    (
        ContainerState.STOPPED,
        ContainerState.EXITED,
        ContainerState.REMOVED,
        ContainerState.FAILED,
    )
)
UNKNOWN = Resources(1 << 40, 1 << 60)


@dataclass(slots=True)
class Needs:
    """What services count for: as they asked or their app is known, until they are measured.

    ``before`` and ``after`` are the profiles that the daemon knew before and after the batch; what
    was placed amid it was judged by either, so the smaller counts.
    """

    cycles: tuple[CycleSpec, ...] = ()
    before: Mapping[str, Profile] = field(default_factory=dict)
    after: Mapping[str, Profile] = field(default_factory=dict)

    def of(self, service: Service | None) -> Resources:
        """Return the smaller need of a service; of none, more than any."""
        if service is None:
            return UNKNOWN
        return _smaller(*(self._by(service, known) for known in (self.before, self.after)))

    def _by(self, service: Service, known: Mapping[str, Profile]) -> Resources:
        profile = known.get(service.id)
        into = (cycle.headroom for cycle in self.cycles if cycle.target == service.generation)
        headroom = next(into, HEADROOM)
        if profile is not None:
            return larger(profile.p90.scaled(headroom), service.reserved)
        used = service.known or Resources()
        return larger(used.scaled(headroom), service.request)


def check(store: SimStore, names: set[str], needs: Needs) -> None:
    """Check the nodes on which a transaction has placed something.

    What uses more than any node of its generation has, of those that its constraints allow, may be
    alone where as much is free as the largest has: else it would wait for ever, though it ran.
    """
    nodes: dict[str, Node] = store.table("nodes")
    for name in sorted(names):
        node = nodes[name]
        parts = load_on(store, name, needs)
        if _holds(node, total(parts)):
            continue
        there = (s for s in store.table("services").values() if s.place == name)
        limits = next((service.constraints for service in there), ())
        peers = [n for n in nodes.values() if n.spec.generation == node.spec.generation]
        peers = [n for n in peers if n is node or satisfies_all(n.spec, limits)]
        largest = max((n.capacity for n in peers), key=Resources.values)
        is_alone = len(parts) == 1 and not any(_holds(n, parts[0]) for n in peers)
        if is_alone and _holds(node, _smaller(parts[0], largest)):
            continue
        raise LawBroken("L12", f"{name} holds {total(parts)}, its capacity is {node.capacity}")


def _holds(node: Node, load: Resources) -> bool:
    has = node.capacity
    return load.cpu_m <= has.cpu_m and load.memory_bytes <= has.memory_bytes


def placed_on(store: SimStore, changes: Changes) -> set[str]:
    """Return the nodes on which a transaction is about to place something.

    A new attempt on the node of the one before keeps its room; that is no placement.
    """
    at_us = changes.records["meta"]["meta"].clock_us if changes.records else 0
    found: set[str] = set()
    for key, executor in changes.records.get("executors", {}).items():
        if executor is not None and executor.placed_us == at_us:
            old: Executor | None = store.table("executors").get(key)
            if old is None or old.node != executor.node:
                found.add(executor.node)
    for service in changes.records.get("services", {}).values():
        is_new = service is not None and service.state is ContainerState.CREATING
        if is_new and service.since_us == at_us:
            found.add(service.node)
    for move in changes.records.get("migrations", {}).values():
        if move is not None and move.step is not Step.QUEUED and move.started_us == at_us:
            found.add(move.target)
    return found - _resumed(changes) - _condemned(store, changes) - {""}


def _condemned(store: SimStore, changes: Changes) -> set[str]:
    """Return nodes where an idle service is being removed: its engine may revive it until then.

    What was placed in the same transaction may have come first, when it took no room.
    """
    tombstones = (t for t in changes.records.get("tombstones", {}).values() if t is not None)
    before: dict[str, Service] = store.table("services")
    old = ((t, before.get(t.owner)) for t in tombstones if t.may_run)
    return {t.node for t, s in old if s is not None and s.node == t.node and s.state in IDLE}


def _resumed(changes: Changes) -> set[str]:
    """Return nodes where an idle service may just have begun to take room again."""
    services = [s for s in changes.records.get("services", {}).values() if s is not None]
    return {
        s.node for s in services if s.state in (ContainerState.RUNNING, ContainerState.STARTING)
    }


def load_on(store: SimStore, name: str, needs: Needs) -> list[Resources]:
    """Return what each thing on a node needs, from the records and what was measured.

    The tombstone of a copy whose successor, or whose move, holds room on the same node is not
    counted beside it.
    """
    jobs: dict[str, Job] = store.table("jobs")
    executors: list[Executor] = list(store.table("executors").values())
    services: dict[str, Service] = store.table("services")
    tombstones: list[Tombstone] = list(store.table("tombstones").values())
    moves: list[Migration] = list(store.table("migrations").values())
    parts = [jobs[e.job].spec.request for e in executors if e.node == name and not e.is_over]
    parts += [needs.of(s) for s in services.values() if s.node == name and s.state not in IDLE]
    here = {e.key for e in executors if e.node == name and not e.is_over}
    here |= {m.container for m in moves if m.target == name and not m.is_over}
    dead = [g for g in tombstones if g.node == name and g.may_run and g.owner not in here]
    # one condemned in this transaction counted for what it needed when room was looked for
    parts += [_smaller(g.request, needs.of(services.get(g.owner))) for g in dead]
    parts += [
        m.request
        for m in moves
        if m.target == name
        and not m.is_over
        and m.step is not Step.QUEUED
        and services[m.container].node != name
    ]
    return parts


def _smaller(a: Resources, b: Resources) -> Resources:
    """Return the smaller amounts of CPU and memory, which alone are judged."""
    return Resources(min(a.cpu_m, b.cpu_m), min(a.memory_bytes, b.memory_bytes))
